import { AgentLoopError } from '../contracts/errors.ts';
import { type ToolCall, textOf } from '../contracts/messages.ts';
import type {
  JournalRecord,
  LlmDone,
  Question,
  RecordStamp,
  ToolIntent,
  ToolResultRecord,
  TurnRecord,
  TurnStarted,
} from '../journal/records.ts';
import type { ForkEdits } from '../options/fork-options.ts';

/**
 * The kept records of a fork with its edits. Errors: `INVALID_INPUT` for an iteration or a call that is not kept, and for arguments of
 * a call that somebody was asked about.
 */
export function editRecords(records: readonly JournalRecord[], edits: ForkEdits): readonly JournalRecord[] {
  checkPlaces(records, edits);
  const edited = records.map((record) => editRecord(record, edits));
  const { append = [] } = edits;
  const last = records.at(-1);
  if (append.length === 0 || !last) return edited;
  const told = { type: 'x.edit' as const, effects: { messages: [...append] } };
  return [...edited, { ...told, seq: last.seq + 1, epoch: last.epoch, at: last.at }];
}

function editRecord(record: JournalRecord, edits: ForkEdits): JournalRecord {
  switch (record.type) {
    case 'turn.started':
      return editStart(record, edits);
    case 'llm.done':
      return editAnswer(record, edits);
    case 'tool.intent':
      return editIntent(record, edits);
    case 'tool.result':
      return editResult(record, edits);
    default:
      record.type satisfies
        | 'turn.resumed'
        | 'llm.start'
        | 'turn.asked'
        | 'turn.answered'
        | 'turn.suspended'
        | 'agent.changed'
        | 'turn.done'
        | 'turn.failed'
        | 'turn.canceled'
        | `x.${string}`;
      return record;
  }
}

type Edited<R extends TurnRecord> = R & RecordStamp;

function editStart(record: Edited<TurnStarted>, { messages = record.messages, settings }: ForkEdits): JournalRecord {
  return { ...record, messages: [...messages], settings: { ...record.settings, ...settings } };
}

function editAnswer(record: Edited<LlmDone>, { answers = {}, arguments: given = {} }: ForkEdits): JournalRecord {
  const calls = record.calls.map(({ callId, call }) => {
    const value = given[callId];
    return { callId, call: value === undefined ? call : withArguments(call, value) };
  });
  const { [record.iteration]: content = record.message.content } = answers;
  const toolCalls = calls.length > 0 ? { toolCalls: calls.map(({ call }) => call) } : {};
  return { ...record, calls, message: { ...record.message, content, ...toolCalls } };
}

function withArguments(call: ToolCall, value: object): ToolCall {
  return { ...call, function: { name: call.function.name, arguments: JSON.stringify(value) } };
}

function editIntent(record: Edited<ToolIntent>, { arguments: given = {} }: ForkEdits): JournalRecord {
  const value = given[record.callId];
  return value === undefined ? record : { ...record, arguments: value };
}

function editResult(record: Edited<ToolResultRecord>, edits: ForkEdits): JournalRecord {
  const given = edits.arguments?.[record.callId];
  const edit = edits.results?.[record.callId];
  // A fork continues after the iteration that it is cut at, also if the turn failed with one of its calls.
  const { fails: _, ...kept } = record;
  const { error: __, arguments: refused, ...rest } = kept;
  const args = refused === undefined ? {} : { arguments: given ?? refused };
  if (!edit) return given === undefined ? kept : { ...kept, ...args };
  const { content, success = true } = edit;
  const failure = success ? {} : { error: { code: 'TOOL_FAILED' as const, message: textOf(content) } };
  return { ...rest, ...args, content, success, ...failure };
}

function checkPlaces(records: readonly JournalRecord[], { answers, arguments: given, results }: ForkEdits): void {
  const done = records.filter((record) => record.type === 'llm.done');
  const iterations = done.map(({ iteration }) => String(iteration));
  const callIds = done.flatMap(({ calls }) => calls.map(({ callId }) => callId));
  checkNames('answers', answers, { kept: iterations, what: 'iteration' });
  checkNames('arguments', given, { kept: callIds, what: 'call' });
  checkNames('results', results, { kept: callIds, what: 'call' });
  checkNotShown(records, given);
}

/** Questions of these kinds show the call's arguments. */
const showing: ReadonlySet<Question['kind']> = new Set(['approval', 'client-tool', 'in-doubt']);

function checkNotShown(records: readonly JournalRecord[], given: object = {}): void {
  for (const record of records) {
    if (record.type !== 'turn.asked') continue;
    const { callId, kind } = record.question;
    if (!showing.has(kind) || !(callId in given)) continue;
    const why = `which somebody was asked about (${kind}) with the arguments that it had`;
    const cure = `fork at ${Number.parseInt(callId, 10) - 1} to have it asked anew, or edit its result`;
    throw new AgentLoopError('INVALID_INPUT', `edits.arguments names the call "${callId}", ${why}; ${cure}.`);
  }
}

function checkNames(
  member: string,
  given: object | undefined,
  { kept, what }: { readonly kept: readonly string[]; readonly what: string },
): void {
  const stray = Object.keys(given ?? {}).find((name) => !kept.includes(name));
  if (stray === undefined) return;
  const list = kept.length === 0 ? `none is kept` : `those that are kept: ${kept.join(', ')}`;
  throw new AgentLoopError('INVALID_INPUT', `edits.${member} names the ${what} "${stray}"; ${list}.`);
}
