import type { Context } from '@opentelemetry/api';
import { isObservable, type Observable, type Subscriber, type Subscription } from 'rxjs';
import type { AbortScope } from './abort-scope.ts';
import { CallChecks } from './call-checks.ts';
import { CallContext } from './call-context.ts';
import { AgentLoopError } from './errors.ts';
import { doubtfulCalls, type Settled, settleDoubt, unknownOutcome } from './in-doubt.ts';
import { DirectSubscriber } from './operators/direct-subscriber.ts';
import type { ExtensionRecord, Question, ToolResultRecord, TurnAnswered, TurnAsked } from './records.ts';
import { takeReply } from './replies.ts';
import { failed } from './response.ts';
import { CommitDraft, type Signal, type ToolProgress } from './signals.ts';
import { type LoopState, openCallIndex, type PendingToolCall } from './state.ts';
import { planStarts, type StartedCall } from './tool-plan.ts';
import { failureBy, refusedCall } from './tool-results.ts';
import type { OfferedTool } from './tool-set.ts';
import type { TurnDeps } from './turn-deps.ts';

/** What one call of a batch needs to run. */
export interface ToolCallRun {
  readonly started: StartedCall;
  readonly tool: OfferedTool;
  readonly iteration: number;
  /** The turn as it is when that is read. */
  readonly state: () => LoopState;
  /** Of this call alone; aborted when it shall stop. */
  readonly scope: AbortScope;
  /** Of the batch: once it is aborted nobody waits for extensions any more. */
  readonly batch: AbortScope;
}

/** The result of a call, and what extensions changed with it. */
export interface ToolOutcome {
  readonly type: 'tool-outcome';
  readonly result: ToolResultRecord;
  readonly records: readonly ExtensionRecord[];
}

/** What comes of a running call: signs of life, then its result or a question. */
export type ToolSignal = ToolProgress | ToolResultRecord | ToolOutcome | TurnAsked;

export interface ToolBatchOptions {
  /** The state with the open batch. */
  readonly state: LoopState;
  readonly out: Subscriber<Signal>;
  readonly run: (run: ToolCallRun) => Observable<ToolSignal>;
  /** The context of the batch's span. */
  readonly traceContext: Context;
  /** Called with each question, before it is shown. */
  readonly onAsked: (question: Question) => void;
  /** Called once, before the batch completes, errors or is left. */
  readonly end: (canceled: boolean) => void;
}

const noStarts: readonly StartedCall[] = [];
const neverStarted = { code: 'CANCELED', message: 'the turn was stopped before this call started' } as const;

/** The calls of one response on their way: who has a place, what is committed, when nothing is left to wait for. */
export class ToolBatch {
  readonly #deps: TurnDeps;
  readonly #options: ToolBatchOptions;
  /** Aborted with the turn, and when a failed call fails the turn. */
  readonly #scope: AbortScope;
  /** Calls that hold a place. */
  readonly #busy = new Set<string>();
  /** Calls whose intent is durable and that have not started yet. */
  #ready: StartedCall[] = [];
  /** What runs, by call. */
  readonly #runs = new Map<string, Subscription>();
  /** Of every call that runs. */
  readonly #observer = {
    next: (signal: ToolSignal) => this.#take(signal),
    error: (error: unknown) => this.#options.out.error(error),
    complete: () => {},
  };
  /** Calls that hold a place while they are being checked. A cancel does not wait for them. */
  readonly #checking: CallChecks;
  readonly #stopListening: () => void;
  readonly #stateNow = () => this.#state;
  #state: LoopState;
  /** The call that runs alone, where one does. */
  #alone: string | undefined;
  /** The index of the first call that may still want a place. */
  #from = 0;
  #pumping = false;
  /** Appends with questions that nobody has seen yet. */
  #unseen = 0;
  #ended = false;
  #failure: AgentLoopError | undefined;
  #cancelDrain: (() => void) | undefined;

  constructor(deps: TurnDeps, options: ToolBatchOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#state = options.state;
    this.#scope = deps.scope.child();
    this.#checking = new CallChecks(deps, (refused) => this.#settle(refused));
    this.#scope.onAbort(() => this.#stopChecking());
    this.#stopListening = deps.drain.onAbort(() => this.#drain());
    deps.inbox.onReply(() => this.#takeReplies());
  }

  start(): void {
    this.#pumping = true;
    const results = this.#state.pendingToolCalls.flatMap(({ result }) => result ?? []);
    // In the order in which they were recorded: with several, the first one fails the turn.
    for (const result of results.sort((one, other) => one.seq - other.seq)) this.#noteFailure(result);
    for (const { callId, call, intent, answers, result } of this.#state.pendingToolCalls) {
      if (!result && intent?.epoch === this.#deps.epoch) this.#admit({ callId, call, intent, answers });
    }
    this.#takeReplies();
    const doubtful = doubtfulCalls(this.#deps.epoch, this.#state).filter(({ callId }) => !this.#busy.has(callId));
    for (const { callId } of doubtful) this.#busy.add(callId);
    for (const pending of doubtful) this.#settleDoubt(pending);
    if (this.#busy.size < this.#state.pendingToolCalls.length) this.#write();
    this.#pumping = false;
    this.#pump();
  }

  /** Leaves the batch: aborts what runs and drops its results. */
  stop(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#scope.abort(new AgentLoopError('CANCELED', 'The turn was left before its tools ended.'));
    for (const run of this.#runs.values()) run.unsubscribe();
    this.#close(true);
  }

  get #stopping(): boolean {
    return this.#failure !== undefined || this.#scope.aborted;
  }

  /** A call whose intent is durable by now. */
  #admit(started: StartedCall): void {
    this.#busy.add(started.callId);
    const tool = this.#deps.tools.byName.get(started.call.function.name);
    if (tool?.definition.sequential) this.#alone = started.callId;
    this.#ready.push(started);
  }

  /**
   * Starts what is ready, none while somebody else may own the turn: then it waits for a renewal of the lease, which that refuses. Ends
   * the batch when no call holds a place any more.
   */
  #pump(): void {
    if (this.#pumping || this.#ended) return;
    this.#pumping = true;
    let next = 0;
    for (; next < this.#ready.length && this.#mayStart; next++) this.#start(this.#ready[next] as StartedCall);
    if (next > 0) this.#ready = this.#ready.slice(next);
    this.#pumping = false;
    if (this.#ready.length > 0) return this.#deps.hold?.afterRenewal(() => this.#pump());
    if (this.#busy.size > 0 || this.#unseen > 0) return;
    this.#close(this.#scope.aborted && !this.#failure);
    if (this.#failure && !this.#state.outcome) this.#options.out.error(this.#failure);
    else this.#options.out.complete();
  }

  /** A call that is stopped does not start, so it need not wait. */
  get #mayStart(): boolean {
    return this.#deps.hold === undefined || this.#deps.hold.isSure || this.#stopping;
  }

  #close(canceled: boolean): void {
    this.#ended = true;
    this.#scope.release();
    this.#stopListening();
    this.#cancelDrain?.();
    this.#deps.inbox.onReply(undefined);
    this.#options.end(canceled);
  }

  #start(started: StartedCall): void {
    const tool = this.#deps.tools.byName.get(started.call.function.name);
    if (this.#stopping || !tool) return this.#settle(refusedCall(started.callId, neverStarted));
    const scope = this.#scope.child();
    const running = new DirectSubscriber(this.#observer);
    this.#runs.set(started.callId, running);
    this.#options
      .run({ started, tool, scope, batch: this.#scope, iteration: this.#state.iteration, state: this.#stateNow })
      .subscribe(running);
  }

  #take(signal: ToolSignal): void {
    if (signal.type === 'tool-progress') this.#options.out.next(signal);
    else if (signal.type === 'tool-outcome') this.#settle(signal.result, signal.records);
    else this.#settle(signal);
  }

  /** Running calls get their time to end; the others are left to the next owner of the turn. */
  #drain(): void {
    const { clock, abortGraceMs } = this.#deps.config;
    this.#cancelDrain = clock.schedule(abortGraceMs, () => {
      this.stop();
      this.#options.out.complete();
    });
    this.#stopChecking();
  }

  #takeReplies(): void {
    for (let record = this.#reply(); record; record = this.#reply()) this.#answered(record);
  }

  #reply(): TurnAnswered | undefined {
    return takeReply(this.#deps, this.#state);
  }

  /** A call has its answer: it may go on. One in doubt is settled by it. */
  #answered(record: TurnAnswered): void {
    const index = openCallIndex(this.#state, record.callId);
    const inDoubt = this.#state.pendingToolCalls[index]?.intent !== undefined;
    if (inDoubt) this.#busy.add(record.callId);
    this.#from = Math.min(this.#from, index);
    const asked = this.#state.pendingToolCalls[index];
    // Extensions are asked again, as they are where another process goes on with the answer.
    if (asked) this.#deps.checks.delete(asked.call);
    this.#write(record);
    const pending = this.#state.pendingToolCalls[index];
    if (inDoubt && pending) this.#settleDoubt(pending);
    this.#pump();
  }

  #stopChecking(): void {
    for (const callId of this.#checking.leave()) this.#busy.delete(callId);
    if (!this.#failure) this.#pump();
  }

  /** A call has its result, or asks: it gives its place to the next. */
  #settle(record: ToolResultRecord | TurnAsked, changes: readonly ExtensionRecord[] = []): void {
    if (this.#ended) return;
    const callId = record.type === 'tool.result' ? record.callId : record.question.callId;
    this.#runs.delete(callId);
    this.#busy.delete(callId);
    if (this.#alone === callId) this.#alone = undefined;
    if (record.type === 'tool.result') this.#noteFailure(record);
    this.#write(record, ...changes);
    this.#pump();
  }

  #noteFailure(result: ToolResultRecord): void {
    const failure = failureBy(result, this.#deps.config.toolFailureMode);
    if (!failure || this.#stopping) return;
    const { code, message, reason } = failure;
    const said = result.fails && this.#deps.hooks.failure;
    this.#failure = said ?? new AgentLoopError(code, message, { reason, taskId: this.#deps.turn.taskId });
    this.#scope.abort(this.#failure);
  }

  /**
   * Commits what became of a call, together with the intents of the calls that get a place now. The batch does not end before its
   * questions were shown, for whoever sees one may answer it there and then.
   */
  #write(...records: readonly (ToolResultRecord | TurnAsked | TurnAnswered | ExtensionRecord)[]): void {
    const draft = new CommitDraft(this.#deps, this.#state);
    for (const record of records) draft.add(record);
    const starts = this.#stopping || draft.after.phase !== 'tools' ? noStarts : this.#plan(draft);
    const cause = this.#failure;
    // In one append with the last result: behind a crash between the two, the turn would go on.
    if (cause && draft.after.phase === 'closed') draft.add(failed(cause.code, cause.message, cause.reason));
    this.#state = draft.after;
    const { steps, after } = draft;
    if (steps.length === 0) return;
    const asks = steps.some((step) => step.record.type === 'turn.asked');
    if (asks)
      for (const step of steps) if (step.record.type === 'turn.asked') this.#options.onAsked(step.record.question);
    if (after.outcome) {
      this.#deps.inbox.close();
      return this.#options.out.next({ type: 'commit', steps, after, barrier: true, cause });
    }
    if (starts.length === 0 && !asks) return this.#options.out.next({ type: 'commit', steps, after, barrier: false });
    if (asks) this.#unseen++;
    const durable = () => {
      if (asks) this.#unseen--;
      for (const started of starts) this.#ready.push(started);
      this.#pump();
    };
    this.#options.out.next({ type: 'commit', steps, after, barrier: true, durable });
  }

  /** Adds to an append what comes next, and gives the calls behind it their places. */
  #plan(draft: CommitDraft): readonly StartedCall[] {
    const places = { busy: this.#busy, alone: this.#alone !== undefined, from: this.#from };
    const { traceContext } = this.#options;
    const plan = planStarts(this.#deps, { state: draft.after, traceContext }, places);
    for (const record of plan.records) if (record.type === 'tool.result') this.#noteFailure(record);
    const failed = this.#failure !== undefined;
    for (const record of plan.records) if (!failed || record.type === 'tool.result') draft.add(record);
    if (failed) return noStarts;
    this.#from = plan.next;
    if (plan.alone) this.#alone = plan.starts.at(-1)?.callId;
    for (const { callId } of plan.starts) this.#busy.add(callId);
    for (const { pending, done } of plan.checks) {
      this.#busy.add(pending.callId);
      this.#checking.add(pending);
      void done.then(() => this.#checking.has(pending.callId) && this.#free(pending));
    }
    return plan.starts;
  }

  /** Takes a call's place away and plans again, from that call on. */
  #free(pending: PendingToolCall): void {
    if (this.#ended) return;
    this.#runs.delete(pending.callId);
    this.#busy.delete(pending.callId);
    this.#checking.end(pending.callId);
    this.#from = Math.min(
      this.#from,
      this.#state.pendingToolCalls.findIndex((each) => each.callId === pending.callId),
    );
    this.#write();
    this.#pump();
  }

  #settleDoubt(pending: PendingToolCall): void {
    const { traceContext, out } = this.#options;
    const toolName = pending.call.function.name;
    const scope = this.#scope.child();
    const context = new CallContext(this.#deps, {
      started: pending,
      iteration: this.#state.iteration,
      scope,
      traceContext,
      progress: (update) => out.next({ type: 'tool-progress', callId: pending.callId, toolName, update }),
    });
    const act = (settled: Settled) => {
      if (settled === 'run') return this.#free(pending);
      const mayAsk = settled.type === 'tool.result' || !this.#failure;
      this.#settle(mayAsk ? settled : unknownOutcome(pending));
    };
    const settled = settleDoubt(this.#deps, { pending, context, scope });
    if (!isObservable(settled)) return act(settled);
    const run = settled.subscribe(act);
    this.#runs.set(pending.callId, run);
    run.add(() => scope.release());
  }
}
