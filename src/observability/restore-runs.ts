import type { Clock, Lease, TaskStateStore, TaskSummary } from '../core/contracts/index.ts';
import { type Commit, type Deadline, ready, replayOf, type TurnIdentity } from '../core/journal/index.ts';
import type { ResolvedConfig, RestoredRuns, RestoreRuns } from '../core/options/index.ts';
import { listedChildren } from '../tasks/child-turn.ts';
import {
  calledChildren,
  type EarlierRuns,
  earlierRuns,
  endedInOrder,
  exportedAfterMs,
  type LostRun,
  lastSign,
  openChildren,
} from './lost-runs.ts';
import { canRestore, type RestoreOptions, restoreSpans } from './spans/restore-spans.ts';
import { type TracingOptions, turnTracing } from './spans/tracing-options.ts';

/**
 * Writes the spans that were lost with the processes of earlier runs. Those above and of child turns follow once the journals of the child turns are
 * read; a child turn is omitted if the store does not answer within `storeDeadlineMs` or the child was deleted.
 */
export function restoreRuns(
  config: ResolvedConfig,
  past: Commit,
  { lease, store, parentLostAt }: RestoreRuns,
): RestoredRuns {
  const { turn } = past.after;
  const earlier = earlierRuns(past, lease.abandonedAt, parentLostAt);
  const { lostAt } = earlier;
  const setupOf = (agentId: string) => (agentId === config.agentId ? config : config.agents?.(agentId));
  const options = {
    tracingOf: (agentId: string) => turnTracing(config, { ...turn, agentId }),
    maxIterations: turn.settings.maxIterations ?? config.maxIterations,
    infoOf: (agentId: string) => setupOf(agentId)?.llmProvider.info,
    agentNameOf: (agentId: string) => config.agents?.(agentId)?.name ?? agentId,
    enableTracing: config.enableTracing !== false,
  };
  if (earlier.lost.length === 0) return { lostAt, hasSpans: lostAt === undefined };
  if (!canRestore(options)) return { lostAt, hasSpans: false };
  const { clock, storeDeadlineMs: ms, spanNames } = config;
  const runs = new RunsOfTree(store, { clock, ms }, { spanNames });
  return { lostAt, hasSpans: true, restoring: runs.restore(turn, earlier, options) };
}

/** How long a cancel waits for each response of the store, at most. */
const mostMsOfCancel = 2_000;

interface EndedTurn {
  readonly lease: Lease;
  readonly clock: Clock;
  /** When the process of its parent turn was last seen alive, for a child turn that is cancelled with it. */
  readonly parentLostAt: number | undefined;
}

/**
 * As `restoreRuns`, for a turn whose end is written without its configuration. The spans have no data from the configuration and no
 * content, because its `redact` is not available. Never rejects.
 */
export async function restoreEnded(store: TaskStateStore, { lease, clock, parentLostAt }: EndedTurn): Promise<void> {
  if (lease.abandonedAt == null) return;
  const runs = new RunsOfTree(store, { clock, ms: mostMsOfCancel });
  // Records after the lease's seq belong to an owner that took the turn over meanwhile.
  const past = await runs.past(lease.taskId, lease.seq);
  if (past) await runs.restore(past.after.turn, earlierRuns(past, lease.abandonedAt, parentLostAt));
}

/** Restores runs of a turn and of the child turns below it, whose configuration is unknown here. */
class RunsOfTree {
  readonly #store: TaskStateStore;
  readonly #deadline: Deadline;
  readonly #options: TracingOptions;

  constructor(store: TaskStateStore, deadline: Deadline, options: TracingOptions = {}) {
    this.#store = store;
    this.#deadline = deadline;
    this.#options = { ...options, captureContent: false, redact: () => '[not shown]' };
  }

  /** Also restores the child turns that calls and hooks of these runs started and that ended by themselves. At once if there are none of calls. */
  async restore(turn: TurnIdentity, { lost }: EarlierRuns, options = this.#optionsOf(turn)): Promise<void> {
    const lostAt = lost.at(-1)?.lostAt;
    if (lostAt === undefined || !canRestore(options)) return;
    const called = calledChildren(lost);
    // Read at once, before the turn and its child turns continue.
    const journals = called.size === 0 ? noJournals : await this.#journalsOf([...called.keys()]);
    const runs = called.size === 0 ? lost : await this.#withChildren(lost, journals);
    for (const run of runs) restoreSpans(run, options);
    const ofCalls = [...called].map(([taskId, seenAt]) => this.#restoreChild(journals.get(taskId), seenAt));
    const ofHooks = (await this.#childrenOfHooks(turn, lostAt)).filter((taskId) => !called.has(taskId));
    await Promise.all([
      ...ofCalls,
      ...ofHooks.map(async (taskId) => this.#restoreChild(await this.past(taskId), lostAt)),
    ]);
  }

  #optionsOf(turn: TurnIdentity): RestoreOptions {
    return {
      tracingOf: (agentId) => turnTracing(this.#options, { ...turn, agentId }),
      maxIterations: turn.settings.maxIterations,
      infoOf: () => undefined,
      agentNameOf: (agentId) => agentId,
      enableTracing: true,
    };
  }

  async #journalsOf(taskIds: readonly string[]): Promise<ReadonlyMap<string, Commit | undefined>> {
    return new Map(await Promise.all(taskIds.map(async (taskId) => [taskId, await this.past(taskId)] as const)));
  }

  /** The runs with the time at which a record of an open child turn shows that their process was still alive, if that is later. */
  #withChildren(
    lost: readonly LostRun[],
    journals: ReadonlyMap<string, Commit | undefined>,
  ): Promise<readonly LostRun[]> {
    const now = this.#deadline.clock.now();
    return Promise.all(
      lost.map(async (run) => {
        const before = run.nextAt ?? now;
        const signs = openChildren(run).map((taskId) => this.#lastSign(journals.get(taskId), before));
        return { ...run, lostAt: Math.max(run.lostAt, ...(await Promise.all(signs))) };
      }),
    );
  }

  /** The last record of a child turn, or of one below it, in a run that began before a time. */
  async #lastSign(past: Commit | undefined, before: number): Promise<number> {
    if (!past) return 0;
    const { at, children } = lastSign(past, before);
    const below = children.map(async (taskId) => this.#lastSign(await this.past(taskId), before));
    return Math.max(at, ...(await Promise.all(below)));
  }

  /** Skips an open child turn: the process that continues or cancels it restores its spans. */
  async #restoreChild(past: Commit | undefined, lostAt: number): Promise<void> {
    if (past && endedInOrder(past)) await this.restore(past.after.turn, earlierRuns(past, lostAt));
  }

  async #childrenOfHooks({ taskId }: TurnIdentity, lostAt: number): Promise<readonly string[]> {
    const isWanted = ({ state, updatedAt }: TaskSummary) =>
      state !== 'submitted' && state !== 'working' && Date.parse(updatedAt) + exportedAfterMs > lostAt;
    const children = await this.#ifReadable(
      () => listedChildren(this.#store, taskId),
      (listed) => listed.filter(isWanted).map(({ taskId }) => taskId),
    );
    return children ?? [];
  }

  /** The records of a turn up to a seq. */
  past(taskId: string, upTo = Number.POSITIVE_INFINITY): Promise<Commit | undefined> {
    return this.#ifReadable(
      () => this.#store.read(taskId),
      (records) => replayOf(records.filter(({ seq }) => seq <= upTo)),
    );
  }

  /** Returns `undefined` if the store does not answer, or its data is damaged: missing spans do not fail a turn. */
  async #ifReadable<T, R>(ask: () => T | Promise<T>, use: (answer: T) => R): Promise<R | undefined> {
    try {
      return use(await ready(ask, this.#deadline));
    } catch {
      return undefined;
    }
  }
}

const noJournals: ReadonlyMap<string, Commit | undefined> = new Map();
