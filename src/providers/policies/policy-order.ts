import { AgentLoopError, type LLMProvider } from '../../core/contracts/index.ts';

/** `timeout` with a limit on chunks; with `totalMs` alone it may stand anywhere, as `deadline`. */
export type PolicyName =
  | 'cacheResponses'
  | 'circuitBreaker'
  | 'deadline'
  | 'fallback'
  | 'hedge'
  | 'limitConcurrency'
  | 'rateLimit'
  | 'recordResponses'
  | 'replayResponses'
  | 'retry'
  | 'timeout';

/** Policies that may not stand inside another, and why. */
interface OrderRule {
  readonly outer: PolicyName;
  readonly inner: readonly PolicyName[];
  readonly why: (inner: string) => string;
}

const rules: readonly OrderRule[] = [
  {
    outer: 'timeout',
    inner: ['retry', 'fallback', 'circuitBreaker', 'rateLimit', 'limitConcurrency'],
    why: (inner) => `firstChunkMs and betweenChunksMs would count what ${inner} waits for as silence of the model`,
  },
  {
    outer: 'rateLimit',
    inner: ['retry', 'fallback', 'hedge'],
    why: (inner) => `all requests that ${inner} makes would count as one`,
  },
  {
    outer: 'rateLimit',
    inner: ['circuitBreaker', 'cacheResponses', 'replayResponses'],
    why: (inner) => `calls that ${inner} answers without a request would use up the limit`,
  },
  {
    outer: 'limitConcurrency',
    inner: ['retry', 'rateLimit'],
    why: (inner) => `a call would keep its place while ${inner} sleeps`,
  },
  {
    outer: 'limitConcurrency',
    inner: ['hedge'],
    why: () => 'the two requests of hedge would count as one',
  },
  {
    outer: 'limitConcurrency',
    inner: ['circuitBreaker', 'cacheResponses', 'replayResponses'],
    why: (inner) => `calls that ${inner} answers without a request would wait for a place`,
  },
  {
    outer: 'circuitBreaker',
    inner: ['cacheResponses', 'replayResponses'],
    why: (inner) =>
      `answers of ${inner} would count as signs that the model is well, and an open circuit would hide them`,
  },
  { outer: 'retry', inner: ['retry'], why: () => 'the numbers of tries would multiply' },
  { outer: 'hedge', inner: ['hedge'], why: () => 'the numbers of requests would multiply' },
];

/** Errors with `INVALID_CONFIG` where a policy, given the outermost first, stands outside one that belongs around it. */
export function assertOrder(policies: readonly PolicyName[]): void {
  for (const [place, outer] of policies.entries()) {
    const inside = policies.slice(place + 1);
    for (const rule of rules) {
      const inner = rule.outer === outer && inside.find((name) => rule.inner.includes(name));
      if (inner) throw wrongOrder(outer, inner, rule.why(inner));
    }
    const [hidden] = inside;
    if (outer === 'replayResponses' && hidden !== undefined) {
      throw invalid(
        `replayResponses asks no provider, so ${shownName(hidden)} inside it would never act: put ${shownName(hidden)} outside, or leave it out.`,
      );
    }
  }
}

function wrongOrder(outer: PolicyName, inner: PolicyName, why: string): AgentLoopError {
  const cure =
    outer === inner ? `leave one ${outer} out` : `put ${inner} outside ${outer}, that is before it in composePolicies`;
  return invalid(`${outer} stands outside ${inner}: ${why}; ${cure}.`);
}

function shownName(name: PolicyName): string {
  return name === 'deadline' ? 'timeout' : name;
}

function invalid(message: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', message);
}

type Named = LLMProvider | ((provider: LLMProvider) => LLMProvider);

/** The policies, the outermost first, that a policy of ours stands for, or that a provider has around it. */
const names = new WeakMap<object, readonly PolicyName[]>();

/** None for policies and providers that are not ours. */
export function policyNames(of: Named): readonly PolicyName[] {
  return names.get(of) ?? [];
}

/** Marks a policy, or a provider behind policies, as made of these. Errors: `INVALID_CONFIG` for a wrong order. */
export function withPolicyNames<T extends Named>(of: T, policies: readonly PolicyName[]): T {
  assertOrder(policies);
  names.set(of, policies);
  return of;
}
