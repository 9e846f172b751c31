import { maxMessageDepth, textNestsTooDeep } from '../core/contracts/index.ts';
/** An object as `JSON.parse` gives it, its members not yet checked. */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The value of a JSON text; `undefined` where it is not JSON, or nests deeper than a message may. */
export function jsonIn(text: string): unknown {
  if (text.length > maxMessageDepth && textNestsTooDeep(text, maxMessageDepth)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
