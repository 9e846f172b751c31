import type { JSONSchema } from '../../../core/contracts/index.ts';
import { entryName, itemName } from './element-name.ts';
import { scalarValue } from './scalar-value.ts';
import { type Shape, shapeOf } from './schema-shape.ts';
import type { XmlTag } from './xml-tags.ts';
import { decodeEntities } from './xml-text.ts';

/** An element that is being read, and those around it. */
interface Frame {
  readonly name: string;
  readonly shape: Shape;
  readonly parent: Frame | undefined;
  readonly depth: number;
}

/** Deeper elements are read as text. */
const maxDepth = 100;

/**
 * Reads elements by the schema that they follow, so that it knows what is an element and what is text that only looks
 * like one, and where an element ends whose closing tag is missing: at the next tag that belongs to one around it.
 */
export class ElementReader {
  readonly #text: string;
  readonly #tags: readonly XmlTag[];
  readonly #root: JSONSchema;
  readonly #shapes = new WeakMap<JSONSchema, Shape>();
  /** The tag that is read next. */
  #next = 0;

  constructor(text: string, tags: readonly XmlTag[], root: JSONSchema) {
    this.#text = text;
    this.#tags = tags;
    this.#root = root;
  }

  /** The value of each element of this name that stands in no other of them, in order. */
  rootValues(name: string): readonly unknown[] {
    const values: unknown[] = [];
    while (this.#next < this.#tags.length) {
      const tag = this.#tags[this.#next++];
      if (tag?.name === name && isOpening(tag)) values.push(this.#element(tag, this.#root, undefined));
    }
    return values;
  }

  /** The members that stand in the text without an element around them. */
  looseMembers(): unknown {
    this.#next = 0;
    return this.#members({ name: '', shape: this.#shapeOf(this.#root), parent: undefined, depth: 0 });
  }

  #element(tag: XmlTag, schema: JSONSchema, parent: Frame | undefined): unknown {
    const shape = this.#shapeOf(schema);
    const frame = { name: tag.name, shape, parent, depth: (parent?.depth ?? 0) + 1 };
    if (tag.kind === 'empty') return shape.members ? {} : shape.entries ? [] : scalarValue('', shape);
    if (frame.depth < maxDepth && (shape.members || shape.entries) && this.#holdsElements(frame)) {
      return shape.members && !this.#startsWithItem(shape) ? this.#members(frame) : this.#entries(frame);
    }
    return this.#textValue(tag, frame);
  }

  /** Whether an element comes before the end of this one. */
  #holdsElements({ name, shape, parent }: Frame): boolean {
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

  #members(frame: Frame): unknown {
    const members = new Map<string, unknown>();
    for (let tag = this.#tags[this.#next]; tag; tag = this.#tags[this.#next]) {
      if (this.#ends(tag, frame)) break;
      const member = isOpening(tag) ? memberOf(frame.shape, tag) : undefined;
      if (member === undefined && isOpening(tag) && knownAround(frame.parent, tag)) break;
      this.#next += 1;
      if (member === undefined) continue;
      const value = this.#element(tag, member.schema, frame);
      members.set(member.name, joined(members.get(member.name), value));
    }
    return Object.fromEntries(members);
  }

  #entries(frame: Frame): unknown {
    const entries: unknown[] = [];
    for (let tag = this.#tags[this.#next]; tag; tag = this.#tags[this.#next]) {
      if (this.#ends(tag, frame)) break;
      if (isOpening(tag) && tag.name !== itemName && knownAround(frame.parent, tag)) break;
      this.#next += 1;
      if (isOpening(tag)) entries.push(this.#element(tag, frame.shape.entries ?? {}, frame));
    }
    return entries;
  }

  /** Whether a closing tag ends this element: its own, which is taken, or that of one around it. */
  #ends(tag: XmlTag, frame: Frame): boolean {
    if (tag.kind !== 'close') return false;
    if (tag.name === frame.name) this.#next += 1;
    return tag.name === frame.name || closesAround(frame.parent, tag);
  }

  #textValue(tag: XmlTag, frame: Frame): unknown {
    const first = this.#next;
    const own = this.#ownEnd(frame);
    const end = own ?? this.#nextAround(frame);
    this.#next = own === undefined ? end : end + 1;
    const text = this.#textBetween(tag.end, first, end);
    const { members, entries, scalars } = frame.shape;
    if (scalars.size > 0 && (text !== '' || scalars.has('string'))) return scalarValue(text, frame.shape);
    if (entries) return text === '' ? [] : [scalarValue(text, this.#shapeOf(entries))];
    return members && text === '' ? {} : scalarValue(text, frame.shape);
  }

  /** The index of this element's closing tag, unless one around it ends first or another of its name begins. */
  #ownEnd({ name, parent }: Frame): number | undefined {
    for (let index = this.#next; index < this.#tags.length; index++) {
      const tag = this.#tags[index];
      if (tag?.name === name) return tag.kind === 'close' ? index : undefined;
      if (tag?.kind === 'close' && closesAround(parent, tag)) return undefined;
    }
    return undefined;
  }

  /** The index of the next tag that belongs to an element around this one. */
  #nextAround({ name, parent }: Frame): number {
    let index = this.#next;
    for (let tag = this.#tags[index]; tag; tag = this.#tags[++index]) {
      if (tag.name === name || knownAround(parent, tag) || closesAround(parent, tag)) break;
    }
    return index;
  }

  /** The text from a place to the tag `end`: blanks at its ends and comments left out, tags among it kept as they stand. */
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

/** The member that an element stands for: one that is named, else one of free name. */
function memberOf(shape: Shape, tag: XmlTag): Member | undefined {
  const named = namedMember(shape, tag);
  if (named || !isOpening(tag) || !shape.otherMembers) return named;
  return { name: tag.member, schema: shape.otherMembers };
}

/** By its name, else by its name in other capitals. */
function namedMember({ members, names }: Shape, tag: XmlTag): Member | undefined {
  if (!members || !isOpening(tag)) return undefined;
  const name = members.has(tag.member) ? tag.member : names.get(tag.member.toLowerCase());
  const schema = name === undefined ? undefined : members.get(name);
  return name === undefined || schema === undefined ? undefined : { name, schema };
}

/** A member that comes again: entries are added to the list that was read before, anything else is replaced. */
function joined(before: unknown, value: unknown): unknown {
  if (!Array.isArray(before) || !Array.isArray(value)) return value;
  for (const entry of value) before.push(entry);
  return before;
}

/** Whether an opening tag is one that an element around this place waits for. */
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
