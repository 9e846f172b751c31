import { AgentLoopError } from '../core/contracts/index.ts';
import {
  applyRecord,
  asOpen,
  checkRecord,
  eventsIn,
  type JournalRecord,
  kindOf,
  type LlmStart,
  type LoopState,
  type Stamped,
  type TurnStarted,
  withChild,
} from '../core/journal/index.ts';
import { withReason } from './errors-of-0.1.ts';

/** A journal to replay, checked and folded. */
export interface Recording {
  readonly records: readonly JournalRecord[];
  readonly started: Stamped<TurnStarted>;
  /** The state before each record; the first has none. */
  readonly before: readonly (LoopState | undefined)[];
}

/** Checks what a replay is given. Errors: `INVALID_INPUT`, `POISON`, `SCHEMA`. */
export function recordingOf(records: readonly JournalRecord[]): Recording {
  if (!Array.isArray(records)) {
    throw new AgentLoopError(
      'INVALID_INPUT',
      'A replay needs the records of a journal: await store.read(taskId), or a cassette.',
    );
  }
  const read: JournalRecord[] = [];
  const before: (LoopState | undefined)[] = [];
  let state: LoopState | undefined;
  for (const record of records) {
    checkRecord(record);
    checkEpoch(record, records[before.length - 1]);
    before.push(state);
    read.push(state ? asWrittenNow(record, state) : record);
    state = applyRecord(state, record);
  }
  const [started] = read;
  if (started?.type === 'turn.started') return { records: read, started, before };
  throw new AgentLoopError('POISON', 'The journal is empty: it has no turn.started record.');
}

/** A record as this version writes it, so that a replay of one of a version before compares with what was recorded. */
function asWrittenNow(record: JournalRecord, before: LoopState): JournalRecord {
  if (record.type === 'tool.result' && record.error) return { ...record, error: withReason(record.error) };
  if (record.type === 'turn.asked') return { ...record, question: withChild(record.question, before) };
  if (record.type === 'turn.suspended') return { ...record, questions: asOpen(before, record.questions) };
  if (!('event' in record) || record.event === undefined) return record;
  const { event: _, ...rest } = record;
  return { ...rest, events: eventsIn(record) };
}

/** The epoch of a journal changes where somebody else writes, and never goes back. */
function checkEpoch(record: JournalRecord, last: JournalRecord | undefined): void {
  if (!last || last.seq <= 1 || record.epoch === last.epoch) return;
  if (record.epoch > last.epoch && kindOf(record.type)?.takesOver) return;
  const message = `Record ${record.seq} (${record.type}) cannot have the epoch ${record.epoch} behind ${last.epoch}.`;
  throw new AgentLoopError('POISON', message);
}

type Functions = NonNullable<LlmStart['tools']>;

/**
 * What the model was offered in a run: by its first call, else by the last call before it, else by the next one. A tool that ran,
 * that an extension took away, or whose call was open, is among them, whatever was offered.
 */
export function toolsOffered(records: readonly JournalRecord[], from: number, to: number): Functions {
  const starts = records.filter((record) => record.type === 'llm.start' && record.tools !== undefined);
  const own = starts.filter(({ seq }) => seq > from && seq <= to);
  const other = starts.findLast(({ seq }) => seq <= from) ?? starts[0];
  const chosen = offeredIn(own.length > 0 || !other ? own : [other]);
  const there = new Set([...namesRemoved(records), ...namesOpen(records, from)]);
  const rest = offeredIn(starts).filter(({ name }) => there.has(name) && !chosen.some((each) => each.name === name));
  const offered = [...chosen, ...rest];
  const named = [...namesThatRan(records), ...namesAdded(records)];
  const missing = new Set(named.filter((name) => !offered.some((each) => each.name === name)));
  return [...offered, ...[...missing].map((name) => ({ name, description: '', parameters: { type: 'object' } }))];
}

/** Changes of extensions to the first tool list come after it. */
function offeredIn(starts: readonly JournalRecord[]): Functions {
  const byName = new Map<string, Functions[number]>();
  for (const start of starts) {
    for (const each of start.type === 'llm.start' ? (start.tools ?? []) : []) {
      if (!byName.has(each.name)) byName.set(each.name, each);
    }
  }
  return [...byName.values()];
}

function namesRemoved(records: readonly JournalRecord[]): readonly string[] {
  return records.flatMap((record) => ('effects' in record ? (record.effects?.tools?.remove ?? []) : []));
}

/** Of the calls that were open when a run began: it had their tools, whatever it offered. */
function namesOpen(records: readonly JournalRecord[], from: number): readonly string[] {
  const before = records.filter(({ seq }) => seq <= from);
  const answer = before.findLast((record) => record.type === 'llm.done');
  const done = new Set(before.flatMap((record) => (record.type === 'tool.result' ? [record.callId] : [])));
  const calls = answer?.type === 'llm.done' ? answer.calls : [];
  return calls.flatMap(({ callId, call }) => (done.has(callId) ? [] : [call.function.name]));
}

function namesAdded(records: readonly JournalRecord[]): readonly string[] {
  return records.flatMap((record) => ('effects' in record ? (record.effects?.tools?.add ?? []) : []));
}

function namesThatRan(records: readonly JournalRecord[]): readonly string[] {
  const ran = new Set(records.flatMap((record) => (record.type === 'tool.intent' ? [record.callId] : [])));
  const calls = records.flatMap((record) => (record.type === 'llm.done' ? record.calls : []));
  return calls.flatMap(({ callId, call }) => (ran.has(callId) ? [call.function.name] : []));
}
