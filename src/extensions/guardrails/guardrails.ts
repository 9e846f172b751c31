import type {
  EndChange,
  Extension,
  FinishChange,
  HookContext,
  Message,
  ToolCallChange,
  ToolCallRequest,
  TurnBeginning,
  TurnEnd,
  TurnFinish,
} from '../../core/contracts/index.ts';
import type { TurnIdentity } from '../../core/journal/index.ts';
import { assertOptions, type OptionRule, wholeNumber, wrongOption } from '../../core/options/index.ts';

/** What a guardrail says of something: nothing where it may pass. */
export type Verdict<T> = T | undefined | Promise<T | undefined>;

/** Fails the turn with `GUARDRAIL`. */
export interface Block {
  /** Why, for the caller or the model. */
  readonly block: string;
}

/** Puts something else in its place. */
export interface Replacement<T> {
  /** What takes its place. */
  readonly replace: T;
}

/** Looks at the messages that a turn is started with, before the model does; not at those by which it is steered. */
export interface InputGuardrail {
  readonly name: string;
  /** Asked about the messages of the caller before the first model call. */
  readonly check: (
    messages: readonly Message[],
    context: HookContext,
  ) => Verdict<Block | Replacement<readonly Message[]>>;
}

/** A turn that is about to end. `value` is what it ends with besides the text, such as structured output; `undefined` where there is none. */
export type OutputContext = HookContext & Pick<TurnEnd, 'value'>;

/** Looks at what a turn is about to end with, its text and its value. `retry` tells the model to answer anew; `replace` is another text. */
export interface OutputGuardrail {
  readonly name: string;
  /** Asked about the final answer. */
  readonly check: (
    text: string,
    context: OutputContext,
  ) => Verdict<Block | Replacement<string> | { readonly retry: string }>;
}

/** Looks at a tool call before it runs. `deny` tells the model why it does not; `replace` gives other arguments. */
export interface ToolCallGuardrail {
  readonly name: string;
  /** Asked about each call before it runs. */
  readonly check: (request: ToolCallRequest) => Verdict<Block | Replacement<unknown> | { readonly deny: string }>;
}

/** Options of `guardrails`: what checks messages, answers and calls. Those of one kind run at the same time. */
export interface GuardrailsOptions {
  /** Asked about the messages of the caller. Default none. */
  readonly input?: readonly InputGuardrail[] | undefined;
  /** Asked about the final answer. Default none. */
  readonly output?: readonly OutputGuardrail[] | undefined;
  /** Asked about each call. Default none. */
  readonly toolCalls?: readonly ToolCallGuardrail[] | undefined;
  /** How often in a turn the model is asked for another answer before the turn fails. Default 2. */
  readonly maxRetries?: number | undefined;
}

/**
 * Checks what goes into a turn, what comes out of it, and what it does. Guardrails are asked in their order, each with what the ones before
 * it put in place; the first that blocks, denies or asks for another answer is the last. Whatever makes a turn complete, its text is
 * checked, and its value with it; what was streamed before that has been shown, so show no text before the end where that matters. What the caller gave stays in
 * the journal as it was. A guardrail that throws, or gives no verdict, fails the turn. Errors: `INVALID_CONFIG`, naming the option.
 */
export function guardrails(options: GuardrailsOptions): Extension {
  const kinds = {
    input: someGuardrails,
    output: someGuardrails,
    toolCalls: someGuardrails,
    maxRetries: wholeNumber(0),
  };
  assertOptions('guardrails', options, kinds);
  const { input = [], output = [], toolCalls = [], maxRetries = 2 } = options;
  if (input.length + output.length + toolCalls.length === 0) throw wrongOption('guardrails', 'no guardrail is given');
  const outputs = new OutputGuards(output, maxRetries);
  return {
    name: 'guardrails',
    ...(input.length > 0 && { beforeTurn: (context) => checkInput(input, context) }),
    ...(toolCalls.length > 0 && { beforeToolCall: (request) => checkCall(toolCalls, request) }),
    ...(output.length > 0 && {
      beforeFinish: (finish) => outputs.mayFinish(finish),
      afterTurn: (end) => outputs.atEnd(end),
    }),
  };
}

const someGuardrails: OptionRule = {
  fits: (value) => Array.isArray(value) && value.every(isGuardrail),
  must: 'be a list of { name, check }',
};

function isGuardrail(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('name' in value) || !('check' in value)) return false;
  return typeof value.name === 'string' && typeof value.check === 'function';
}

async function checkInput(guards: readonly InputGuardrail[], context: HookContext): Promise<TurnBeginning | undefined> {
  const { history, turn } = context.state;
  const all = history.toArray().slice(0, turn.given);
  const earlier = all.slice(0, turn.earlier);
  const before: readonly Message[] = all.slice(turn.earlier);
  let given = before;
  for (const { name, check } of guards) {
    const verdict = await check(given, context);
    assertVerdict(name, verdict, ['block']);
    if (verdict && 'block' in verdict) return blocked(name, verdict);
    if (verdict) given = verdict.replace;
  }
  return given === before ? undefined : { given: [...earlier, ...given] };
}

async function checkCall(
  guards: readonly ToolCallGuardrail[],
  request: ToolCallRequest,
): Promise<ToolCallChange | undefined> {
  let change: ToolCallChange | undefined;
  for (const { name, check } of guards) {
    const shown = change === undefined ? request : withArguments(request, change.arguments);
    const verdict = await check(shown);
    assertVerdict(name, verdict, ['block', 'deny']);
    if (verdict && 'block' in verdict) return blocked(name, verdict);
    if (verdict && 'deny' in verdict) return verdict;
    if (verdict) change = { arguments: verdict.replace };
  }
  return change;
}

/** The members of a request are getters of its class. */
function withArguments(request: ToolCallRequest, args: unknown): ToolCallRequest {
  return new Proxy(request, {
    get: (target, member) => (member === 'arguments' ? args : Reflect.get(target, member, target)),
  });
}

function blocked(name: string, { block }: Block): Pick<TurnBeginning, 'fail'> {
  return { fail: { code: 'GUARDRAIL', message: `The guardrail "${name}" stopped the turn: ${block}` } };
}

/** The checked text and value, with replacements. */
interface Checked {
  readonly text: string;
  /** As JSON. */
  readonly value: string | undefined;
  readonly verdict: { readonly passed: string } | ({ readonly name: string } & (Block | { readonly retry: string }));
}

class OutputGuards {
  readonly #guards: readonly OutputGuardrail[];
  readonly #maxRetries: number;
  /** The last text and value of each turn: it is asked about again at the end. */
  readonly #checked = new WeakMap<TurnIdentity, Checked>();

  constructor(guards: readonly OutputGuardrail[], maxRetries: number) {
    this.#guards = guards;
    this.#maxRetries = maxRetries;
  }

  async mayFinish(finish: TurnFinish): Promise<FinishChange | undefined> {
    const verdict = await this.#verdictOn(finish.text, finish);
    const retries = typeof finish.data === 'number' ? finish.data : 0;
    if (!('retry' in verdict) || retries >= this.#maxRetries) return undefined;
    return { messages: [{ role: 'user', content: verdict.retry }], data: retries + 1 };
  }

  async atEnd(end: TurnEnd): Promise<EndChange | undefined> {
    if (end.outcome.state !== 'completed') return undefined;
    const verdict = await this.#verdictOn(end.text, end);
    if ('passed' in verdict) return verdict.passed === end.text ? undefined : { text: verdict.passed };
    return blocked(verdict.name, { block: 'block' in verdict ? verdict.block : verdict.retry });
  }

  async #verdictOn(text: string, context: OutputContext): Promise<Checked['verdict']> {
    const { turn } = context.state;
    const known = this.#checked.get(turn);
    const value = JSON.stringify(context.value);
    if (known?.text === text && known.value === value) return known.verdict;
    const verdict = await this.#ask(text, context);
    this.#checked.set(turn, { text, value, verdict });
    return verdict;
  }

  async #ask(text: string, context: OutputContext): Promise<Checked['verdict']> {
    let passed = text;
    for (const { name, check } of this.#guards) {
      const verdict = await check(passed, context);
      assertVerdict(name, verdict, ['block', 'retry']);
      if (verdict && 'replace' in verdict) passed = verdict.replace;
      else if (verdict) return { name, ...verdict };
    }
    return { passed };
  }
}

/**
 * Throws where a guardrail gave what is no verdict, so that nothing passes by a mistake. `words` are the members that say something to
 * somebody: one of them, or `replace`.
 */
function assertVerdict(name: string, verdict: unknown, words: readonly string[]): void {
  if (verdict === undefined || verdict === null) return;
  const given = new Map<string, unknown>(typeof verdict === 'object' ? Object.entries(verdict) : []);
  if (given.get('replace') !== undefined || words.some((word) => typeof given.get(word) === 'string')) return;
  const forms = [...words.map((word) => `{ ${word}: "…" }`), '{ replace }'];
  throw new TypeError(`the guardrail "${name}" gave no verdict; answer nothing, or ${forms.join(' or ')}`);
}
