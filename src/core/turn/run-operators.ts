import type { Context, Span } from '@opentelemetry/api';
import { finishRunSpan, leaveExecuteSpan } from '../../observability/spans/run-spans.ts';
import { failSpan, type TurnTracing } from '../../observability/spans/tracing-options.ts';
import {
  AgentLoopError,
  type AgentUsage,
  addUsed,
  type ChildLink,
  type Command,
  checkMessages,
  isMissingPart,
  type Message,
  messageOf,
  reasonOf,
  type TaskStateStore,
  textOf,
} from '../contracts/index.ts';
import { askHooks } from '../hooks/ask-hooks.ts';
import type { HookDeps, HookPlace } from '../hooks/hook-context.ts';
import { type CommandIds, type Commit, commitOf, isTerminal, type LoopState, type Signal } from '../journal/index.ts';
import { failed } from '../model-call/response.ts';
import { leftReason, recordedUsage, TurnLost, type TurnNode } from '../ownership/child-turns.ts';
import { endRecords, steeringRecords } from '../ownership/inbox.ts';
import { AbortScope, after, type FusibleOperator, operate, type Sink, Stage, staged } from '../streams/index.ts';
import type { ToolCallDeps } from '../tool-call/tool-results.ts';
import type { Run } from './run.ts';

/**
 * Turns an error of the loop into the record of the turn's failure; the stream then completes. Any other exception than an `AgentLoopError`
 * becomes `INTERNAL`. The error of a lost child turn, of a missing tool of a resumed turn, and of an unknown agent are passed on: they do not
 * fail the turn, which can be resumed.
 */
export function catchTurnError(deps: Run, initial: LoopState): FusibleOperator<Signal, Signal> {
  return staged((to) => new TurnFailure(deps, initial, to));
}

class TurnFailure extends Stage<Signal> {
  readonly #deps: Run;
  #state: LoopState;

  constructor(deps: Run, initial: LoopState, to: Sink<Signal>) {
    super(to, 'records');
    this.#deps = deps;
    this.#state = initial;
  }

  protected override take(signal: Signal): Signal {
    if (signal.type === 'commit') {
      this.#state = signal.after;
      // Before the append: child turns and limits count what the turn has decided, also while the store answers.
      this.#deps.node.state = signal.after;
      if (signal.cause) this.#log(signal.after);
    }
    return signal;
  }

  protected override failed(thrown: unknown): void {
    if (TurnLost.isInstance(thrown)) return this.to.error(thrown.cause);
    const error = turnError(thrown);
    if (isMissingPart(error.code)) return this.#leave(error);
    const end = this.#deps.openModelCall.closedBy(failed(error.code, error.message, error));
    const commit = {
      cause: thrown,
      ...commitOf(this.#deps.node, this.#state, endRecords(this.#deps.inbox, end), true),
    };
    this.#deps.inbox.close(commit.after);
    this.to.next(this.take(commit));
    this.to.complete();
  }

  /** The journal says what the turn waits for, once: a turn that still waits is lost without a record. */
  #leave(error: AgentLoopError): void {
    const records = [...steeringRecords(this.#deps.inbox)];
    if (!this.#state.hold) {
      const { code, message, details } = error;
      const hold = { error: { code, message, ...(details && { details }) } };
      records.push({ type: 'turn.suspended', state: 'working', reason: code.toLowerCase(), questions: [], hold });
    }
    if (records.length > 0) this.to.next(this.take(commitOf(this.#deps.node, this.#state, records, true)));
    this.to.error(error);
  }

  #log({ error }: LoopState): void {
    const { turn, config } = this.#deps.segment;
    const { taskId, agentId } = turn;
    config.logger.error('turn failed', { taskId, agentId, code: error?.code });
  }
}

function turnError(thrown: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  return new AgentLoopError('INTERNAL', `The turn broke on an unexpected error: ${reasonOf(thrown)}`, {
    cause: thrown,
  });
}

/**
 * Before a turn's end is written, cancels its open child turns, waits for them and for the child turns of hooks without an answer; also cancels
 * those of skipped calls. All other child turns have ended by then. If that fails, errors as a lost turn.
 */
export function endChildTurns(deps: HookDeps, initial: LoopState): FusibleOperator<Signal, Signal> {
  return staged((to) => new ChildTurnsEnd(deps, initial, to));
}

class ChildTurnsEnd extends Stage<Signal> {
  readonly #deps: HookDeps;
  #state: LoopState;
  /** Signals that arrived while child turns are being cancelled. */
  #waiting: Signal[] | undefined;
  #hasEnded = false;

  constructor(deps: HookDeps, initial: LoopState, to: Sink<Signal>) {
    super(to);
    this.#deps = deps;
    this.#state = initial;
  }

  protected override take(signal: Signal): Signal | undefined {
    if (this.#waiting) return void this.#waiting.push(signal);
    if (signal.type !== 'commit') return signal;
    const before = this.#state;
    this.#state = signal.after;
    const { node } = this.#deps;
    const children = before.openChildren.length > 0 ? unendedChildren(node, before, signal) : noChildren;
    if (node.unanswered.length > 0 && signal.after.isComplete) return void this.#afterHooks(before, children, signal);
    if (children.length === 0) return signal;
    this.#cancel(children, signal);
    return undefined;
  }

  /** Cancels the child turns of hooks without an answer; the end record includes their usage and is later than their ends. */
  #afterHooks(before: LoopState, children: readonly ChildLink[], signal: Commit): void {
    const { unanswered } = this.#deps.node;
    this.#waiting = [];
    const ended = new AgentLoopError('CANCELED', signal.after.outcome?.reason ?? 'the turn ended');
    for (const { scope } of unanswered) scope.abort(ended);
    void Promise.allSettled(unanswered.map(({ over }) => over)).then(() => {
      const end = this.#endWith(before, signal);
      if (children.length > 0) return this.#cancel(children, end);
      this.to.next(end);
      this.#flush();
    });
  }

  #endWith(before: LoopState, signal: Commit): Commit {
    const { node } = this.#deps;
    const used = node.unanswered.reduce<readonly AgentUsage[]>((sum, { usageBy }) => addUsed(sum, usageBy), []);
    const records = signal.steps.map(({ record }) =>
      isTerminal(record) ? { ...record, ...recordedUsage(record.usage, used) } : record,
    );
    const end = { ...signal, ...commitOf(this.#deps.node, before, records, signal.barrier) };
    this.#state = end.after;
    node.state = end.after;
    for (const hook of node.unanswered) hook.end();
    return end;
  }

  protected override completed(): void {
    this.#hasEnded = true;
    if (!this.#waiting) this.to.complete();
  }

  #cancel(children: readonly ChildLink[], signal: Signal): void {
    const { segment, inbox, node } = this.#deps;
    const { config, turn } = segment;
    const { leaseHold, epoch, lostAt: parentLostAt } = node;
    const { taskStateStore: store, clock, storeDeadlineMs: deadlineMs } = config;
    if (!store) return this.to.next(signal);
    this.#waiting ??= [];
    const reason =
      this.#state.outcome?.reason ?? (inbox.scope.aborted ? messageOf(inbox.scope.reason) : 'the turn finished');
    const under = leaseHold && { taskId: turn.taskId, epoch };
    config.outside.cancelChildren(children, { store, clock, deadlineMs, reason, under, parentLostAt }).then(
      () => {
        this.to.next(signal);
        this.#flush();
      },
      (error: unknown) => this.to.error(error),
    );
  }

  #again(signal: Signal): void {
    const passed = this.take(signal);
    if (passed) this.to.next(passed);
  }

  #flush(): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = undefined;
    for (const signal of waiting) this.#again(signal);
    if (this.#hasEnded && !this.#waiting) this.to.complete();
  }
}

const noChildren: readonly ChildLink[] = [];

/** The child turns that a commit would leave open although their turn has ended, or their call is skipped. */
function unendedChildren(node: TurnNode, { openChildren }: LoopState, { after }: Commit): readonly ChildLink[] {
  const left = after.isComplete ? openChildren : openChildren.filter((link) => !after.openChildren.includes(link));
  return left.filter(({ taskId }) => !node.hasEnded(taskId));
}

/**
 * Aborts the work below a turn that this process lost, before its lease is released: the signals of its calls and hooks, and so of
 * its child turns, abort with the reason `LEFT`.
 */
export function abortIfLost(deps: HookDeps): FusibleOperator<Signal, Signal> {
  return staged((to) => new LostTurn(deps, to));
}

class LostTurn extends Stage<Signal> {
  readonly #deps: HookDeps;

  constructor(deps: HookDeps, to: Sink<Signal>) {
    super(to);
    this.#deps = deps;
  }

  protected override finalize(): void {
    const { node, inbox } = this.#deps;
    if (!node.state.outcome) inbox.scope.abort(leftReason(node.state.turn.taskId));
  }
}

/**
 * Applies the commands of other processes while the turn runs: a cancel aborts its scope; pause, steering and answers go to its inbox. Skips
 * commands that an earlier owner of the turn applied (`followed`). If the store fails to deliver commands, logs that; the turn
 * continues.
 */
export function followCommands(
  deps: ToolCallDeps,
  store: TaskStateStore,
  followed: Pick<CommandIds, 'has'>,
): FusibleOperator<Signal, Signal> {
  return operate((to) => {
    const { config, turn } = deps.segment;
    const { taskId } = turn;
    const commands = store.commands(taskId).subscribe({
      next: (command) => {
        if (followed.has(command.id)) return;
        if (isCommand(command)) applyCommand(deps, command);
        else config.logger.warn('command ignored: invalid', { taskId });
      },
      error: (error: unknown) => {
        const code = AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
        config.logger.warn('commands cannot be read', { taskId, code });
      },
    });
    to.add(() => commands.unsubscribe());
    return {};
  });
}

/** Whether a posted command is valid. */
function isCommand(command: Command): boolean {
  switch (command.type) {
    case 'cancel':
    case 'pause':
      return command.reason === undefined || typeof command.reason === 'string';
    case 'steer':
      return isMessage(command.message);
    case 'answer':
      return typeof command.questionId === 'string' && (!command.message || isMessage(command.message));
    default:
      return false;
  }
}

function isMessage(message: Message): boolean {
  try {
    checkMessages([message]);
    return true;
  } catch {
    return false;
  }
}

/** A message that an extension refuses does not stop the turn. */
function steer(
  { inbox, segment: { turn, config } }: ToolCallDeps,
  { message, id }: Extract<Command, { type: 'steer' }>,
): void {
  try {
    inbox.steer(message, id);
  } catch (error) {
    config.logger.warn('steering message refused', { taskId: turn.taskId, error: messageOf(error) });
  }
}

function applyCommand(deps: ToolCallDeps, command: Command): void {
  switch (command.type) {
    case 'cancel':
      return deps.inbox.scope.abort(new AgentLoopError('CANCELED', command.reason ?? 'canceled'));
    case 'pause':
      return deps.inbox.requestPause(command.reason ?? 'paused', command.id);
    case 'steer':
      return steer(deps, command);
    case 'answer':
      return deps.inbox.answer(command.questionId, command.answer, {
        command: command.id,
        ...(command.message && { message: command.message }),
      });
  }
}

/**
 * After a drain, errors with `SHUTDOWN` once the records are written and the lease is released; a store that does not answer delays that by
 * at most `abortGraceMs` beyond the `abortGraceMs` of the tools.
 */
export function failAfterDrain(deps: HookDeps, initial: LoopState): FusibleOperator<Signal, Signal> {
  return operate((to) => {
    let state = initial;
    const { clock, abortGraceMs } = deps.segment.config;
    const giveUp = () => to.error(shutdownError(deps.segment.turn.taskId));
    to.add(deps.inbox.drain.onAbort(() => to.add(after(2 * abortGraceMs, clock, giveUp))));
    return {
      next(signal) {
        if (signal.type === 'commit') state = signal.after;
        to.next(signal);
      },
      complete() {
        if (state.outcome) to.complete();
        else to.error(shutdownError(deps.segment.turn.taskId));
      },
    };
  });
}

/** The error of a turn that this process does not continue. */
export function shutdownError(taskId: string): AgentLoopError {
  const message = `Turn "${taskId}" was released because this process shuts down; resume it with AgentLoop.resume in another process.`;
  return new AgentLoopError('SHUTDOWN', message, { taskId, retryable: true });
}

/**
 * Calls the extensions after the end is recorded: `afterTurn` if it was not called before, then `afterEnd`. The stream completes
 * when they have answered. Their answers have no effect and their failures are only logged: the last event has been emitted.
 */
export function callEndHooks(
  deps: HookDeps,
  initial: LoopState,
  traceContext: Context,
): FusibleOperator<Signal, Signal> {
  return operate((to) => {
    let state = initial;
    return {
      next(signal) {
        if (signal.type === 'commit') state = signal.after;
        to.next(signal);
      },
      complete() {
        if (!state.isComplete) return to.complete();
        deps.hooks.out = undefined;
        const scope = new AbortScope();
        const asked = callBoth({ ...deps, inbox: { scope, drain: deps.inbox.drain } }, { state, traceContext });
        if (!(asked instanceof Promise)) return to.complete();
        let isOver = false;
        to.add(() => {
          if (!isOver) scope.abort(new AgentLoopError('CANCELED', 'The turn was cancelled.'));
        });
        asked.then(
          () => {
            isOver = true;
            to.complete();
          },
          (error: unknown) => to.error(error),
        );
      },
    };
  });
}

function callBoth(deps: HookDeps, place: HookPlace): void | Promise<void> {
  const asked = deps.hooks.isDue('afterTurn', place.state) ? callEndHook(deps, 'afterTurn', place) : undefined;
  return asked instanceof Promise
    ? asked.then(() => callEndHook(deps, 'afterEnd', place))
    : callEndHook(deps, 'afterEnd', place);
}

function callEndHook(deps: HookDeps, hook: 'afterTurn' | 'afterEnd', place: HookPlace): void | Promise<void> {
  const { outcome, value, finalMessage, lastResponse } = place.state;
  if (!outcome || deps.hooks.lists[hook].length === 0) return;
  const text = finalMessage ?? textOf(lastResponse?.message.content);
  return askHooks(deps, { hook, place, about: () => ({ outcome, text, value }) }, () => {});
}

/**
 * Records the outcome of the run on the `agent.execute` span and ends the span on complete, error and unsubscribe, before it notifies downstream:
 * outcome, reason, iterations, tool calls and usage at a terminal or suspending record; an error for a lost turn, except
 * one released because the process shuts down.
 */
export function tapAfterTurn(deps: HookDeps, span: Span): FusibleOperator<Signal, Signal> {
  return staged((to) => new TurnTap(deps, span, to));
}

class TurnTap extends Stage<Signal> {
  readonly #tracing: TurnTracing;
  readonly #span: Span;
  #state: LoopState | undefined;
  #lost = false;

  constructor({ segment }: HookDeps, span: Span, to: Sink<Signal>) {
    // A span that records nothing needs no state.
    super(to, span.isRecording() ? 'records' : 'none');
    this.#tracing = segment.tracing;
    this.#span = span;
  }

  protected override take(signal: Signal): Signal {
    if (signal.type === 'commit') this.#state = signal.after;
    return signal;
  }

  protected override failed(error: unknown): void {
    this.#lost = true;
    if (isShutdown(error)) leaveExecuteSpan(this.#span);
    else failSpan(this.#span, error);
    this.to.error(error);
  }

  protected override finalize(): void {
    if (this.#state && !this.#lost) finishRunSpan(this.#tracing, this.#span, this.#state);
    this.#span.end();
  }
}

function isShutdown(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.code === 'SHUTDOWN';
}
