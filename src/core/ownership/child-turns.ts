import { Observable } from 'rxjs';
import {
  type AgentEvent,
  AgentLoopError,
  type AgentUsage,
  addUsage,
  addUsed,
  type Clock,
  type Extension,
  isSuspended,
  type Message,
  type ParentCall,
  type ReachedLimit,
  type RetryPlan,
  restOf,
  type TaskStateStore,
  type TreeUsage,
  type Under,
  type Usage,
  usageOf,
} from '../contracts/index.ts';
import type { LoopState, ParentLink, Signal, Stamper, TurnIdentity, TurnResult } from '../journal/index.ts';
import type { ResolvedConfig } from '../options/index.ts';
import type { AbortScope } from '../streams/index.ts';
import type { LeaseHold } from './lease.ts';

/**
 * The abort reason for the work of a turn that this process lost: another process resumes the turn. Nothing is cancelled: child turns and
 * work at remote services stay open.
 */
export function leftReason(taskId: string): AgentLoopError {
  const message = `Turn "${taskId}" is lost to this process; AgentLoop.resume continues it.`;
  return new AgentLoopError('LEFT', message, { retryable: true, taskId });
}

/** Whether an abort reason means that another process continues the work, and that it is not cancelled. */
export function isLeft(reason: unknown): boolean {
  return AgentLoopError.isInstance(reason) && reason.code === 'LEFT';
}

const lostMarker = Symbol.for('millrace.TurnLost');

/**
 * Thrown by a call or a hook that this process cannot finish but another may, and by a call whose child turn is lost. Nothing is recorded for it;
 * the turn is lost with `cause`.
 */
export class TurnLost extends Error {
  readonly [lostMarker] = true;

  constructor(cause: unknown) {
    super('The turn is lost to this process.', { cause });
  }

  /** Also true for instances of another installed copy of this package. */
  static isInstance(value: unknown): value is TurnLost {
    return typeof value === 'object' && value !== null && lostMarker in value;
  }
}

const noCalls: readonly ParentTurn[] = [];
const noLimit = () => undefined;

interface TurnNodeOptions extends Pick<TurnNode, 'now'> {
  readonly limitReached?: TurnNode['limitReached'];
  readonly parent?: ParentTurn | undefined;
  readonly lostAt?: number | undefined;
  readonly leaseHold?: LeaseHold | undefined;
  /** Default 0: no lease. */
  readonly epoch?: number | undefined;
}

/** A turn that runs in this process, in the tree of its child turns: what the tree used so far, and its limits. */
export class TurnNode implements Stamper {
  readonly parent: ParentTurn | undefined;
  /** The latest folded state. */
  state: LoopState;
  /** Returns the limit of this turn that the given usage of its tree reaches; `undefined` if none. */
  readonly limitReached: (usage: TreeUsage) => ReachedLimit | undefined;
  /** When the process of the previous run was last seen alive, if it was lost. Milliseconds since 1970. */
  readonly lostAt: number | undefined;
  /** Whether the lease is certainly valid. Absent without a store: no other process can own the turn then. */
  readonly leaseHold: LeaseHold | undefined;
  /** Of the lease; with `now` the stamp of each record. */
  readonly epoch: number;
  readonly now: () => number;
  /** Calls and hooks that have a child turn. */
  #calls: readonly ParentTurn[] = noCalls;
  #ended: Set<string> | undefined;
  /** Hooks without an answer so far: no record contains the usage of their child turns. */
  unanswered = noCalls;

  constructor(state: LoopState, { now, limitReached, parent, lostAt, leaseHold, epoch }: TurnNodeOptions) {
    this.state = state;
    this.parent = parent;
    this.limitReached = limitReached ?? noLimit;
    this.lostAt = lostAt;
    this.leaseHold = leaseHold;
    this.epoch = epoch ?? 0;
    this.now = now;
  }

  /** By agent and model: the usage recorded in this turn, plus that of child turns whose result is not recorded yet. */
  get usageBy(): readonly AgentUsage[] {
    let sum = this.state.usageBy;
    for (const call of this.#calls) sum = addUsed(sum, call.usageBy);
    return sum;
  }

  /** Marks a child turn as ended. */
  noteEnded(taskId: string): void {
    this.#ended ??= new Set();
    this.#ended.add(taskId);
  }

  hasEnded(taskId: string): boolean {
    return this.#ended?.has(taskId) === true;
  }

  attach(call: ParentTurn): void {
    if (!this.#calls.includes(call)) this.#calls = [...this.#calls, call];
  }

  detach(call: ParentTurn): void {
    this.#calls = this.#calls.filter((each) => each !== call);
    this.unanswered = this.unanswered.filter((each) => each !== call);
  }

  noteHook(hook: ParentTurn): void {
    if (!this.unanswered.includes(hook)) this.unanswered = [...this.unanswered, hook];
  }

  /** Cancels the calls of ancestors whose limits are reached. Returns true if this turn runs below one of them. */
  stopAtLimit(): boolean {
    let stopped = false;
    for (let { parent } = this; parent; { parent } = parent.node) {
      const reached = parent.node.reached();
      if (!reached) continue;
      parent.exceed(reached);
      stopped = true;
    }
    return stopped;
  }

  reached(): ReachedLimit | undefined {
    const { usageBy, state } = this;
    return this.limitReached({ usage: usageOf(usageBy), usageBy, state });
  }
}

/** Returns the first limit that the usage of a turn's tree reaches. */
export function reachedLimit(extensions: readonly Extension[], used: TreeUsage): ReachedLimit | undefined {
  for (const { limitUsage } of extensions) {
    const reached = limitUsage?.(used);
    if (reached) return reached;
  }
  return undefined;
}

/** What a child turn shares with the run of its parent. */
interface ParentRun {
  readonly segment: { readonly turn: TurnIdentity; readonly config: ResolvedConfig };
  readonly inbox: { readonly drain: AbortScope };
  readonly node: TurnNode;
}

interface ParentTurnOptions {
  /** Of the call; for a hook, a name that stays the same when the hook is called again after a crash. */
  readonly callId: string;
  readonly agentId: string;
  readonly scope: AbortScope;
  /** Usage already recorded: by earlier attempts of the call with their questions, or of the same child turn of a hook. */
  readonly recorded: readonly AgentUsage[];
  readonly show: (event: AgentEvent, childAgentId: string) => void;
  /** The messages of the last model call, and those added after it. */
  readonly view: () => readonly Message[];
}

const parentMarker = Symbol.for('millrace.ParentTurn');

/** The call or hook that a child turn runs for, and the dependencies that the child turn inherits from its parent. */
export class ParentTurn implements ParentCall {
  readonly [parentMarker] = true;
  readonly link: ParentLink;
  /** Absent without a store. */
  readonly under: Under | undefined;
  readonly leaseHold: LeaseHold | undefined;
  readonly store: TaskStateStore | undefined;
  readonly retryPlan: RetryPlan | undefined;
  readonly scope: AbortScope;
  readonly drain: AbortScope;
  readonly node: TurnNode;
  readonly storeDeadlineMs: number;
  readonly clock: Clock;
  readonly show: ParentTurnOptions['show'];
  readonly view: () => readonly Message[];
  /** Settles once the child turn is over for this process. */
  over: Promise<unknown> | undefined;
  readonly #recorded: readonly AgentUsage[];
  #child: TurnNode | undefined;
  /** Usage from the child turn's journal, once the child turn has ended or is suspended. */
  #result: readonly AgentUsage[] | undefined;
  #replayed: readonly AgentUsage[] | undefined;
  #exceeded: ReachedLimit | undefined;

  constructor(run: ParentRun, { callId, agentId, scope, recorded, show, view }: ParentTurnOptions) {
    const { segment, inbox, node } = run;
    const { turn, config } = segment;
    const { leaseHold, epoch } = node;
    const { taskId, parent } = turn;
    this.link = { taskId, callId, agentId, rootTaskId: parent?.rootTaskId ?? taskId };
    this.under = leaseHold && { taskId, epoch };
    this.leaseHold = leaseHold;
    this.store = config.taskStateStore;
    this.retryPlan = turn.settings.retryPlan ?? config.retryPlan;
    this.scope = scope;
    this.drain = inbox.drain;
    this.node = node;
    this.storeDeadlineMs = config.storeDeadlineMs;
    this.clock = config.clock;
    this.#recorded = recorded;
    this.show = show;
    this.view = view;
  }

  /** Also true for instances of another installed copy of this package. */
  static isInstance(value: unknown): value is ParentTurn {
    return typeof value === 'object' && value !== null && parentMarker in value;
  }

  /** The limit that cancelled the call, or the failure of its child turn that fails this one. */
  get exceeded(): ReachedLimit | undefined {
    return this.#exceeded;
  }

  /** Whether the child turn has ended or is suspended, so that its usage is final. */
  get isSettled(): boolean {
    return (this.#replayed ?? this.#result) !== undefined;
  }

  /** The usage of the child turn's tree, without the part that the parent has recorded. */
  get usageBy(): readonly AgentUsage[] {
    return this.usageBeside(this.#recorded);
  }

  /** The usage of the child turn's tree without `recorded`. */
  usageBeside(recorded: readonly AgentUsage[]): readonly AgentUsage[] {
    return this.#replayed ?? restOf(this.#result ?? this.#child?.usageBy ?? [], recorded);
  }

  /** A run of the child turn has begun. */
  begin(child: TurnNode): void {
    this.#child = child;
    this.#result = undefined;
    this.node.attach(this);
  }

  /** The child turn has ended or is suspended, here or in another process. */
  settle({ taskId, status, usageBy }: TurnResult): void {
    this.#result = usageBy;
    if (!isSuspended(status)) this.node.noteEnded(taskId);
    this.node.attach(this);
  }

  /** In a replay: the child turn's usage according to the next record. */
  replay(used: readonly AgentUsage[]): void {
    this.#replayed = used;
    this.node.attach(this);
  }

  /** The parent has recorded the child turn's usage, or is over. */
  end(): void {
    this.node.detach(this);
  }

  exceed(limit: ReachedLimit): void {
    this.#exceeded ??= limit;
    this.scope.abort(new AgentLoopError(limit.code, limit.message, limit.reason ? { reason: limit.reason } : {}));
  }
}

/**
 * Runs a child turn with its parent: cancelling the call cancels it. If the parent turn is lost to this process, the child turn errors with `LEFT` at
 * once and releases its lease before the parent does; it writes no record then.
 */
export function belowParent(
  source$: Observable<Signal>,
  { parent, scope, taskId }: { readonly parent: ParentTurn; readonly scope: AbortScope; readonly taskId: string },
): Observable<Signal> {
  return new Observable((to) => {
    const follow = () => {
      if (isLeft(parent.scope.reason)) to.error(leftReason(taskId));
      else scope.abort(parent.scope.reason);
    };
    if (parent.scope.aborted) follow();
    if (to.closed) return;
    to.add(parent.scope.onAbort(follow));
    to.add(source$.subscribe(to));
  });
}

/** Adds up the usage of the tool's own model calls and of its child turn, in the form of a record. */
export function recordedUsage(
  own: Usage | undefined,
  below: readonly AgentUsage[],
): { readonly usage?: Usage; readonly usageBy?: readonly AgentUsage[] } {
  if (below.length === 0) return own ? { usage: own } : {};
  const sum = usageOf(below);
  return { usage: own ? addUsage(own, sum) : sum, usageBy: below };
}
