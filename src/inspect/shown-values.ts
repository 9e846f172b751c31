import { headOf } from '../core/contracts/index.ts';
import { redactMembers } from '../redaction.ts';

/** Longer strings are cut in what is shown; the whole value is there by request. Characters. */
const longest = 65_536;
/** How much of a clean value is read for a line. */
const readForLine = 4_096;

/** What leaves the inspector: without secrets, unless it is raw. */
export class ShownValues {
  readonly isRaw: boolean;

  constructor(isRaw: boolean) {
    this.isRaw = isRaw;
  }

  /** The same structure. */
  clean<T>(value: T): T;
  clean(value: unknown): unknown {
    return this.isRaw ? value : redactMembers(value, (text) => text);
  }

  /** The same, with long strings cut. */
  shortened<T>(value: T): T;
  shortened(value: unknown): unknown {
    return withShortStrings(this.clean(value));
  }

  /** The beginning of a string, or of a value as JSON, in one line. Secrets are removed before anything is cut. */
  line(value: unknown, most: number): string {
    const clean = this.clean(value);
    const text = typeof clean === 'string' ? clean : (JSON.stringify(clean) ?? '');
    const line = headOf(text, readForLine).replace(/\s+/g, ' ').trim();
    return line.length <= most ? line : `${headOf(line, most - 1)}…`;
  }
}

function withShortStrings(value: unknown): unknown {
  if (typeof value === 'string')
    return value.length <= longest ? value : `${headOf(value, longest)}… (${value.length - longest} characters more)`;
  if (Array.isArray(value)) return value.map(withShortStrings);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withShortStrings(member)]));
}
