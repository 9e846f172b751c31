import { AgentLoopError } from '../contracts/errors.ts';
import type { AgentEvent, SubAgentEvent, SubAgentStep } from '../contracts/events.ts';
import type { LLMChunk } from '../contracts/provider.ts';
import type { ChildLink } from '../contracts/tool.ts';
import { poison } from './fold.ts';
import { CommandIds, History } from './history.ts';
import { kindOf } from './record-table.ts';
import {
  type ForkOrigin,
  type JournalRecord,
  journalSchema,
  type RecordStamp,
  type Stamped,
  type TurnRecord,
  type TurnStarted,
} from './records.ts';
import { type Draft, LoopState, neverOffered, noAnswers, noCalls, noChanges, noneUsed } from './state.ts';

/**
 * The state after one more record: the pure step that a live turn, a resumed one and a replay have in common. Errors:
 * `SCHEMA` for a journal or a record that is newer than this version, `POISON` for one that cannot stand where it stands.
 */
export function applyRecord(state: LoopState | undefined, record: JournalRecord): LoopState {
  if (record.type === 'turn.started') return startState(state, record);
  if (state === undefined) throw poison(record, 'a journal starts with turn.started');
  const after = new LoopState(state);
  foldInto(after, record);
  return after;
}

const noChildren: readonly ChildLink[] = [];

/** The state after the first record. */
function startState(state: LoopState | undefined, record: Stamped<TurnStarted>): LoopState {
  if (state !== undefined || record.seq !== 1) throw poison(record, 'turn.started is a journal’s first record');
  if (record.schema > journalSchema) {
    throw new AgentLoopError(
      'SCHEMA',
      `The journal of task "${record.taskId}" has schema ${record.schema}, this version reads up to ${journalSchema}; update millrace.`,
      { taskId: record.taskId },
    );
  }
  const { taskId, contextId, agentId, settings, metadata = {}, messages, parent, forkedFrom, at } = record;
  const given = { taskId, contextId, agentId, settings, metadata, given: messages.length, earlier: 0, createdAt: at };
  const turn = record.schema < 2 ? { ...given, namesNoChildren: true as const } : given;
  return new LoopState({
    turn: parent || forkedFrom ? { ...turn, ...(parent && { parent }), ...originOf(forkedFrom) } : turn,
    agentId,
    agentChanges: 0,
    segment: { after: 0, messages: messages.length, from: agentId, reason: undefined, handOffs: 0 },
    iteration: 0,
    attempt: 0,
    phase: 'closed',
    summary: false,
    history: History.of(messages, at),
    availableTools: neverOffered,
    call: undefined,
    calls: noCalls,
    answers: noAnswers,
    told: [],
    openChildren: noChildren,
    openCalls: 0,
    closedCalls: [],
    lastResponse: undefined,
    finalMessage: undefined,
    value: undefined,
    changes: noChanges,
    outcome: undefined,
    hold: undefined,
    failedAttempts: 0,
    ownUsage: noneUsed,
    childUsage: noneUsed,
    toolCalls: 0,
    commands: CommandIds.none,
    resumes: 0,
    trace: record.trace,
    suspendedMs: 0,
    suspendedAt: undefined,
    seq: record.seq,
    epoch: record.epoch,
    updatedAt: at,
  });
}

function originOf(from: ForkOrigin | undefined): Pick<LoopState['turn'], 'copied' | 'retried'> {
  if (!from) return {};
  return from.retry ? { copied: from.records, retried: from.retry } : { copied: from.records };
}

/** Folds one more record into a state that nobody has seen yet. Errors as `applyRecord`. */
function foldInto(state: LoopState, record: JournalRecord): void {
  if (record.seq !== state.seq + 1) throw poison(record, `the record before it is ${state.seq}`);
  if (state.outcome && state.isComplete) throw poison(record, 'the turn has ended before it');
  const kind = kindOf(record.type);
  if (!kind) {
    throw new AgentLoopError(
      'SCHEMA',
      `Record ${record.seq} of task "${state.turn.taskId}" has the type "${record.type}", which this version does not know; update millrace.`,
      { taskId: state.turn.taskId },
    );
  }
  const draft: Draft = state;
  draft.seq = record.seq;
  draft.epoch = record.epoch;
  draft.updatedAt = record.at;
  kind.apply(draft, record);
}

/** The state after all records of a journal. Errors as `applyRecord`, and `POISON` for an empty journal. */
export function foldRecords(records: readonly JournalRecord[]): LoopState {
  let state: LoopState | undefined;
  for (const record of records) state = applyRecord(state, record);
  if (state === undefined) throw new AgentLoopError('POISON', 'The journal is empty: it has no turn.started record.');
  return state;
}

/**
 * A record and the state before it: all that its events depend on. Of the intents of one append each may have been folded into that state
 * already: the event of one depends on its call only.
 */
export interface Step {
  /** The state before the record. */
  readonly before: LoopState | undefined;
  /** The record. */
  readonly record: JournalRecord;
}

/** Records that are written in one append. */
export interface Commit {
  readonly type: 'commit';
  /** The records, in order, each with the state before it. */
  readonly steps: readonly Step[];
  /** The state after all of them. */
  readonly after: LoopState;
  /** True if the engine waits for this append before it continues. */
  readonly barrier: boolean;
  /** True where the records were read from the journal, not written by this run. */
  readonly replayed?: true;
  /** True if the turn continues after records that were read: a suspension that is the last of them is over. */
  readonly continues?: boolean;
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
  /** What the tool gave to `progress`. */
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
  /** The hook that failed. */
  readonly hook: string;
  readonly message: string;
  /** Whether the turn fails by it. */
  readonly fatal: boolean;
}

/** A piece of a model's answer, without the last one, which is the whole response. */
export type StreamChunk = Exclude<LLMChunk, { type: 'done' }>;

/** What flows through a turn: records to write, and deltas that are only shown. */
export type Signal = Commit | StreamChunk | ToolProgress | SubAgentSignal | ExtensionError;

/** The commit that stands for records which are in the journal already. Errors as `foldRecords`. */
export function replayOf(records: readonly JournalRecord[]): Commit {
  let before: LoopState | undefined;
  const steps: Step[] = [];
  for (const record of records) {
    steps.push({ before, record });
    before = applyRecord(before, record);
  }
  return { type: 'commit', steps, after: before ?? foldRecords(records), barrier: false, replayed: true };
}

/** What the stamp of a record needs. */
export interface Stamper {
  readonly epoch: number;
  readonly now: () => number;
}

/** Of an append without records; never written to. */
const noSteps: Step[] = [];

/** One append in the making: records are stamped and folded as they are added. */
export class CommitDraft {
  steps: Step[] = noSteps;
  /** The state after the records so far. */
  after: LoopState;
  readonly #stamper: Stamper;
  /** Of the first record: those of one append have one time. */
  #at: number | undefined;

  constructor(stamper: Stamper, state: LoopState) {
    this.after = state;
    this.#stamper = stamper;
  }

  /**
   * Adds a record that was made for this append: its stamp is written into it, for a copy would cost more than all else here.
   * `extendsState`: the state so far was made for this append, and nobody has seen it, so that the record is folded into it.
   */
  add(record: TurnRecord, extendsState = false): void {
    const before = this.after;
    const stamped: { -readonly [Name in keyof RecordStamp]?: RecordStamp[Name] } & TurnRecord = record;
    stamped.seq = before.seq + 1;
    this.#at ??= this.#stamper.now();
    stamped.epoch = this.#stamper.epoch;
    stamped.at = this.#at;
    const step = { before, record: stamped as JournalRecord };
    // An array that grows by a push has room for 17.
    if (this.steps.length === 0) this.steps = [step];
    else this.steps.push(step);
    const after = extendsState ? before : new LoopState(before);
    foldInto(after, stamped as JournalRecord);
    this.after = after;
  }

  /**
   * As `add` for each. An intent changes the state that the records before it made, for each change of a state copies it. `extendsState`: also
   * the state so far may be changed.
   */
  addAll(records: readonly TurnRecord[], extendsState = false): void {
    let extend = extendsState;
    for (const record of records) {
      this.add(record, extend && record.type === 'tool.intent');
      extend = true;
    }
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
