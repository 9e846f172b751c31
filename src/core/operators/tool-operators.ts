import { context as activeContext, type Context } from '@opentelemetry/api';
import { Observable, type Subscriber } from 'rxjs';
import { finishToolSpan, startToolSpan } from '../../observability/spans/tool-span.ts';
import { noteQuestion, startToolsSpan } from '../../observability/spans/tools-span.ts';
import { cancelSpan, exceptionOf } from '../../observability/spans/tracing-options.ts';
import type { ToolResult } from '../../tools/interfaces.ts';
import { CallContext } from '../call-context.ts';
import { type ChangedOutcome, changeOutcome } from '../change-tool-call.ts';
import { leftReason, TurnLost } from '../child-turns.ts';
import { AgentLoopError, type ErrorCode, messageOf, nameOf } from '../errors.ts';
import type { AgentEvent } from '../events.ts';
import type { ReachedLimit } from '../extension.ts';
import { failTurn } from '../hooks.ts';
import type { Content } from '../messages.ts';
import { isPromiseLike } from '../promise-like.ts';
import type { Question, ToolResultRecord } from '../records.ts';
import type { Signal } from '../signals.ts';
import { type LoopState, openQuestions } from '../state.ts';
import { DoneSignal, TaskComplete } from '../task-complete.ts';
import { CallPipe, MergedBatch, type ToolBatchOptions, type ToolCallRun, type ToolSignal } from '../tool-batch.ts';
import type { TurnDeps } from '../turn-deps.ts';
import { DirectSubscriber } from './direct-subscriber.ts';
import { type FusibleOperator, operate } from './operate.ts';

/**
 * Runs the calls of a response once its commit is durable, and passes everything on. Completes when the source has and every
 * call has its result, or, where the turn is cancelled or pauses, when none runs any more.
 * `pipe`: of the loop; default: one of its own.
 */
export function runToolCalls(deps: TurnDeps, traceContext: Context, pipe?: CallPipe): FusibleOperator<Signal, Signal> {
  const execute = executeTools(deps, traceContext, pipe);
  return operate((to) => {
    let open = 1;
    const close = () => {
      if (--open === 0) to.complete();
    };
    return {
      next(signal) {
        if (signal.type !== 'commit' || signal.after.phase !== 'tools') return to.next(signal);
        open++;
        const { steps, after, barrier } = signal;
        const durable = () => {
          if (to.closed) return;
          const batch = new DirectSubscriber<Signal>({
            next: (each) => to.next(each),
            error: (error) => to.error(error),
            complete: close,
          });
          to.add(() => batch.unsubscribe());
          execute(after).subscribe(batch);
        };
        to.next({ type: 'commit', steps, after, barrier, durable });
      },
      complete: close,
    };
  });
}

/**
 * The open batch of a state: calls with an intent run at once, the others as places get free; each result is committed the moment
 * it is there, together with the intents of the calls that take the place. On cancel no call starts, running ones have
 * `abortGraceMs` to stop, and the batch completes with their results. Unsubscribing aborts all of them and drops their results.
 */
export function executeTools(
  deps: TurnDeps,
  traceContext: Context,
  pipe?: CallPipe,
): (state: LoopState) => Observable<Signal> {
  return (state) =>
    new Observable((subscriber) => {
      const { span, traceContext: batchContext } = startToolsSpan(deps.tracing, traceContext);
      const end = (canceled: boolean) => {
        if (canceled) cancelSpan(span);
        span.end();
      };
      const run: ToolBatchOptions['run'] = (call, out) => new RunningTool(deps, call, out).start(batchContext);
      const onAsked = (asked: Question) => noteQuestion(span, asked);
      openQuestions(state).forEach(onAsked);
      const own = pipe ?? new CallPipe(deps.config.toolConcurrency);
      const batch = new MergedBatch(deps, {
        state,
        out: subscriber,
        pipe: own,
        run,
        traceContext: batchContext,
        onAsked,
        end,
      });
      subscriber.add(() => batch.stop());
      batch.start();
    });
}

/**
 * Runs one call in its `tool[name]` span: signs of life, then exactly one result, also for a throw (`Tool error: <name>:
 * <message>`), a timeout (its signal is aborted), and a cancelled call that does not stop within `abortGraceMs`. Never errors.
 * Unsubscribing aborts the call's signal.
 */
export function runTool(deps: TurnDeps, traceContext: Context): (run: ToolCallRun) => Observable<ToolSignal> {
  return (run) => new Observable((subscriber) => new RunningTool(deps, run, subscriber).start(traceContext));
}

/** One call from its start to its one result. */
class RunningTool {
  readonly #deps: TurnDeps;
  readonly #run: ToolCallRun;
  readonly #out: Subscriber<ToolSignal>;
  readonly #startedAt: number;
  #thrownError: unknown;
  #cancelTimeout: (() => void) | undefined;
  /** The result of a call that ran into its time limit. */
  #late: ToolResultRecord | undefined;

  constructor(deps: TurnDeps, run: ToolCallRun, out: Subscriber<ToolSignal>) {
    this.#deps = deps;
    this.#run = run;
    this.#out = out;
    this.#startedAt = deps.now();
  }

  start(parent: Context): void {
    const { started, scope, tool, iteration } = this.#run;
    const { callId } = started;
    const call = { callId, call: started.call, arguments: started.intent.arguments };
    const { span, traceContext } = startToolSpan(this.#deps.tracing, call, parent);
    let ended = false;
    const end = (result?: ToolResultRecord) => {
      ended = true;
      scope.release();
      context.parentTurn?.end();
      if (result === undefined || isCanceled(result)) cancelSpan(span);
      else if (context.asked) noteQuestion(span, context.asked);
      else {
        finishToolSpan(this.#deps.tracing, span, { ...result, thrown: this.#cause });
        if (!result.success) logFailure(this.#deps, this.#run, result, this.#cause);
      }
      span.end();
    };
    this.#out.add(() => {
      if (ended) return;
      scope.abort(leftReason(this.#deps.turn.taskId));
      end();
    });
    let settled = false;
    const give = ({ result, records }: ChangedOutcome) => {
      if (ended) return;
      end(result);
      const thrown = result.success ? undefined : this.#cause;
      const isPlain = records.length === 0 && thrown === undefined;
      this.#out.next(isPlain ? result : { type: 'tool-outcome', result, records, thrown });
      this.#out.complete();
    };
    const settle = (record: ToolResultRecord) => {
      if (ended || settled) return;
      settled = true;
      this.#cancelTimeout?.();
      const { asked } = context;
      const told = context.told;
      const waits = asked && !scope.aborted ? { type: 'turn.asked' as const, question: asked, ...told } : undefined;
      if (waits) scope.abort(new AgentLoopError('CANCELED', 'The call waits for an answer.'));
      if (!waits) {
        const stopped = asked ? (this.#late ?? this.#failed('CANCELED', messageOf(scope.reason))) : record;
        return this.#changed(withUsage(limited(stopped, context.parentTurn?.exceeded), told), traceContext, give);
      }
      end(record);
      this.#out.next(waits);
      this.#out.complete();
    };
    const progress = (update: unknown) => {
      this.#out.next({ type: 'tool-progress', callId, toolName: tool.definition.function.name, update });
    };
    const show = (event: AgentEvent, childAgentId: string) => this.#show(event, childAgentId);
    const { state } = this.#run;
    const context = new CallContext(this.#deps, { started, iteration, scope, traceContext, progress, show, state });
    this.#answer(context, settle);
  }

  /** Shows an event of the child turn, with the way to it. */
  #show(event: AgentEvent, childAgentId: string): void {
    const { subAgentEvents } = this.#deps.config;
    const isNested = event.kind === 'internal:sub-agent';
    const own = isNested ? event.event : event;
    if (subAgentEvents === 'none' || (subAgentEvents === 'records' && own.cursor === undefined)) return;
    const { callId } = this.#run.started;
    const step = { agentId: childAgentId, taskId: event.taskId, callId };
    this.#out.next({ type: 'sub-agent', path: isNested ? [step, ...event.path] : [step], event: own });
  }

  /** Asks the extensions what becomes of the outcome. A failure of one fails the turn; what the tool did is recorded all the same. */
  #changed(outcome: ToolResultRecord, traceContext: Context, pass: (changed: ChangedOutcome) => void): void {
    const complete = !outcome.success && TaskComplete.isInstance(this.#cause) ? this.#cause : undefined;
    const result = complete ? completed(outcome, complete) : outcome;
    const give = complete ? (changed: ChangedOutcome) => pass(this.#ending(complete, changed)) : pass;
    if (this.#deps.hooks.lists.afterToolCall.length === 0) return give({ result, records: [] });
    const { started, tool, state, batch } = this.#run;
    const ran = { pending: started, tool, arguments: started.intent.arguments, result, thrown: this.#thrownError };
    const failed = (error: unknown) => {
      const fails = failTurn(this.#deps.hooks, error);
      give({ result: { ...result, fails }, records: [] });
    };
    try {
      const changed = changeOutcome(this.#deps, { state: state(), traceContext }, ran);
      if (!(changed instanceof Promise)) return give(changed);
      const leave = () => give({ result, records: [] });
      changed.then(give, failed);
      if (batch.aborted) leave();
      else this.#out.add(batch.onAbort(leave));
    } catch (error) {
      failed(error);
    }
  }

  /** The tool ends the turn, unless an extension, or a call before it, has ended it otherwise. */
  #ending({ finalMessage: text }: TaskComplete, { result, records }: ChangedOutcome): ChangedOutcome {
    const isEnded = this.#run.state().changes.finish || records.some(({ effects }) => effects?.finish);
    if (isEnded || !result.success || result.fails) return { result, records };
    const finish = { ...(text !== undefined && { text }), reason: 'done' };
    return { result, records: [...records, { type: 'x.task-complete', effects: { finish } }] };
  }

  /** Calls the tool. A synchronous answer settles at once, without a timer. */
  #answer(context: CallContext, settle: (record: ToolResultRecord) => void): void {
    const { tool, started } = this.#run;
    try {
      const call = () => tool.provider.executeTool(started.call, context);
      const answer = activeContext.with(context.traceContext, call);
      if (!isPromiseLike(answer)) return settle(this.#resultOf(answer));
      this.#limitTime(settle);
      answer.then(
        (result) => settle(this.#resultOf(result)),
        (error: unknown) => {
          if (TurnLost.isInstance(error)) this.#lose(error);
          else settle(this.#thrown(error));
        },
      );
    } catch (error) {
      settle(this.#thrown(error));
    }
  }

  /** The call has no result here. In a process that shuts down the other calls may still get theirs. */
  #lose(error: TurnLost): void {
    if (!this.#deps.drain.aborted) return this.#out.error(error);
    this.#out.next({ type: 'tool-left', callId: this.#run.started.callId });
    this.#out.complete();
  }

  #limitTime(settle: (record: ToolResultRecord) => void): void {
    const { scope, tool, started } = this.#run;
    const { clock, abortGraceMs, toolTimeoutMs } = this.#deps.config;
    const ownMs = tool.definition.timeoutMs ?? toolTimeoutMs;
    const timeoutMs = Math.min(ownMs > 0 ? ownMs : Number.POSITIVE_INFINITY, this.#leftMs);
    if (timeoutMs < Number.POSITIVE_INFINITY) {
      const cancelTimeout = clock.schedule(timeoutMs, () => {
        this.#late = this.#failed('TOOL_TIMEOUT', `the tool did not answer within ${timeoutMs} ms`);
        // A child turn is cancelled first: its end is in the journal before the result of the call.
        if (!started.intent.child) settle(this.#late);
        scope.abort(new AgentLoopError('TOOL_TIMEOUT', `The call ran into its limit of ${timeoutMs} ms.`));
      });
      this.#cancelTimeout = cancelTimeout;
      this.#out.add(cancelTimeout);
    }
    if (started.intent.child) return;
    const onAbort = () => {
      const abandon = () =>
        settle(this.#failed('TOOL_ABANDONED', `the tool did not stop within ${abortGraceMs} ms of the cancel`));
      this.#out.add(clock.schedule(abortGraceMs, abandon));
    };
    if (scope.aborted) onAbort();
    else this.#out.add(scope.onAbort(onAbort));
  }

  /** What an extension left it. Milliseconds. */
  get #leftMs(): number {
    const checked = this.#deps.checks.get(this.#run.started.call);
    const deadline = checked instanceof Promise || checked?.verdict !== 'run' ? undefined : checked.deadline;
    return deadline === undefined ? Number.POSITIVE_INFINITY : Math.max(0, deadline - this.#deps.now());
  }

  #resultOf(answer: ToolResult): ToolResultRecord {
    if (!isToolResult(answer)) {
      if (DoneSignal.isInstance(answer)) return this.#thrown(new TaskComplete(answer.finalMessage));
      return this.#failed(
        'TOOL_FAILED',
        'the tool provider returned no ToolResult; return { toolCallId, content, success }',
      );
    }
    const tooLarge = sizeFlaw(answer.content);
    if (tooLarge !== undefined) return this.#failed('TOOL_TOO_LARGE', tooLarge);
    if (answer.success) return this.#record({ content: answer.content, success: true });
    const message =
      answer.error ?? (typeof answer.content === 'string' ? answer.content : 'the tool reports a failure');
    const content = answer.content === '' ? `Tool error: ${message}` : answer.content;
    return this.#record({ content, success: false, error: { code: 'TOOL_FAILED', message } });
  }

  /** What the call failed by, where that was thrown; what a tool throws because its time is over is not. */
  get #cause(): unknown {
    return this.#late ? undefined : this.#thrownError;
  }

  #thrown(error: unknown): ToolResultRecord {
    this.#thrownError = error;
    if (this.#late) return this.#late;
    const code = this.#run.scope.aborted ? 'CANCELED' : codeOf(error);
    return this.#failed(
      code,
      AgentLoopError.isInstance(error) ? error.message : `${nameOf(error)}: ${messageOf(error)}`,
    );
  }

  #failed(code: ErrorCode, message: string): ToolResultRecord {
    return this.#record({ content: `Tool error: ${message}`, success: false, error: { code, message } });
  }

  #record(result: Pick<ToolResultRecord, 'content' | 'success' | 'error'>): ToolResultRecord {
    const { callId } = this.#run.started;
    return { type: 'tool.result', callId, ...result, durationMs: this.#deps.now() - this.#startedAt };
  }
}

/** A call that ends the turn has succeeded. */
function completed({ error: _, ...outcome }: ToolResultRecord, { message }: TaskComplete): ToolResultRecord {
  return { ...outcome, content: message, success: true };
}

/** Says of a failed call which one it is and what it threw; what a tool returns as its failure is content. */
function logFailure(
  { turn, config, tracing }: TurnDeps,
  { started: { callId, call } }: ToolCallRun,
  { error }: ToolResultRecord,
  thrown: unknown,
): void {
  const { taskId, agentId } = turn;
  const fields = { taskId, agentId, callId, tool: call.function.name, code: error?.code };
  const cause = thrown === undefined ? {} : { error: exceptionOf(thrown, tracing.redact) };
  config.logger.warn('tool call failed', { ...fields, ...cause });
}

function withUsage(
  record: ToolResultRecord,
  told: Pick<ToolResultRecord, 'usage' | 'usageBy'> | undefined,
): ToolResultRecord {
  return told ? { ...record, ...told } : record;
}

/** The result of a call that was cancelled because a limit of the turn is reached. */
function limited(record: ToolResultRecord, reached: ReachedLimit | undefined): ToolResultRecord {
  if (!reached) return record;
  const { code, message, reason = code.toLowerCase(), fails } = reached;
  const error = { code, message };
  const result = { ...record, content: `Tool error: ${message}`, success: false, error };
  return fails ? { ...result, fails: { code, message, reason } } : result;
}

const maxResultBytes = 8 * 1024 * 1024;

/** Says that a result is too large for the journal. */
function sizeFlaw(content: Content): string | undefined {
  const length = typeof content === 'string' ? content.length : undefined;
  if (length !== undefined && length * 3 <= maxResultBytes) return undefined;
  const bytes = Buffer.byteLength(typeof content === 'string' ? content : JSON.stringify(content));
  if (bytes <= maxResultBytes) return undefined;
  return `the result has ${bytes} bytes, more than the ${maxResultBytes} that a turn keeps; return a part of it, or where it can be found`;
}

function codeOf(error: unknown): ErrorCode {
  return AgentLoopError.isInstance(error) ? error.code : 'TOOL_FAILED';
}

function isCanceled(result: ToolResultRecord): boolean {
  return result.error?.code === 'CANCELED' || result.error?.code === 'TOOL_ABANDONED';
}

function isToolResult(answer: ToolResult): boolean {
  const content: unknown = answer?.content;
  return typeof content === 'string' || Array.isArray(content);
}
