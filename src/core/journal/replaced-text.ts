import { type AssistantMessage, type Message, type ToolCall, textOf } from '../contracts/messages.ts';
import { parsedJson } from '../contracts/values.ts';
import type { JournalRecord } from './records.ts';

/** A part of an answer that an extension replaced or refused: its text, its value, or the arguments of the call that gave the value. JSON. */
export interface ReplacedPart {
  readonly from: unknown;
  readonly to: unknown;
}

/** Whether two values are the same JSON. */
export function isSameJson(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object') return false;
  return JSON.stringify(one) === JSON.stringify(other);
}

/** What the extensions replaced in a turn; absent: nothing. */
type Replaced = readonly ReplacedPart[] | undefined;

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
      const { finish } = record.effects;
      const shown = finish && withoutReplacedMembers(finish, ['text', 'value'], replaced);
      const effects = withoutReplacedMembers(
        shown === finish ? record.effects : { ...record.effects, finish: shown },
        ['messages'],
        replaced,
      );
      return effects === record.effects ? record : Object.assign({ ...record }, { effects });
    }
  }
}

function withoutReplacedMembers<T extends object>(
  of: T,
  names: readonly (keyof T)[],
  replaced: readonly ReplacedPart[],
): T {
  const changed = names.map((name) => [name, replacedInside(of[name], replaced)] as const);
  if (changed.every(([name, shown]) => shown === of[name])) return of;
  return Object.assign({ ...of }, Object.fromEntries(changed.filter(([, shown]) => shown !== undefined)));
}

function withoutReplacedArguments(call: ToolCall, replaced: readonly ReplacedPart[]): ToolCall {
  const { arguments: text } = call.function;
  try {
    const given: unknown = parsedJson(text);
    const shown = replacedInside(given, replaced);
    return shown === given ? call : { ...call, function: { ...call.function, arguments: JSON.stringify(shown) } };
  } catch {
    // Arguments that are not JSON are one string.
    return call;
  }
}

/** The text that stands for this one in the end; `undefined` if it was not replaced. */
function replacedIn(text: string, replaced: readonly ReplacedPart[]): string | undefined {
  let shown = text;
  for (const { from, to } of replaced) if (shown === from && typeof to === 'string') shown = to;
  return shown === text ? undefined : shown;
}

/** What stands for a JSON value: for the whole of it, or with the replaced strings replaced at any depth; the value itself if nothing was replaced. */
export function replacedInside(value: unknown, replaced: readonly ReplacedPart[]): unknown {
  let shown = value;
  for (const { from, to } of replaced) if (typeof from !== 'string' && isSameJson(shown, from)) shown = to;
  return shown === value ? withStringsReplaced(value, replaced) : shown;
}

function withStringsReplaced(value: unknown, replaced: readonly ReplacedPart[]): unknown {
  if (typeof value === 'string') return replacedIn(value, replaced) ?? value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const shown = value.map((each: unknown) => withStringsReplaced(each, replaced));
    return shown.some((each, index) => each !== value[index]) ? shown : value;
  }
  const members = Object.entries(value).map(
    ([name, each]) => [name, withStringsReplaced(each, replaced), each] as const,
  );
  if (members.every(([, shown, each]) => shown === each)) return value;
  return Object.fromEntries(members.map(([name, shown]) => [name, shown]));
}
