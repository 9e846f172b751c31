import type { Partially } from '../../core/options/index.ts';
import { JsonPrefix } from './json-prefix.ts';

export interface PartialJson<T> {
  /** Takes in the next fragment of the text, cut anywhere. Time in proportion to the fragment. */
  push(fragment: string): void;
  /**
   * What the text so far says, a new value where it says more than before; `undefined` before the first bracket. Made
   * when it is read, in time in proportion to the whole text: read it as often as it is shown, not for each fragment.
   */
  readonly value: Partially<T> | undefined;
  /** Whether the outermost bracket is closed: `value` is then what `JSON.parse` makes of the text up to there. */
  readonly complete: boolean;
}

/**
 * Reads a JSON object or array while it is being written, such as the arguments of a tool call. From one value to the
 * next, things are only added: strings and arrays grow, properties appear, none is removed or changed. A string appears with its
 * first quote, half an escape or half a surrogate pair is held back; a number, `true`, `false` or `null` appears once
 * the character after it has arrived. A name that stands twice in one object is the exception: its last value counts.
 *
 * Nothing is checked against a schema, so that `T` is a claim of the caller. Invalid JSON does not throw: the
 * value stays as it last was. Holds the text.
 */
export function partialJson<T>(): PartialJson<T> {
  const prefix = new JsonPrefix();
  let value: Partially<T> | undefined;
  let readFrom: string | undefined;
  return {
    push: (fragment) => prefix.push(fragment),
    get value() {
      const closed = prefix.closed();
      if (closed !== undefined && closed !== readFrom) value = parsed(closed, value);
      readFrom = closed;
      return value;
    },
    get complete() {
      return prefix.complete;
    },
  };
}

function parsed<Value>(text: string, before: Value): Value {
  try {
    return JSON.parse(text);
  } catch {
    return before;
  }
}
