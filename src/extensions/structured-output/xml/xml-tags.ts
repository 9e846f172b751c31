import { entryName } from './element-name.ts';
import { decodeEntities } from './xml-text.ts';

/** Markup in a string: a tag, a CDATA section or a comment. */
export interface XmlTag {
  readonly kind: 'open' | 'close' | 'empty' | 'cdata' | 'comment';
  /** Of a tag: its name in lower case, by which opening and closing tags belong together. */
  readonly name: string;
  /** Of a tag: the member that it stands for: its name, or what an `<entry name="…">` gives. */
  readonly member: string;
  /** The content of a CDATA section. */
  readonly content: string;
  readonly start: number;
  readonly end: number;
}

const tagForm = /<(\/?)([\p{L}_][\p{L}\p{N}_.:-]*)((?:\s+[^\s=<>"'/]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>/uy;
const nameAttribute = /\sname\s*=\s*(?:"([^"<]*)"|'([^'<]*)')/;

/** All markup in a string, in order; anything else is text. Never throws. Linear in the text. */
export function xmlTags(text: string): readonly XmlTag[] {
  const tags: XmlTag[] = [];
  const sectionAt = sectionsOf(text);
  let at = text.indexOf('<');
  while (at >= 0) {
    const tag = sectionAt(at) ?? tagAt(text, at);
    if (tag) tags.push(tag);
    at = text.indexOf('<', tag?.end ?? at + 1);
  }
  return tags;
}

function tagAt(text: string, start: number): XmlTag | undefined {
  tagForm.lastIndex = start;
  const match = tagForm.exec(text);
  if (!match) return undefined;
  const [whole, closing, name = '', attributes = '', empty] = match;
  const kind = closing === '/' ? 'close' : empty === '/' ? 'empty' : 'open';
  const given = name.toLowerCase() === entryName ? nameAttribute.exec(attributes) : null;
  const called = given ? decodeEntities(given[1] ?? given[2] ?? '') : name;
  return { kind, name: name.toLowerCase(), member: called, content: '', start, end: start + whole.length };
}

/** Finds CDATA sections and comments; the ends are looked up once, so that a string of openings alone stays linear. */
function sectionsOf(text: string): (start: number) => XmlTag | undefined {
  const forms = [
    { kind: 'comment' as const, opens: '<!--', closes: '-->' },
    { kind: 'cdata' as const, opens: '<![CDATA[', closes: ']]>' },
  ].map((form) => ({ ...form, last: text.lastIndexOf(form.closes) }));
  return (start) => {
    const form = forms.find(({ opens }) => text.startsWith(opens, start));
    const from = start + (form?.opens.length ?? 0);
    if (!form || form.last < from) return undefined;
    const close = text.indexOf(form.closes, from);
    const content = text.slice(from, close);
    return { kind: form.kind, name: '', member: '', content, start, end: close + form.closes.length };
  };
}
