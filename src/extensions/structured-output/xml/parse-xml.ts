import type { JSONSchema } from '../../../core/contracts/index.ts';
import { entryName, itemName, type ScalarType, type Shape, shapeOf } from './write-xml.ts';

/** The value, or the sentence that says why there is none. */
export type ParsedXml = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly flaw: string };

/**
 * Parses the XML answer of a model by its JSON Schema: a filled `xmlTemplate`, or the output of `toXml`, with any text around it. Converts
 * numbers, booleans and `null` as the schema requires. Reads an array from `<item>` elements or from its repeated element. Resolves
 * entities and CDATA, trims text.
 *
 * Lenient: an element without a closing tag ends at the next known tag; a bare `<` or an unknown tag in a string is text; names are
 * case-insensitive; the root element may be missing; of several, the last one with a value counts. Never throws and does not validate: a
 * value of another type stays a string, and a missing one stays absent, for the schema check to report. Linear in the length of the text.
 */
export function parseXml(text: string, jsonSchema: JSONSchema, rootName = 'output'): ParsedXml {
  const tags = xmlTags(text);
  const reader = new ElementReader(text, tags, jsonSchema);
  const values = reader.rootValues(rootName.toLowerCase());
  const value = values.findLast(hasValue) ?? values.at(-1);
  if (value !== undefined) return { ok: true, value };
  const members = reader.membersWithoutRoot();
  if (hasValue(members)) return { ok: true, value: members };
  const found = text.trim() === '' ? 'The answer is empty' : `The answer has no element <${rootName}>`;
  return { ok: false, flaw: `${found}; it must be <${rootName}>…</${rootName}> with the values in its elements.` };
}

function hasValue(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(hasValue);
  return value !== '' && value !== undefined;
}

/** An open element, with its ancestors. */
interface Frame {
  readonly name: string;
  readonly shape: Shape;
  readonly parent: Frame | undefined;
  readonly depth: number;
}

/** Deeper elements are read as text. */
const maxDepth = 100;

/**
 * A recursive-descent parser. The schema decides whether a tag is an element or text, and where an element without a closing tag ends: at the
 * next tag that belongs to an ancestor.
 */
class ElementReader {
  readonly #text: string;
  readonly #tags: readonly XmlTag[];
  readonly #root: JSONSchema;
  readonly #shapes = new WeakMap<JSONSchema, Shape>();
  /** The index of the next tag. */
  #next = 0;

  constructor(text: string, tags: readonly XmlTag[], root: JSONSchema) {
    this.#text = text;
    this.#tags = tags;
    this.#root = root;
  }

  /** The values of the outermost elements of this name, in order. */
  rootValues(name: string): readonly unknown[] {
    const values: unknown[] = [];
    while (this.#next < this.#tags.length) {
      const tag = this.#tags[this.#next++];
      if (tag?.name === name && isOpening(tag)) values.push(this.#element(tag, this.#root, undefined));
    }
    return values;
  }

  /** The members of an answer without a root element. */
  membersWithoutRoot(): unknown {
    this.#next = 0;
    return this.#children({ name: '', shape: this.#shapeOf(this.#root), parent: undefined, depth: 0 }, false);
  }

  #element(tag: XmlTag, schema: JSONSchema, parent: Frame | undefined): unknown {
    const shape = this.#shapeOf(schema);
    const frame = { name: tag.name, shape, parent, depth: (parent?.depth ?? 0) + 1 };
    if (tag.kind === 'empty') return shape.members ? {} : shape.entries ? [] : scalarValue('', shape);
    if (frame.depth < maxDepth && (shape.members || shape.entries) && this.#hasChildren(frame)) {
      return this.#children(frame, !shape.members || this.#startsWithItem(shape));
    }
    return this.#textValue(tag, frame);
  }

  /** Whether the next tag begins a child of this element. */
  #hasChildren({ name, shape, parent }: Frame): boolean {
    const tag = this.#upcoming();
    if (tag === undefined || tag.kind === 'close') return false;
    if (shape.members && memberOf(shape, tag) !== undefined) return true;
    if (shape.entries && tag.name === itemName) return true;
    return !shape.scalars.has('string') && tag.name !== name && !knownAround(parent, tag);
  }

  #startsWithItem(shape: Shape): boolean {
    const tag = this.#upcoming();
    return shape.entries !== undefined && tag?.name === itemName && memberOf(shape, tag) === undefined;
  }

  #upcoming(): XmlTag | undefined {
    let index = this.#next;
    while (this.#tags[index]?.kind === 'comment' || this.#tags[index]?.kind === 'cdata') index += 1;
    return this.#tags[index];
  }

  /** The members of an object, or the entries of an array, up to the end of their element. */
  #children(frame: Frame, isList: boolean): unknown {
    const members = new Map<string, unknown>();
    const entries: unknown[] = [];
    for (let tag = this.#tags[this.#next]; tag && !this.#ends(tag, frame); tag = this.#tags[this.#next]) {
      const child = isList ? { name: itemName, schema: frame.shape.entries ?? {} } : memberOf(frame.shape, tag);
      const isKnown = isList ? tag.name === itemName : child !== undefined;
      if (isOpening(tag) && !isKnown && knownAround(frame.parent, tag)) break;
      this.#next += 1;
      if (!isOpening(tag) || child === undefined) continue;
      const value = this.#element(tag, child.schema, frame);
      if (isList) entries.push(value);
      else members.set(child.name, joined(members.get(child.name), value));
    }
    return isList ? entries : Object.fromEntries(members);
  }

  /** Whether a closing tag ends this element: its own, which is consumed, or that of an ancestor. */
  #ends(tag: XmlTag, frame: Frame): boolean {
    if (tag.kind !== 'close') return false;
    if (tag.name === frame.name) this.#next += 1;
    return tag.name === frame.name || closesAround(frame.parent, tag);
  }

  #textValue(tag: XmlTag, frame: Frame): unknown {
    const first = this.#next;
    const end = this.#textEnd(frame);
    this.#next = this.#tags[end]?.kind === 'close' && this.#tags[end]?.name === frame.name ? end + 1 : end;
    const text = this.#textBetween(tag.end, first, end);
    const { members, entries, scalars } = frame.shape;
    if (scalars.size > 0 && (text !== '' || scalars.has('string'))) return scalarValue(text, frame.shape);
    if (entries) return text === '' ? [] : [scalarValue(text, this.#shapeOf(entries))];
    return members && text === '' ? {} : scalarValue(text, frame.shape);
  }

  /**
   * The index of the tag that ends this text element: its own closing tag; or, if an ancestor ends or an element of the same name begins
   * before it, the first tag that belongs to an ancestor.
   */
  #textEnd({ name, parent }: Frame): number {
    let firstAround: number | undefined;
    for (let index = this.#next; index < this.#tags.length; index++) {
      const tag = this.#tags[index];
      if (tag === undefined) continue;
      const isOwn = tag.name === name;
      if (isOwn && tag.kind === 'close') return index;
      const endsAround = closesAround(parent, tag);
      if (isOwn || endsAround || knownAround(parent, tag)) firstAround ??= index;
      if (isOwn || endsAround) break;
    }
    return firstAround ?? this.#tags.length;
  }

  /** The text from an offset to the tag `end`, trimmed, without comments; other tags stay as text. */
  #textBetween(from: number, first: number, end: number): string {
    const pieces: string[] = [];
    let at = from;
    for (const tag of this.#tags.slice(first, end)) {
      if (tag.kind !== 'cdata' && tag.kind !== 'comment') continue;
      pieces.push(decodeEntities(trimmedStart(this.#text.slice(at, tag.start), at === from)), tag.content);
      if (tag.kind === 'comment') pieces.pop();
      at = tag.end;
    }
    const rest = this.#text.slice(at, this.#tags[end]?.start).trimEnd();
    return [...pieces, decodeEntities(trimmedStart(rest, at === from))].join('');
  }

  #shapeOf(schema: JSONSchema): Shape {
    const shape = this.#shapes.get(schema) ?? shapeOf(schema, this.#root);
    this.#shapes.set(schema, shape);
    return shape;
  }
}

function isOpening({ kind }: XmlTag): boolean {
  return kind === 'open' || kind === 'empty';
}

function trimmedStart(text: string, isStart: boolean): string {
  return isStart ? text.trimStart() : text;
}

interface Member {
  readonly name: string;
  readonly schema: JSONSchema;
}

/** The member of an element: a named one, else an additional property. */
function memberOf(shape: Shape, tag: XmlTag): Member | undefined {
  const named = namedMember(shape, tag);
  if (named || !isOpening(tag) || !shape.otherMembers) return named;
  return { name: tag.member, schema: shape.otherMembers };
}

/** Matches the exact name first, then case-insensitively. */
function namedMember({ members, names }: Shape, tag: XmlTag): Member | undefined {
  if (!members || !isOpening(tag)) return undefined;
  const name = members.has(tag.member) ? tag.member : names.get(tag.member.toLowerCase());
  const schema = name === undefined ? undefined : members.get(name);
  return name === undefined || schema === undefined ? undefined : { name, schema };
}

/** Merges a repeated member: array entries are appended, anything else is replaced. */
function joined(before: unknown, value: unknown): unknown {
  if (!Array.isArray(before) || !Array.isArray(value)) return value;
  for (const entry of value) before.push(entry);
  return before;
}

/** Whether an opening tag begins a child of one of these elements. */
function knownAround(frame: Frame | undefined, tag: XmlTag): boolean {
  for (let at = frame; at && isOpening(tag); at = at.parent) {
    if (namedMember(at.shape, tag)) return true;
    if (at.shape.otherMembers && tag.name === entryName) return true;
    if (at.shape.entries && tag.name === itemName) return true;
  }
  return false;
}

function closesAround(frame: Frame | undefined, tag: XmlTag): boolean {
  for (let at = frame; at; at = at.parent) {
    if (tag.kind === 'close' && at.name === tag.name) return true;
  }
  return false;
}

const numberForm = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/;

/**
 * Converts a string to a scalar that the shape allows; else returns the string, for the schema check to report. If the shape also allows
 * strings, converts only the exact JSON form.
 */
function scalarValue(text: string, { scalars, values }: Shape): unknown {
  const listed = values?.find((value) => !isContainer(value) && String(value) === text);
  if (listed !== undefined) return listed;
  if (scalars.has('null') && (text === 'null' || (text === '' && !scalars.has('string')))) return null;
  return numberIn(text, scalars) ?? booleanIn(text, scalars) ?? text;
}

function numberIn(text: string, scalars: ReadonlySet<ScalarType>): number | undefined {
  if (!scalars.has('number') && !scalars.has('integer')) return undefined;
  const value = Number(text);
  if (!numberForm.test(text) || !Number.isFinite(value)) return undefined;
  return scalars.has('string') && String(value) !== text ? undefined : value;
}

function booleanIn(text: string, scalars: ReadonlySet<ScalarType>): boolean | undefined {
  const word = scalars.has('string') ? text : text.toLowerCase();
  return scalars.has('boolean') && (word === 'true' || word === 'false') ? word === 'true' : undefined;
}

function isContainer(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

/** A tag, a CDATA section or a comment. */
interface XmlTag {
  readonly kind: 'open' | 'close' | 'empty' | 'cdata' | 'comment';
  /** The name of a tag in lower case, by which tags are matched. */
  readonly name: string;
  /** The member name of a tag: its own name, or the attribute of `<entry name="…">`. */
  readonly member: string;
  /** The content of a CDATA section. */
  readonly content: string;
  readonly start: number;
  readonly end: number;
}

const tagForm = /<(\/?)([\p{L}_][\p{L}\p{N}_.:-]*)((?:\s+[^\s=<>"'/]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>/uy;
const nameAttribute = /\sname\s*=\s*(?:"([^"<]*)"|'([^'<]*)')/;

/** All markup of a string, in order. Linear. */
function xmlTags(text: string): readonly XmlTag[] {
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

/** Finds CDATA sections and comments. Looks up the last end of each once, so that a string of unclosed openings stays linear. */
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

/** Decodes XML's five named entities and numeric references; anything else stays. */
function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(amp|lt|gt|quot|apos));/gi, (entity, decimal, hex, name) => {
    if (name !== undefined) return named[String(name).toLowerCase()] ?? entity;
    const code = hex === undefined ? Number.parseInt(decimal, 10) : Number.parseInt(hex, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : entity;
  });
}

const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
