import type { Observable } from 'rxjs';
import {
  type AgentEvent,
  AgentLoopError,
  type ArgumentCheck,
  type ArgumentChecker,
  andThen,
  type CallChange,
  type Defined,
  type EndChange,
  type Failure,
  type FinishChange,
  type HookContext,
  type IterationChange,
  type IterationStep,
  type IterationView,
  type JSONSchema,
  jsonFlaw,
  type LLMCallParams,
  type LLMResponse,
  type Partially,
  type ResponseChange,
  type StepChange,
  type ToolCallOutcome,
  type ToolOutcomeChange,
  type ToolProvider,
  type TurnBeginning,
  type TurnEnd,
  type TurnFinish,
  textOf,
  type ValueExtension,
} from '../../core/contracts/index.ts';
import { iterationsBefore, type TurnResult } from '../../core/journal/index.ts';
import { cutShort } from '../../core/model-call/index.ts';
import { LocalToolProvider } from '../../tools/local-tools.ts';
import { engineTool, type Tool, tool } from '../../tools/tool.ts';
import type { ArgumentsOf } from '../../tools/tool-options.ts';
import { handedOver } from '../finish/finish.ts';
import { isForced, withoutRefusedForce } from './forced-choice.ts';
import {
  checkOutputOptions,
  fingerprint,
  memoryOf,
  nativeView,
  type OutputSchema,
  type OutputWay,
  type OutputWire,
  outputWire,
  type StructuredOutputOptions,
  wayOf,
  xmlView,
} from './output-options.ts';
import { partialsOf } from './partial-output.ts';
import { jsonValues, withoutAbsent } from './read-json.ts';
import { parseXml } from './xml/parse-xml.ts';

/**
 * Ends turns with a value of a schema: `result().value`, typed by `outputOf(result)`. The model gets a finish tool whose parameters
 * are the schema; its first valid call ends the turn, without another model call, and later calls of the same response are skipped.
 *
 * A plain answer does not end the turn. After it, and after an invalid output, the model receives the reason and is asked again: at most
 * `parseRetries` times per turn, none of them counted as an iteration; then the turn fails with `PARSE_ERROR`. A turn without remaining
 * iterations gets one more in which the finish tool must be called, unless `forceFinish` is false; with that and `maxIterations: 1`
 * a turn without output completes with the reason `unfinished`.
 *
 * A value with which another extension finishes the turn is validated as well. Errors: `INVALID_CONFIG` for an invalid option or schema; for
 * `mode: 'native'` on a provider without `capabilities.responseFormat` the turn fails with it.
 */
export function structuredOutput<const S extends OutputSchema>(
  options: StructuredOutputOptions<S>,
): StructuredOutput<ArgumentsOf<S>> {
  return StructuredOutput.of(options);
}

/** The extension that `structuredOutput` creates. Its hooks are methods: use it as it is, a spread copy lacks them. */
export class StructuredOutput<T> implements ValueExtension<T> {
  declare readonly '~value'?: T;
  readonly name = 'structured-output';
  readonly toolProviders: readonly ToolProvider[];
  readonly #options: Defined<Pick<StructuredOutputOptions<OutputSchema>, 'parseRetries' | 'forceFinish' | 'mode'>>;
  readonly #wire: OutputWire;
  readonly #tool: Tool;

  private constructor(options: StructuredOutputOptions<OutputSchema>, owner: string) {
    checkOutputOptions(options, owner);
    const { parseRetries = 2, forceFinish = true, mode = 'auto' } = options;
    this.#options = { parseRetries, forceFinish, mode };
    const { schema, jsonSchema, name = '__finish__' } = options;
    this.#wire = outputWire(schema, jsonSchema, owner);
    this.#tool = finishTool(name, this.#wire);
    this.toolProviders = [new LocalToolProvider([this.#tool], { name: 'structuredOutput' })];
  }

  /** @internal `owner`: the option of an agent that has these options, which begins the messages of errors. */
  static of<S extends OutputSchema>(
    options: StructuredOutputOptions<S>,
    owner = 'structuredOutput',
  ): StructuredOutput<ArgumentsOf<S>> {
    return new StructuredOutput(options, owner);
  }

  /** The value of a completed turn. Errors: `INVALID_INPUT` if it has none. */
  outputOf(result: Pick<TurnResult, 'value' | 'taskId' | 'reason'>): T {
    if (isOutput<T>(result.value)) return result.value;
    const message = `Turn "${result.taskId}" has no output (${result.reason}); look at result.reason before.`;
    throw new AgentLoopError('INVALID_INPUT', message, { taskId: result.taskId });
  }

  /**
   * The partial output while the model generates it: with each snapshot strings and arrays grow and members appear, the last one is
   * the value. After a discarded attempt they start anew. Only the last snapshot is validated; without fragments, as
   * with XML, it is the only one. Subscribing subscribes to the turn: it starts it, and unsubscribing may cancel it. Errors as the turn does. Memory:
   * the text of one output; of one over 4,096 characters a snapshot is made each time that it has grown by a 64th, and at its end.
   */
  partials(turn: Observable<AgentEvent>): Observable<Partially<T>> {
    const inText = this.#options.mode === 'native';
    const { parameters } = this.#tool.definition.function;
    const unwrap = (wrapped: unknown) => this.#wire.unwrap(withoutAbsent(wrapped, parameters));
    return partialsOf(turn, { name: this.#name, inText, unwrap, read: (answer) => this.#onlyOne(answer) });
  }

  beforeTurn({ provider }: HookContext): TurnBeginning | undefined {
    if (this.#options.mode !== 'native' || provider.capabilities?.responseFormat) return undefined;
    const message = 'structuredOutput: mode is "native", and the provider keeps to no responseFormat; use "auto".';
    return { fail: { code: 'INVALID_CONFIG', message } };
  }

  prepareIteration(view: IterationView, context: HookContext): IterationChange | undefined {
    const { name, parameters: schema } = this.#tool.definition.function;
    const { forced } = memoryOf(context);
    switch (this.#way(context)) {
      case 'tool':
        return undefined;
      case 'native':
        return { view: nativeView(view, { name, schema, forced }) };
      case 'xml': {
        const canCallTools = context.provider.capabilities?.tools !== false;
        const finish = forced ? view.tools.filter((each) => each.function.name === name) : view.tools;
        return { view: xmlView({ ...view, tools: finish }, { schema, canCallTools }) };
      }
    }
  }

  /** Some servers refuse a forced tool while the model thinks: the call is then made without force. */
  beforeLLMCall({ toolChoice }: LLMCallParams, { provider }: HookContext): CallChange | undefined {
    return isForced(toolChoice) ? { provider: withoutRefusedForce(provider) } : undefined;
  }

  /** Converts an answer in XML to a call of the finish tool. */
  afterLLMCall(response: LLMResponse, context: HookContext): ResponseChange | undefined {
    if (this.#way(context) !== 'xml' || hasCalls(response) || !isWhole(response)) return undefined;
    const { name, parameters } = this.#tool.definition.function;
    const parsed = parseXml(textOf(response.message.content), parameters);
    if (!parsed.ok) return undefined;
    const call = { id: '', type: 'function' as const, function: { name, arguments: JSON.stringify(parsed.value) } };
    return { response: { ...response, toolCalls: [call], finishReason: 'tool_calls' } };
  }

  afterToolCall(outcome: ToolCallOutcome): ToolOutcomeChange | undefined {
    const { call, arguments: value, result } = outcome;
    if (call.function.name !== this.#name || !result.success) return undefined;
    return handedOver(outcome) ?? accepted(this.#wire.unwrap(value), outcome);
  }

  beforeFinish(finish: TurnFinish): FinishChange | Promise<FinishChange> | undefined {
    if (finish.state.changes.finish) return undefined;
    if (finish.reason === 'length') return this.#options.forceFinish ? { fail: noWholeOutput } : undefined;
    const way = this.#way(finish);
    if (way === 'native') return this.#takeText(finish, undefined);
    if (this.#isSingleTurn(finish)) return { finish: { reason: unfinished } };
    const problem = this.#plainAnswer(finish);
    // Told to call the tool, some models write its arguments as text.
    return way === 'tool' && memoryOf(finish).forced
      ? this.#takeText(finish, problem)
      : this.#askAgain(finish, problem);
  }

  afterIteration(step: IterationStep): StepChange | undefined {
    if (step.finished || step.state.changes.agent) return undefined;
    const problem = this.#problemOf(step);
    if (problem !== undefined) return withoutMessages(this.#askAgain(step, problem));
    if (step.iteration < step.maxIterations) return undefined;
    if (this.#options.forceFinish) return this.#force(step);
    return this.#isSingleTurn(step) ? { finish: { reason: unfinished } } : undefined;
  }

  /** Validates a value that differs from the accepted one. */
  afterTurn(end: TurnEnd): EndChange | Promise<EndChange> | undefined {
    const { outcome, value } = end;
    if (outcome.state !== 'completed') return undefined;
    if (value === undefined) return this.#withoutValue(end);
    if (memoryOf(end).accepted === fingerprint(value)) return undefined;
    return andThen(this.#check(this.#wire.wrap(value)), (check): EndChange => {
      const checked = check.ok ? this.#wire.unwrap(check.value) : undefined;
      const fail = check.ok ? notJson(checked) : undefined;
      if (check.ok) return fail ? { fail } : { value: checked };
      return { fail: parseError(`The turn was finished with a value that does not fit: ${check.message}.`) };
    });
  }

  /** Another extension ended the turn. Only `forceFinish: false` lets a turn complete without an output. */
  #withoutValue({ outcome }: TurnEnd): EndChange | undefined {
    if (!this.#options.forceFinish) return undefined;
    return { fail: parseError(`The turn was finished (${outcome.reason}) without an output; finish it with a value.`) };
  }

  get #name(): string {
    return this.#tool.definition.function.name;
  }

  #way(context: HookContext): OutputWay {
    return wayOf(this.#options.mode, context.provider.capabilities, memoryOf(context).forced);
  }

  #check(value: unknown): ArgumentCheck | Promise<ArgumentCheck> {
    return this.#tool.definition.checkArguments?.(value) ?? { ok: true, value };
  }

  #isSingleTurn({ maxIterations, state }: HookContext): boolean {
    return maxIterations - iterationsBefore(state) === 1 && !this.#options.forceFinish;
  }

  /** Takes the only value in the text that fits. `problem`: the message to the model if there is none. */
  #takeText(finish: TurnFinish, problem: string | undefined): FinishChange | Promise<FinishChange> {
    const values = jsonValues(finish.text);
    return andThen(this.#checks(values), (checks): FinishChange => {
      const fitting = checks.filter((check) => check.ok);
      const [only] = fitting;
      if (only && fitting.length === 1) return accepted(this.#wire.unwrap(only.value), finish);
      return this.#askAgain(finish, problem ?? textProblem(checks, fitting.length));
    });
  }

  /** The value of a complete answer that only one fits, before its schema converts it. */
  #onlyOne(answer: string): unknown {
    const fits = (value: unknown) => {
      const check = this.#check(value);
      // One that answers later has no say in what is shown meanwhile.
      if (!(check instanceof Promise)) return check.ok;
      check.catch(() => {});
      return false;
    };
    const fitting = jsonValues(answer).flatMap((value) => this.#wrapped(value).filter(fits).slice(0, 1));
    return fitting.length === 1 ? fitting[0] : undefined;
  }

  #checks(values: readonly unknown[]): readonly ArgumentCheck[] | Promise<readonly ArgumentCheck[]> {
    const checks = values.map((value) => this.#checkBare(value));
    const known = checks.flatMap((check) => (check instanceof Promise ? [] : [check]));
    return known.length === checks.length ? known : Promise.all(checks);
  }

  /** A model may leave out the object around a value that is not one. */
  #checkBare(value: unknown): ArgumentCheck | Promise<ArgumentCheck> {
    const [given, wrapped] = this.#wrapped(value);
    return andThen(this.#check(given), (check): ArgumentCheck | Promise<ArgumentCheck> => {
      if (check.ok || wrapped === undefined) return check;
      return andThen(this.#check(wrapped), (other): ArgumentCheck => (other.ok ? other : check));
    });
  }

  #wrapped(value: unknown): readonly unknown[] {
    const wrapped = this.#wire.wrap(value);
    return wrapped === value ? [value] : [value, wrapped];
  }

  #plainAnswer(finish: TurnFinish): string {
    if (this.#way(finish) === 'tool') {
      return `That does not end the task: call the tool ${this.#name} with the result as its arguments.`;
    }
    const parsed = parseXml(finish.text, this.#tool.definition.function.parameters);
    return parsed.ok ? 'The answer could not be taken; give it again.' : parsed.flaw;
  }

  /** Why an iteration did not return the required output. */
  #problemOf(step: IterationStep): string | undefined {
    const { calls, results } = step;
    const own = calls.filter(({ call }) => call.function.name === this.#name).map(({ callId }) => callId);
    const refused = results.find(({ callId, success }) => own.includes(callId) && !success);
    if (refused) return refused.error?.message ?? textOf(refused.content);
    return memoryOf(step).forced && calls.length > 0 ? `${this.#name} was not called` : undefined;
  }

  /** Starts another iteration while retries remain. */
  #askAgain(context: HookContext, problem: string): FinishChange {
    const { retries, ...memory } = memoryOf(context);
    const { maxIterations, iteration, state } = context;
    // A retry of the turn begins with the answer for which that turn failed.
    const isOfBefore = iteration <= (state.turn.retried?.iterations ?? 0);
    if (!isOfBefore && retries >= this.#options.parseRetries) {
      const attempts = `${retries + 1} ${retries === 0 ? 'attempt' : 'attempts'} (parseRetries)`;
      return { fail: parseError(`The model gave no valid output in ${attempts}; the last problem: ${problem}`) };
    }
    const isLast = iteration >= maxIterations && this.#options.forceFinish;
    return {
      messages: [{ role: 'user', content: problem }],
      settings: { maxIterations: maxIterations + 1, ...(isLast ? this.#toolChoice(context) : {}) },
      data: { ...memory, retries: isOfBefore ? 0 : retries + 1, forced: memory.forced || isLast },
    };
  }

  #force(step: IterationStep): StepChange {
    const settings = { maxIterations: step.maxIterations + 1, ...this.#toolChoice(step) };
    return { settings, data: { ...memoryOf(step), forced: true } };
  }

  #toolChoice({ provider }: HookContext) {
    const way = wayOf(this.#options.mode, provider.capabilities, true);
    return way === 'tool' ? { toolChoice: { name: this.#name } } : {};
  }
}

/** Ends the turn with a value. */
function accepted(value: unknown, context: HookContext): Pick<FinishChange, 'finish' | 'data' | 'fail'> {
  const fail = notJson(value);
  return fail ? { fail } : { finish: { value }, data: { ...memoryOf(context), accepted: fingerprint(value) } };
}

/** The failure for a schema's output that JSON would change: a resumed turn would end with a different value. */
function notJson(value: unknown): Failure | undefined {
  const flaw = jsonFlaw(value, 'the output');
  if (flaw === undefined) return undefined;
  const message = `structuredOutput: ${flaw}, which JSON cannot hold; take a schema that gives texts, numbers, lists and plain objects.`;
  return { code: 'INVALID_CONFIG', message };
}

const unfinished = 'unfinished';

/** With `onLength: 'complete'`: a retry with the same limit is unlikely to return more. */
const noWholeOutput: Failure = { code: 'LENGTH', message: cutShort };

function finishTool(name: string, { parameters, jsonSchema }: OutputWire): Tool {
  const { definition, ...rest } = tool({
    name,
    description: 'Ends the task. Call it with the final result as soon as you have it.',
    parameters,
    ...(jsonSchema && { jsonSchema }),
    sequential: true,
    readOnly: true,
    onInDoubt: 'retry',
    execute: () => 'accepted',
  });
  const { checkArguments } = definition;
  if (!checkArguments) return engineTool({ definition, ...rest });
  const lenient = nullAsAbsent(checkArguments, definition.function.parameters);
  return engineTool({ definition: { ...definition, checkArguments: lenient }, ...rest });
}

/** A check that reads null as absent where only that fits. */
function nullAsAbsent(check: ArgumentChecker, schema: JSONSchema): ArgumentChecker {
  return (value) =>
    andThen(check(value), (given): ArgumentCheck | Promise<ArgumentCheck> => {
      const rest = given.ok ? value : withoutAbsent(value, schema);
      return rest === value ? given : andThen(check(rest), (other): ArgumentCheck => (other.ok ? other : given));
    });
}

function textProblem(checks: readonly ArgumentCheck[], fitting: number): string {
  if (fitting > 1) return 'The answer has several values that fit; give one JSON object and nothing else.';
  const flaw = checks.length === 1 ? checks[0] : undefined;
  if (flaw && !flaw.ok) return `The answer does not fit: ${flaw.message}.`;
  return 'The answer is not JSON; give one JSON object and nothing else.';
}

/** The error result of the call contains the reason. */
function withoutMessages({ messages: _, ...change }: FinishChange): StepChange {
  return change;
}

function hasCalls({ message, toolCalls }: LLMResponse): boolean {
  return (toolCalls ?? (message.role === 'assistant' ? message.toolCalls : undefined) ?? []).length > 0;
}

function isWhole({ finishReason }: LLMResponse): boolean {
  return finishReason !== 'length' && finishReason !== 'content_filter';
}

function parseError(message: string): Failure {
  return { code: 'PARSE_ERROR', message };
}

function isOutput<T>(value: unknown): value is T {
  return value !== undefined;
}
