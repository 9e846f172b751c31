const searching = ['includes', 'replace', 'replaceAll', 'split', 'match', 'search'] as const;

/**
 * How many characters the methods of texts pass by while `act` runs: up to what `indexOf` finds, what `slice` gives, and what
 * `startsWith` is given; all of the text for the others. A count of work that no clock and no busy machine changes.
 */
export function charactersPassed(act: () => void): number {
  const own = Object.getOwnPropertyDescriptors(String.prototype);
  let passed = 0;
  const count = (name: string, passedBy: (text: string, given: unknown, args: readonly unknown[]) => number): void => {
    const method: (...args: unknown[]) => unknown = Reflect.get(String.prototype, name);
    const counting = function (this: string, ...args: unknown[]): unknown {
      const given = method.apply(this, args);
      passed += passedBy(this, given, args);
      return given;
    };
    Object.defineProperty(String.prototype, name, { ...own.at, value: counting });
  };
  for (const name of searching) count(name, (text) => text.length);
  count('slice', (_, given) => String(given).length);
  count('startsWith', (text, _, [prefix]) => Math.min(text.length, String(prefix).length));
  count('indexOf', (text, at, [, from]) => (Number(at) < 0 ? text.length : Number(at)) - (Number(from) || 0));
  try {
    act();
  } finally {
    Object.defineProperties(String.prototype, own);
  }
  return passed;
}

/** How many characters `JSON.parse` is given while `act` runs. */
export async function charactersParsed(act: () => Promise<unknown>): Promise<number> {
  const { parse } = JSON;
  let parsed = 0;
  JSON.parse = (text: string, ...rest: []) => {
    parsed += String(text).length;
    return parse(text, ...rest);
  };
  try {
    await act();
  } finally {
    JSON.parse = parse;
  }
  return parsed;
}
