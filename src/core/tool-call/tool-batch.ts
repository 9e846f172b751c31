import type { Context, Span } from '@opentelemetry/api';
import { isObservable, type Subscriber, Subscription } from 'rxjs';
import { noteQuestion, startToolsSpan } from '../../observability/spans/call-spans.ts';
import { cancelSpan } from '../../observability/spans/tracing-options.ts';
import { AgentLoopError, toolError } from '../contracts/index.ts';
import { agentChange } from '../hooks/record-of-change.ts';
import {
  CommitDraft,
  type ExtensionRecord,
  type LoopState,
  openCallIndex,
  openQuestions,
  type PendingToolCall,
  type ToolResultRecord,
  type TurnAnswered,
  type TurnAsked,
} from '../journal/index.ts';
import { failed } from '../model-call/response.ts';
import { leftReason } from '../ownership/child-turns.ts';
import { takeReply } from '../ownership/inbox.ts';
import type { AbortListener, AbortScope } from '../streams/index.ts';
import { type BatchOwner, CallPipe, noStarts, type PipedBatch, type PlacedCall } from './call-pipe.ts';
import { type Settled, settleDoubt, unknownOutcome } from './doubt.ts';
import { type CallBatch, RunningTool, type ToolSignal } from './running-tool.ts';
import {
  isSequential,
  isStarted,
  openCalls,
  type PlannedRecord,
  planWithoutPlace,
  recordBranchesOf,
} from './tool-plan.ts';
import { failureBy, refusedCall, type ToolCallDeps } from './tool-results.ts';

interface ToolBatchOptions {
  /** The state with the open batch. */
  readonly state: LoopState;
  readonly owner: BatchOwner;
  /** Of the loop that the batch belongs to. Default: one of its own. */
  readonly pipe: CallPipe | undefined;
  /** The parent of the batch's span. */
  readonly traceContext: Context;
}

/**
 * Runs the calls of one response: `calls$.pipe(mergeMap(runCall, toolConcurrency))`.
 *
 * The inner Observable of a call is its place: it completes when the call has its result or asks. `mergeMap` then subscribes to the
 * next call synchronously, so the intent of that call is in one append with the result. A call with a place waits in the
 * pipe until the next append; it starts once that append is durable. Only what needs no place is planned beside the pipe, from the state.
 */
export class MergedBatch implements PipedBatch, AbortListener {
  readonly #deps: ToolCallDeps;
  /** After the last commit. */
  state: LoopState;
  readonly #owner: BatchOwner;
  /** `tools.execute`. */
  readonly #span: Span;
  /** Aborted with the turn, and when a failed call fails the turn. */
  readonly #scope: AbortScope;
  /** What its calls run with. */
  readonly #batch: CallBatch;
  /** Gives the open calls their places, by index; a call that was answered comes again. */
  readonly #pipe: CallPipe;
  /** Tools that are asked about calls in doubt. */
  #asked: Subscription | undefined;
  /** Calls in doubt that have a place and that nobody has asked about yet. */
  readonly #doubts: PlacedCall[] = [];
  /** Calls whose doubt is over: they run again. */
  #repeats: Set<string> | undefined;
  /** Calls whose intent is durable and that have not started yet. */
  #ready: PlacedCall[] = [];
  /** Whether the process shuts down, and the batch knows. */
  #draining: boolean;
  #pumping = false;
  /** Appends with questions that nobody has seen yet. */
  #unseen = 0;
  #ended = false;
  #failure: AgentLoopError | undefined;
  #cancelDrain: (() => void) | undefined;

  constructor(deps: ToolCallDeps, { state, owner, pipe, traceContext }: ToolBatchOptions) {
    this.#deps = deps;
    this.#owner = owner;
    this.state = state;
    const { span, traceContext: inner } = startToolsSpan(deps.tracing, traceContext);
    this.#span = span;
    if (span.isRecording()) for (const question of openQuestions(state)) noteQuestion(span, question);
    this.#scope = deps.scope.child();
    this.#scope.listen(this);
    this.#draining = !deps.drain.listen(this);
    deps.inbox.onReply(() => this.#takeReplies());
    this.#pipe = pipe ?? new CallPipe(deps);
    this.#batch = { turn: this, scope: this.#scope, deadlines: this.#pipe.deadlines, traceContext: inner };
    this.#pipe.begin(this);
  }

  start(): void {
    this.#pumping = true;
    const { calls, openCalls: open } = this.state;
    const results = open === calls.length ? [] : calls.list.flatMap(({ result }) => result ?? []);
    // In the order in which they were recorded: with several, the first one fails the turn.
    for (const result of results.sort((one, other) => one.seq - other.seq)) this.#fail(result);
    if (this.#failure) this.#scope.abort(this.#failure);
    for (const index of openCalls(this.state)) this.#pipe.add(index);
    if (this.#deps.inbox.hasReplies) this.#takeReplies();
    if (this.#doubts.length > 0) this.#settleDoubts();
    if (this.#pipe.busy.size < this.state.calls.length) this.#write();
    this.#pumping = false;
    this.#pump();
  }

  /** Leaves the batch: aborts what runs and drops its results. */
  stop(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#scope.abort(leftReason(this.#deps.turn.taskId));
    this.#close(true);
  }

  /** The turn is cancelled, a call has failed it, or the process shuts down. */
  onAbort(): void {
    if (this.#scope.aborted) for (const placed of this.#pipe.busy.values()) placed?.running?.onAbort();
    if (this.#deps.drain.aborted && !this.#draining) this.#drain();
    else this.#stopChecking(this.#scope.reason);
  }

  get #stopping(): boolean {
    return this.#failure !== undefined || this.#scope.aborted;
  }

  /** `mergeMap` gives a call its place. Writes nothing: whoever has freed the place is about to. */
  arrive(index: number, place: Subscriber<ToolSignal>): void {
    const pending = this.state.calls.at(index);
    if (!pending) return place.complete();
    const { callId, intent, result, question } = pending;
    const placed = { callId, index, place, running: undefined };
    if (!intent || result || question || this.#pipe.busy.has(callId) || this.#repeats?.has(callId))
      return this.#pipe.enter(placed);
    this.#pipe.busy.set(callId, placed);
    if (intent.epoch !== this.#deps.epoch) this.#doubts.push(placed);
    else {
      if (isSequential(this.#deps, pending.call)) this.#pipe.alone = callId;
      this.#ready.push(placed);
    }
  }

  /**
   * Starts what is ready, none while somebody else may own the turn: then it waits for a renewal of the lease, which that refuses. Ends
   * the batch when no call is busy any more: then none in the line may start, and none waits for a place.
   */
  #pump(): void {
    if (this.#pumping || this.#ended) return;
    this.#pumping = true;
    if (this.#doubts.length > 0) this.#settleDoubts();
    const { leaseHold } = this.#deps;
    let next = 0;
    for (; next < this.#ready.length; next++) {
      // A call that is stopped does not start, so it need not wait.
      if (leaseHold && !leaseHold.isSure && !this.#stopping) break;
      this.#start(this.#ready[next] as PlacedCall);
      if (this.#doubts.length > 0) this.#settleDoubts();
    }
    if (next > 0) this.#ready = this.#ready.slice(next);
    this.#pumping = false;
    if (this.#ready.length > 0) return leaseHold?.afterRenewal(() => this.#pump());
    if (this.#pipe.busy.size > 0 || this.#unseen > 0) return;
    this.#close(this.#scope.aborted && !this.#failure);
    if (this.#failure && !this.state.outcome) this.#owner.fail(this.#failure);
    else this.#owner.end();
  }

  #close(canceled: boolean): void {
    this.#ended = true;
    this.#pipe.end();
    this.#asked?.unsubscribe();
    this.#scope.forget(this);
    this.#scope.release();
    this.#deps.drain.forget(this);
    this.#cancelDrain?.();
    this.#deps.inbox.onReply(undefined);
    if (canceled) cancelSpan(this.#span);
    this.#span.end();
  }

  #start(placed: PlacedCall): void {
    const { callId, index, place: out } = placed;
    const started = this.state.calls.at(index);
    const tool = started && this.#deps.tools.byName.get(started.call.function.name);
    if (!tool || !isStarted(started) || this.#stopping)
      return this.settle(refusedCall(callId, toolError('never_started')));
    placed.running = new RunningTool(this.#deps, this.#batch, { started, tool, out });
    placed.running.start();
  }

  take(signal: ToolSignal): void {
    if (signal.type === 'tool-progress' || signal.type === 'sub-agent') this.#owner.give(signal);
    else if (signal.type === 'tool-outcome') this.settle(signal.result, signal.records, signal.thrown);
    else if (signal.type === 'tool-left') this.#leave(signal.callId);
    else this.settle(signal);
  }

  failed(error: unknown): void {
    this.#owner.fail(error);
  }

  /** Running calls get their time to end; the others are left to the next owner of the turn. */
  #drain(): void {
    this.#draining = true;
    const { clock, abortGraceMs } = this.#deps.config;
    this.#cancelDrain = clock.schedule(abortGraceMs, () => {
      this.stop();
      this.#owner.end();
    });
    this.#stopChecking(leftReason(this.#deps.turn.taskId));
  }

  #takeReplies(): void {
    for (let record = takeReply(this.#deps, this.state); record; record = takeReply(this.#deps, this.state))
      this.#answered(record);
  }

  /** A call has its answer: it gets a place again. One in doubt is settled by the answer, and needs no place for that. */
  #answered(record: TurnAnswered): void {
    const { callId } = record;
    const index = openCallIndex(this.state, callId);
    const asked = this.state.calls.at(index);
    const inDoubt = asked?.intent !== undefined;
    // Extensions are asked again, as they are where another process continues with the answer.
    if (asked) this.#deps.unstartedCalls.update(asked.call, { checked: undefined });
    if (inDoubt) this.#pipe.busy.set(callId, undefined);
    else this.#pipe.add(index);
    this.#write(record);
    const pending = this.state.calls.at(index);
    if (inDoubt && pending) this.#settleDoubt(pending);
    this.#pump();
  }

  #stopChecking(reason: unknown): void {
    this.#pipe.leaveChecks(reason);
    if (!this.#failure) this.#pump();
  }

  /** A call is left to the next owner of the turn. Nothing starts in its place: the process shuts down. */
  #leave(callId: string): void {
    if (this.#ended) return;
    this.#pipe.free(callId);
    this.#pump();
  }

  /** A call has its result, or asks: `mergeMap` passes its place to the next. */
  settle(record: ToolResultRecord | TurnAsked, changes?: readonly ExtensionRecord[], thrown?: unknown): void {
    if (this.#ended) return;
    const callId = record.type === 'tool.result' ? record.callId : record.question.callId;
    // Others may settle by the abort: the batch does not end with them, for this call is still busy.
    if (record.type === 'tool.result' && this.#fail(record, thrown)) this.#scope.abort(this.#failure);
    this.#pipe.free(callId);
    this.#write(record, changes);
    this.#pump();
  }

  /** Notes how the turn fails with a result, where it does and nothing else has ended it before. */
  #fail(result: ToolResultRecord, thrown?: unknown): boolean {
    const failure = failureBy(result, this.#deps.config.toolFailureMode);
    if (!failure || this.#stopping) return false;
    const { code, message, reason } = failure;
    const said = result.fails && this.#deps.hooks.failure;
    this.#failure =
      said ?? new AgentLoopError(code, message, { reason, taskId: this.#deps.turn.taskId, cause: thrown });
    return true;
  }

  /**
   * Commits what became of a call, together with the intents of the calls that get a place now. The batch does not end before its
   * questions were shown, for whoever sees one may answer it there and then.
   */
  #write(record?: ToolResultRecord | TurnAsked | TurnAnswered, changes?: readonly ExtensionRecord[]): void {
    const draft = new CommitDraft(this.#deps, this.state);
    if (record) this.#add(draft, record);
    if (changes) for (const change of changes) this.#add(draft, change);
    const { phase, openCalls: open } = draft.after;
    const mayPlan = phase === 'tools' && !this.#failure && !this.#pipe.hasAll(open);
    const starts = mayPlan ? this.#plan(draft) : noStarts;
    if (draft.after.phase === 'closed') this.#follow(draft);
    this.state = draft.after;
    this.#commit(draft, starts);
    // A call that may not run has failed the turn: its result is written before the others stop.
    if (this.#failure) this.#scope.abort(this.#failure);
  }

  #add(draft: CommitDraft, record: PlannedRecord | TurnAnswered | ExtensionRecord): void {
    if (this.#deps.unstartedCalls.branches.length > 0) recordBranchesOf(this.#deps, draft, record);
    draft.add(record);
  }

  /** What follows from the last result, in one append with it: after a crash between the two, the turn would continue. */
  #follow(draft: CommitDraft): void {
    const cause = this.#failure;
    const follows = cause ? failed(cause.code, cause.message, cause) : agentChange(this.#deps, draft.after);
    if (follows) draft.add(follows);
  }

  #commit(draft: CommitDraft, starts: readonly PlacedCall[]): void {
    const { steps, after } = draft;
    if (steps.length === 0) return;
    let asks = false;
    for (let index = 0; index < steps.length; index++) {
      const record = steps[index]?.record;
      if (record?.type !== 'turn.asked') continue;
      asks = true;
      noteQuestion(this.#span, record.question);
    }
    if (after.outcome) {
      this.#deps.inbox.close(after);
      return this.#owner.give({ type: 'commit', steps, after, barrier: true, cause: this.#failure });
    }
    if (starts.length === 0 && !asks) return this.#owner.give({ type: 'commit', steps, after, barrier: false });
    this.#giveAwaited(draft, starts, asks);
  }

  /** Calls start, and questions count as seen, once the append is durable. */
  #giveAwaited({ steps, after }: CommitDraft, starts: readonly PlacedCall[], asks: boolean): void {
    if (asks) this.#unseen++;
    const durable = () => {
      if (asks) this.#unseen--;
      for (const placed of starts) this.#ready.push(placed);
      this.#pump();
    };
    this.#owner.give({ type: 'commit', steps, after, barrier: true, durable });
  }

  /** Adds to an append what needs no place, then what becomes of the calls that have one. Returns those that start. */
  #plan(draft: CommitDraft): readonly PlacedCall[] {
    const { traceContext } = this.#batch;
    const place = { state: draft.after, traceContext };
    const { records, checks, mayStart } = planWithoutPlace(this.#deps, place, this.#pipe.busy);
    for (const { pending, done } of checks) this.#pipe.awaitCheck(pending, done);
    const planned = [...records];
    const starts = mayStart ? this.#pipe.takeUp(draft.after, traceContext, planned) : noStarts;
    for (const record of planned) if (record.type === 'tool.result') this.#fail(record);
    const kept = this.#failure ? planned.filter(({ type }) => type === 'tool.result') : planned;
    if (this.#deps.unstartedCalls.branches.length > 0)
      for (const record of kept) recordBranchesOf(this.#deps, draft, record);
    // Hooks alone are shown the state that the records so far have made.
    const { beforeToolCall, approveToolCall } = this.#deps.hooks.lists;
    draft.addAll(kept, draft.steps.length > 0 && beforeToolCall.length + approveToolCall.length === 0);
    if (!this.#failure) return starts;
    for (const { callId } of starts) this.#pipe.busy.delete(callId);
    return noStarts;
  }

  /** A call is not busy any more, and has no result: it is decided about again, in the place that it has. */
  decideAgain(callId: string): void {
    if (this.#ended) return;
    const placed = this.#pipe.busy.get(callId);
    this.#pipe.busy.delete(callId);
    if (placed) this.#pipe.enter(placed);
    this.#write();
    this.#pump();
  }

  #settleDoubts(): void {
    for (let placed = this.#doubts.shift(); placed; placed = this.#doubts.shift()) {
      const pending = this.state.calls.at(placed.index);
      if (pending && !this.#ended) this.#settleDoubt(pending);
    }
  }

  #settleDoubt(pending: PendingToolCall): void {
    const settled = settleDoubt(this.#deps, {
      pending,
      batch: this.#scope,
      traceContext: this.#batch.traceContext,
      turn: this,
      progress: (update) => this.#owner.give(update),
    });
    if (!isObservable(settled)) return this.#doubtSettled(pending, settled);
    this.#asked ??= new Subscription();
    this.#asked.add(settled.subscribe((answer) => this.#doubtSettled(pending, answer)));
  }

  #doubtSettled(pending: PendingToolCall, settled: Settled): void {
    if (settled === 'run') return this.#repeat(pending.callId);
    const mayAsk = settled.type === 'tool.result' || !this.#failure;
    this.settle(mayAsk ? settled : unknownOutcome(pending));
  }

  /** A call in doubt has not taken effect. One that was settled without a place gets one as an answered call does. */
  #repeat(callId: string): void {
    this.#repeats ??= new Set();
    this.#repeats.add(callId);
    if (this.#pipe.busy.has(callId) && !this.#pipe.busy.get(callId)) this.#pipe.add(openCallIndex(this.state, callId));
    this.decideAgain(callId);
  }
}
