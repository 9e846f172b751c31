import { AgentLoopError, checkMessages, isObject, shownValue } from '../core/contracts/index.ts';
import { type Inner, type JournalRecord, kindOf, type MemberKind, type Members } from '../core/journal/index.ts';

const stamp: Members = { seq: 'number', epoch: 'number', at: 'time' };

const kinds: { readonly [Name in MemberKind]: readonly [fits: (value: unknown) => boolean, what: string] } = {
  text: [(value) => typeof value === 'string', 'a string'],
  number: [Number.isFinite, 'a number'],
  time: [isTime, 'a time in milliseconds since 1970'],
  list: [Array.isArray, 'a list'],
  object: [isObject, 'an object'],
  flag: [(value) => typeof value === 'boolean', 'true or false'],
  nothing: [(value) => value === undefined, 'to be absent'],
  content: [(value) => typeof value === 'string' || Array.isArray(value), 'a string or an array of parts'],
  traceId: [(value) => isHexId(value, 32), 'a trace id, 32 digits 0-9a-f'],
  spanId: [(value) => isHexId(value, 16), 'a span id, 16 digits 0-9a-f'],
  any: [(value) => value !== undefined, 'a value'],
};

/**
 * Checks that a value is a journal record: of a type that this version supports, with the members of that type. The fold checks whether it is
 * valid at its position. Errors: `POISON`, naming the member and its required type.
 */
export function checkRecord(value: unknown): asserts value is JournalRecord {
  if (!isObject(value)) throw misshapen(`a record is an object, not ${shownValue(value)}`);
  const type: unknown = Reflect.get(value, 'type');
  const kind = typeof type === 'string' ? kindOf(type) : undefined;
  if (typeof type !== 'string' || !kind) throw misshapen(`unknown record type ${shownValue(type)}`);
  checkMembers(value, { ...stamp, ...kind.members }, type);
  checkInner(value, kind.inner, type);
}

function checkMembers(value: object, members: Members, type: string): void {
  for (const [name, rule] of Object.entries(members)) {
    const member: unknown = Reflect.get(value, name);
    if (member === undefined && rule.endsWith('?')) continue;
    const [fits, what] = kinds[bare(rule)];
    if (!fits(member)) throw misshapen(`${type} needs ${name}, ${what}, not ${shownValue(member)}`);
  }
}

function bare(rule: MemberKind | `${MemberKind}?`): MemberKind {
  const name = rule.replace('?', '');
  return isMemberKind(name) ? name : 'any';
}

function isMemberKind(name: string): name is MemberKind {
  return name in kinds;
}

/** Checks the nested members that the fold and the events read. */
function checkInner(value: object, inner: Inner | undefined, type: string): void {
  for (const [name, rule] of Object.entries(inner ?? {})) {
    const member: unknown = Reflect.get(value, name);
    if (member === undefined) continue;
    if (rule === 'messages') checkMessageList(member, type);
    else if (rule === 'message') checkMessageList([member], type);
    else if (rule === 'calls') checkCalls(member);
    else if (rule === 'events') checkEvents(member, type);
    else if (isObject(member)) {
      checkMembers(member, rule.members, `${type}: ${name}`);
      checkInner(member, rule.inner, type);
    }
  }
}

function checkMessageList(messages: unknown, type: string): void {
  try {
    checkMessages(Array.isArray(messages) ? messages : []);
  } catch (error) {
    throw misshapen(`${type}: ${error instanceof Error ? error.message.replace(/\.$/, '') : 'its messages are none'}`);
  }
}

function checkCalls(calls: unknown): void {
  for (const call of Array.isArray(calls) ? calls : []) {
    const usable =
      typeof call?.callId === 'string' &&
      typeof call.call?.id === 'string' &&
      typeof call.call.function?.name === 'string' &&
      typeof call.call.function.arguments === 'string';
    if (!usable) throw misshapen('llm.done needs calls of the form { callId, call: { id, type, function } }');
  }
}

const emitted: Members = { name: 'text?', payload: 'any?', label: 'text?' };

function checkEvents(events: unknown, type: string): void {
  for (const event of Array.isArray(events) ? events : []) {
    if (!isObject(event)) throw misshapen(`${type}: an event is an object, not ${shownValue(event)}`);
    checkMembers(event, emitted, `${type}: events`);
  }
}

/** Within the range of `Date`: other values have no ISO 8601 form. */
function isTime(value: unknown): boolean {
  return typeof value === 'number' && Math.abs(value) <= 8.64e15;
}

function isHexId(value: unknown, length: number): boolean {
  return typeof value === 'string' && value.length === length && /^[0-9a-f]*[1-9a-f][0-9a-f]*$/.test(value);
}

function misshapen(why: string): AgentLoopError {
  return new AgentLoopError('POISON', `Invalid journal record: ${why}.`);
}
