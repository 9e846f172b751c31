import { exceptionOf, failSpan } from '../../observability/spans/tracing-options.ts';
import {
  AgentLoopError,
  type AgentUsage,
  addUsed,
  type Extension,
  errorCodes,
  type Failure,
  isPromiseLike,
  reasonOf,
  type ToolCall,
} from '../contracts/index.ts';
import { type ExtensionRecord, originOf, type ToolResultRecord } from '../journal/index.ts';
import { leftReason, type ParentTurn, TurnLost } from '../ownership/child-turns.ts';
import { type AbortScope, after } from '../streams/index.ts';
import { AskedHook, type HookDeps, type HookPlace, type HookQuestion } from './hook-context.ts';
import {
  type AboutOf,
  type AnswerOf,
  type AskedHookName,
  checkAnswer,
  type HookRow,
  type Hooks,
  hookTable,
  recordsChanges,
  recordsChildren,
} from './hook-table.ts';
import { type AnyChange, recordOfChange, type UnrecordedBranch } from './record-of-change.ts';

/** Calls one hook of every extension that has it. */
interface Asking<Name extends AskedHookName> {
  readonly hook: Name;
  readonly place: HookPlace;
  /** What the next extension is asked about, from the current state. */
  readonly about: (state: HookPlace['state']) => AboutOf<Name>;
  /** Returns the changes to record; default the answer itself. */
  readonly change?: (answer: AnswerOf<Name>) => AnyChange;
  /** Validates and applies the answer, once its changes are valid; throws if it is invalid. */
  readonly take?: (answer: AnswerOf<Name>, extension: Extension) => void;
  readonly waiting?: Waiting;
}

/** What asks a hook and waits for it. */
interface Waiting {
  /** The tool call that it is about. */
  readonly callId?: string;
  readonly call?: ToolCall;
  /** Receives the child turns of a hook without a record of its answer, whatever it returned, to record their usage. */
  readonly keep?: (branches: readonly UnrecordedBranch[]) => void;
  /** Receives the context of a hook that returned a promise. */
  readonly asked?: (context: AskedHook) => void;
}

/**
 * Calls the extensions in order, then returns `outcome()`; synchronous while they answer synchronously. Throws or rejects with the error that fails
 * the turn: the extension's `fail`, or `EXTENSION_FAILED` if one with `onError: 'fail'` fails.
 */
export function askHooks<Name extends AskedHookName, T>(
  deps: HookDeps,
  asking: Asking<Name>,
  outcome: () => T,
): T | Promise<T> {
  const asked = new Round(deps, asking).askFrom(0);
  return asked instanceof Promise ? asked.then(outcome) : outcome();
}

/** One round of questions. */
class Round<Name extends AskedHookName> {
  readonly #deps: HookDeps;
  readonly #asking: Asking<Name>;
  readonly #row: HookRow<Name>;
  #question: HookQuestion;
  /** Extensions that have answered and used child turns. */
  #answered: readonly AskedHook[] = [];
  /** Whether an extension may have changed what the next one is asked about. */
  #isChanged = false;
  /** The error by which an extension fails the turn on purpose. */
  #failure: AgentLoopError | undefined;

  constructor(deps: HookDeps, asking: Asking<Name>) {
    const { hook, place } = asking;
    this.#deps = deps;
    this.#asking = asking;
    this.#row = hookTable[asking.hook];
    this.#question = { deps, hook, state: place.state, parent: place.traceContext };
  }

  askFrom(from: number): void | Promise<void> {
    const extensions = this.#deps.hooks.lists[this.#asking.hook];
    for (let index = from; index < extensions.length; index++) {
      const next = this.#ask(extensions[index] as Extension);
      if (next instanceof Promise)
        return next.then((more) => (more && !this.#isLeft ? this.askFrom(index + 1) : undefined));
      if (!next) return;
    }
  }

  /** Whether the turn was cancelled or drains, and the hook is not one of its end: the answer is not used, so no further extension is called. */
  get #isLeft(): boolean {
    const { scope, drain } = this.#deps.inbox;
    const { endsWait, onDrain } = this.#row;
    return !endsWait && (scope.aborted || (onDrain === 'at once' && drain.aborted));
  }

  /** Returns whether to call the remaining extensions. An empty answer allocates no closure: most hooks only observe. */
  #ask(extension: Extension): boolean | Promise<boolean> {
    const { hook, place, about, waiting } = this.#asking;
    const { state } = place;
    let flaw: { readonly thrown: unknown } | undefined;
    try {
      if (!this.#isChanged && extension.isDue?.(hook, state, waiting?.call) === false) return true;
    } catch (thrown) {
      flaw = { thrown };
    }
    if (state !== this.#question.state) this.#question = { ...this.#question, state };
    const subject = about(state);
    const context = new AskedHook(this.#question, extension);
    try {
      if (flaw) throw flaw.thrown;
      const answer = this.#row.call(extension, context, subject);
      if (answer === undefined || answer === null) {
        context.done();
        return true;
      }
      if (!isPromiseLike(answer)) return this.#take(answer, context);
      waiting?.asked?.(context);
      return this.#limited(answer, context)
        .then((settled) => this.#take(settled, context))
        .catch((error: unknown) => this.#failed(error, context));
    } catch (error) {
      return this.#failed(error, context);
    }
  }

  /** Applies and records an answer. Returns whether to call the remaining extensions. */
  #take(given: unknown, context: AskedHook): boolean {
    const { place, change, take } = this.#asking;
    this.#keepChildren(context);
    const answer = given === undefined || given === null ? undefined : this.#checked(given);
    const { children, extension } = context;
    let record: ExtensionRecord | undefined;
    if (answer !== undefined) record = this.#recordOf(change?.(answer) ?? answer, extension, children);
    else if (children.length > 0) record = this.#recordOf({}, extension, children);
    if (answer !== undefined) {
      this.#isChanged = true;
      take?.(answer, extension);
    }
    if (record) place.add?.(record);
    if (children.length > 0) this.#answered = [...this.#answered, context];
    context.done();
    return answer === undefined || !this.#row.isLast(answer);
  }

  #checked(answer: unknown): AnswerOf<Name> & AnyChange {
    const failure = this.#row.failure === 'by onError' ? failureOf(answer) : undefined;
    if (failure) {
      const { code, message, reason, details, cause } = failure;
      const more = { ...originOf(code, cause), ...(reason !== undefined && { reason }), details };
      this.#failure = new AgentLoopError(code, message, more);
      throw this.#failure;
    }
    checkAnswer(this.#asking.hook, answer);
    return answer;
  }

  /** The record of changes and of the usage of child turns, if the hook has one. */
  #recordOf(change: AnyChange, { name }: Extension, children: readonly ParentTurn[]): ExtensionRecord | undefined {
    const { hook, place } = this.#asking;
    if (!place.add || !recordsChanges(hook)) return undefined;
    const used = children.reduce<readonly AgentUsage[]>((sum, { usageBy }) => addUsed(sum, usageBy), []);
    return recordOfChange(change, { deps: this.#deps, state: place.state, name, hook, used });
  }

  #keepChildren(context: AskedHook): void {
    const { name } = context.extension;
    const { hook, waiting } = this.#asking;
    const { keep, callId } = waiting ?? {};
    if (!keep || !recordsChildren(hook) || context.children.length === 0) return;
    keep(context.takeSettled().map((parent) => ({ name, hook, ...(callId !== undefined && { callId }), parent })));
  }

  /** As `#fail`; if that throws, drops the earlier answers: the end of the turn records the usage of their child turns. */
  #failed(error: unknown, context: AskedHook): boolean {
    try {
      return this.#fail(error, context);
    } catch (thrown) {
      for (const answered of this.#answered) answered.drop();
      throw thrown;
    }
  }

  /** Returns true if the turn continues as if the hook had returned nothing. A turn that is over cannot fail, and the other hooks are still called. */
  #fail(error: unknown, context: AskedHook): boolean {
    const { isOver, span, taskId, state, extension } = context;
    if (TurnLost.isInstance(error)) {
      if (span && !isOver) failSpan(span, error.cause);
      // Other child turns of the hook are lost too, not cancelled.
      context.leave(leftReason(taskId));
      throw error;
    }
    if (this.#failure !== undefined && error === this.#failure) {
      context.leave(error);
      if (state.isComplete) return true;
      throw error;
    }
    const { name, onError } = extension;
    const refuses = this.#row.failure === 'refuses the call';
    const fatal = !refuses && onError !== 'continue' && !state.isComplete;
    const isLeft = isOver || this.#deps.inbox.scope.aborted;
    if (!isOver) {
      if (span) failSpan(span, error);
      if (!isLeft) this.#recordChildren(context, fatal);
      context.leave(error);
      if (!isLeft) this.#show(error, name, fatal);
    }
    if (refuses) throw new Error(`extension "${name}" failed: ${reasonOf(error)}`, { cause: error });
    if (isLeft || !fatal) return true;
    const message = `Extension "${name}" failed in ${this.#asking.hook}: ${reasonOf(error)}`;
    throw new AgentLoopError('EXTENSION_FAILED', message, { cause: error, taskId });
  }

  /** Records the usage of child turns of a hook that failed. If the turn fails, its end does that. */
  #recordChildren(context: AskedHook, fatal: boolean): void {
    this.#keepChildren(context);
    if (fatal || !recordsChanges(this.#asking.hook)) return;
    const settled = context.takeSettled();
    const record = settled.length > 0 ? this.#recordOf({}, context.extension, settled) : undefined;
    if (record) this.#asking.place.add?.(record);
    for (const parent of settled) parent.end();
  }

  #show(error: unknown, extension: string, fatal: boolean): void {
    const { hooks, segment } = this.#deps;
    const { config, tracing, turn } = segment;
    const { hook } = this.#asking;
    hooks.out?.next({ type: 'extension-error', extension, hook, message: reasonOf(error), fatal });
    const fields = { taskId: turn.taskId, extension, hook, error: exceptionOf(error, tracing.redact) };
    config.logger.warn('extension failed', fields);
  }

  /**
   * Applies the time limit to the promise of an answer. A cancel and a drain abort its signal and stop the wait,
   * except for hooks after a turn's end, and on a drain for the result of a tool that can still be recorded.
   */
  #limited(answer: PromiseLike<unknown>, context: AskedHook): Promise<unknown> {
    const { timeoutMs = defaultTimeoutMs } = context.extension;
    const { inbox, segment } = this.#deps;
    const { scope, drain } = inbox;
    const { onDrain, endsWait } = this.#row;
    const { clock, abortGraceMs } = segment.config;
    const stops: (() => void)[] = [];
    const stop = () => {
      for (const each of stops.splice(0)) each();
    };
    // Its span starts.
    void context.traceContext;
    return new Promise((resolve, reject) => {
      const late = (limit: string) => {
        stop();
        const error = new Error(`it did not answer within ${limit}`);
        context.endSpan(error);
        reject(error);
      };
      const leave = (from: AbortScope) => () => {
        stop();
        context.leave(from === drain ? leftReason(context.taskId) : from.reason);
        if (endsWait) reject(from.reason);
      };
      const drained = leave(drain);
      const graceful = () => void stops.push(after(abortGraceMs, clock, drained));
      stops.push(scope.onAbort(leave(scope)), drain.onAbort(onDrain === 'at once' ? drained : graceful));
      if (timeoutMs > 0) stops.push(after(timeoutMs, clock, () => late(`${timeoutMs} ms (timeoutMs)`)));
      context.awaited({ stop, expire: (afterMs) => late(`${afterMs} ms`) });
      answer.then(resolve, reject);
    });
  }
}

const defaultTimeoutMs = 60_000;

/** Stores the first failure by which a hook of a tool call fails the turn; returns it for the record of the call's result. */
export function failTurn(hooks: Hooks, error: unknown): NonNullable<ToolResultRecord['fails']> {
  hooks.failure ??= AgentLoopError.isInstance(error)
    ? error
    : new AgentLoopError('EXTENSION_FAILED', `An extension failed: ${reasonOf(error)}`, { cause: error });
  const { code, message, reason, details } = hooks.failure;
  return { code, message, reason, ...(details && { details }) };
}

function failureOf(answer: unknown): Failure | undefined {
  if (typeof answer !== 'object' || answer === null || !('fail' in answer) || answer.fail === undefined)
    return undefined;
  const failure: unknown = answer.fail;
  if (isFailure(failure)) return failure;
  throw new TypeError('its fail is not { code, message }');
}

function isFailure(failure: unknown): failure is Failure {
  if (typeof failure !== 'object' || failure === null || !('code' in failure) || !('message' in failure)) return false;
  return typeof failure.message === 'string' && errorCodes.some((code) => code === failure.code);
}
