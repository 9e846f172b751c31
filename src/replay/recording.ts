import { AgentLoopError, type ErrorCode, type ToolError } from '../core/contracts/index.ts';
import {
  applyRecord,
  asOpen,
  eventsIn,
  isLeftCall,
  isTerminal,
  type JournalRecord,
  kindOf,
  type LlmStart,
  type LoopState,
  type Stamped,
  type TurnStarted,
  withChild,
} from '../core/journal/index.ts';
import { checkRecord } from '../stores/check-record.ts';

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

/** The records that one owner of the turn wrote, by index; `to` is exclusive. */
export interface ReplayRun {
  /**
   * How the owner came to the turn: it started it, went on with it, or only wrote something into it that no run of the loop makes here: an
   * answer, a cancel, what the model call took in which it was drained.
   */
  readonly kind: 'start' | 'resume' | 'visit';
  readonly from: number;
  readonly to: number;
  readonly epoch: number;
  /** Whether the owner stopped without a record: it died, was drained, or runs still. */
  readonly dies: boolean;
}

/**
 * The owners that wrote a recording, in order. The copied records of a fork have no owner: the first run of a fork begins after them.
 */
export function runsOf(records: readonly JournalRecord[]): readonly ReplayRun[] {
  const given = givenRecords(records);
  const starts = records.flatMap((record, index) => {
    if (index < given) return [];
    return index === given || isTakenOver(records[index - 1], record) ? [index] : [];
  });
  const resumed = starts.map((from, place) => runAt(records, from, starts[place + 1] ?? records.length));
  if (given > 1) return resumed;
  const [first, ...rest] = resumed;
  if (first === undefined) return [startOf(records, 1)];
  return first.kind === 'start' ? [startOf(records, first.to), ...rest] : [startOf(records, 1), first, ...rest];
}

/** How many records stand at the beginning of a replay: of a fork those that were copied, else only `turn.started`. */
export function givenRecords([first]: readonly JournalRecord[]): number {
  return first?.type === 'turn.started' ? (first.forkedFrom?.records ?? 1) : 1;
}

function isTakenOver(before: JournalRecord | undefined, record: JournalRecord): boolean {
  return (
    record.type === 'turn.resumed' ||
    isLeftCall(record) ||
    (before !== undefined && before.seq > 1 && before.epoch !== record.epoch)
  );
}

function startOf(records: readonly JournalRecord[], to: number): ReplayRun {
  return { ...runAt(records, 0, to), kind: 'start', epoch: records[1]?.epoch ?? 1 };
}

function runAt(records: readonly JournalRecord[], from: number, to: number): ReplayRun {
  const [first, last] = [records[from], records[to - 1]];
  const kind = first?.type === 'turn.resumed' ? 'resume' : from > 1 ? 'visit' : 'start';
  const dies = last === undefined || !(isTerminal(last) || (last.type === 'turn.suspended' && !last.hold));
  return { kind, from, to, epoch: first?.epoch ?? 0, dies };
}

/** How a turn fails by what an extension says or does. */
export const extensionCodes: ReadonlySet<ErrorCode> = new Set([
  'EXTENSION_FAILED',
  'LIMIT',
  'GUARDRAIL',
  'REJECTED',
  'PARSE_ERROR',
]);

/** Where a replay did something else than the recording says. */
export interface Deviation {
  /** The record that was due, or was looked at. */
  readonly seq: number;
  /** The member that differs, e.g. `tool.intent 1:0: arguments.city`, or the record itself. */
  readonly what: string;
  /** Absent where nothing was expected any more. */
  readonly expected?: unknown;
  /** Absent where nothing came. */
  readonly got?: unknown;
}

/** A record in a few words: its type and what it is about. */
export function nameOf(record: JournalRecord): string {
  const subject = kindOf(record.type)?.subject(record);
  return subject === undefined ? record.type : `${record.type} ${subject}`;
}

/** The call of a batch that a record is about. */
export function callIdOf(record: JournalRecord): string | undefined {
  return kindOf(record.type)?.callOf(record);
}

/** A deviation as a sentence's part. */
export function describe({ seq, what, expected, got }: Deviation): string {
  return `record ${seq}, ${what}: expected ${shown(expected)}, got ${shown(got)}`;
}

const shownCharacters = 200;

/** A value as JSON, cut at 200 characters. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = JSON.stringify(value);
  return text.length <= shownCharacters ? text : `${text.slice(0, shownCharacters)}…`;
}

/** The first place where two values differ as JSON, by its path; undefined where they are the same. */
export function difference(
  expected: unknown,
  got: unknown,
  path = '',
): { readonly path: string; readonly expected: unknown; readonly got: unknown } | undefined {
  if (Object.is(expected, got)) return undefined;
  if (!isStructure(expected) || !isStructure(got) || Array.isArray(expected) !== Array.isArray(got)) {
    return { path, expected, got };
  }
  for (const name of new Set([...Object.keys(expected), ...Object.keys(got)])) {
    const place = path === '' ? name : `${path}.${name}`;
    const found = difference(Reflect.get(expected, name), Reflect.get(got, name), place);
    if (found) return found;
  }
  return undefined;
}

function isStructure(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

interface Sentence {
  readonly reason: string;
  readonly words: RegExp;
}

/** What version 0.1 wrote in place of a reason and its details; these sentences are in journals, and change no more. */
const sentences: Readonly<Partial<Record<ToolError['code'], readonly Sentence[]>>> = {
  TOOL_TIMEOUT: [
    { reason: 'undecided', words: /^nobody decided within (?<limitMs>\d+) ms whether the call may run$/ },
    { reason: 'check_late', words: /^the check of the arguments did not answer within (?<limitMs>\d+) ms$/ },
    { reason: 'tool_late', words: /^the tool did not answer within (?<limitMs>\d+) ms$/ },
  ],
  TOOL_REJECTED: [
    { reason: 'rejected', words: /^the call was rejected(: (?<says>.*))?$/s },
    { reason: 'denied', words: /^(?<says>.*)$/s },
  ],
  TOOL_ABANDONED: [{ reason: 'abandoned', words: /^the tool did not stop within (?<limitMs>\d+) ms of the cancel$/ }],
  TOOL_SKIPPED: [{ reason: 'skipped', words: /^skipped: the turn finished$/ }],
  CANCELED: [{ reason: 'never_started', words: /^the turn was stopped before this call started$/ }],
  OUTCOME_UNKNOWN: [
    { reason: 'in_doubt_no_answer', words: /; asking the tool gave no usable answer; check before/ },
    { reason: 'in_doubt_failed', words: /; asking the tool failed: (?<why>.*); check before/s },
    { reason: 'in_doubt', words: /^OUTCOME_UNKNOWN: the process stopped while this call ran/ },
  ],
  TOOL_TOO_LARGE: [
    { reason: 'too_large', words: /^the result has (?<bytes>\d+) bytes, more than the (?<maxBytes>\d+) that/ },
  ],
  TOOL_NOT_FOUND: [
    {
      reason: 'unknown_tool',
      words:
        /^(tool "(?<name>[^"]*)" is not known|the call names no tool); (known tools: (?<known>.*)|there are no tools)$/,
    },
  ],
  TOOL_ARGUMENTS: [
    { reason: 'not_json', words: /^the arguments of "(?<name>[^"]*)" are not JSON \(/ },
    { reason: 'invalid_arguments', words: /^/ },
  ],
};

/** The error of a call with its reason as data, where it is of a version that wrote only words. */
export function withReason(error: ToolError): ToolError {
  if (error.reason !== undefined) return error;
  for (const { reason, words } of sentences[error.code] ?? []) {
    const found = words.exec(error.message);
    if (found) return { ...error, reason, ...detailsOf(reason, found.groups) };
  }
  return error;
}

const counts = new Set(['limitMs', 'bytes', 'maxBytes']);

function detailsOf(
  reason: string,
  groups: Readonly<Record<string, string | undefined>> = {},
): Pick<ToolError, 'details'> {
  if (reason === 'unknown_tool') {
    const { name = '', known } = groups;
    return { details: { name, known: known?.split(', ') ?? [] } };
  }
  const named = Object.entries(groups).filter(([, text]) => text !== undefined);
  if (named.length === 0) return reason === 'rejected' ? { details: {} } : {};
  return { details: Object.fromEntries(named.map(([name, text]) => [name, counts.has(name) ? Number(text) : text])) };
}
