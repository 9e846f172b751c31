import { context as activeContext, type Context, type Span } from '@opentelemetry/api';
import type { Subscriber } from 'rxjs';
import { finishToolSpan, noteQuestion, startToolSpan } from '../../observability/spans/call-spans.ts';
import { cancelSpan, exceptionOf } from '../../observability/spans/tracing-options.ts';
import {
  type AgentEvent,
  AgentLoopError,
  type Content,
  DoneSignal,
  isPromiseLike,
  messageOf,
  nameOf,
  TaskComplete,
  type ToolError,
  type ToolResult,
  thrownError,
  toolError,
} from '../contracts/index.ts';
import { failTurn } from '../hooks/ask-hooks.ts';
import type { AskedHook } from '../hooks/hook-context.ts';
import {
  type ExtensionRecord,
  type SubAgentSignal,
  type ToolProgress,
  type ToolResultRecord,
  type TurnAsked,
  TurnError,
} from '../journal/index.ts';
import { leftReason, TurnLost } from '../ownership/child-turns.ts';
import { type AbortListener, type AbortScope, after } from '../streams/index.ts';
import { CallContext, type CallNotes, type CallRunner, type CallTurn } from './call-context.ts';
import { type ChangedOutcome, changeOutcome } from './call-hooks.ts';
import type { Deadlines, Limited } from './call-limits.ts';
import type { StartedCall } from './tool-plan.ts';
import { completedResult, isCanceled, limitedResult, resultFlaw, type ToolCallDeps } from './tool-results.ts';
import type { OfferedTool } from './tool-set.ts';

/** What the calls of a batch have in common. */
export interface CallBatch {
  readonly turn: CallTurn;
  /** Aborted when the batch stops waiting for hooks. */
  readonly scope: AbortScope;
  /** The time limits of the calls. */
  readonly deadlines: Deadlines;
  /** The parent of the calls' spans. */
  readonly traceContext: Context;
}

/** One call of a batch. */
export interface ToolCallRun {
  readonly started: StartedCall;
  readonly tool: OfferedTool;
  readonly out: Subscriber<ToolSignal>;
}

/** The result of a call, with the changes of hooks. */
interface ToolOutcome {
  readonly type: 'tool-outcome';
  readonly result: ToolResultRecord;
  readonly records: readonly ExtensionRecord[];
  /** What the tool threw. Not recorded. */
  readonly thrown?: unknown;
}

/** A call without a result in this process: the next owner of the turn continues its child turn. */
interface ToolUnfinished {
  readonly type: 'tool-unfinished';
  readonly callId: string;
}

/** The signals of a running call: progress updates and events of child turns, then one of the others. */
export type ToolSignal = ToolProgress | SubAgentSignal | ToolResultRecord | ToolOutcome | TurnAsked | ToolUnfinished;

const unchanged: readonly ExtensionRecord[] = [];

/**
 * Runs one call, in its `tool[name]` span, and emits its one result or question to `out`. The batch completes `out`. `onAbort` cancels the
 * call; `stop` drops it. A class and not closures, which would cost more than the call.
 */
export class RunningTool implements CallRunner, AbortListener, Limited {
  readonly started: StartedCall;
  readonly traceContext: Context;
  readonly turn: CallTurn;
  notes: CallNotes | undefined;
  readonly #deps: ToolCallDeps;
  readonly #batch: CallBatch;
  readonly #tool: OfferedTool;
  readonly #out: Subscriber<ToolSignal>;
  readonly #startedAt: number;
  readonly #span: Span;
  #scope: AbortScope | undefined;
  /** The reason of an abort before the scope was created. */
  #aborted: { readonly reason: unknown } | undefined;
  #thrownError: unknown;
  /** The result, once the call exceeded its time limit. */
  #timeoutResult: ToolResultRecord | undefined;
  /** The time limit, once it is set. */
  #timeoutMs: number | undefined;
  #cancelGrace: (() => void) | undefined;
  /** Whether the outcome is decided. */
  #settled = false;
  #ended = false;

  constructor(deps: ToolCallDeps, batch: CallBatch, { started, tool, out }: ToolCallRun) {
    this.#deps = deps;
    this.#batch = batch;
    this.#tool = tool;
    this.#out = out;
    this.started = started;
    this.turn = batch.turn;
    this.notes = undefined;
    this.#startedAt = deps.node.now();
    const traced = startToolSpan(deps.segment.tracing, started, batch.traceContext, tool.definition.function);
    this.#span = traced.span;
    this.traceContext = traced.traceContext;
  }

  /** Calls the tool. A synchronous result settles at once, without a timer. */
  start(): void {
    const { provider } = this.#tool;
    try {
      const answer = activeContext.with(
        this.traceContext,
        provider.executeTool,
        provider,
        this.started.call,
        new CallContext(this.#deps, this, this.traceContext),
      );
      if (!isPromiseLike(answer)) return this.#settle(this.#resultOf(answer));
      if (!this.#ended) this.#limitTime();
      answer.then(
        (result) => this.#settle(this.#resultOf(result)),
        (error: unknown) => this.#onRejected(error),
      );
    } catch (error) {
      this.#settle(this.#thrown(error));
    }
  }

  /** Gives the tool `abortGraceMs` to stop. A child turn is cancelled as a turn is. */
  onAbort(): void {
    if (this.#settled || this.#ended || this.#cancelGrace || this.started.intent.child) return;
    const { clock, abortGraceMs } = this.#deps.segment.config;
    this.#cancelGrace = after(abortGraceMs, clock, () =>
      this.#settle(this.#failed(toolError('abandoned', { limitMs: abortGraceMs }))),
    );
  }

  /** Stops the call without a result: aborts its signal and ends its span as cancelled. */
  stop(): void {
    if (this.#ended) return;
    this.#abort(leftReason(this.#deps.segment.turn.taskId));
    this.#stopTimers();
    cancelSpan(this.#span);
    this.#end();
  }

  /** Created on access: most tools do not read their signal. */
  get scope(): AbortScope {
    if (this.#scope) return this.#scope;
    const scope = this.#batch.scope.child();
    this.#scope = scope;
    if (this.#aborted) scope.abort(this.#aborted.reason);
    else if (this.#ended) scope.release();
    else scope.listen(this);
    return scope;
  }

  progress(update: unknown): void {
    const { callId, call } = this.started;
    this.#out.next({ type: 'tool-progress', callId, toolName: call.function.name, update });
  }

  /** Emits an event of the child turn, with the path of agents to it. */
  show(event: AgentEvent, childAgentId: string): void {
    const { subAgentEvents } = this.#deps.segment.config;
    const isNested = event.kind === 'internal:sub-agent';
    const own = isNested ? event.event : event;
    if (subAgentEvents === 'none' || (subAgentEvents === 'records' && own.cursor === undefined)) return;
    const step = { agentId: childAgentId, taskId: event.taskId, callId: this.started.callId };
    this.#out.next({ type: 'sub-agent', path: isNested ? [step, ...event.path] : [step], event: own });
  }

  /** The call exceeded its time limit. */
  expire(): void {
    this.#timeoutResult = this.#failed(toolError('tool_late', { limitMs: this.#timeoutMs ?? 0 }));
    // A child turn is cancelled first, so that its end is recorded before the result of the call.
    if (!this.started.intent.child) this.#settle(this.#timeoutResult);
    this.#abort(new AgentLoopError('TOOL_TIMEOUT', `The call ran into its limit of ${this.#timeoutMs} ms.`));
  }

  /** Takes the result of the tool, or of its failure. Only the first call counts. */
  #settle(record: ToolResultRecord): void {
    if (this.#ended || this.#settled) return;
    this.#settled = true;
    this.#stopTimers();
    if (this.notes) this.#settleNoted(record, this.notes);
    else this.#finish(record);
  }

  #settleNoted(record: ToolResultRecord, { asked, kept, usage, parent }: CallNotes): void {
    if (asked && !this.#isAborted) {
      this.#abort(new AgentLoopError('CANCELED', 'The call waits for an answer.'));
      noteQuestion(this.#span, asked);
      this.#end();
      const own = kept === undefined ? {} : { private: kept };
      return this.#out.next({ type: 'turn.asked', question: asked, ...own, ...usage });
    }
    const stopped = asked
      ? (this.#timeoutResult ??
        this.#failed({ code: 'CANCELED', reason: 'stopped', message: messageOf(this.scope.reason) }))
      : record;
    const outcome = limitedResult(stopped, parent?.exceeded);
    this.#finish(usage ? { ...outcome, ...usage } : outcome);
  }

  /** Runs the `afterToolCall` hooks, if there are any, and emits the result. */
  #finish(outcome: ToolResultRecord): void {
    const complete = !outcome.success && TaskComplete.isInstance(this.#cause) ? this.#cause : undefined;
    const result = complete ? completedResult(outcome, complete) : outcome;
    if (this.#deps.hooks.lists.afterToolCall.length === 0) this.#emit(result, unchanged, complete);
    else this.#runHooks(result, complete);
  }

  /** A failure of a hook fails the turn; the result of the tool is still recorded. */
  #runHooks(result: ToolResultRecord, complete: TaskComplete | undefined): void {
    const { started, turn, traceContext } = this;
    const { scope } = this.#batch;
    const tool = this.#tool;
    const ran = { pending: started, tool, arguments: started.intent.arguments, result, thrown: this.#thrownError };
    const failed = (error: unknown) => {
      const fails = failTurn(this.#deps.hooks, error);
      this.#emit({ ...result, fails }, unchanged, complete);
    };
    try {
      let question: AskedHook | undefined;
      const asked = (given: AskedHook) => {
        question = given;
      };
      const changed = changeOutcome(this.#deps, { state: turn.state, traceContext, asked }, ran);
      const give = (given: ChangedOutcome) => this.#emit(given.result, given.records, complete);
      if (!(changed instanceof Promise)) return give(changed);
      // The span of the hook ends before that of the call.
      const leave = () => {
        if (this.#ended) return;
        question?.leave(scope.reason);
        this.#emit(result, unchanged, complete);
      };
      changed.then(give, failed);
      if (scope.aborted) leave();
      else this.#out.add(scope.onAbort(leave));
    } catch (error) {
      failed(error);
    }
  }

  #emit(result: ToolResultRecord, changes: readonly ExtensionRecord[], complete: TaskComplete | undefined): void {
    if (this.#ended) return;
    const records = complete ? this.#withFinish(complete, { result, records: changes }) : changes;
    if (result.success) finishToolSpan(this.#deps.segment.tracing, this.#span, result);
    else this.#noteFailure(result);
    this.#end();
    const thrown = result.success ? undefined : this.#cause;
    const isPlain = records.length === 0 && thrown === undefined;
    this.#out.next(isPlain ? result : { type: 'tool-outcome', result, records, thrown });
  }

  /** Adds the end of the turn (`TaskComplete`), unless an extension or an earlier call ends it. */
  #withFinish({ finalMessage: text }: TaskComplete, { result, records }: ChangedOutcome): readonly ExtensionRecord[] {
    const isEnded = this.turn.state.changes.finish || records.some(({ effects }) => effects?.finish);
    if (isEnded || !result.success || result.fails) return records;
    const finish = { ...(text !== undefined && { text }), reason: 'done' };
    return [...records, { type: 'x.task-complete', effects: { finish } }];
  }

  #noteFailure(result: ToolResultRecord): void {
    if (isCanceled(result)) return cancelSpan(this.#span);
    finishToolSpan(this.#deps.segment.tracing, this.#span, result, this.#cause);
    logFailure(this.#deps, this.started, result, this.#cause);
  }

  #end(): void {
    this.#ended = true;
    this.#scope?.release();
    this.notes?.parent?.end();
    this.#span.end();
  }

  #onRejected(error: unknown): void {
    if (TurnLost.isInstance(error)) this.#onTurnLost(error);
    else this.#settle(this.#thrown(error));
  }

  /** This process lost the child turn. The batch fails; if the turn drains, only this call stays without a result. */
  #onTurnLost(error: TurnLost): void {
    if (!this.#deps.inbox.drain.aborted) return this.#out.error(error);
    this.stop();
    this.#out.next({ type: 'tool-unfinished', callId: this.started.callId });
  }

  #limitTime(): void {
    const ownMs = this.#tool.definition.timeoutMs ?? this.#deps.segment.config.toolTimeoutMs;
    const leftMs = this.#deps.hooks.lists.beforeToolCall.length > 0 ? this.#leftMs : Number.POSITIVE_INFINITY;
    const timeoutMs = Math.min(ownMs > 0 ? ownMs : Number.POSITIVE_INFINITY, leftMs);
    if (timeoutMs === Number.POSITIVE_INFINITY) return;
    this.#timeoutMs = timeoutMs;
    this.#batch.deadlines.set(this, timeoutMs);
  }

  #abort(reason: unknown): void {
    if (this.#scope) this.#scope.abort(reason);
    else this.#aborted ??= { reason };
  }

  get #isAborted(): boolean {
    return this.#aborted !== undefined || (this.#scope ?? this.#batch.scope).aborted;
  }

  #stopTimers(): void {
    if (this.#timeoutMs !== undefined) this.#batch.deadlines.delete(this);
    this.#cancelGrace?.();
    this.#cancelGrace = undefined;
  }

  /** Milliseconds until the deadline that a `beforeToolCall` hook set. */
  get #leftMs(): number {
    const { checked } = this.#deps.unstartedCalls.of(this.started.call);
    const deadline = checked instanceof Promise || checked?.verdict !== 'run' ? undefined : checked.deadline;
    return deadline === undefined ? Number.POSITIVE_INFINITY : Math.max(0, deadline - this.#deps.node.now());
  }

  #resultOf(answer: ToolResult): ToolResultRecord {
    const flaw = resultFlaw(answer);
    if (flaw)
      return DoneSignal.isInstance(answer) ? this.#thrown(new TaskComplete(answer.finalMessage)) : this.#failed(flaw);
    if (answer.success) return this.#succeeded(answer.content);
    const message =
      answer.error ?? (typeof answer.content === 'string' ? answer.content : 'the tool reports a failure');
    const content = answer.content === '' ? `Tool error: ${message}` : answer.content;
    return this.#failedWith(content, { code: 'TOOL_FAILED', message });
  }

  /** What the tool threw, except after its time limit. */
  get #cause(): unknown {
    return this.#timeoutResult ? undefined : this.#thrownError;
  }

  #thrown(error: unknown): ToolResultRecord {
    this.#thrownError = error;
    if (this.#timeoutResult) return this.#timeoutResult;
    const thrown = AgentLoopError.isInstance(error)
      ? thrownError(error)
      : { code: 'TOOL_FAILED' as const, message: `${nameOf(error)}: ${messageOf(error)}` };
    return this.#failed(this.#isAborted ? { ...thrown, code: 'CANCELED' } : thrown, partialText(error));
  }

  #failed(error: ToolError, partial = ''): ToolResultRecord {
    return this.#failedWith(
      `Tool error: ${error.message}${partial === '' ? '' : `\nThe text so far: ${partial}`}`,
      error,
    );
  }

  #failedWith(content: Content, error: ToolError): ToolResultRecord {
    const { callId } = this.started;
    return {
      type: 'tool.result',
      callId,
      content,
      success: false,
      error,
      durationMs: this.#deps.node.now() - this.#startedAt,
    };
  }

  #succeeded(content: Content): ToolResultRecord {
    const { callId } = this.started;
    return { type: 'tool.result', callId, content, success: true, durationMs: this.#deps.node.now() - this.#startedAt };
  }
}

/** Logs a failed call, with what it threw. The message of a failure that the tool returns is content and stays out. */
function logFailure(
  { segment: { turn, config, tracing } }: ToolCallDeps,
  { callId, call }: StartedCall,
  { error }: ToolResultRecord,
  thrown: unknown,
): void {
  const { taskId, agentId } = turn;
  const fields = { taskId, agentId, callId, tool: call.function.name, code: error?.code };
  const cause = thrown === undefined ? {} : { error: exceptionOf(thrown, tracing.redact) };
  config.logger.warn('tool call failed', { ...fields, ...cause });
}

/** The text of a child turn that stopped at its token limit. */
function partialText(error: unknown): string {
  return error instanceof TurnError && error.code === 'LENGTH' ? error.result.text : '';
}
