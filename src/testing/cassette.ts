import { readFile } from 'node:fs/promises';
import { basename, dirname, extname } from 'node:path';
import { AgentLoopError, messageOf, type TaskStateStore } from '../core/contracts/index.ts';
import type { JournalRecord, LlmDone, Stamped, TurnRecord } from '../core/journal/index.ts';
import { makeFolder, writePrivate } from '../private-files.ts';
import { redactMembers } from '../redaction.ts';
import { checkRecord } from '../stores/check-record.ts';
import { formatJournal, parseJournal } from '../stores/journal-file.ts';

/** A recorded turn, for `replay`. */
export interface Cassette {
  readonly taskId: string;
  /** The journal of the recorded turn. */
  readonly records: readonly JournalRecord[];
}

/** Options of `recordTurn`: where the turn is journaled, and what is taken out of the recording. */
export interface RecordTurnOptions {
  /** Where the turn is journaled. */
  readonly store: TaskStateStore;
  /**
   * Given every text of the recording, secrets taken out; what it gives is written. It has to give equal texts for equal texts, or the
   * recording does not replay. Default: the text as it is.
   */
  readonly redact?: ((text: string) => string) | undefined;
}

/**
 * Writes the journal of a turn into a file of JSON lines, in the form of `millrace export`, and gives it. Secrets are taken out:
 * texts under names such as `apiKey`, `authorization`, `password` and `token`, and what looks like a key anywhere. So is what
 * differs each time (times, ids, epochs, traces), and the task is named after the file: recorded again, only that changes which
 * behaves otherwise. Folders are made. Errors: those of `store.read`; `INVALID_INPUT` where the file cannot be written, or `redact`
 * leaves no records.
 */
export async function recordTurn(taskId: string, path: string, options: RecordTurnOptions): Promise<Cassette> {
  const { store, redact = (text) => text } = options;
  const records = stableRecords(await store.read(taskId), nameOfTask(path)).map((record) => redacted(record, redact));
  const text = formatJournal(records);
  try {
    await makeFolder(dirname(path));
    await writePrivate(path, text);
  } catch (error) {
    const message = `The cassette "${path}" cannot be written: ${messageOf(error)}.`;
    throw new AgentLoopError('INVALID_INPUT', message, { cause: error });
  }
  return { taskId: nameOfTask(path), records: parseJournal(text, path) };
}

/**
 * Reads a cassette, or what `millrace export` wrote. Errors: `NOT_FOUND` where there is no file; `INVALID_INPUT`, `POISON` and `SCHEMA`
 * for what is no journal, naming the line.
 */
export async function loadCassette(path: string): Promise<Cassette> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    const message = `The cassette "${path}" cannot be read: ${messageOf(error)}; record it with recordTurn.`;
    throw new AgentLoopError('NOT_FOUND', message, { cause: error });
  });
  const records = parseJournal(text, path);
  const [started] = records;
  return { taskId: started?.type === 'turn.started' ? started.taskId : '', records };
}

/** The name of the file as the id of a task. */
function nameOfTask(path: string): string {
  const name = basename(path, extname(path)).replace(/[^A-Za-z0-9_.:-]/g, '-');
  return name.slice(0, 128) || 'cassette';
}

function redacted(record: JournalRecord, redact: (text: string) => string): JournalRecord {
  const clean = redactMembers(record, redact);
  try {
    checkRecord(clean);
    return clean;
  } catch (error) {
    throw new AgentLoopError('INVALID_INPUT', `redact must return a string for each string: ${messageOf(error)}`);
  }
}

const startAt = Date.UTC(2000, 0, 1);

/**
 * The records without what differs each time that the same turn is recorded: times, durations, traces, epochs, and the ids of the
 * task, of commands and of the vendor's calls. They replay as they did.
 */
function stableRecords(records: readonly JournalRecord[], taskId: string): readonly JournalRecord[] {
  const commands = new Map<string, string>();
  const epochs = [...new Set(records.map(({ epoch }) => epoch))];
  const nameOf = (command: string) => {
    const name = commands.get(command) ?? `command-${commands.size + 1}`;
    commands.set(command, name);
    return name;
  };
  return records.map((record) => ({
    ...stable(record, taskId, nameOf),
    seq: record.seq,
    epoch: epochs.indexOf(record.epoch),
    at: startAt + record.seq - 1,
  }));
}

function stable(record: JournalRecord, taskId: string, nameOf: (command: string) => string): TurnRecord {
  switch (record.type) {
    case 'turn.started': {
      const { trace: _, ...rest } = record;
      return { ...rest, taskId, contextId: taskId };
    }
    case 'turn.resumed':
      return { type: 'turn.resumed', ...(record.queued && { queued: true }) };
    case 'llm.done':
      return stableAnswer(record);
    case 'tool.result':
      return { ...record, durationMs: 0 };
    case 'turn.suspended':
      return record.commands ? { ...record, commands: record.commands.map(nameOf) } : record;
    default:
      record.type satisfies
        | 'llm.start'
        | 'tool.intent'
        | 'turn.asked'
        | 'turn.answered'
        | 'agent.changed'
        | 'turn.done'
        | 'turn.failed'
        | 'turn.canceled'
        | `x.${string}`;
      return 'command' in record && record.command !== undefined
        ? { ...record, command: nameOf(record.command) }
        : record;
  }
}

/** A vendor gives each of its messages and calls a new id; ours stay. */
function stableAnswer(record: Stamped<LlmDone>): LlmDone {
  const calls = record.calls.map(({ callId, call }) => ({ callId, call: { ...call, id: callId } }));
  const { id: _, createdAt: _at, toolCalls, ...message } = record.message;
  const asked = toolCalls ? { toolCalls: calls.map(({ call }) => call) } : {};
  return { ...record, calls, message: { ...message, ...asked } };
}
