import type { Agent } from '../agent/agent.ts';
import type { AgentTurnOptions } from '../agent/agent-options.ts';
import { givesWay } from '../agent/resolve-agent.ts';
import { type Message, type TaskStateStore, type TurnCallSettings, turnCallNames } from '../core/contracts/index.ts';
import type { TurnResult } from '../core/journal/index.ts';

/** What all turns of a batch are given. */
export interface SharedTurnOptions<C = unknown>
  extends TurnCallSettings,
    Pick<
      AgentTurnOptions<C>,
      'context' | 'authContext' | 'dependencies' | 'systemPrompt' | 'maxIterations' | 'retryPlan' | 'parentContext'
    > {}

/** One attempt of an item. */
export interface BatchTurn {
  /** The same in each start of the batch: a turn that exists is attached to, and one that has ended gives its result. */
  readonly taskId: string;
  /** A conversation of the item's own. */
  readonly contextId: string;
  readonly messages: readonly Message[];
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  /** The task of the attempt before, which failed. */
  readonly retryOf: string | undefined;
}

/** Runs the turns of one start of a batch. */
export interface BatchTurns<T = unknown> {
  /**
   * Resolves with the result of a turn that completed or waits for answers. Rejects with a `TurnError` where it failed or was cancelled; with
   * any other error it is lost, and the next start of the batch continues it.
   */
  run(turn: BatchTurn): Promise<TurnResult<T>>;
  /** What the store has of a task; a turn that is `held` by somebody else is left until the others have started. Default: all are new. */
  look?(taskId: string): Promise<'new' | 'held' | 'known'>;
}

/** Where the turns of a batch run. */
export interface BatchRunner<T = unknown> {
  /** How many run at once, if the options do not say. Default: as many as the window has. */
  readonly concurrency?: number;
  /** `stop` is aborted when the batch is left: turns stop so that they can be continued, and are lost. */
  open(stop: AbortSignal): BatchTurns<T>;
}

/** Runs the turns of a batch in this process. */
export function agentRunner<T, C>(agent: Agent<T, C>, shared: SharedTurnOptions<C> = {}): BatchRunner<T> {
  return {
    concurrency: 10,
    open(stop) {
      const { shutdown, taskStateStore } = agent.options;
      const runs = agent.variant({ shutdown: shutdown ? AbortSignal.any([shutdown, stop]) : stop });
      const { messageStore } = runs.resolved;
      const start = ({ taskId, contextId, messages, metadata, retryOf }: BatchTurn) => {
        if (retryOf === undefined || !taskStateStore)
          return runs.startTurn(messages, { ...shared, taskId, contextId, ...(metadata && { metadata }) });
        // The copy of the failed turn has its settings.
        const { systemPrompt, maxIterations, retryPlan, ...again } = shared;
        for (const name of turnCallNames) delete again[name];
        return runs.retry(retryOf, { ...again, taskId, contextId });
      };
      return {
        async run(turn) {
          try {
            return await start(turn).result();
          } finally {
            // A conversation in the memory of this process has no other turn.
            if (givesWay(messageStore)) await messageStore.delete(turn.contextId);
          }
        },
        ...(taskStateStore && { look: (taskId) => look(taskStateStore, taskId) }),
      };
    },
  };
}

async function look(store: TaskStateStore, taskId: string): Promise<'new' | 'held' | 'known'> {
  const task = await store.describe(taskId);
  if (!task) return 'new';
  return task.held ? 'held' : 'known';
}
