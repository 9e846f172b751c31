import { Observable, type Subscriber } from 'rxjs';
import { type AgentEvent, AgentLoopError, shownValue } from '../core/contracts/index.ts';
import { eventsOf, iterateEvents, type JournalRecord, resultOf, type TurnResult } from '../core/journal/index.ts';
import { withArtifactTools } from '../tools/artifact-tools.ts';
import type { Deviation } from './deviation.ts';
import { performReplay, type ReplayConfig } from './perform-replay.ts';
import { type Recording, recordingOf } from './recording.ts';

/** A journal in memory, as `store.read` gives it, or what holds one. */
export type Journal = readonly JournalRecord[] | { readonly records: readonly JournalRecord[] };

export interface ReplayOptions {
  /**
   * `'strict'` (default): any deviation is an error that shows what was expected and what came. `'forgiving'`: deviations are
   * noted, and the loop continues with the recorded answers as far as they match.
   */
  readonly mode?: 'strict' | 'forgiving' | undefined;
  /** How long the loop may take from one record to the next before that is a deviation. Milliseconds; default 5,000. */
  readonly patienceMs?: number | undefined;
}

export type ReplayResult = TurnResult & {
  /** In a strict replay none. */
  readonly deviations: readonly Deviation[];
  /** The journal of the replay; of a strict one the recording. */
  readonly records: readonly JournalRecord[];
};

/**
 * Runs the real loop with the model's recorded answers and the recorded results of tools: no network, no effects. Whoever ran the
 * turn, however often it was killed, paused, steered, cancelled or resumed: the same records come about, and the same events of
 * records as `AgentLoop.observe` gives of the recording.
 *
 * Without a `config`, tools, limits and what extensions decided are as the recording shows them. Errors: `INVALID_INPUT`, `POISON` or `SCHEMA` for what is no
 * journal, at once; through the replay `DEVIATION` where the loop does something else than was recorded, `INVALID_CONFIG`.
 */
export function replay(journal: Journal, config: ReplayConfig = {}, options: ReplayOptions = {}): Replay {
  checkOptions(options);
  return Replay.of(recordingOf('records' in journal ? journal.records : journal), config, options);
}

/**
 * The replay of a turn: an Observable of its events, also async-iterable. Nothing happens before the first subscription or
 * `result()`; each of them replays anew. Completes after the last record; errors with `DEVIATION`. Unsubscribing stops it.
 */
export class Replay extends Observable<AgentEvent> implements AsyncIterable<AgentEvent> {
  readonly taskId: string;
  readonly #play: (subscriber?: Subscriber<AgentEvent>) => Promise<ReplayResult>;

  private constructor(recording: Recording, config: ReplayConfig, options: ReplayOptions) {
    super((subscriber) => {
      this.#play(subscriber).then(
        () => subscriber.complete(),
        (error: unknown) => subscriber.error(error),
      );
    });
    this.taskId = recording.started.taskId;
    this.#play = (subscriber) => play(recording, { config, options, subscriber });
  }

  /** @internal */
  static of(recording: Recording, config: ReplayConfig, options: ReplayOptions): Replay {
    return new Replay(recording, config, options);
  }

  /** Replays the turn. Resolves with how it ended, also where that was a failure or a cancel; rejects with `DEVIATION`. */
  result(): Promise<ReplayResult> {
    return this.#play();
  }

  [Symbol.asyncIterator](): AsyncIterator<AgentEvent> {
    return iterateEvents(this);
  }
}

interface Performance {
  readonly config: ReplayConfig;
  readonly options: ReplayOptions;
  readonly subscriber: Subscriber<AgentEvent> | undefined;
}

async function play(recording: Recording, { config, options, subscriber }: Performance): Promise<ReplayResult> {
  const records: JournalRecord[] = [];
  const { deviations, state } = await performReplay(recording, {
    config: withArtifactTools(config),
    strict: options.mode !== 'forgiving',
    patienceMs: options.patienceMs ?? 5_000,
    onRecord(record, before, last) {
      records.push(record);
      if (!subscriber) return;
      for (const event of eventsOf(before, record, { checkpoints: true, shown: '', last })) subscriber.next(event);
    },
    onStop: (stop) => subscriber?.add(stop),
  });
  return { ...resultOf(state), deviations, records };
}

function checkOptions({ mode, patienceMs }: ReplayOptions): void {
  if (mode !== undefined && mode !== 'strict' && mode !== 'forgiving') {
    throw new AgentLoopError('INVALID_INPUT', `mode must be "strict" or "forgiving", not ${shownValue(mode)}.`);
  }
  if (patienceMs === undefined || (Number.isFinite(patienceMs) && patienceMs > 0)) return;
  const message = `patienceMs must be milliseconds above 0, not ${shownValue(patienceMs)}; or leave it out.`;
  throw new AgentLoopError('INVALID_INPUT', message);
}
