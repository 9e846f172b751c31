import { exceptionOf, failSpan } from '../../observability/spans/tracing-options.ts';
import {
  AgentLoopError,
  type AgentUsage,
  type Extension,
  errorCodes,
  type Failure,
  isPromiseLike,
  messageOf,
} from '../contracts/index.ts';
import { type LoopState, originOf, type ToolResultRecord } from '../journal/index.ts';
import { leftReason, type ParentTurn, TurnLost } from '../ownership/child-turns.ts';
import type { AbortScope } from '../streams/index.ts';
import type { AskedHook, HookDeps, HookPlace, HookQuestion } from './hook-context.ts';
import { type AboutOf, type HookSubject, hookSubjects } from './hook-subjects.ts';
import { type AnswerOf, type AskedHookName, checkAnswer, type Hooks, hookTable } from './hook-table.ts';

/** Calls one hook of every extension that has it. */
interface Asking<Name extends AskedHookName> {
  readonly hook: Name;
  readonly place: HookPlace;
  /** The subject for the next extension, from the current state. */
  readonly about: (state: LoopState) => AboutOf<Name>;
  /** Validates and applies the result; throws if invalid; false skips the remaining extensions. */
  readonly take: (answer: AnswerOf<Name>, extension: Extension, context: AskedHook) => boolean;
  /** Records the usage of the hook's child turns if the hook returned nothing. */
  readonly count?: (used: readonly AgentUsage[], extension: Extension) => void;
  /** The same for a hook without a record of its answer: receives its child turns, whatever it returned, to record their usage. */
  readonly keep?: (branches: readonly ParentTurn[], extension: Extension) => void;
  /** Receives the context of a hook that returned a promise. */
  readonly asked?: (context: AskedHook) => void;
}

/**
 * Calls the extensions in order; synchronous while they answer synchronously. Throws or rejects with the error that fails the turn:
 * the extension's `fail`, or `EXTENSION_FAILED` if one with `onError: 'fail'` fails.
 */
export function askHooks<Name extends AskedHookName>(deps: HookDeps, asking: Asking<Name>): void | Promise<void> {
  return askFrom(deps, asking, 0);
}

function askFrom<Name extends AskedHookName>(deps: HookDeps, asking: Asking<Name>, from: number): void | Promise<void> {
  const { hook, place } = asking;
  const extensions = deps.hooks.lists[hook];
  let question: HookQuestion = { deps, hook, state: place.state, parent: place.traceContext };
  for (let index = from; index < extensions.length; index++) {
    const { state } = place;
    if (state !== question.state) question = { ...question, state };
    const next = askOne(asking, question, extensions[index] as Extension);
    if (next instanceof Promise) return next.then((more) => (more ? askFrom(deps, asking, index + 1) : undefined));
    if (!next) return;
  }
}

/** Returns whether to call the remaining extensions. An empty answer allocates no closure: most hooks only observe. */
function askOne<Name extends AskedHookName>(
  asking: Asking<Name>,
  question: HookQuestion,
  extension: Extension,
): boolean | Promise<boolean> {
  const { deps } = question;
  const { hook } = asking;
  const subject: HookSubject<Name> = hookSubjects[asking.hook];
  const about = asking.about(question.state);
  const context = subject.context(question, extension, about);
  try {
    const answer = subject.ask(extension, context, about);
    if (answer === undefined || answer === null) {
      context.done();
      return true;
    }
    if (!isPromiseLike(answer)) return given(asking, { answer, extension, context });
    asking.asked?.(context);
    return limited(deps, { hook, extension, context, answer })
      .then((settled) => given(asking, { answer: settled, extension, context }))
      .catch((error: unknown) => failed(deps, asking, { extension, context, error }));
  } catch (error) {
    return failed(deps, asking, { extension, context, error });
  }
}

/** By question in progress: extensions that have answered it and used child turns. */
const answered = new WeakMap<object, readonly AskedHook[]>();

/** As `fail`; if that throws, drops the earlier answers: the end of the turn records the usage of their child turns. */
function failed<Name extends AskedHookName>(
  deps: HookDeps,
  asking: Asking<Name>,
  failure: Pick<Failed, 'extension' | 'context' | 'error'>,
): boolean {
  try {
    return fail(deps, { ...asking, ...failure });
  } catch (error) {
    for (const context of answered.get(asking) ?? []) context.drop();
    throw error;
  }
}

interface Given {
  readonly answer: unknown;
  readonly extension: Extension;
  readonly context: AskedHook;
}

/** Applies the answer of a hook. Returns whether to call the remaining extensions. */
function given<Name extends AskedHookName>(asking: Asking<Name>, { answer, extension, context }: Given): boolean {
  const { take, count, keep } = asking;
  if (keep && context.hasChildren) keep(context.takeBranches(), extension);
  const isNothing = answer === undefined || answer === null;
  const used = count && isNothing ? context.childUsage : [];
  if (used.length > 0) count?.(used, extension);
  const more = isNothing || take(checked(asking.hook, answer), extension, context);
  if (context.hasChildren) answered.set(asking, [...(answered.get(asking) ?? []), context]);
  context.done();
  return more;
}

function checked<Name extends AskedHookName>(hook: Name, answer: unknown): AnswerOf<Name> {
  const failure = hookTable[hook].failure === 'by onError' ? failureOf(answer) : undefined;
  if (failure) throw new DeliberateFailure(failure);
  checkAnswer(hook, answer);
  return answer;
}

/** Stores the first failure by which a hook of a tool call fails the turn; returns it for the record of the call's result. */
export function failTurn(hooks: Hooks, error: unknown): NonNullable<ToolResultRecord['fails']> {
  hooks.failure ??= extensionFailure(error);
  const { code, message, reason, details } = hooks.failure;
  return { code, message, reason, ...(details && { details }) };
}

function extensionFailure(error: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(error)) return error;
  return new AgentLoopError('EXTENSION_FAILED', `An extension failed: ${messageOf(error)}`, { cause: error });
}

interface Failed {
  readonly hook: AskedHookName;
  readonly extension: Extension;
  readonly context: AskedHook;
  readonly error: unknown;
  readonly count?: Asking<AskedHookName>['count'];
  readonly keep?: Asking<AskedHookName>['keep'];
}

/** Returns true if the turn continues as if the hook had returned nothing. A turn that is over cannot fail, and the other hooks are still called. */
function fail(deps: HookDeps, { hook, extension, context, error, count, keep }: Failed): boolean {
  if (TurnLost.isInstance(error)) {
    if (context.span && !context.isOver) failSpan(context.span, error.cause);
    // Other child turns of the hook are lost too, not cancelled.
    context.leave(leftReason(context.taskId));
    throw error;
  }
  if (error instanceof DeliberateFailure) {
    context.leave(error.error);
    if (context.state.isComplete) return true;
    throw error.error;
  }
  const { failure } = hookTable[hook];
  const refuses = failure === 'refuses the call';
  const refusal = (): Refusal => new Refusal(`extension "${extension.name}" failed: ${messageOf(error)}`);
  if (context.isOver) {
    if (refuses) throw refusal();
    return true;
  }
  if (context.span) failSpan(context.span, error);
  const fatal = !refuses && extension.onError !== 'continue' && !context.state.isComplete;
  const used = count && !fatal && !refuses && !deps.scope.aborted ? context.endSettled() : [];
  if (used.length > 0) count?.(used, extension);
  if (keep && context.hasChildren && !deps.scope.aborted) keep(context.takeBranches(), extension);
  context.leave(error);
  if (deps.scope.aborted) {
    if (refuses) throw refusal();
    return true;
  }
  const { name } = extension;
  const message = messageOf(error);
  deps.hooks.out?.next({ type: 'extension-error', extension: name, hook, message, fatal });
  const thrown = exceptionOf(error, deps.tracing.redact);
  deps.config.logger.warn('extension failed', { taskId: context.taskId, extension: name, hook, error: thrown });
  if (refuses) throw refusal();
  if (!fatal) return true;
  throw new AgentLoopError('EXTENSION_FAILED', `Extension "${name}" failed in ${hook}: ${message}`, {
    cause: error,
    taskId: context.taskId,
  });
}

/** Refuses a call because the hook that had to decide about it failed. */
class Refusal extends Error {}

/** Passes an extension's `fail` through the error path. */
class DeliberateFailure extends Error {
  readonly error: AgentLoopError;

  constructor({ code, message, reason, details, cause }: Failure) {
    super(message);
    this.error = new AgentLoopError(code, message, {
      ...originOf(code, cause),
      ...(reason !== undefined && { reason }),
      details,
    });
  }
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

/**
 * Applies the time limit to the promise of a hook's answer. A cancel and a drain abort its signal and stop the wait,
 * except for hooks after a turn's end, and on a drain for the result of a tool that can still be recorded.
 */
function limited(
  deps: HookDeps,
  { hook, extension, context, answer }: Omit<Failed, 'error'> & { readonly answer: PromiseLike<unknown> },
): Promise<unknown> {
  const { timeoutMs = defaultTimeoutMs } = extension;
  const { clock, abortGraceMs } = deps.config;
  const { onDrain, endsWait } = hookTable[hook];
  void context.traceContext;
  return new Promise((resolve, reject) => {
    const stops: (() => void)[] = [];
    const stop = () => {
      for (const each of stops.splice(0)) each();
    };
    const late = (limit: string) => {
      stop();
      reject(new Error(`it did not answer within ${limit}`));
    };
    const leave = (scope: AbortScope) => () => {
      stop();
      context.leave(scope === deps.drain ? leftReason(context.taskId) : scope.reason);
      if (endsWait) reject(scope.reason);
    };
    const drained = leave(deps.drain);
    stops.push(deps.scope.onAbort(leave(deps.scope)));
    const graceful = () => void stops.push(clock.schedule(abortGraceMs, drained));
    stops.push(deps.drain.onAbort(onDrain === 'at once' ? drained : graceful));
    if (timeoutMs > 0) stops.push(clock.schedule(timeoutMs, () => late(`${timeoutMs} ms (timeoutMs)`)));
    context.awaited({ stop, expire: (afterMs) => late(`${afterMs} ms`) });
    const settle =
      <T>(by: (value: T) => void) =>
      (value: T) => {
        stop();
        by(value);
      };
    answer.then(settle(resolve), settle(reject));
  });
}

const defaultTimeoutMs = 60_000;
