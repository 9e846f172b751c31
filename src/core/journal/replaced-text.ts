import { type AssistantMessage, type Message, type ToolCall, textOf } from '../contracts/messages.ts';
import type { JournalRecord } from './records.ts';

/** An answer of the model that an extension replaced at the end of the turn. */
export interface ReplacedText {
  readonly from: string;
  readonly to: string;
}

/** What the extensions replaced in a turn; absent: nothing. */
type Replaced = readonly ReplacedText[] | undefined;

/** The message with every replaced answer in it replaced. A changed message has no reasoning and no metadata: both may repeat the answer. */
export function withoutReplaced<M extends Message>(message: M, replaced: Replaced): M;
export function withoutReplaced(message: Message, replaced: Replaced): Message {
  if (!replaced) return message;
  if (message.role === 'tool') {
    const content = replacedIn(textOf(message.content), replaced);
    return content === undefined ? message : { ...message, content };
  }
  if (message.role !== 'assistant') return message;
  const content = replacedIn(textOf(message.content), replaced);
  const toolCalls = message.toolCalls?.map((call) => withoutReplacedArguments(call, replaced));
  const isSame = content === undefined && !toolCalls?.some((call, index) => call !== message.toolCalls?.[index]);
  if (isSame) return message;
  const { role, id, createdAt } = message;
  return {
    role,
    content: content ?? message.content,
    ...(toolCalls && { toolCalls }),
    ...(id !== undefined && { id }),
    ...(createdAt !== undefined && { createdAt }),
  } satisfies AssistantMessage;
}

/** The records as they are shown: with what replaced the answer. The journal itself keeps what the model said. */
export function shownRecords(
  records: readonly JournalRecord[],
  { replaced }: { readonly replaced?: Replaced },
): readonly JournalRecord[] {
  return replaced ? records.map((record) => shownRecord(record, replaced)) : records;
}

export function shownRecord(record: JournalRecord, replaced: Replaced): JournalRecord {
  if (!replaced) return record;
  switch (record.type) {
    case 'llm.done': {
      const message = withoutReplaced(record.message, replaced);
      if (message === record.message) return record;
      const calls = record.calls.map((each) => ({ ...each, call: withoutReplacedArguments(each.call, replaced) }));
      return { ...record, message, calls };
    }
    case 'tool.intent':
      return withoutReplacedMembers(record, ['arguments'], replaced);
    case 'tool.result':
      return withoutReplacedMembers(record, ['arguments', 'content'], replaced);
    default: {
      if (!('effects' in record) || !record.effects) return record;
      const effects = withoutReplacedMembers(record.effects, ['finish', 'messages'], replaced);
      return effects === record.effects ? record : Object.assign({ ...record }, { effects });
    }
  }
}

function withoutReplacedMembers<T extends object>(
  of: T,
  names: readonly (keyof T)[],
  replaced: readonly ReplacedText[],
): T {
  const changed = names.map((name) => [name, replacedInside(of[name], replaced)] as const);
  if (changed.every(([name, shown]) => shown === of[name])) return of;
  return Object.assign({ ...of }, Object.fromEntries(changed.filter(([, shown]) => shown !== undefined)));
}

function withoutReplacedArguments(call: ToolCall, replaced: readonly ReplacedText[]): ToolCall {
  const { arguments: text } = call.function;
  try {
    const given: unknown = JSON.parse(text);
    const shown = replacedInside(given, replaced);
    return shown === given ? call : { ...call, function: { ...call.function, arguments: JSON.stringify(shown) } };
  } catch {
    // Arguments that are not JSON are one string.
    return call;
  }
}

/** The text that stands for this one in the end; `undefined` if it was not replaced. */
function replacedIn(text: string, replaced: readonly ReplacedText[]): string | undefined {
  let shown = text;
  for (const { from, to } of replaced) if (shown === from) shown = to;
  return shown === text ? undefined : shown;
}

/** A JSON value with the replaced strings replaced at any depth; the value itself if there are none. */
export function replacedInside(value: unknown, replaced: readonly ReplacedText[]): unknown {
  if (replaced.length === 0) return value;
  if (typeof value === 'string') return replacedIn(value, replaced) ?? value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const shown = value.map((each: unknown) => replacedInside(each, replaced));
    return shown.some((each, index) => each !== value[index]) ? shown : value;
  }
  const members = Object.entries(value).map(([name, each]) => [name, replacedInside(each, replaced), each] as const);
  if (members.every(([, shown, each]) => shown === each)) return value;
  return Object.fromEntries(members.map(([name, shown]) => [name, shown]));
}
