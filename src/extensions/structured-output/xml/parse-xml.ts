import type { JSONSchema } from '../../../core/contracts/index.ts';
import { ElementReader } from './element-reader.ts';
import { xmlTags } from './xml-tags.ts';

/** The value that was read, or in words why there is none. */
export type ParsedXml = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly flaw: string };

/**
 * Reads the value that a model wrote as XML, guided by its JSON Schema: the filled form of `xmlTemplate`, or what `toXml`
 * writes, with any text around it. Numbers, booleans and `null` become what the schema wants; a list may stand as
 * `<item>`s or as its element repeated; entities and CDATA are resolved, text is trimmed.
 *
 * Forgiving: a missing closing tag ends its element where the next known one begins, a bare `<` or an unknown tag within
 * a string is text, names are case-insensitive, the outermost element may be missing, and of several the last that
 * holds something counts. Never throws, and does not validate: what does not fit stays text and what is missing stays
 * out, for the check of the schema to name. Linear in the text.
 */
export function parseXml(text: string, jsonSchema: JSONSchema, rootName = 'output'): ParsedXml {
  const tags = xmlTags(text);
  const reader = new ElementReader(text, tags, jsonSchema);
  const values = reader.rootValues(rootName.toLowerCase());
  const value = values.findLast(holdsSomething) ?? values.at(-1);
  if (value !== undefined) return { ok: true, value };
  const loose = reader.looseMembers();
  if (holdsSomething(loose)) return { ok: true, value: loose };
  const found = text.trim() === '' ? 'The answer is empty' : `The answer has no element <${rootName}>`;
  return { ok: false, flaw: `${found}; it must be <${rootName}>…</${rootName}> with the values in its elements.` };
}

function holdsSomething(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(holdsSomething);
  return value !== '' && value !== undefined;
}
