import type { AssistantMessage } from '../../core/contracts/index.ts';
import { isJsonObject, type JsonObject } from './wire-errors.ts';

/**
 * What a server of this wire put into an answer for itself: members of the message and of its calls that Millrace does not read, such as
 * `reasoning_details`, `thinking_blocks` and `extra_content`. Kept in the message's metadata, so that it survives the journal.
 */
export interface WireState {
  readonly message?: JsonObject;
  /** One for each call, in their order; the members of `function` under that name. */
  readonly calls?: readonly JsonObject[];
  /** The member that held the reasoning, which servers that gave it want back beside calls. */
  readonly reasoning?: 'reasoning_content' | 'reasoning';
}

const stateName = 'wire';

export function stateMetadata(state: WireState): Readonly<Record<string, unknown>> {
  return Object.keys(state).length === 0 ? {} : { [stateName]: state };
}

/** The state in a message; `undefined` where it has none. Metadata of messages may come from anywhere. */
export function wireStateOf({ metadata }: AssistantMessage): WireState | undefined {
  const state = metadata?.[stateName];
  if (!isJsonObject(state)) return undefined;
  const { message, calls, reasoning } = state;
  return {
    ...(isJsonObject(message) && { message }),
    ...(Array.isArray(calls) && { calls: calls.map((call: unknown) => (isJsonObject(call) ? call : {})) }),
    ...((reasoning === 'reasoning_content' || reasoning === 'reasoning') && { reasoning }),
  };
}

/** Members of a message that Millrace reads, or that say nothing to the server when they come back. */
const readOfMessage: ReadonlySet<string> = new Set([
  'role',
  'content',
  'tool_calls',
  'function_call',
  'refusal',
  'annotations',
  'images',
  'audio',
  'reasoning',
  'reasoning_content',
  'usage',
  'name',
]);
const readOfCall: ReadonlySet<string> = new Set(['id', 'type', 'index', 'function']);
const readOfFunction: ReadonlySet<string> = new Set(['name', 'arguments']);

/** Members that hold reasoning, or what stands beside an answer. */
const hidden: ReadonlySet<string> = new Set([
  'reasoning_details',
  'thinking_blocks',
  'provider_specific_fields',
  'extra_content',
  'id',
  'type',
  'phase',
]);

/** Joins what the pieces of an answer bring for their server. Memory: that. */
export class StateReader {
  readonly #message = new JoinedMembers(readOfMessage);
  readonly #calls: { readonly beside: JoinedMembers; readonly within: JoinedMembers }[] = [];

  addMessage(piece: JsonObject): void {
    this.#message.add(piece);
  }

  /** A whole message behind its pieces: adds what is not known yet. */
  addWhole(message: JsonObject): void {
    this.#message.addMissing(message);
  }

  /** `index`: the position of the call in the answer. */
  addCall(index: number, piece: JsonObject): void {
    this.#calls[index] ??= { beside: new JoinedMembers(readOfCall), within: new JoinedMembers(readOfFunction) };
    const { beside, within } = this.#calls[index];
    beside.add(piece);
    if (isJsonObject(piece['function'])) within.add(piece['function']);
  }

  /** The names of members that may hold an answer which nobody here reads. */
  get unread(): ReadonlySet<string> {
    return new Set(Object.keys(this.#message.members ?? {}).filter((name) => !hidden.has(name)));
  }

  /** `order`: the positions of the calls that count, in their order. */
  state(order: readonly number[]): Pick<WireState, 'message' | 'calls'> {
    const message = this.#message.members;
    const calls = order.map((index) => {
      const { beside, within } = this.#calls[index] ?? {};
      return { ...beside?.members, ...(within?.members && { function: within.members }) };
    });
    return {
      ...(message && { message }),
      ...(calls.some((call) => Object.keys(call).length > 0) && { calls }),
    };
  }
}

/** Members that came in pieces. */
class JoinedMembers {
  readonly #read: ReadonlySet<string>;
  #members: Record<string, unknown> | undefined;

  constructor(read: ReadonlySet<string>) {
    this.#read = read;
  }

  get members(): JsonObject | undefined {
    return this.#members;
  }

  add(piece: JsonObject): void {
    for (const name in piece) {
      const value = this.#read.has(name) ? undefined : piece[name];
      if (isNothing(value)) continue;
      this.#members ??= {};
      this.#members[name] = joinedValue(this.#members[name], value);
    }
  }

  addMissing(whole: JsonObject): void {
    for (const [name, value] of Object.entries(whole)) {
      if (this.#read.has(name) || isNothing(value) || this.#members?.[name] !== undefined) continue;
      this.#members ??= {};
      this.#members[name] = value;
    }
  }
}

function isNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** Two pieces of one member: arrays are joined part by part, objects member by member; of anything else the last one counts. */
function joinedValue(before: unknown, value: unknown): unknown {
  if (Array.isArray(before) && Array.isArray(value)) return value.reduce(withPart, [...before]);
  if (Array.isArray(value) && before === undefined) return value.reduce(withPart, []);
  if (isJsonObject(before) && isJsonObject(value)) {
    const joined: Record<string, unknown> = { ...before };
    for (const [name, member] of Object.entries(value))
      if (!isNothing(member)) joined[name] = joinedValue(joined[name], member);
    return joined;
  }
  return value;
}

/** Members of a part whose pieces are joined to one text. */
const pieces: ReadonlySet<string> = new Set(['text', 'thinking', 'summary', 'data', 'signature']);
/** Members that say which part a piece belongs to. */
const marks = ['type', 'index', 'id', 'format'] as const;

/** A part continues the one before where both are of one place and neither is whole: a signature ends a part. */
function withPart(parts: unknown[], part: unknown): unknown[] {
  const last = parts.at(-1);
  if (!isJsonObject(last) || !isJsonObject(part) || !continues(last, part)) return [...parts, part];
  const joined: Record<string, unknown> = { ...last };
  for (const [name, value] of Object.entries(part)) {
    const known = joined[name];
    if (isNothing(value)) continue;
    joined[name] = pieces.has(name) && typeof known === 'string' && typeof value === 'string' ? known + value : value;
  }
  return [...parts.slice(0, -1), joined];
}

function continues(last: JsonObject, part: JsonObject): boolean {
  if (!isNothing(last['signature']) && last['index'] === undefined) return false;
  if (last['type'] === undefined || typeof last['data'] === 'string') return false;
  return marks.every(
    (mark) =>
      part[mark] === undefined ||
      part[mark] === null ||
      last[mark] === undefined ||
      last[mark] === null ||
      part[mark] === last[mark],
  );
}
