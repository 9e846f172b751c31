import type { Context, Span } from '@opentelemetry/api';
import { isObservable, type Observer, type Subscriber, Subscription } from 'rxjs';
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
  type Signal,
  type ToolResultRecord,
  type TurnAnswered,
  type TurnAsked,
} from '../journal/index.ts';
import { failed } from '../model-call/response.ts';
import { leftReason } from '../ownership/child-turns.ts';
import { endRecords, takeReply } from '../ownership/inbox.ts';
import { type AbortListener, type AbortScope, after } from '../streams/index.ts';
import { CallPipe, noStarts, type PipedBatch, type SlotHolder } from './call-pipe.ts';
import { type Settled, settleDoubt, unknownOutcome } from './doubt.ts';
import { type CallBatch, RunningTool, type ToolSignal } from './running-tool.ts';
import {
  isSequential,
  isStarted,
  openToolCallIndexes,
  type PlannedRecord,
  planWithoutSlot,
  recordBranchesOf,
} from './tool-plan.ts';
import { failureBy, refusedCall, type ToolCallDeps } from './tool-results.ts';

interface ToolBatchOptions {
  /** The state with the open batch. */
  readonly state: LoopState;
  readonly owner: Observer<Signal>;
  /** The pipe of the loop. Default: a new one. */
  readonly pipe: CallPipe | undefined;
  /** The parent of the batch's span. */
  readonly traceContext: Context;
}

/**
 * Runs the calls of one response: `calls$.pipe(mergeMap(runCall, toolConcurrency))`.
 *
 * The inner Observable of a call is its slot: it completes when the call has its result or asks. `mergeMap` then subscribes to the next call
 * synchronously, so that its intent is in one append with the result. The call starts once that append is durable. Records that need no slot are
 * planned from the state (`planWithoutSlot`).
 */
export class MergedBatch implements PipedBatch, AbortListener {
  readonly #deps: ToolCallDeps;
  /** The state after the last commit. */
  state: LoopState;
  readonly #owner: Observer<Signal>;
  /** The span `tools.execute`. */
  readonly #span: Span;
  /** Aborted with the turn, and when a failed call fails the turn. */
  readonly #scope: AbortScope;
  /** What its calls have in common. */
  readonly #batch: CallBatch;
  /** Assigns slots to open calls, by index; a call that was answered gets one again. */
  readonly #pipe: CallPipe;
  /** Running `onInDoubt` functions. */
  #reconciling: Subscription | undefined;
  /** Calls in doubt that hold a slot and are not being settled yet. */
  readonly #doubts: SlotHolder[] = [];
  /** Ids of calls in doubt that run again. */
  #repeats: Set<string> | undefined;
  /** Calls with a durable intent that have not started. */
  #ready: SlotHolder[] = [];
  /** Whether the batch has handled the drain. */
  #draining: boolean;
  #pumping = false;
  /** The number of appends with questions that are not durable yet. */
  #pendingQuestions = 0;
  #ended = false;
  #failure: AgentLoopError | undefined;
  #cancelDrain: (() => void) | undefined;

  constructor(deps: ToolCallDeps, { state, owner, pipe, traceContext }: ToolBatchOptions) {
    this.#deps = deps;
    this.#owner = owner;
    this.state = state;
    const { span, traceContext: inner } = startToolsSpan(deps.segment.tracing, traceContext);
    this.#span = span;
    if (span.isRecording()) for (const question of openQuestions(state)) noteQuestion(span, question);
    this.#scope = deps.inbox.scope.child();
    this.#scope.listen(this);
    this.#draining = !deps.inbox.drain.listen(this);
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
    for (const result of results.sort((one, other) => one.seq - other.seq)) this.#noteFailure(result);
    if (this.#failure) this.#scope.abort(this.#failure);
    for (const index of openToolCallIndexes(this.state)) this.#pipe.add(index);
    if (this.#deps.inbox.hasReplies) this.#takeReplies();
    if (this.#doubts.length > 0) this.#settleDoubts();
    if (this.#pipe.busy.size < this.state.calls.length) this.#write();
    this.#pumping = false;
    this.#pump();
  }

  /** Stops the batch: aborts running calls and drops their results. The owner is not notified. */
  stop(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#scope.abort(leftReason(this.#deps.segment.turn.taskId));
    this.#close(true);
  }

  /** The turn was cancelled, a call failed it, or it drains. */
  onAbort(): void {
    if (this.#scope.aborted) for (const holder of this.#pipe.busy.values()) holder?.running?.onAbort();
    if (this.#deps.inbox.drain.aborted && !this.#draining) this.#drain();
    else this.#stopChecking(this.#scope.reason);
  }

  get #stopping(): boolean {
    return this.#failure !== undefined || this.#scope.aborted;
  }

  /** `mergeMap` gives a call its slot. Commits nothing: the caller that freed the slot does. */
  onSlot(index: number, slot: Subscriber<ToolSignal>): void {
    const pending = this.state.calls.at(index);
    if (!pending) return slot.complete();
    const { callId, intent, result, question } = pending;
    const holder = { callId, index, slot, running: undefined };
    if (!intent || result || question || this.#pipe.busy.has(callId) || this.#repeats?.has(callId))
      return this.#pipe.addWaiting(holder);
    this.#pipe.busy.set(callId, holder);
    // The intent of an earlier run: the call may have started there.
    if (intent.epoch !== this.#deps.node.epoch) this.#doubts.push(holder);
    else {
      if (isSequential(this.#deps, pending.call)) this.#pipe.alone = callId;
      this.#ready.push(holder);
    }
  }

  /**
   * Starts the ready calls. If the lease may have expired, waits for its renewal, which is refused if the turn has another owner. Ends the
   * batch when no call is busy: then no waiting call may start.
   */
  #pump(): void {
    if (this.#pumping || this.#ended) return;
    this.#pumping = true;
    if (this.#doubts.length > 0) this.#settleDoubts();
    const { leaseHold } = this.#deps.node;
    let next = 0;
    for (; next < this.#ready.length; next++) {
      // A call that is stopped does not start, so it need not wait.
      if (leaseHold && !leaseHold.isSure && !this.#stopping) break;
      this.#start(this.#ready[next] as SlotHolder);
      if (this.#doubts.length > 0) this.#settleDoubts();
    }
    if (next > 0) this.#ready = this.#ready.slice(next);
    this.#pumping = false;
    if (this.#ready.length > 0) return leaseHold?.afterRenewal(() => this.#pump());
    if (this.#pipe.busy.size > 0 || this.#pendingQuestions > 0) return;
    this.#close(this.#scope.aborted && !this.#failure);
    if (this.#failure && !this.state.outcome) this.#owner.error(this.#failure);
    else this.#owner.complete();
  }

  #close(canceled: boolean): void {
    this.#ended = true;
    this.#pipe.end();
    this.#reconciling?.unsubscribe();
    this.#scope.forget(this);
    this.#scope.release();
    this.#deps.inbox.drain.forget(this);
    this.#cancelDrain?.();
    this.#deps.inbox.onReply(undefined);
    if (canceled) cancelSpan(this.#span);
    this.#span.end();
  }

  #start(holder: SlotHolder): void {
    const { callId, index, slot: out } = holder;
    const started = this.state.calls.at(index);
    const tool = started && this.#deps.segment.tools.byName.get(started.call.function.name);
    if (!tool || !isStarted(started) || this.#stopping)
      return this.settle(refusedCall(callId, toolError('never_started')));
    holder.running = new RunningTool(this.#deps, this.#batch, { started, tool, out });
    holder.running.start();
  }

  onSignal(signal: ToolSignal): void {
    if (signal.type === 'tool-progress' || signal.type === 'sub-agent') this.#owner.next(signal);
    else if (signal.type === 'tool-outcome') this.settle(signal.result, signal.records, signal.thrown);
    else if (signal.type === 'tool-unfinished') this.#unfinished(signal.callId);
    else this.settle(signal);
  }

  onError(error: unknown): void {
    this.#owner.error(error);
  }

  /** Running calls have `abortGraceMs` to end; the others are left to the next owner of the turn. */
  #drain(): void {
    this.#draining = true;
    const { clock, abortGraceMs } = this.#deps.segment.config;
    this.#cancelDrain = after(abortGraceMs, clock, () => {
      this.stop();
      this.#owner.complete();
    });
    this.#stopChecking(leftReason(this.#deps.segment.turn.taskId));
  }

  #takeReplies(): void {
    const { inbox, segment } = this.#deps;
    const { logger } = segment.config;
    for (let record = takeReply(inbox, this.state, logger); record; record = takeReply(inbox, this.state, logger))
      this.#onAnswer(record);
  }

  /** An answered call gets a slot again. A call in doubt is settled by the answer, which needs no slot. */
  #onAnswer(record: TurnAnswered): void {
    const { callId } = record;
    const index = openCallIndex(this.state, callId);
    const asked = this.state.calls.at(index);
    const inDoubt = asked?.intent !== undefined;
    // Hooks are called again, as they are if another process continues with the answer.
    if (asked) this.#deps.unstartedCalls.update(asked.call, { checked: undefined });
    if (inDoubt) this.#pipe.busy.set(callId, undefined);
    else this.#pipe.add(index);
    this.#write(record);
    const pending = this.state.calls.at(index);
    if (inDoubt && pending) this.#settleDoubt(pending);
    this.#pump();
  }

  #stopChecking(reason: unknown): void {
    this.#pipe.abandonChecks(reason);
    if (!this.#failure) this.#pump();
  }

  /** Leaves a call to the next owner of the turn. No call starts in its slot, since the turn drains. */
  #unfinished(callId: string): void {
    this.#pipe.free(callId);
    this.#pump();
  }

  /** Ends a call with its result or question: `mergeMap` gives its slot to the next one. */
  settle(record: ToolResultRecord | TurnAsked, changes?: readonly ExtensionRecord[], thrown?: unknown): void {
    if (this.#ended) return;
    const callId = record.type === 'tool.result' ? record.callId : record.question.callId;
    // Other calls may settle synchronously on the abort; the batch does not end with them, since this call is still busy.
    if (record.type === 'tool.result' && this.#noteFailure(record, thrown)) this.#scope.abort(this.#failure);
    this.#pipe.free(callId);
    this.#write(record, changes);
    this.#pump();
  }

  /** If a result fails the turn, and nothing has stopped it before, keeps the error. Returns whether it did. */
  #noteFailure(result: ToolResultRecord, thrown?: unknown): boolean {
    const failure = failureBy(result, this.#deps.segment.config.toolFailureMode);
    if (!failure || this.#stopping) return false;
    const { code, message, reason } = failure;
    const said = result.fails && this.#deps.hooks.failure;
    this.#failure =
      said ?? new AgentLoopError(code, message, { reason, taskId: this.#deps.segment.turn.taskId, cause: thrown });
    return true;
  }

  /**
   * Commits a record, together with the intents of the calls that start now. The batch does not end before its questions are emitted, since a
   * subscriber may answer at once.
   */
  #write(record?: ToolResultRecord | TurnAsked | TurnAnswered, changes?: readonly ExtensionRecord[]): void {
    const draft = new CommitDraft(this.#deps.node, this.state);
    if (record) this.#add(draft, record);
    if (changes) for (const change of changes) this.#add(draft, change);
    const { phase, openCalls: open } = draft.after;
    const mayPlan = phase === 'tools' && !this.#failure && !this.#pipe.areAllBusy(open);
    const starts = mayPlan ? this.#plan(draft) : noStarts;
    if (draft.after.phase === 'closed') this.#addFollowUp(draft);
    this.state = draft.after;
    this.#commit(draft, starts);
    // A refused call may have failed the turn: its result is committed before the others stop.
    if (this.#failure) this.#scope.abort(this.#failure);
  }

  #add(draft: CommitDraft, record: PlannedRecord | TurnAnswered | ExtensionRecord): void {
    if (this.#deps.unstartedCalls.branches.length > 0) recordBranchesOf(this.#deps, draft, record);
    draft.add(record);
  }

  /** Adds the end of the turn, or the change of agent, to the append of the last result: a crash between two appends would lose it. */
  #addFollowUp(draft: CommitDraft): void {
    const cause = this.#failure;
    if (cause) return draft.addAll(endRecords(this.#deps.inbox, failed(cause.code, cause.message, cause)));
    const change = agentChange(this.#deps, draft.after);
    if (change) draft.add(change);
  }

  #commit(draft: CommitDraft, starts: readonly SlotHolder[]): void {
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
      return this.#owner.next({ type: 'commit', steps, after, barrier: true, cause: this.#failure });
    }
    if (starts.length === 0 && !asks) return this.#owner.next({ type: 'commit', steps, after, barrier: false });
    this.#commitAwaited(draft, starts, asks);
  }

  /** Once the append is durable, its calls start and its questions no longer hold the batch open. */
  #commitAwaited({ steps, after }: CommitDraft, starts: readonly SlotHolder[], asks: boolean): void {
    if (asks) this.#pendingQuestions++;
    const durable = () => {
      if (asks) this.#pendingQuestions--;
      for (const holder of starts) this.#ready.push(holder);
      this.#pump();
    };
    this.#owner.next({ type: 'commit', steps, after, barrier: true, durable });
  }

  /** Adds the records that need no slot, then those of the calls that hold one. Returns the calls that start. */
  #plan(draft: CommitDraft): readonly SlotHolder[] {
    const { traceContext } = this.#batch;
    const place = { state: draft.after, traceContext };
    const { records, checks, mayStart } = planWithoutSlot(this.#deps, place, this.#pipe.busy);
    for (const { pending, done } of checks) this.#pipe.awaitCheck(pending, done);
    const planned = [...records];
    const starts = mayStart ? this.#pipe.decideWaiting(draft.after, traceContext, planned) : noStarts;
    for (const record of planned) if (record.type === 'tool.result') this.#noteFailure(record);
    const kept = this.#failure ? planned.filter(({ type }) => type === 'tool.result') : planned;
    if (this.#deps.unstartedCalls.branches.length > 0)
      for (const record of kept) recordBranchesOf(this.#deps, draft, record);
    // Only hooks read the state between these records.
    const { beforeToolCall, approveToolCall } = this.#deps.hooks.lists;
    draft.addAll(kept, draft.steps.length > 0 && beforeToolCall.length + approveToolCall.length === 0);
    if (!this.#failure) return starts;
    for (const { callId } of starts) this.#pipe.busy.delete(callId);
    return noStarts;
  }

  /** Decides a call without a result again, in the slot that it holds. */
  decideAgain(callId: string): void {
    const holder = this.#pipe.busy.get(callId);
    this.#pipe.busy.delete(callId);
    if (holder) this.#pipe.addWaiting(holder);
    this.#write();
    this.#pump();
  }

  #settleDoubts(): void {
    for (let holder = this.#doubts.shift(); holder; holder = this.#doubts.shift()) {
      const pending = this.state.calls.at(holder.index);
      if (pending && !this.#ended) this.#settleDoubt(pending);
    }
  }

  #settleDoubt(pending: PendingToolCall): void {
    const settled = settleDoubt(this.#deps, {
      pending,
      batch: this.#scope,
      traceContext: this.#batch.traceContext,
      turn: this,
      progress: (update) => this.#owner.next(update),
    });
    if (!isObservable(settled)) return this.#doubtSettled(pending, settled);
    this.#reconciling ??= new Subscription();
    this.#reconciling.add(settled.subscribe((answer) => this.#doubtSettled(pending, answer)));
  }

  #doubtSettled(pending: PendingToolCall, settled: Settled): void {
    if (settled === 'run') return this.#repeat(pending.callId);
    const mayAsk = settled.type === 'tool.result' || !this.#failure;
    this.settle(mayAsk ? settled : unknownOutcome(pending));
  }

  /** Runs a call in doubt again. If it was settled without a slot, it requests one. */
  #repeat(callId: string): void {
    this.#repeats ??= new Set();
    this.#repeats.add(callId);
    if (this.#pipe.busy.has(callId) && !this.#pipe.busy.get(callId)) this.#pipe.add(openCallIndex(this.state, callId));
    this.decideAgain(callId);
  }
}
