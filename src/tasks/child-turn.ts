import type { Observable } from 'rxjs';
import {
  type AgentEvent,
  AgentLoopError,
  type HookContext,
  isSuspended,
  isTerminalState,
  type TaskStateStore,
  type TaskSummary,
  type ToolContext,
} from '../core/contracts/index.ts';
import { type LoopState, TurnError, type TurnResult } from '../core/journal/index.ts';
import type { ResolvedConfig } from '../core/options/index.ts';
import { isLeft, ParentTurn, TurnLost } from '../core/ownership/index.ts';
import { Backoff, pause } from '../core/streams/index.ts';

/** Returns the parent for a child turn that a hook starts; `undefined` for a copy of the hook's context. */
export function hookParentOf(context: HookContext, name: string): ParentTurn | undefined {
  const parent: unknown =
    'parentTurn' in context && typeof context.parentTurn === 'function' ? context.parentTurn(name) : undefined;
  return ParentTurn.isInstance(parent) ? parent : undefined;
}

/** A child turn keeps its journal in the store of its parent; without a store it lives in this process only. */
export function childConfig(config: ResolvedConfig, { store, retryPlan }: ParentTurn): ResolvedConfig {
  return Object.assign({}, config, { taskStateStore: store, retryPlan: config.retryPlan ?? retryPlan });
}

/** Returns the parent for the child turn of a call; `undefined` for a copy of its context. */
export function callParentOf(context: ToolContext): ParentTurn | undefined {
  const parent = 'parentTurn' in context ? context.parentTurn : undefined;
  return ParentTurn.isInstance(parent) ? parent : undefined;
}

/** Lists all child turns of a turn, including those of hooks, which no record of a call names. Errors: those of the store. */
export async function listedChildren(store: TaskStateStore, taskId: string): Promise<readonly TaskSummary[]> {
  const tasks = await store.list({ parentTaskId: taskId, limit: Number.MAX_SAFE_INTEGER });
  // A store that does not support `parentTaskId` also returns other tasks.
  return tasks.filter(({ parentTaskId }) => parentTaskId === taskId);
}

/** The parts of an opened turn that its parent uses. */
interface ChildTurn<T> {
  readonly live$: Observable<AgentEvent>;
  readonly state: LoopState | undefined;
  result(): Promise<TurnResult<T>>;
}

const firstPauseMs = 50;
const lastPauseMs = 1_000;

/**
 * Resolves with the result of a child turn. A child turn that is lost for a retryable reason is opened again, after 50 ms doubling to 1 s, until the
 * parent's `storeDeadlineMs`; this process then resumes or watches it. So is one whose end the store has lost. Rejects with the `TurnError` of the child's own record, with
 * `TurnLost` if the parent is lost with it, and with the error of the first `open`.
 */
export function childResult<T>(parent: ParentTurn, open: () => ChildTurn<T>): Promise<TurnResult<T>> {
  const result = untilOver(parent, open);
  parent.over = result;
  return result;
}

async function untilOver<T>(parent: ParentTurn, open: () => ChildTurn<T>): Promise<TurnResult<T>> {
  let turn = open();
  let waitedMs = 0;
  for (const backoff = new Backoff(firstPauseMs, lastPauseMs); ; ) {
    try {
      const result = await keptResult(parent, turn);
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
      const pauseMs = backoff.next();
      await pause(pauseMs, parent.clock, parent.scope.signal);
      waitedMs += pauseMs;
      turn = reopened(open);
    }
  }
}

/** The result of an opened child turn, once the store is known to have kept its end: the parent turn records what follows from it. */
async function keptResult<T>(parent: ParentTurn, turn: ChildTurn<T>): Promise<TurnResult<T>> {
  try {
    const result = await shown(parent, turn).result();
    await checkKept(parent, result);
    return result;
  } catch (error) {
    if (error instanceof TurnError) await checkKept(parent, error.result);
    throw error;
  }
}

/** Errors: `REWOUND` if the store has lost the end that it acknowledged; those of the store. */
async function checkKept({ store }: ParentTurn, { taskId, status }: TurnResult): Promise<void> {
  if (!store || isSuspended(status)) return;
  const kept = await store.describe(taskId);
  if (!kept || isTerminalState(kept.state)) return;
  const message = `The store lost the end of the child turn "${taskId}" after it had acknowledged it; check its durability settings.`;
  throw new AgentLoopError('REWOUND', message, { taskId, retryable: true });
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

/** After `FENCED`, a child turn that was opened here is watched; one that was not yet opened belongs to a later owner of the parent. */
function mayPass(error: unknown, { state }: Pick<ChildTurn<unknown>, 'state'>): boolean {
  if (!AgentLoopError.isInstance(error) || error.code === 'SHUTDOWN') return false;
  return error.code === 'FENCED' ? state !== undefined : error.retryable;
}
