import { AgentLoopError, maxMessageDepth, messageOf, parsedJson } from '../core/contracts/index.ts';
import { applyRecord, type JournalRecord, type LoopState } from '../core/journal/index.ts';
import { checkRecord } from './check-record.ts';

/** The first line of a journal file. */
export interface JournalHeader {
  readonly format: 'millrace-journal';
  readonly version: 1;
  readonly taskId: string;
  /** The number of records, so that a truncated file is not read as a shorter turn. */
  readonly records: number;
}

/**
 * A whole journal as JSON lines: a header, then one record per line, each line terminated by a newline. `type` is the first member and the
 * stamp the last, for every store, so that equal journals are equal files. Errors: `POISON` for a journal that
 * does not fold, `SCHEMA` for one of a newer version.
 */
export function formatJournal(records: readonly JournalRecord[]): string {
  const { turn } = foldAll(records, (_, error) => error);
  const header: JournalHeader = {
    format: 'millrace-journal',
    version: 1,
    taskId: turn.taskId,
    records: records.length,
  };
  return [header, ...records.map(inOrder)].map((line) => `${JSON.stringify(line)}\n`).join('');
}

/**
 * The records of a journal file. `source` names the file in errors. Errors: `INVALID_INPUT` for anything but a complete journal file;
 * `POISON` for an invalid record, or one that is invalid at its position; `SCHEMA` for a newer version. All of them name the line.
 */
export function parseJournal(text: string, source = 'the journal'): readonly JournalRecord[] {
  const [first = '', ...lines] = text
    .replace(/^\uFEFF/, '')
    .trimEnd()
    .split(/\r?\n/);
  if (first === '') {
    throw new AgentLoopError('INVALID_INPUT', `${source} is empty; a journal file begins with its header.`);
  }
  const header = headerOf(first, source);
  const records = lines.map((line, index) => recordOf(line, `Line ${index + 2} of ${source}`));
  if (records.length !== header.records) {
    const why = `it has ${records.length} records, its header says ${header.records}`;
    throw new AgentLoopError('INVALID_INPUT', `${source} is incomplete: ${why}; export the turn again.`);
  }
  if (records.length === 0) {
    throw new AgentLoopError('INVALID_INPUT', `${source} has a header and no records; export the turn again.`);
  }
  const { turn } = foldAll(records, (index, error) => inLine(`Line ${index + 2} of ${source}`, error));
  if (turn.taskId === header.taskId) return records;
  const message = `Line 2 of ${source} starts task "${turn.taskId}", the header says "${header.taskId}": the records are of another journal; export the turn again.`;
  throw new AgentLoopError('INVALID_INPUT', message);
}

function inOrder({ type, seq, epoch, at, ...members }: JournalRecord): object {
  return { type, ...members, seq, epoch, at };
}

function headerOf(line: string, source: string): JournalHeader {
  const header: unknown = jsonOf(line, `Line 1 of ${source}`);
  const member = (name: string): unknown =>
    typeof header === 'object' && header !== null ? Reflect.get(header, name) : undefined;
  if (member('format') !== 'millrace-journal') {
    throw new AgentLoopError(
      'INVALID_INPUT',
      `Line 1 of ${source} is not the header of a journal file; it must be { "format": "millrace-journal", "version": 1, "taskId": …, "records": … }.`,
    );
  }
  const [version, taskId, records] = [member('version'), member('taskId'), member('records')];
  if (version !== 1) {
    const message = `Line 1 of ${source} says version ${String(version)} of the format, this version reads 1; update millrace.`;
    throw new AgentLoopError(typeof version === 'number' ? 'SCHEMA' : 'INVALID_INPUT', message);
  }
  if (typeof taskId === 'string' && typeof records === 'number') {
    return { format: 'millrace-journal', version, taskId, records };
  }
  const message = `Line 1 of ${source} needs taskId, a string, and records, the number of lines after it.`;
  throw new AgentLoopError('INVALID_INPUT', message);
}

function recordOf(line: string, place: string): JournalRecord {
  const value = jsonOf(line, place);
  try {
    checkRecord(value);
    return value;
  } catch (error) {
    throw inLine(place, error);
  }
}

function jsonOf(line: string, place: string): unknown {
  try {
    return parsedJson(line, maxMessageDepth);
  } catch (error) {
    throw new AgentLoopError('INVALID_INPUT', `${place} is not JSON: ${messageOf(error)}.`, { cause: error });
  }
}

/** The state after all records. `explain` creates the error of the record with that index. */
function foldAll(records: readonly JournalRecord[], explain: (index: number, error: unknown) => unknown): LoopState {
  let state: LoopState | undefined;
  for (const [index, record] of records.entries()) {
    try {
      if (state && record.epoch < state.epoch) throw backwards(record, state.epoch);
      state = applyRecord(state, record);
    } catch (error) {
      throw explain(index, error);
    }
  }
  if (state) return state;
  throw new AgentLoopError('POISON', 'The journal is empty: it has no turn.started record.');
}

function backwards({ seq, epoch }: JournalRecord, before: number): AgentLoopError {
  return new AgentLoopError('POISON', `Record ${seq} has the epoch ${epoch}, the record before it ${before}.`);
}

function inLine(place: string, error: unknown): AgentLoopError {
  const code = AgentLoopError.isInstance(error) ? error.code : 'POISON';
  return new AgentLoopError(code, `${place}: ${messageOf(error)}`, { cause: error });
}
