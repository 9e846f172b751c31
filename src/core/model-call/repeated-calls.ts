import { parsedJson, stableJson, type ToolCall } from '../contracts/index.ts';

/**
 * Finds calls of one answer that came before: the same id, name and arguments. Some servers send a call again in their last chunk or message.
 * Arguments are compared as JSON values, so blanks and the order of members do not count. Calls without an id are never the same.
 */
export class RepeatedCalls {
  /** By id: its only call so far, or the keys of all. */
  readonly #byId = new Map<string, ToolCall | Set<string>>();

  /** `calls`: those that came already. */
  constructor(calls: readonly ToolCall[] = []) {
    for (const call of calls) this.repeats(call);
  }

  /** Adds a call; returns whether the same call was added before. */
  repeats(call: ToolCall): boolean {
    const { id } = call;
    if (typeof id !== 'string' || id === '') return false;
    const known = this.#byId.get(id);
    if (known === undefined) {
      this.#byId.set(id, call);
      return false;
    }
    const keys = known instanceof Set ? known : new Set([keyOf(known)]);
    const before = keys.size;
    this.#byId.set(id, keys.add(keyOf(call)));
    return keys.size === before;
  }
}

function keyOf({ function: { name, arguments: given } }: ToolCall): string {
  return JSON.stringify([name, argumentsKey(given)]);
}

/** Some providers give arguments as values, or none, against the type. */
function argumentsKey(given: unknown): string {
  const value = typeof given === 'string' ? parsed(given) : (given ?? {});
  if (typeof value === 'string' && value === given) return value;
  return stableJson(value);
}

/** The value of a JSON text, `{}` for a blank one; the text itself if it is not JSON. */
function parsed(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    return parsedJson(text);
  } catch {
    return text;
  }
}
