import { type JournalRecord, kindOf } from '../core/journal/index.ts';

/** Where a replay did something else than the recording says. */
export interface Deviation {
  /** The record that was due, or was looked at. */
  readonly seq: number;
  /** The member that differs, e.g. `tool.intent 1:0: arguments.city`, or the record itself. */
  readonly what: string;
  /** Absent where nothing was expected any more. */
  readonly expected?: unknown;
  /** Absent where nothing came. */
  readonly got?: unknown;
}

/** A record in a few words: its type and what it is about. */
export function nameOf(record: JournalRecord): string {
  const subject = kindOf(record.type)?.subject(record);
  return subject === undefined ? record.type : `${record.type} ${subject}`;
}

/** The call of a batch that a record is about. */
export function callIdOf(record: JournalRecord): string | undefined {
  return kindOf(record.type)?.callOf(record);
}

/** A deviation as a sentence's part. */
export function describe({ seq, what, expected, got }: Deviation): string {
  return `record ${seq}, ${what}: expected ${shown(expected)}, got ${shown(got)}`;
}

const shownCharacters = 200;

/** A value as JSON, cut at 200 characters. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = JSON.stringify(value);
  return text.length <= shownCharacters ? text : `${text.slice(0, shownCharacters)}…`;
}

/** The first place where two values differ as JSON, by its path; undefined where they are the same. */
export function difference(
  expected: unknown,
  got: unknown,
  path = '',
): { readonly path: string; readonly expected: unknown; readonly got: unknown } | undefined {
  if (Object.is(expected, got)) return undefined;
  if (!isStructure(expected) || !isStructure(got) || Array.isArray(expected) !== Array.isArray(got)) {
    return { path, expected, got };
  }
  for (const name of new Set([...Object.keys(expected), ...Object.keys(got)])) {
    const place = path === '' ? name : `${path}.${name}`;
    const found = difference(Reflect.get(expected, name), Reflect.get(got, name), place);
    if (found) return found;
  }
  return undefined;
}

function isStructure(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
