import {
  type AgentLoopConfig,
  AgentLoopError,
  type Extension,
  type TaskStateStore,
  type ToolProvider,
} from '../core/contracts/index.ts';
import { foldRecords, type JournalRecord } from '../core/journal/index.ts';

/**
 * Cancels what a turn that nobody runs has begun outside of it, by its journal. Called before the end of the turn is written; the function
 * that it resolves with is called after that.
 */
export type CancelOutside = (records: readonly JournalRecord[], store: TaskStateStore) => Promise<() => Promise<void>>;

const cancels = new WeakMap<Extension | ToolProvider, CancelOutside>();

/** Marks an extension, or a provider of tools, whose turns work elsewhere, for `Agent.cancel`. */
export function withCancelOutside<T extends Extension | ToolProvider>(by: T, cancel: CancelOutside): T {
  cancels.set(by, cancel);
  return by;
}

/** Cancels what a turn of this configuration has begun elsewhere, and its open child turns. */
export function cancelOutside(config: Pick<AgentLoopConfig, 'extensions' | 'toolProviders' | 'agents'>): CancelOutside {
  return async (records, store) => {
    const setup = config.agents?.(foldRecords(records).agentId);
    const parts = [config, ...(setup ? [setup] : [])].flatMap(({ extensions = [], toolProviders = [] }) => [
      ...extensions,
      ...toolProviders,
    ]);
    return all(parts.flatMap((part) => cancels.get(part) ?? []).map((cancel) => cancel(records, store)));
  };
}

/** Cancels what the open child turns of a turn have begun elsewhere; `cancelOf` gives how, by the agent of a child turn. */
export function cancelOfChildren(cancelOf: (agentId: string) => CancelOutside | undefined): CancelOutside {
  return async (records, store) => {
    const { openChildren } = foldRecords(records);
    const below = openChildren.flatMap(({ taskId, agentId }) => {
      const cancel = cancelOf(agentId);
      return cancel ? [ofChild(taskId, store, cancel)] : [];
    });
    return all(below);
  };
}

async function ofChild(taskId: string, store: TaskStateStore, cancel: CancelOutside): Promise<() => Promise<void>> {
  try {
    return await cancel(await store.read(taskId), store);
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return async () => {};
    throw error;
  }
}

async function all(begun: readonly Promise<() => Promise<void>>[]): Promise<() => Promise<void>> {
  const ends = await Promise.all(begun);
  return async () => {
    await Promise.all(ends.map((end) => end()));
  };
}
