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
  type ReachedLimit,
  type RetryPlan,
  restOf,
  type TaskStateStore,
  type TaskSummary,
  type TreeUsage,
  type Under,
  type Usage,
  usageOf,
} from '../contracts/index.ts';
import {
  type LoopState,
  type ParentLink,
  type Signal,
  TurnError,
  type TurnIdentity,
  type TurnResult,
} from '../journal/index.ts';
import type { ResolvedConfig } from '../options/index.ts';
import type { AbortScope } from '../streams/index.ts';
import type { LeaseHold } from './lease.ts';

/**
 * The reason with which work stops whose turn is lost to this process: another process resumes it. Nothing is cancelled: a child turn
 * stays open, and so does work at another service.
 */
export function leftReason(taskId: string): AgentLoopError {
  const message = `Turn "${taskId}" is lost to this process; AgentLoop.resume continues it.`;
  return new AgentLoopError('LEFT', message, { retryable: true, taskId });
}

/** Whether an abort reason says that the work is left to another process, and not cancelled. */
export function isLeft(reason: unknown): boolean {
  return AgentLoopError.isInstance(reason) && reason.code === 'LEFT';
}

const lostMarker = Symbol.for('millrace.TurnLost');

/**
 * Thrown by a call or a hook that this process cannot finish and another may: nothing is recorded of it, and the turn is lost with the cause.
 * So is a call whose child turn is lost.
 */
export class TurnLost extends Error {
  readonly [lostMarker] = true;

  constructor(cause: unknown) {
    super('The turn is lost to this process.', { cause });
  }

  /** True for one of any installed copy of this package. */
  static isInstance(value: unknown): value is TurnLost {
    return typeof value === 'object' && value !== null && lostMarker in value;
  }
}

const noCalls: readonly ParentTurn[] = [];

/** A turn that runs in this process, in the tree of its child turns: what the tree used so far, and its limits. */
export class TurnNode {
  readonly parent: ParentTurn | undefined;
  /** The last state that was folded. */
  state: LoopState;
  /** The limit of this turn that this usage of its tree reaches; `undefined` for none. */
  readonly limitReached: (usage: TreeUsage) => ReachedLimit | undefined;
  /** Calls and hooks that a child turn runs for. */
  #calls: readonly ParentTurn[] = noCalls;
  #ended: Set<string> | undefined;
  /** Hooks that have given no answer yet, or never will: no record says what their child turns used. */
  unanswered = noCalls;

  constructor(
    state: LoopState,
    parent: ParentTurn | undefined,
    limitReached: (usage: TreeUsage) => ReachedLimit | undefined,
  ) {
    this.state = state;
    this.parent = parent;
    this.limitReached = limitReached;
  }

  /** By agent and model: what is recorded in this turn, and what child turns used whose result is not recorded yet. */
  get usageBy(): readonly AgentUsage[] {
    let sum = this.state.usageBy;
    for (const call of this.#calls) sum = addUsed(sum, call.usageBy);
    return sum;
  }

  /** A child turn whose end this process has seen. */
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

  /** Cancels the calls of ancestors whose limits are reached. True where this turn runs below one of them. */
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

/** The first limit that the usage of a turn's tree reaches. */
export function reachedLimit(extensions: readonly Extension[], used: TreeUsage): ReachedLimit | undefined {
  for (const { limitUsage } of extensions) {
    const reached = limitUsage?.(used);
    if (reached) return reached;
  }
  return undefined;
}

/** Where parent turns are found on the context of a call or a hook. */
export const parentTurn: unique symbol = Symbol.for('millrace.parentTurn');

/** What a child turn shares with the run of its parent. */
interface ParentRun {
  readonly turn: TurnIdentity;
  readonly config: ResolvedConfig;
  readonly leaseHold: LeaseHold | undefined;
  readonly epoch: number;
  readonly drain: AbortScope;
  readonly node: TurnNode;
}

interface ParentTurnOptions {
  /** Of the call; of a hook, a name that is the same when the hook is called again after a crash. */
  readonly callId: string;
  readonly agentId: string;
  readonly scope: AbortScope;
  /** What is recorded already: by earlier attempts of the call with their questions, or of the same child turn of a hook. */
  readonly recorded: readonly AgentUsage[];
  readonly show: (event: AgentEvent, childAgentId: string) => void;
  /** The messages that the last model call was sent, with what was added after it. */
  readonly view: () => readonly Message[];
}

/** The parent turn of a child turn that a hook starts; `undefined` for a copy of its context. */
export function hookParentOf(context: object, name: string): ParentTurn | undefined {
  const make: unknown = Reflect.get(context, parentTurn);
  const parent: unknown = typeof make === 'function' ? make.call(context, name) : undefined;
  return isParentTurn(parent) ? parent : undefined;
}

/** The options of a child turn. */
export function withParent<O extends object>(options: O, parent: ParentTurn): O {
  return Object.assign({}, options, { [parentTurn]: parent });
}

/** A child turn has its journal in the store of its parent; without one it lives in this process only. */
export function childConfig(config: ResolvedConfig, { store, retryPlan }: ParentTurn): ResolvedConfig {
  return Object.assign({}, config, { taskStateStore: store, retryPlan: config.retryPlan ?? retryPlan });
}

/** The call, or the hook, that a child turn runs for: what the child turn takes from its parent. */
export class ParentTurn {
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
  /** Of the child turn's journal, once it tells how it ended or what it waits for. */
  #result: readonly AgentUsage[] | undefined;
  #replayed: readonly AgentUsage[] | undefined;
  #exceeded: ReachedLimit | undefined;

  constructor(run: ParentRun, { callId, agentId, scope, recorded, show, view }: ParentTurnOptions) {
    const { turn, config, leaseHold, epoch, drain, node } = run;
    const { taskId, parent } = turn;
    this.link = { taskId, callId, agentId, rootTaskId: parent?.rootTaskId ?? taskId };
    this.under = leaseHold && { taskId, epoch };
    this.leaseHold = leaseHold;
    this.store = config.taskStateStore;
    this.retryPlan = turn.settings.retryPlan ?? config.retryPlan;
    this.scope = scope;
    this.drain = drain;
    this.node = node;
    this.storeDeadlineMs = config.storeDeadlineMs;
    this.clock = config.clock;
    this.#recorded = recorded;
    this.show = show;
    this.view = view;
  }

  /** The limit that cancelled the call. */
  get exceeded(): ReachedLimit | undefined {
    return this.#exceeded;
  }

  /** Whether the child turn has ended or is suspended, so that what it used is final here. */
  get isSettled(): boolean {
    return (this.#replayed ?? this.#result) !== undefined;
  }

  /** What the tree of the child turn used, without what the parent has recorded. */
  get usageBy(): readonly AgentUsage[] {
    return this.usageBeside(this.#recorded);
  }

  /** The same, where the parent has recorded this. */
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

  /** In a replay: what the next record says that the child turn used. */
  replay(used: readonly AgentUsage[]): void {
    this.#replayed = used;
    this.node.attach(this);
  }

  /** The parent has recorded what the child turn used, or is over. */
  end(): void {
    this.node.detach(this);
  }

  exceed(limit: ReachedLimit): void {
    this.#exceeded ??= limit;
    this.scope.abort(new AgentLoopError(limit.code, limit.message, limit.reason ? { reason: limit.reason } : {}));
  }
}

/** The parent turn of the context of a call or a hook, or of the options of a turn; `undefined` for a copy of a context. */
export function parentTurnOf(context: unknown): ParentTurn | undefined {
  if (typeof context !== 'object' || context === null) return undefined;
  const parent: unknown = Reflect.get(context, parentTurn);
  return isParentTurn(parent) ? parent : undefined;
}

/** Also one of another installed copy of this package. */
function isParentTurn(value: unknown): value is ParentTurn {
  return typeof value === 'object' && value !== null && 'link' in value && 'usageBy' in value;
}

/**
 * Runs a child turn with its parent: a cancel of the call cancels it; where the call is left, it errors with `LEFT` at once and its
 * lease is released, before the parent's is. Nothing is written then.
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

/** All child turns of a turn, also those that hooks started, which no intent names. Errors: those of the store. */
export async function listedChildren(store: TaskStateStore, taskId: string): Promise<readonly TaskSummary[]> {
  const tasks = await store.list({ parentTaskId: taskId, limit: Number.MAX_SAFE_INTEGER });
  // A store that does not know `parentTaskId` gives other tasks too.
  return tasks.filter(({ parentTaskId }) => parentTaskId === taskId);
}

/** What a parent needs of the turn that it opened. */
interface ChildTurn<T> {
  readonly live$: Observable<AgentEvent>;
  readonly state: LoopState | undefined;
  result(): Promise<TurnResult<T>>;
}

const firstPauseMs = 50;
const lastPauseMs = 1_000;

/**
 * How a child turn ends. One that is lost to this process for a reason that may pass is opened again, after 50 ms doubling to 1 s, until the
 * parent's `storeDeadlineMs`: it then continues where it was, or is watched. Rejects with the `TurnError` of its own record, with
 * `TurnLost` where the parent is lost with it, and with what the first `open` throws.
 */
export function childResult<T>(parent: ParentTurn, open: () => ChildTurn<T>): Promise<TurnResult<T>> {
  const result = untilOver(parent, open);
  parent.over = result;
  return result;
}

async function untilOver<T>(parent: ParentTurn, open: () => ChildTurn<T>): Promise<TurnResult<T>> {
  let turn = open();
  let waitedMs = 0;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, lastPauseMs)) {
    try {
      const result = await shown(parent, turn).result();
      parent.settle(result);
      return result;
    } catch (error) {
      if (error instanceof TurnError) {
        parent.settle(error.result);
        throw error;
      }
      if (parent.scope.aborted && isLeft(parent.scope.reason)) throw new TurnLost(parent.scope.reason);
      const isOver = parent.drain.aborted || waitedMs >= parent.storeDeadlineMs;
      if (isOver || !mayPass(error, turn)) throw new TurnLost(error);
      await pause(parent, pauseMs);
      waitedMs += pauseMs;
      turn = reopened(open);
    }
  }
}

function shown<T>(parent: ParentTurn, turn: ChildTurn<T>): ChildTurn<T> {
  turn.live$.subscribe({
    next: (event) => parent.show(event, turn.state?.turn.agentId ?? ''),
    error: () => {},
  });
  return turn;
}

function reopened<T>(open: () => ChildTurn<T>): ChildTurn<T> {
  try {
    return open();
  } catch (error) {
    throw new TurnLost(error);
  }
}

/** A child turn that another owner took is watched. One that cannot be opened by this lease of the parent belongs to a later owner of it. */
function mayPass(error: unknown, { state }: Pick<ChildTurn<unknown>, 'state'>): boolean {
  if (!AgentLoopError.isInstance(error) || error.code === 'SHUTDOWN') return false;
  return error.code === 'FENCED' ? state !== undefined : error.retryable;
}

function pause({ clock, scope }: ParentTurn, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stopTimer();
      stopListening();
      resolve();
    };
    const stopTimer = clock.schedule(ms, done);
    const stopListening = scope.onAbort(done);
    if (scope.aborted) done();
  });
}

/** Adds up usage of the tool's own model calls and of its child turn, as a record says it. */
export function recordedUsage(
  own: Usage | undefined,
  below: readonly AgentUsage[],
): { readonly usage?: Usage; readonly usageBy?: readonly AgentUsage[] } {
  if (below.length === 0) return own ? { usage: own } : {};
  const sum = usageOf(below);
  return { usage: own ? addUsage(own, sum) : sum, usageBy: below };
}
