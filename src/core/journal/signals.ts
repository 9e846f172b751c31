import type { AgentEvent, SubAgentEvent, SubAgentStep } from '../contracts/events.ts';
import type { LLMChunk } from '../contracts/provider.ts';
import { applyRecord, foldInto } from './apply-record.ts';
import type { JournalRecord, RecordStamp, TurnRecord } from './records.ts';
import type { LoopState } from './state.ts';

/**
 * A record and the state before it: all that its events depend on. Of the intents of one append each may have been folded into that state
 * already: the event of one depends on its call only.
 */
export interface Step {
  readonly before: LoopState | undefined;
  readonly record: JournalRecord;
}

/** Records that are written in one append. */
export interface Commit {
  readonly type: 'commit';
  readonly steps: readonly Step[];
  readonly after: LoopState;
  /** True if the engine waits for this append before it continues. */
  readonly barrier: boolean;
  /** True where the records were read from the journal, not written by this run. */
  readonly replayed?: true;
  /** True if the turn continues after records that were read: a suspension that is the last of them is over. */
  readonly goesOn?: boolean;
  /** True where the turn had ended before it was opened: what is shown is how it ended then. */
  readonly endedBefore?: true;
  /** What was thrown where these records say that the turn failed. Known to this process only. */
  readonly cause?: unknown;
  /** Called once, when the records are durable and have been shown. */
  readonly durable?: () => void;
}

/** A progress update of a running tool. */
export interface ToolProgress {
  readonly type: 'tool-progress';
  readonly callId: string;
  readonly toolName: string;
  readonly update: unknown;
}

/** An event of a child turn, shown by the process that runs it; not published, since the child turn has its own stream. */
export interface SubAgentSignal {
  readonly type: 'sub-agent';
  /** From the child turn of this turn to the turn whose event it is. */
  readonly path: readonly SubAgentStep[];
  readonly event: Exclude<AgentEvent, SubAgentEvent>;
}

/** A hook of an extension failed. Shown by the process where it did. */
export interface ExtensionError {
  readonly type: 'extension-error';
  readonly extension: string;
  readonly hook: string;
  readonly message: string;
  readonly fatal: boolean;
}

export type StreamChunk = Exclude<LLMChunk, { type: 'done' }>;

/** What flows through a turn: records to write, and deltas that are only shown. */
export type Signal = Commit | StreamChunk | ToolProgress | SubAgentSignal | ExtensionError;

/** What the stamp of a record needs. */
export interface Stamper {
  readonly epoch: number;
  readonly now: () => number;
}

/** One append in the making: records are stamped and folded as they are added. */
export class CommitDraft {
  readonly steps: Step[] = [];
  /** The state after the records so far. */
  after: LoopState;
  readonly #stamper: Stamper;
  /** Of the first record: those of one append have one time. */
  #at: number | undefined;

  constructor(stamper: Stamper, state: LoopState) {
    this.after = state;
    this.#stamper = stamper;
  }

  /** Adds a record that was made for this append: its stamp is written into it, for a copy would cost more than all else here. */
  add(record: TurnRecord): void {
    this.#add(record, false);
  }

  /** As `add` for each. Intents that follow one another make one state, for each change of a state copies it. */
  addAll(records: readonly TurnRecord[]): void {
    let follows = false;
    for (const record of records) {
      const isIntent = record.type === 'tool.intent';
      this.#add(record, isIntent && follows);
      follows = isIntent;
    }
  }

  /** `extendsState`: the state so far was made for this append, and nobody has seen it. */
  #add(record: TurnRecord, extendsState: boolean): void {
    const before = this.after;
    const stamped: { -readonly [Name in keyof RecordStamp]?: RecordStamp[Name] } & TurnRecord = record;
    stamped.seq = before.seq + 1;
    this.#at ??= this.#stamper.now();
    stamped.epoch = this.#stamper.epoch;
    stamped.at = this.#at;
    this.steps.push({ before, record: stamped as JournalRecord });
    if (extendsState) foldInto(before, stamped as JournalRecord);
    else this.after = applyRecord(before, stamped as JournalRecord);
  }

  /** The append; `barrier` if the engine waits for it before it continues, `durable` as in a commit. */
  finish(barrier: boolean, durable?: () => void): Commit {
    const { steps, after } = this;
    return durable ? { type: 'commit', steps, after, barrier, durable } : { type: 'commit', steps, after, barrier };
  }
}

/** One append of records after a state. */
export function commitOf(stamper: Stamper, state: LoopState, records: readonly TurnRecord[], barrier = false): Commit {
  const draft = new CommitDraft(stamper, state);
  for (const record of records) draft.add(record);
  return draft.finish(barrier);
}
