const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
const invisible = /\p{M}|[\u200b-\u200f]/u;
/** More of a value than any terminal line shows. */
const readLimit = 2000;

/** The terminal columns of a string without control characters. */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const character of text) columns += widthOf(character);
  return columns;
}

function widthOf(character: string): number {
  if (character >= ' ' && character <= '~') return 1;
  if (invisible.test(character)) return 0;
  return wide.test(character) ? 2 : 1;
}

/** The text, cut so that it takes at most `columns`, with the ellipsis in the last of them where something is missing. */
export function cut(text: string, columns: number, ellipsis = '…'): string {
  if (columnsOf(text) <= columns) return text;
  let kept = '';
  let room = columns - ellipsis.length;
  if (room < 0) return '';
  for (const character of text) {
    room -= widthOf(character);
    if (room < 0) break;
    kept += character;
  }
  return `${kept.trimEnd()}${ellipsis}`;
}

/** The end of the text, cut so that it takes at most `columns`, with the ellipsis in front where something is missing. */
export function cutStart(text: string, columns: number, ellipsis = '…'): string {
  if (columnsOf(text) <= columns) return text;
  let kept = '';
  let room = columns - ellipsis.length;
  for (const character of [...text].reverse()) {
    room -= widthOf(character);
    if (room < 0) break;
    kept = character + kept;
  }
  return columns < ellipsis.length ? '' : `${ellipsis}${kept.trimStart()}`;
}

/** The text with spaces after it up to `columns`. */
export function pad(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - columnsOf(text)));
}

/**
 * The text without what steers a terminal: escape sequences lose their escape, carriage returns and other control
 * characters go; line feeds and tabs stay. What a model or a tool says must not move the cursor.
 */
export function withoutControls(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: removing them is the purpose.
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, '');
}

/** A value in one line for a person: of an object the only member's value, or each as `name: value`. */
export function oneLine(value: unknown): string {
  if (typeof value === 'string') return collapse(value);
  if (value === undefined) return '';
  if (Array.isArray(value)) return collapse(value.map(inner).join(', '));
  if (typeof value === 'object' && value !== null) return lineOfObject(value);
  return collapse(String(value));
}

/**
 * What a tool answered, in one line for a person: of a JSON text the values, without those that were `given`; of several
 * lines how many there are and the first one.
 */
export function resultLine(text: string, given = ''): string {
  const parsed = text.length <= readLimit ? jsonObject(text) : undefined;
  if (parsed !== undefined) return valuesOf(parsed, given);
  const lines = text.trim().split('\n');
  const first = collapse(lines[0] ?? '');
  return lines.length > 1 ? `${lines.length} lines: ${first}` : first;
}

function valuesOf(value: object, given: string): string {
  const values = Object.values(value).map(inner);
  return collapse((values.length > 1 ? values.filter((text) => text !== given) : values).join(', '));
}

function lineOfObject(value: object): string {
  const entries = Object.entries(value);
  const only = entries.length === 1 ? entries[0] : undefined;
  if (only !== undefined) return inner(only[1]);
  return collapse(entries.map(([key, member]) => `${key}: ${inner(member)}`).join(', '));
}

function inner(value: unknown): string {
  if (typeof value === 'string') return collapse(value);
  try {
    return collapse(JSON.stringify(value) ?? String(value));
  } catch {
    return collapse(String(value));
  }
}

function jsonObject(text: string): object | undefined {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function collapse(text: string): string {
  return withoutControls(text.slice(0, readLimit).replace(/\s+/g, ' ')).trim();
}
