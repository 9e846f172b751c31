import { filter, firstValueFrom, map, type Observable } from 'rxjs';
import {
  type AgentLoopConfig,
  AgentLoopError,
  type Clock,
  type Message,
  systemClock,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import {
  foldRecords,
  isTerminal,
  type JournalRecord,
  type LoopState,
  observeTask,
  ready,
} from '../core/journal/index.ts';
import { isAtLastCall, type LastCallLimits } from '../core/turn/index.ts';
import { limitsOf } from '../options/config.ts';

/** The turn that reads a steering message: the one that received it, or the next one of its context. */
export type CountsFor = 'this-turn' | 'next-turn';

/** What becomes of steering messages. */
export interface Steered {
  /** Known at once: `'next-turn'` if the last model call that `maxIterations` allows has begun. A turn that ends earlier than that reads no more either. */
  readonly expected: CountsFor;
  /**
   * Resolves once that is recorded: with the next model call, or at the end of the turn; when the turn suspends, as `'this-turn'`, unless it ends
   * before it continues. Do not await it in a tool or a hook of the same turn. Errors: `TERMINAL` if the turn ended without them: give them to a new turn; that by which the process lost the turn.
   */
  countsFor(): Promise<CountsFor>;
}

/** The limits of a turn that runs elsewhere, if its owner has the same configuration. */
export function limitsFrom(
  config: Pick<AgentLoopConfig, 'maxIterations' | 'onLimit' | 'agents'>,
  { agentId, turn }: LoopState,
): LastCallLimits {
  const known = limitsOf({ ...config, ...config.agents?.(agentId) });
  return { ...known, maxIterations: turn.settings.maxIterations ?? known.maxIterations };
}

/** Which turn reads a message, from the records of the turn so far, emitted whenever there are more. Errors: `TERMINAL` if they complete without it. */
export async function recordedFor(
  taskId: string,
  steering: { readonly message: Message; readonly command: string | undefined },
  records$: Observable<readonly JournalRecord[]>,
): Promise<CountsFor> {
  const isRecordOf = (record: JournalRecord) => {
    const { message, command } = steering;
    if (record.type !== 'x.steer') return false;
    return command === undefined ? record.effects?.messages?.includes(message) : record.command === command;
  };
  let at: number | undefined;
  const fact = (records: readonly JournalRecord[]): CountsFor | undefined => {
    for (const record of records) {
      if (isRecordOf(record)) {
        if ('effects' in record && record.effects?.late) return 'next-turn';
        at = record.seq;
      } else if (at !== undefined && record.seq > at) {
        if (record.type === 'llm.start') return 'this-turn';
        if (isTerminal(record)) return 'next-turn';
      }
    }
    return undefined;
  };
  const facts$ = records$.pipe(
    map(fact),
    filter((each) => each !== undefined),
  );
  const known = await firstValueFrom(facts$, { defaultValue: undefined });
  if (known) return known;
  // A suspended turn reads it when it continues.
  if (at !== undefined) return 'this-turn';
  const problem = `Turn "${taskId}" ended before it received the message; give it to a new turn.`;
  throw new AgentLoopError('TERMINAL', problem, { taskId });
}

interface SteerOptions {
  readonly store: TaskStateStore;
  /** Of the command: a repeated id is applied once. */
  readonly id: string;
  readonly clock?: Clock | undefined;
  /** That of the turn's owner. */
  readonly config: Pick<AgentLoopConfig, 'maxIterations' | 'onLimit' | 'agents' | 'storeDeadlineMs'>;
}

/** Adds a message to a turn of any process, by its journal. Errors: `NOT_FOUND`, `TERMINAL`, `UNAVAILABLE`. */
export async function steerTask(taskId: string, message: Message, options: SteerOptions): Promise<Steered> {
  const { store, id, config, clock = systemClock } = options;
  const deadline = { ms: config.storeDeadlineMs ?? 30_000, clock };
  // Read first: a failed read must not report a message as refused that was posted.
  const state = foldRecords(await ready(() => store.read(taskId), deadline));
  await ready(() => store.post(taskId, { id, type: 'steer', message }), deadline);
  const isLast = isAtLastCall(limitsFrom(config, state), state);
  const records$ = observeTask(store, taskId, deadline).pipe(
    filter((signal) => signal.type === 'commit'),
    map(({ steps }) => steps.map(({ record }) => record)),
  );
  return {
    expected: isLast ? 'next-turn' : 'this-turn',
    countsFor: () => recordedFor(taskId, { message, command: id }, records$),
  };
}
