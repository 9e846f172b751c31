import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { partialJson } from 'millrace/internals';

/** What is read after each fragment. */
function readings(fragments: readonly string[]): readonly unknown[] {
  const partial = partialJson<unknown>();
  return fragments.map((fragment) => {
    partial.push(fragment);
    return partial.value;
  });
}

/** Whether the later value only adds to the earlier one. */
function growsTo(earlier: unknown, later: unknown): boolean {
  if (earlier === undefined) return true;
  if (typeof earlier === 'string') return typeof later === 'string' && later.startsWith(earlier);
  if (Array.isArray(earlier)) {
    return Array.isArray(later) && earlier.every((item, index) => growsTo(item, later[index]));
  }
  if (!isObject(earlier)) return Object.is(earlier, later);
  return (
    isObject(later) &&
    Object.entries(earlier).every(([key, value]) => Object.hasOwn(later, key) && growsTo(value, later[key]))
  );
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A JSON text of an object or array: numbers in odd forms, strings with escapes, blanks anywhere. */
const jsonText = fc
  .tuple(
    fc.oneof(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), fc.array(fc.jsonValue())),
    fc.constantFrom(0, 2, '\t'),
    fc.boolean(),
    fc.constantFrom('1e5', '-0', '1.5E-7', '-12'),
  )
  .map(([value, indent, escaped, number]) => {
    const text = `{"value":${JSON.stringify(value, undefined, indent)},"number":${number},"list":[${number} ]}`;
    return escaped
      ? text.replace(/[^ -~\s]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      : text;
  });

const unicode = { '😀 says "hi"\\\n': ['é😀', '\u0000\t', '\ud83d', '漢字'] };

describe('partialJson', () => {
  it('grows from reading to reading, and ends as the whole value, wherever the text is cut', () => {
    fc.assert(
      fc.property(jsonText, fc.array(fc.nat(400), { maxLength: 30 }), (text, places) => {
        const cuts = [0, ...places.map((place) => place % text.length), text.length].sort((a, b) => a - b);
        const values = readings(cuts.slice(1).map((cut, index) => text.slice(cuts[index], cut)));
        for (const [index, value] of values.entries()) expect(growsTo(values[index - 1], value)).toBe(true);
        expect(values.at(-1)).toStrictEqual(JSON.parse(text));
      }),
    );
  });

  it('grows with every single character, and never shows half a surrogate pair of a text that has both', () => {
    for (const text of [JSON.stringify(unicode), '{"a":"\\ud83d\\ude00\\u00e9\\/"}', '{"😀":["😀"]}']) {
      const values = readings(text.split(''));
      for (const [index, value] of values.entries()) expect(growsTo(values[index - 1], value)).toBe(true);
      expect(values.at(-1)).toStrictEqual(JSON.parse(text));
    }
    for (const value of readings('{"a":"\\ud83d\\ude00😀"}'.split(''))) {
      expect(() => encodeURIComponent(String(Object.values(value ?? {})[0]))).not.toThrow();
    }
  });

  it('shows a text as it comes, a number and a word only when they are whole, a name only with its value', () => {
    expect(
      readings(['', ' {', '"te', 'xt"', ' : "', 'He', 'llo', '"', ', "n": -1', '2e', '1', ' ', ',"t":tr', 'ue', '}']),
    ).toEqual([
      undefined,
      {},
      {},
      {},
      { text: '' },
      { text: 'He' },
      { text: 'Hello' },
      { text: 'Hello' },
      { text: 'Hello' },
      { text: 'Hello' },
      { text: 'Hello' },
      { text: 'Hello', n: -120 },
      { text: 'Hello', n: -120 },
      { text: 'Hello', n: -120 },
      { text: 'Hello', n: -120, t: true },
    ]);
  });

  it('gives the same object until there is more, and leaves what it gave as it was', () => {
    const partial = partialJson<{ a: string; b: readonly number[] }>();
    partial.push('{"a":"x"');
    const first = partial.value;
    partial.push(',"b"');
    expect(partial.value).toBe(first);
    partial.push(':[1,');
    expect(partial.value).toEqual({ a: 'x', b: [1] });
    expect(first).toEqual({ a: 'x' });
  });

  it('knows the end, and passes over what comes after it', () => {
    const partial = partialJson<{ a: number }>();
    partial.push('{"a":1');
    expect([partial.value, partial.complete]).toEqual([{}, false]);
    partial.push('} and so on {"b":2}');
    expect([partial.value, partial.complete]).toEqual([{ a: 1 }, true]);
  });

  it('takes __proto__ as the member that it is', () => {
    const [value] = readings(['{"__proto__":{"x":1},"a":"']);
    expect(Object.keys(value ?? {})).toEqual(['__proto__', 'a']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  });

  it('never throws, and stays as it was where the text is no JSON', () => {
    expect(readings(['{"a":1,', '"b":oops', ',"c":2}'])).toEqual([{ a: 1 }, { a: 1 }, { a: 1 }]);
    const junk = fc.array(fc.constantFrom('{', '}', '[', ']', '"', '\\', 'u12', ':', ',', '1', 'x', ' '));
    fc.assert(fc.property(junk, (fragments) => void readings(fragments)));
  });
});
