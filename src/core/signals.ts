import type { LLMChunk } from '../providers/interfaces.ts';
import { applyRecord } from './apply-record.ts';
import type { JournalRecord, RecordStamp, TurnRecord } from './records.ts';
import type { LoopState } from './state.ts';

/** A record and the state before it: all that its events depend on. */
export interface Step {
  readonly before: LoopState | undefined;
  readonly record: JournalRecord;
}

/** Records that are written in one append. */
export interface Commit {
  readonly type: 'commit';
  readonly steps: readonly Step[];
  readonly after: LoopState;
  /** True where the engine waits for this append before it goes on. */
  readonly barrier: boolean;
  /** True where the records were read from the journal, not written by this run. */
  readonly replayed?: true;
  /** What was thrown where these records say that the turn failed. Known to this process only. */
  readonly cause?: unknown;
  /** Called once, when the records are durable and have been shown. */
  readonly durable?: () => void;
}

/** A sign of life of a running tool. */
export interface ToolProgress {
  readonly type: 'tool-progress';
  readonly callId: string;
  readonly toolName: string;
  readonly update: unknown;
}

export type StreamChunk = Exclude<LLMChunk, { type: 'done' }>;

/** What flows through a turn: records to write, and deltas that are only shown. */
export type Signal = Commit | StreamChunk | ToolProgress;

/** What the stamp of a record needs. */
export interface Stamper {
  readonly epoch: number;
  readonly now: () => number;
}

export interface CommitOptions {
  /** Default false. */
  readonly barrier?: boolean;
  readonly durable?: () => void;
}

/** Stamps fresh records behind a state (in place: they are made for this), folds them, and makes one append of them. */
export function commitOf(
  stamper: Stamper,
  state: LoopState,
  records: readonly TurnRecord[],
  options: CommitOptions = {},
): Commit {
  const at = stamper.now();
  const steps: Step[] = [];
  let after = state;
  for (const record of records) {
    const stamped = stamp(record, { seq: after.seq + 1, epoch: stamper.epoch, at });
    steps.push({ before: after, record: stamped });
    after = applyRecord(after, stamped);
  }
  const { barrier = false, durable } = options;
  return durable ? { type: 'commit', steps, after, barrier, durable } : { type: 'commit', steps, after, barrier };
}

/** Records are made for one commit, so the stamp is written into them; a copy would cost more than all else here. */
function stamp(record: TurnRecord, place: RecordStamp): JournalRecord {
  const stamped: { -readonly [Name in keyof RecordStamp]?: RecordStamp[Name] } & TurnRecord = record;
  stamped.seq = place.seq;
  stamped.epoch = place.epoch;
  stamped.at = place.at;
  return stamped as JournalRecord;
}

/** One append with more records behind; to be made before anything waits for it. */
export function extendCommit(stamper: Stamper, commit: Commit, records: readonly TurnRecord[]): Commit {
  if (records.length === 0) return commit;
  const { steps, after } = commitOf(stamper, commit.after, records);
  return { type: 'commit', steps: commit.steps.concat(steps), after, barrier: commit.barrier };
}
