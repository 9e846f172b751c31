import { AgentLoopError, jsonFlaw } from '../../../core/contracts/index.ts';

/** The name of an entry of a list. */
export const itemName = 'item';

/** The element of a member whose name XML does not allow; it has the name as its attribute. */
export const entryName = 'entry';

/** The tags around the content of a member; `attributes` as they stand in the opening tag. */
export function tagsAround(member: string, attributes = ''): { readonly open: string; readonly close: string } {
  if (isElementName(member)) return { open: `<${member}${attributes}>`, close: `</${member}>` };
  return { open: `<${entryName} name="${escapeAttribute(member)}"${attributes}>`, close: `</${entryName}>` };
}

function isElementName(member: string): boolean {
  return /^[\p{L}_][\p{L}\p{N}_.-]*$/u.test(member);
}

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

/**
 * The text of an element. Blanks at its ends and control characters are written as references, so that they survive
 * indentation and readers that trim.
 */
export function escapeText(text: string): string {
  const body = text.trim();
  const begin = text.length - text.trimStart().length;
  const blanks = (from: number, to?: number) => text.slice(from, to).replace(/[\s\S]/g, asReference);
  const written = body.replace(/[&<>]/g, (character) => entities[character] ?? character).replace(unsafe, asReference);
  return blanks(0, begin) + written + blanks(begin + body.length);
}

/** The text of an attribute, for double quotes. */
export function escapeAttribute(text: string): string {
  return text
    .replace(/[&<>"]/g, (character) => entities[character] ?? character)
    .replace(/\s|[^ -\uffff]/g, (unit) => (unit === ' ' ? unit : asReference(unit)));
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** All control characters but the tabulator and the line feed. */
const unsafe = /[^\t\n\u0020-\u007e\u00a0-\uffff]/g;

function asReference(character: string): string {
  return `&#${character.charCodeAt(0)};`;
}
