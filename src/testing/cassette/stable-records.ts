import type { JournalRecord, LlmDone, Stamped, TurnRecord } from '../../core/journal/index.ts';

const startAt = Date.UTC(2000, 0, 1);

/**
 * The records without what differs each time that the same turn is recorded: times, durations, traces, epochs, and the ids of the
 * task, of commands and of the vendor's calls. They replay as they did.
 */
export function stableRecords(records: readonly JournalRecord[], taskId: string): readonly JournalRecord[] {
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
