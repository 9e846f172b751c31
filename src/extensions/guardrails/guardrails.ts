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
import { assertOptions, type OptionRule, wholeNumber, wrongOption } from '../../options/option-rules.ts';

/** The verdict of a guardrail; `undefined` to pass. */
export type Verdict<T> = T | undefined | Promise<T | undefined>;

/** Fails the turn with `GUARDRAIL`. */
export interface Block {
  /** The reason, for the caller or the model. */
  readonly block: string;
}

/** Replaces the checked value. */
export interface Replacement<T> {
  /** The replacement. */
  readonly replace: T;
}

/** Checks the messages that start a turn, before the first model call; not steering messages. */
export interface InputGuardrail {
  readonly name: string;
  /** Called with the caller's messages before the first model call. */
  readonly check: (
    messages: readonly Message[],
    context: HookContext,
  ) => Verdict<Block | Replacement<readonly Message[]>>;
}

/** A turn that is about to end. `value` is its final value, such as structured output; `undefined` if there is none. */
export type OutputContext = HookContext & Pick<TurnEnd, 'value'>;

/** Another text, and for a turn that ends with a value another `value`; without it the value stays. */
export interface OutputReplacement extends Replacement<string> {
  readonly value?: unknown;
}

/** Checks the final text and value of a turn. `retry` asks the model for another answer, and this one is withheld. */
export interface OutputGuardrail {
  readonly name: string;
  /** Called with the final answer. */
  readonly check: (
    text: string,
    context: OutputContext,
  ) => Verdict<Block | OutputReplacement | { readonly retry: string }>;
}

/** Checks a tool call before it runs. `deny` is the reason for the model; `replace` is other arguments. */
export interface ToolCallGuardrail {
  readonly name: string;
  /** Called with each call before it runs. */
  readonly check: (request: ToolCallRequest) => Verdict<Block | Replacement<unknown> | { readonly deny: string }>;
}

/** Options of `guardrails`. The guardrails of one kind run in order. */
export interface GuardrailsOptions {
  /** Check the caller's messages. Default none. */
  readonly input?: readonly InputGuardrail[] | undefined;
  /** Check the final answer. Default none. */
  readonly output?: readonly OutputGuardrail[] | undefined;
  /** Check each call. Default none. */
  readonly toolCalls?: readonly ToolCallGuardrail[] | undefined;
  /** How often per turn the model is asked for another answer before the turn fails. Default 2. */
  readonly maxRetries?: number | undefined;
}

/**
 * Checks the input, the tool calls and the output of a turn. Guardrails run in order, each with the replacements of the
 * previous ones; the first that blocks, denies or asks for another answer is the last. Text and value are checked whatever completes the turn;
 * streamed text was emitted before, so do not display text before the end if that matters. The caller's input stays unchanged in
 * the journal. A guardrail that throws, or returns an invalid verdict, fails the turn. Errors: `INVALID_CONFIG`, naming the option.
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

/** A proxy, because the members of a request are getters of its class. */
function withArguments(request: ToolCallRequest, args: unknown): ToolCallRequest {
  return withMember(request, 'arguments', args);
}

function withMember<T extends object>(of: T, name: keyof T & string, value: unknown): T {
  return new Proxy(of, { get: (target, member) => (member === name ? value : Reflect.get(target, member, target)) });
}

function blocked(name: string, { block }: Block): Pick<TurnBeginning, 'fail'> {
  return { fail: { code: 'GUARDRAIL', message: `The guardrail "${name}" stopped the turn: ${block}` } };
}

/** `value`: what replaces that of the turn. */
interface Passed {
  readonly passed: string;
  readonly value?: unknown;
}

/** The checked text and value, with replacements. */
interface Checked {
  readonly text: string;
  /** As JSON. */
  readonly value: string | undefined;
  readonly verdict: Passed | ({ readonly name: string } & (Block | { readonly retry: string }));
}

class OutputGuards {
  readonly #guards: readonly OutputGuardrail[];
  readonly #maxRetries: number;
  /** The last checked text and value of each turn: they are checked again at the end. */
  readonly #checked = new WeakMap<TurnIdentity, Checked>();

  constructor(guards: readonly OutputGuardrail[], maxRetries: number) {
    this.#guards = guards;
    this.#maxRetries = maxRetries;
  }

  async mayFinish(finish: TurnFinish): Promise<FinishChange | undefined> {
    const verdict = await this.#verdictOn(finish.text, finish);
    const retries = typeof finish.data === 'number' ? finish.data : 0;
    if (!('retry' in verdict) || retries >= this.#maxRetries) return undefined;
    return { messages: [{ role: 'user', content: verdict.retry }], withhold: true, data: retries + 1 };
  }

  async atEnd(end: TurnEnd): Promise<EndChange | undefined> {
    if (end.outcome.state !== 'completed') return undefined;
    const verdict = await this.#verdictOn(end.text, end);
    if ('passed' in verdict) {
      const { passed, value } = verdict;
      if (value !== undefined && end.value !== undefined) return { text: passed, value };
      return passed === end.text ? undefined : { text: passed };
    }
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
    let passed: Passed = { passed: text };
    for (const { name, check } of this.#guards) {
      const shown = passed.value === undefined ? context : withMember(context, 'value', passed.value);
      const verdict = await check(passed.passed, shown);
      assertVerdict(name, verdict, ['block', 'retry']);
      if (verdict && 'replace' in verdict) passed = { ...passed, passed: verdict.replace, ...replacedValue(verdict) };
      else if (verdict) return { name, ...verdict };
    }
    return passed;
  }
}

function replacedValue({ value }: OutputReplacement): Pick<Passed, 'value'> {
  return value === undefined ? {} : { value };
}

/**
 * Throws if a guardrail returns an invalid verdict, so that nothing passes by mistake. `words`: the allowed members with a message;
 * a verdict has one of them, or `replace`.
 */
function assertVerdict(name: string, verdict: unknown, words: readonly string[]): void {
  if (verdict === undefined || verdict === null) return;
  const given = new Map<string, unknown>(typeof verdict === 'object' ? Object.entries(verdict) : []);
  if (given.get('replace') !== undefined || words.some((word) => typeof given.get(word) === 'string')) return;
  const forms = [...words.map((word) => `{ ${word}: "…" }`), '{ replace }'];
  throw new TypeError(`the guardrail "${name}" gave no verdict; answer nothing, or ${forms.join(' or ')}`);
}
