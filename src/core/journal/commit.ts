import { AgentLoopError } from '../contracts/errors.ts';
import type { AgentEvent, SubAgentEvent, SubAgentStep } from '../contracts/events.ts';
import { type LLMChunk, type ModelNote, turnCallSettingsOf } from '../contracts/provider.ts';
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
import { type Draft, LoopState, neverOffered, noAnswers, noCalls, noChanges, noneUsed, noSettings } from './state.ts';

/**
 * The state after one more record: the pure step shared by live turns, resumed turns and replays. Errors:
 * `SCHEMA` for a journal or a record of a newer version, `POISON` for a record that is invalid at its position.
 */
export function applyRecord(state: LoopState | undefined, record: JournalRecord): LoopState {
  if (record.type === 'turn.started') return startState(state, record);
  if (state === undefined) throw poison(record, undefined, 'a journal starts with turn.started');
  const after = new LoopState(state);
  foldInto(after, record);
  return after;
}

const noChildren: readonly ChildLink[] = [];

/** The state after the first record. */
function startState(state: LoopState | undefined, record: Stamped<TurnStarted>): LoopState {
  if (state !== undefined || record.seq !== 1)
    throw poison(record, record.taskId, 'turn.started is a journal’s first record');
  if (record.schema > journalSchema) {
    throw new AgentLoopError(
      'SCHEMA',
      `The journal of task "${record.taskId}" has schema ${record.schema}, this version reads up to ${journalSchema}; update millrace.`,
      { taskId: record.taskId },
    );
  }
  const { taskId, contextId, agentId, settings, metadata = {}, messages, parent, forkedFrom, follows, at } = record;
  const given = { taskId, contextId, agentId, settings, metadata, given: messages.length, earlier: 0, createdAt: at };
  const turn = record.schema < 2 ? { ...given, namesNoChildren: true as const } : given;
  return new LoopState({
    turn:
      parent || forkedFrom || follows
        ? { ...turn, ...(parent && { parent }), ...(follows && { follows }), ...originOf(forkedFrom) }
        : turn,
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
    changes: { ...noChanges, settings: turnCallSettingsOf(settings) ?? noSettings },
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

/** Folds one more record into a state that no other code has a reference to. Errors as `applyRecord`. */
function foldInto(state: LoopState, record: JournalRecord): void {
  if (record.seq !== state.seq + 1) throw poison(record, state.turn.taskId, `the record before it is ${state.seq}`);
  if (state.outcome && state.isComplete) throw poison(record, state.turn.taskId, 'the turn has ended before it');
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
 * A record and the state before it: the input for its events. The intents of one append may already be folded into that state:
 * the event of an intent depends on its call only.
 */
export interface Step {
  /** The state before the record. */
  readonly before: LoopState | undefined;
  /** The record. */
  readonly record: JournalRecord;
}

/** Records of one append. */
export interface Commit {
  readonly type: 'commit';
  /** The records, in order, each with the state before it. */
  readonly steps: readonly Step[];
  /** The state after all of them. */
  readonly after: LoopState;
  /** True if the engine waits for this append before it continues. */
  readonly barrier: boolean;
  /** True if the records were read from the journal, not written by this run. */
  readonly replayed?: true;
  /** True if the turn continues after the replayed records: a suspension at their end is over. */
  readonly continues?: boolean;
  /** True if the turn had ended before it was opened: the commit replays that end. */
  readonly endedBefore?: true;
  /** The exception, if these records fail the turn. Known to this process only. */
  readonly cause?: unknown;
  /** Called once, when the store has acknowledged the records and they have been emitted. */
  readonly durable?: () => void;
}

/** A progress update of a running tool. */
export interface ToolProgress {
  readonly type: 'tool-progress';
  readonly callId: string;
  readonly toolName: string;
  /** The argument of the tool's `progress` call. */
  readonly update: unknown;
}

/** An event of a child turn, emitted by the process that runs it; not published, since the child turn has its own stream. */
export interface SubAgentSignal {
  readonly type: 'sub-agent';
  /** From the child turn of this turn to the turn that emitted the event. */
  readonly path: readonly SubAgentStep[];
  readonly event: Exclude<AgentEvent, SubAgentEvent>;
}

/** A hook of an extension failed. Emitted only by the process that called it. */
export interface ExtensionError {
  readonly type: 'extension-error';
  readonly extension: string;
  /** The hook that failed. */
  readonly hook: string;
  readonly message: string;
  /** Whether it fails the turn. */
  readonly fatal: boolean;
}

/** A provider's note on the open model call. Emitted only by the process that made the call. */
export interface ModelNoted {
  readonly type: 'model-note';
  readonly note: ModelNote;
}

/** A chunk of a model's answer, except `done`, which has the whole response. */
export type StreamChunk = Exclude<LLMChunk, { type: 'done' }>;

/** The signals of a turn: commits of records, and deltas, which are only emitted. */
export type Signal = Commit | StreamChunk | ToolProgress | SubAgentSignal | ExtensionError | ModelNoted;

/** The commit for records that are in the journal already. Errors as `foldRecords`. */
export function replayOf(records: readonly JournalRecord[]): Commit {
  let before: LoopState | undefined;
  const steps: Step[] = [];
  for (const record of records) {
    steps.push({ before, record });
    before = applyRecord(before, record);
  }
  return { type: 'commit', steps, after: before ?? foldRecords(records), barrier: false, replayed: true };
}

/** The epoch and clock for stamps of records. */
export interface Stamper {
  readonly epoch: number;
  readonly now: () => number;
}

/** For an append without records; never mutated. */
const noSteps: Step[] = [];

/** Builds one append: records are stamped and folded as they are added. */
export class CommitDraft {
  steps: Step[] = noSteps;
  /** The state after the records so far. */
  after: LoopState;
  readonly #stamper: Stamper;
  /** The time of the first record: all records of one append have the same time. */
  #at: number | undefined;

  constructor(stamper: Stamper, state: LoopState) {
    this.after = state;
    this.#stamper = stamper;
  }

  /**
   * Adds a record created for this append: the stamp is written into it, because a copy would cost more than the rest of this method.
   * `extendsState`: the current state was created for this append and no other code has a reference to it, so the record is folded into it.
   */
  add(record: TurnRecord, extendsState = false): void {
    const before = this.after;
    const stamped: { -readonly [Name in keyof RecordStamp]?: RecordStamp[Name] } & TurnRecord = record;
    stamped.seq = before.seq + 1;
    this.#at ??= this.#stamper.now();
    stamped.epoch = this.#stamper.epoch;
    stamped.at = this.#at;
    const step = { before, record: stamped as JournalRecord };
    // A push to an empty array allocates 17 slots.
    if (this.steps.length === 0) this.steps = [step];
    else this.steps.push(step);
    const after = extendsState ? before : new LoopState(before);
    foldInto(after, stamped as JournalRecord);
    this.after = after;
  }

  /**
   * As `add` for each. An intent is folded into the state of the records before it, because each change of a state copies it. `extendsState`: the
   * current state may be changed too.
   */
  addAll(records: readonly TurnRecord[], extendsState = false): void {
    let extend = extendsState;
    for (const record of records) {
      this.add(record, extend && record.type === 'tool.intent');
      extend = true;
    }
  }

  /** Returns the append; `barrier` if the engine waits for it before it continues, `durable` as in a commit. */
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
