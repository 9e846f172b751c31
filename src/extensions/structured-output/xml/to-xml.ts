import { AgentLoopError, jsonFlaw } from '../../../core/contracts/index.ts';
import { itemName, tagsAround } from './element-name.ts';
import { escapeText } from './xml-text.ts';

/**
 * A JSON value as indented XML for a model to read: a member is an element of its name, a list has an `<item>` for each
 * entry, text is escaped. Members that are `undefined` are left out, `null` is the text `null`; a name that XML does not
 * allow becomes `<entry name="…">`. `parseXml` reads it back. Throws `INVALID_INPUT` where the value is not JSON.
 */
export function toXml(value: unknown, rootName = 'input'): string {
  const flaw = jsonFlaw(value, rootName);
  if (flaw !== undefined) {
    throw new AgentLoopError('INVALID_INPUT', `${flaw}, which XML cannot hold; give plain JSON values.`);
  }
  return linesOf(rootName, value).join('\n');
}

function linesOf(name: string, value: unknown): readonly string[] {
  const { open, close } = tagsAround(name);
  if (typeof value !== 'object' || value === null) return [`${open}${escapeText(String(value))}${close}`];
  const inside = childrenOf(value).flatMap(([child, each]) => linesOf(child, each));
  return inside.length === 0 ? [`${open}${close}`] : [open, ...inside.map((line) => `  ${line}`), close];
}

function childrenOf(value: object): readonly (readonly [string, unknown])[] {
  if (Array.isArray(value)) return value.map((entry) => [itemName, entry]);
  return Object.entries(value).filter(([, member]) => member !== undefined);
}
