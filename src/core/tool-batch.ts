import type { Context } from '@opentelemetry/api';
import type { Observable, Subscriber, Subscription } from 'rxjs';
import type { AbortScope } from './abort-scope.ts';
import { AgentLoopError } from './errors.ts';
import { doubtfulCalls, type Settled, settleDoubt } from './in-doubt.ts';
import type { ToolResultRecord, TurnRecord } from './records.ts';
import { commitOf, extendCommit, type Signal, type ToolProgress } from './signals.ts';
import type { LoopState, PendingToolCall } from './state.ts';
import { toolContext } from './tool-context.ts';
import { planStarts } from './tool-plan.ts';
import type { OfferedTool } from './tool-set.ts';
import type { TurnDeps } from './turn-deps.ts';

/** What one call of a batch needs to run. */
export interface ToolCallRun {
  readonly pending: PendingToolCall;
  readonly tool: OfferedTool;
  readonly iteration: number;
  /** Of this call alone; aborted when it shall stop. */
  readonly scope: AbortScope;
}

export interface ToolBatchOptions {
  /** The state with the open batch. */
  readonly state: LoopState;
  readonly out: Subscriber<Signal>;
  readonly run: (run: ToolCallRun) => Observable<ToolResultRecord | ToolProgress>;
  /** The context of the batch's span. */
  readonly traceContext: Context;
  /** Called once, before the batch completes, errors or is left. */
  readonly end: (canceled: boolean) => void;
}

/** The calls of one response on their way: who has a place, what is committed, when nothing is left to wait for. */
export class ToolBatch {
  readonly #deps: TurnDeps;
  readonly #options: ToolBatchOptions;
  /** Aborted with the turn, and when a failed call fails the turn. */
  readonly #scope: AbortScope;
  /** Calls that hold a place; true for one that runs alone. */
  readonly #busy = new Map<string, boolean>();
  /** Calls whose intent is durable and that have not started yet. */
  readonly #ready: PendingToolCall[] = [];
  readonly #runs = new Set<Subscription>();
  #state: LoopState;
  #pumping = false;
  #ended = false;
  #failure: AgentLoopError | undefined;

  constructor(deps: TurnDeps, options: ToolBatchOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#state = options.state;
    this.#scope = deps.scope.child();
  }

  start(): void {
    this.#pumping = true;
    for (const pending of this.#state.pendingToolCalls) {
      if (pending.result) this.#noteFailure(pending.result);
      else if (pending.intent?.epoch === this.#deps.epoch) this.#reserve(pending);
    }
    const doubtful = doubtfulCalls(this.#deps.epoch, this.#state);
    for (const pending of doubtful) this.#busy.set(pending.callId, false);
    for (const pending of doubtful) this.#settleDoubt(pending);
    if (this.#busy.size === 0) this.#write([]);
    this.#pumping = false;
    this.#pump();
  }

  /** Leaves the batch: aborts what runs and drops its results. */
  stop(): void {
    if (this.#ended) return;
    this.#close(true);
    this.#scope.abort(new AgentLoopError('CANCELED', 'The turn was left before its tools ended.'));
    for (const run of this.#runs) run.unsubscribe();
  }

  get #stopping(): boolean {
    return this.#failure !== undefined || this.#scope.aborted;
  }

  #reserve(pending: PendingToolCall): void {
    const tool = this.#deps.tools.byName.get(pending.call.function.name);
    this.#busy.set(pending.callId, tool?.definition.sequential === true);
    this.#ready.push(pending);
  }

  /** Starts what is ready; ends the batch when no call holds a place any more. */
  #pump(): void {
    if (this.#pumping || this.#ended) return;
    this.#pumping = true;
    for (let next = this.#ready.shift(); next; next = this.#ready.shift()) this.#start(next);
    this.#pumping = false;
    if (this.#busy.size > 0) return;
    this.#close(this.#scope.aborted && !this.#failure);
    if (this.#failure) this.#options.out.error(this.#failure);
    else this.#options.out.complete();
  }

  #close(canceled: boolean): void {
    this.#ended = true;
    this.#scope.release();
    this.#options.end(canceled);
  }

  #start(pending: PendingToolCall): void {
    const tool = this.#deps.tools.byName.get(pending.call.function.name);
    if (this.#stopping || !tool) return this.#settle(neverStarted(pending));
    const scope = this.#scope.child();
    const run = this.#options
      .run({ pending, tool, scope, iteration: this.#state.iteration })
      .subscribe((signal) => (signal.type === 'tool.result' ? this.#settle(signal) : this.#options.out.next(signal)));
    this.#runs.add(run);
    run.add(() => this.#runs.delete(run));
  }

  /** A call has its result: it gives its place to the next. */
  #settle(result: ToolResultRecord): void {
    if (this.#ended) return;
    this.#busy.delete(result.callId);
    this.#noteFailure(result);
    this.#write([result]);
    this.#pump();
  }

  #noteFailure({ success, error }: ToolResultRecord): void {
    if (success || this.#failure || this.#scope.aborted || this.#deps.config.toolFailureMode !== 'fail') return;
    const { code, message } = error ?? { code: 'TOOL_FAILED' as const, message: 'a tool failed' };
    this.#failure = new AgentLoopError(code, message, { taskId: this.#deps.turn.taskId });
    this.#scope.abort(this.#failure);
  }

  /** Commits records, together with the intents of the calls that get a place now. */
  #write(records: readonly TurnRecord[]): void {
    const written = commitOf(this.#deps, this.#state, records);
    const plan = this.#stopping ? undefined : planStarts(this.#deps, written.after, this.#busy);
    const commit = extendCommit(this.#deps, written, plan?.records ?? []);
    this.#state = commit.after;
    for (const { pending, done } of plan?.checks ?? []) {
      this.#busy.set(pending.callId, false);
      void done.then(() => this.#free(pending));
    }
    for (const record of plan?.records ?? []) if (record.type === 'tool.result') this.#noteFailure(record);
    if (commit.steps.length > 0)
      this.#emit(commit, plan?.records.filter((record) => record.type === 'tool.intent') ?? []);
  }

  #emit(commit: ReturnType<typeof commitOf>, intents: readonly { readonly callId: string }[]): void {
    if (intents.length === 0) return this.#options.out.next(commit);
    const started = commit.after.pendingToolCalls.filter(({ callId }) =>
      intents.some((each) => each.callId === callId),
    );
    for (const { callId } of started) this.#busy.set(callId, false);
    const durable = () => {
      for (const pending of started) this.#reserve(pending);
      this.#pump();
    };
    this.#options.out.next({ ...commit, barrier: true, durable });
  }

  /** Takes a call's place away and plans again. */
  #free(pending: PendingToolCall): void {
    if (this.#ended) return;
    this.#busy.delete(pending.callId);
    this.#write([]);
    this.#pump();
  }

  #settleDoubt(pending: PendingToolCall): void {
    const { traceContext, out } = this.#options;
    const toolName = pending.call.function.name;
    const context = toolContext(this.#deps, {
      pending,
      iteration: this.#state.iteration,
      scope: this.#scope,
      traceContext,
      progress: (update) => out.next({ type: 'tool-progress', callId: pending.callId, toolName, update }),
    });
    const act = (settled: Settled) => (settled === 'run' ? this.#free(pending) : this.#settle(settled));
    const settled = settleDoubt(this.#deps, pending, context);
    if (settled instanceof Promise) void settled.then(act);
    else act(settled);
  }
}

/** The result of a call whose intent is durable and that was never started, because the turn was stopped first. */
function neverStarted(pending: PendingToolCall): ToolResultRecord {
  const message = 'the turn was stopped before this call started';
  return {
    type: 'tool.result',
    callId: pending.callId,
    content: `Tool error: ${message}`,
    success: false,
    error: { code: 'CANCELED', message },
    durationMs: 0,
  };
}
