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

/** Puts characters in the place of XML's five named entities and of numbered ones; what is none stays as it is. */
export function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(amp|lt|gt|quot|apos));/gi, (entity, decimal, hex, name) => {
    if (name !== undefined) return named[String(name).toLowerCase()] ?? entity;
    const code = hex === undefined ? Number.parseInt(decimal, 10) : Number.parseInt(hex, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : entity;
  });
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** All control characters but the tabulator and the line feed. */
const unsafe = /[^\t\n\u0020-\u007e\u00a0-\uffff]/g;

function asReference(character: string): string {
  return `&#${character.charCodeAt(0)};`;
}
