import type { LLMChunk, ToolCall } from '../../core/contracts/index.ts';
import { isJsonObject, type JsonObject } from './json-object.ts';

interface OpenCall {
  /** Position in the response, from 0. */
  readonly index: number;
  id: string;
  name: string;
  arguments: string;
}

/**
 * Puts tool calls together from their fragments and emits each fragment. A call is known by the wire's index, which may
 * start anywhere and leave gaps; where it has none, by its id, else it is the one before. A fragment with a name begins a
 * new call, whatever its index, if it also brings another id, or arguments where those of the call are complete JSON: some
 * servers give all parallel calls the index 0. Ids and names count where they first come; those of later fragments, also
 * empty ones, are ignored.
 */
export class ToolCallAssembly {
  readonly #calls: OpenCall[] = [];
  readonly #byWireIndex = new Map<unknown, OpenCall>();
  readonly #emit: (chunk: LLMChunk) => void;

  constructor(emit: (chunk: LLMChunk) => void) {
    this.#emit = emit;
  }

  get size(): number {
    return this.#calls.length;
  }

  /** Whether every call has a name, and arguments that are JSON or none. */
  get areComplete(): boolean {
    return this.#calls.every((call) => call.name !== '' && (call.arguments.trim() === '' || isJson(call.arguments)));
  }

  /** A fragment of a stream. */
  addFragment(fragment: JsonObject): void {
    const parts = partsOf(fragment);
    const call = this.#callOf(fragment['index'], parts);
    this.#extend(call, parts);
  }

  /** A call that comes whole: never a part of another one. */
  addWhole(call: JsonObject): void {
    this.#extend(this.#open(undefined), partsOf(call));
  }

  /** In the order in which the calls began. A missing id or name is the empty text. */
  toolCalls(): readonly ToolCall[] {
    return this.#calls.map(({ id, name, arguments: text }) => ({
      id,
      type: 'function',
      function: { name, arguments: text },
    }));
  }

  #callOf(wireIndex: unknown, parts: Parts): OpenCall {
    const known =
      typeof wireIndex === 'number'
        ? this.#byWireIndex.get(wireIndex)
        : (this.#calls.find(({ id }) => id !== '' && id === parts.id) ?? this.#calls.at(-1));
    return known === undefined || startsAnother(known, parts) ? this.#open(wireIndex) : known;
  }

  #open(wireIndex: unknown): OpenCall {
    const call = { index: this.#calls.length, id: '', name: '', arguments: '' };
    this.#calls.push(call);
    if (typeof wireIndex === 'number') this.#byWireIndex.set(wireIndex, call);
    return call;
  }

  #extend(call: OpenCall, parts: Parts): void {
    const id = call.id === '' ? parts.id : '';
    const name = call.name === '' ? parts.name : '';
    call.id ||= id;
    call.name ||= name;
    call.arguments += parts.arguments;
    if (id === '' && name === '') {
      if (parts.arguments !== '') this.#emit({ type: 'tool-call', index: call.index, arguments: parts.arguments });
      return;
    }
    this.#emit({
      type: 'tool-call',
      index: call.index,
      ...(id === '' ? {} : { id }),
      ...(name === '' ? {} : { name }),
      ...(parts.arguments === '' ? {} : { arguments: parts.arguments }),
    });
  }
}

interface Parts {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
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

function startsAnother(call: OpenCall, parts: Parts): boolean {
  if (parts.name === '' || call.name === '') return false;
  if (parts.id !== '' && call.id !== '' && parts.id !== call.id) return true;
  return parts.arguments.trim() !== '' && isJson(call.arguments);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
