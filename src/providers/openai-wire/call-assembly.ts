import type { LLMChunk, ToolCall } from '../../core/contracts/index.ts';
import { JsonText } from '../../json-prefix.ts';
import { isJsonObject, type JsonObject, jsonIn } from './wire-errors.ts';

interface OpenCall {
  /** Position in the response, from 0. */
  readonly index: number;
  id: string;
  name: string;
  arguments: JsonText;
  /** `{}` as the first arguments may be a placeholder: it is held until others come, or none. */
  holdsPlaceholder: boolean;
  /** How much of the arguments came once more, behind complete ones. */
  repeated: number;
  /** Complete arguments, to be compared. */
  canonical: string | undefined;
}

interface Parts {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/**
 * Puts tool calls together from their fragments and emits each fragment. A call is known by its id, then by the wire's index, which may
 * start anywhere and leave gaps; a fragment without both belongs to the call before. A fragment with a name begins a new call, whatever
 * its index, if it brings another id or other arguments where those of the call are complete: some servers give all parallel calls the
 * index 0, some give each piece of one call another id. Ids and names count where they first come. What came already does not
 * count again, neither a call nor its arguments.
 */
export class CallAssembly {
  readonly #calls: OpenCall[] = [];
  readonly #byWireIndex = new Map<number, OpenCall>();
  readonly #byId = new Map<string, OpenCall>();
  readonly #emit: (chunk: LLMChunk) => void;
  readonly #nameOf: (sent: string) => string;

  /** `nameOf`: see `FittedRequest`. */
  constructor(emit: (chunk: LLMChunk) => void, nameOf: (sent: string) => string = (name) => name) {
    this.#emit = emit;
    this.#nameOf = nameOf;
  }

  get size(): number {
    return this.#calls.length;
  }

  /** Whether every call has a name, and arguments that are JSON or none. */
  get areComplete(): boolean {
    return this.#calls.every((call) => call.name !== '' && (call.arguments.isBlank || call.arguments.isJson()));
  }

  /** A fragment of a stream. Returns the position of its call. */
  addFragment(fragment: JsonObject): number {
    const parts = partsOf(fragment);
    const wireIndex = typeof fragment['index'] === 'number' ? fragment['index'] : undefined;
    const call = this.#callOf(wireIndex, parts);
    this.#extend(call, parts);
    return call.index;
  }

  /** A call that comes whole. One that came already, in pieces or whole, is not another one. Returns its position. */
  addWhole(whole: JsonObject): number {
    const parts = partsOf(whole);
    const known = this.#calls.find((call) => isSame(call, parts));
    if (known === undefined) {
      const call = this.#open(undefined);
      this.#extend(call, parts);
      return call.index;
    }
    if (known.arguments.isBlank) this.#extend(known, { id: '', name: '', arguments: parts.arguments });
    return known.index;
  }

  /** In the order in which the calls began. A missing id or name is the empty text. */
  toolCalls(): readonly ToolCall[] {
    for (const call of this.#calls) this.#release(call);
    return this.#calls.map(({ id, name, arguments: { text } }) => ({
      id,
      type: 'function',
      function: { name, arguments: text },
    }));
  }

  #callOf(wireIndex: number | undefined, parts: Parts): OpenCall {
    const ofId = parts.id === '' ? undefined : this.#byId.get(parts.id);
    const known = ofId ?? (wireIndex === undefined ? this.#calls.at(-1) : this.#byWireIndex.get(wireIndex));
    return known === undefined || startsAnother(known, parts) ? this.#open(wireIndex) : known;
  }

  #open(wireIndex: number | undefined): OpenCall {
    const call: OpenCall = {
      index: this.#calls.length,
      id: '',
      name: '',
      arguments: new JsonText(),
      holdsPlaceholder: false,
      repeated: 0,
      canonical: undefined,
    };
    this.#calls.push(call);
    if (wireIndex !== undefined) this.#byWireIndex.set(wireIndex, call);
    return call;
  }

  #extend(call: OpenCall, parts: Parts): void {
    const id = call.id === '' ? parts.id : '';
    const name = call.name === '' && parts.name !== '' ? this.#nameOf(parts.name) : '';
    call.id ||= id;
    if (id !== '') this.#byId.set(id, call);
    call.name ||= name;
    const added = this.#argumentsOf(call, parts.arguments);
    const { index } = call;
    if (id !== '' || name !== '') {
      const head = { type: 'tool-call' as const, index, ...(id !== '' && { id }), ...(name !== '' && { name }) };
      this.#emit(added === '' ? head : { ...head, arguments: added });
    } else if (added !== '') this.#emit({ type: 'tool-call', index, arguments: added });
  }

  /** What a piece adds to the arguments of its call. */
  #argumentsOf(call: OpenCall, piece: string): string {
    if (piece === '') return '';
    if (call.holdsPlaceholder) {
      call.holdsPlaceholder = false;
      if (piece.trim() === '{}') return this.#hold(call);
    } else if (call.arguments.isBlank) {
      if (piece.trim() === '{}') return this.#hold(call);
    } else if (repeats(call, piece)) {
      call.repeated = (call.repeated + piece.length) % call.arguments.text.length;
      return '';
    }
    call.arguments.push(piece);
    return piece;
  }

  #hold(call: OpenCall): string {
    call.holdsPlaceholder = true;
    return '';
  }

  #release(call: OpenCall): void {
    if (!call.holdsPlaceholder) return;
    call.holdsPlaceholder = false;
    call.arguments.push('{}');
    this.#emit({ type: 'tool-call', index: call.index, arguments: '{}' });
  }
}

function partsOf(fragment: JsonObject): Parts {
  const called = isJsonObject(fragment['function']) ? fragment['function'] : {};
  const given = called['arguments'];
  return {
    id: textIn(fragment['id']),
    name: textIn(called['name']),
    arguments: isJsonObject(given) ? JSON.stringify(given) : textIn(given),
  };
}

function textIn(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Whether a piece behind complete arguments is a part of the same arguments once more. */
function repeats(call: OpenCall, piece: string): boolean {
  if (!call.arguments.isJson()) return false;
  if (call.arguments.text.startsWith(piece, call.repeated)) return true;
  const whole = piece.trim();
  return whole.startsWith('{') && whole.endsWith('}') && isEqual(call, piece);
}

/** Whether a JSON string equals the arguments of a call, which are parsed once. */
function isEqual(call: OpenCall, text: string): boolean {
  call.canonical ??= canonicalText(call.holdsPlaceholder ? '{}' : call.arguments.text);
  return call.canonical !== undefined && call.canonical === canonicalText(text);
}

function startsAnother(call: OpenCall, parts: Parts): boolean {
  if (parts.name === '' || call.name === '') return false;
  const isComplete = call.arguments.isJson() || call.holdsPlaceholder;
  const isOther = parts.id !== '' && call.id !== '' && parts.id !== call.id;
  if (isOther) return call.arguments.isBlank || isComplete || parts.name !== call.name;
  if (parts.id === '') return parts.name !== call.name || (isComplete && parts.arguments.trim() !== '');
  return parts.arguments.trim() !== '' && call.arguments.isJson() && !repeats(call, parts.arguments);
}

/** Whether a whole call is one that is known: by its id, or, where one of them has none, by what it says. */
function isSame(call: OpenCall, parts: Parts): boolean {
  if (call.name !== '' && parts.name !== '' && call.name !== parts.name) return false;
  const isKnown = !call.arguments.isBlank;
  if (parts.id !== '' && call.id !== '') return parts.id === call.id && (!isKnown || isEqual(call, parts.arguments));
  return isEqual(call, parts.arguments);
}

/** Blanks and the order of members do not matter; no arguments are those of `{}`. `undefined` for what is not JSON. */
function canonicalText(text: string): string | undefined {
  const value = text.trim() === '' ? {} : jsonIn(text);
  return value === undefined ? undefined : canonical(value);
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    isJsonObject(member) ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1))) : member,
  );
}
