import { Decimal } from 'decimal.js';
import { type Tool, tool } from '../../tools/tool.ts';

const maxLength = 500;
const roughDigits = 15;
const exactDigits = 40;

const parameters = {
  type: 'object',
  properties: {
    expression: {
      type: 'string',
      minLength: 1,
      maxLength,
      description: 'Such as "2 * (3 + 4)^2", "sqrt(2)", "1200 * 5 / 100" or "17 mod 5". Angles are in radians.',
    },
  },
  required: ['expression'],
  additionalProperties: false,
} as const;

/**
 * A tool that computes an arithmetic expression of at most 500 characters. Whole numbers are exact to 40 digits, all
 * others are rounded to 15.
 */
export function calculateTool(): Tool<{ readonly expression: string }> {
  return tool({
    name: 'calculate',
    description:
      'Computes an arithmetic expression: + - * / ^ !, mod, parentheses, pi, e, and functions such as sqrt, round, min, max, log, sin.',
    parameters,
    readOnly: true,
    onInDoubt: 'retry',
    execute({ expression }) {
      if (expression.includes('%'))
        throw new SyntaxError('"%" is ambiguous; write x / 100 for a percentage, a mod b for a remainder');
      return written(evaluate(expression));
    },
  });
}

/** `1/3 * 3` is 0.999… to 64 digits, and 1 to fewer. */
function written({ value, rough }: Evaluated): string {
  const rounded = value.toSignificantDigits(rough ? roughDigits : exactDigits);
  if (rounded.isZero()) return '0';
  if (rounded.isInteger() && rounded.e < (rough ? roughDigits : exactDigits)) return rounded.toFixed(0);
  return value.toSignificantDigits(roughDigits).toString();
}

/** What an expression comes to. A rough value went through floating point and holds about 15 digits. */
interface Evaluated {
  readonly value: Decimal;
  readonly rough: boolean;
}

const largestExponent = 1_000;
const Digits = Decimal.clone({ precision: 64, modulo: Decimal.EUCLID, defaults: true });
const pi = Digits.acos(-1);
const constants: ReadonlyMap<string, Decimal> = new Map([
  ['pi', pi],
  ['tau', pi.times(2)],
  ['e', Digits.exp(1)],
]);

/**
 * Computes an arithmetic expression: numbers, parentheses, the constants pi, tau and e, and the entries of `mathFunctions` and
 * `mathOperators`. Nothing else can be reached. Precedence, from the lowest: `+ -`, then `* / mod`, then what stands side by side as in
 * `2 pi`, then signs, then `^` from right to left, then `!`. The work grows with the length of the expression, not with its numbers.
 *
 * Throws a `SyntaxError` for what cannot be read, and a `RangeError` for what has no finite real value.
 */
function evaluate(expression: string): Evaluated {
  return new ExpressionReader(expression).whole();
}

interface Token {
  readonly kind: 'number' | 'name' | 'sign' | 'end';
  readonly text: string;
}

const end: Token = { kind: 'end', text: '' };
const tokens = /((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)|([\p{L}_][\p{L}\p{N}_]*)|\S/giu;

function tokensOf(expression: string): readonly Token[] {
  return [...expression.matchAll(tokens)].map(([text, number, name]) => ({
    kind: number === undefined ? (name === undefined ? 'sign' : 'name') : 'number',
    text,
  }));
}

/** One method for each level of precedence; each computes what it has read. */
class ExpressionReader {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(expression: string) {
    this.#tokens = tokensOf(expression);
  }

  whole(): Evaluated {
    const value = this.#sum();
    if (this.#next().kind !== 'end') throw this.#unexpected();
    return value;
  }

  #sum(): Evaluated {
    let value = this.#product();
    while (this.#next().text === '+' || this.#next().text === '-')
      value = apply(this.#take(), [value, this.#product()]);
    return value;
  }

  #product(): Evaluated {
    let value = this.#sideBySide();
    while (['*', '/', 'mod'].includes(this.#next().text)) value = apply(this.#take(), [value, this.#sideBySide()]);
    return value;
  }

  #sideBySide(): Evaluated {
    let value = this.#factor();
    while (this.#isFactor(0) || (this.#next().kind === 'number' && this.#next(-1).kind !== 'number'))
      value = apply('*', [value, this.#factor()]);
    return value;
  }

  /** In `1/2 pi` the fraction is the factor. */
  #factor(): Evaluated {
    const [first, slash, second] = [this.#next(), this.#next(1), this.#next(2)];
    const isFraction = first.kind === 'number' && slash.text === '/' && second.kind === 'number' && this.#isFactor(3);
    const value = this.#signed();
    return isFraction ? apply(this.#take(), [value, this.#signed()]) : value;
  }

  #isFactor(ahead: number): boolean {
    const { kind, text } = this.#next(ahead);
    return text === '(' || (kind === 'name' && text !== 'mod');
  }

  #signed(): Evaluated {
    if (this.#takes('+')) return this.#signed();
    return this.#takes('-') ? apply('negative', [this.#signed()]) : this.#power();
  }

  #power(): Evaluated {
    let value = this.#operand();
    while (this.#takes('!')) value = apply('factorial', [value]);
    return this.#takes('^') ? apply('pow', [value, this.#signed()]) : value;
  }

  #operand(): Evaluated {
    const { kind, text } = this.#next();
    const value = kind === 'number' ? new Digits(text) : constants.get(text);
    if (kind === 'name' && this.#next(1).text === '(') return this.#call(text);
    if (value !== undefined) this.#at++;
    else if (!this.#takes('(')) throw this.#unexpected();
    return value === undefined ? this.#closed(this.#sum()) : bounded(value, false);
  }

  #call(name: string): Evaluated {
    if (!mathFunctions.has(name)) throw new SyntaxError(`"${name}" is not known; ${knownNames()}`);
    this.#at += 2;
    const args: Evaluated[] = [];
    if (this.#takes(')')) return apply(name, args);
    do args.push(this.#sum());
    while (this.#takes(','));
    return this.#closed(apply(name, args));
  }

  #closed(value: Evaluated): Evaluated {
    if (!this.#takes(')')) throw this.#unexpected();
    return value;
  }

  #next(ahead = 0): Token {
    return this.#tokens[this.#at + ahead] ?? end;
  }

  #take(): string {
    const { text } = this.#next();
    this.#at++;
    return text;
  }

  #takes(text: string): boolean {
    const isNext = this.#next().text === text;
    if (isNext) this.#at++;
    return isNext;
  }

  #unexpected(): SyntaxError {
    const { kind, text } = this.#next();
    if (kind === 'end') return new SyntaxError('Unexpected end of expression');
    return new SyntaxError(`${JSON.stringify(text)} is not understood; ${knownNames()}`);
  }
}

function apply(name: string, args: readonly Evaluated[]): Evaluated {
  const entry = mathOperators.get(name) ?? mathFunctions.get(name);
  if (entry === undefined) throw new SyntaxError(`"${name}" is not known; ${knownNames()}`);
  const [least, most] = entry.takes;
  const [first, ...rest] = args;
  if (first === undefined || args.length < least || args.length > most) {
    throw new SyntaxError(`${name} takes ${countText(least, most)}, not ${args.length}`);
  }
  const made = entry.compute(first.value, ...rest.map(({ value }) => value));
  const rough = typeof made === 'number' || args.some((each) => each.rough);
  return bounded(typeof made === 'number' ? new Digits(made) : made, rough);
}

function countText(least: number, most: number): string {
  if (most === least) return least === 1 ? '1 argument' : `${least} arguments`;
  return most < Number.POSITIVE_INFINITY ? `${least} or ${most} arguments` : `${least} or more arguments`;
}

/** Numbers of any size would make the next step take any time. */
function bounded(value: Decimal, rough: boolean): Evaluated {
  if (value.isNaN()) throw new RangeError('the expression has no real value');
  if (!value.isFinite()) throw new RangeError('the value is not finite: a division by zero, or a number too large');
  if (Math.abs(value.e) > largestExponent) {
    throw new RangeError(`numbers are computed between 10^-${largestExponent} and 10^${largestExponent}`);
  }
  return { value, rough };
}

function knownNames(): string {
  return `there are numbers, + - * / ^ !, parentheses, and ${[...constants.keys(), ...mathFunctions.keys()].join(', ')}`;
}

/**
 * Computes with one or more numbers. What it gives as a `Decimal` is exact to 60 digits; a `number` went through
 * floating point and holds about 15. Throws a `RangeError` for numbers that it is not for.
 */
type MathFunction = (first: Decimal, ...rest: readonly Decimal[]) => Decimal | number;

interface Entry {
  /** The fewest and the most arguments. */
  readonly takes: readonly [number, number];
  readonly compute: MathFunction;
}

const largestFactorial = 450;
const largestPower = 1_000_000;
const mostDecimals = 60;

/** The operators that are not functions too. */
const mathOperators: ReadonlyMap<string, Entry> = new Map<string, Entry>([
  ['+', two((a, b) => a.plus(b))],
  ['-', two((a, b) => a.minus(b))],
  ['*', two((a, b) => a.times(b))],
  ['/', two((a, b) => a.div(b))],
  ['negative', one((a) => a.neg())],
]);

/**
 * The functions that an expression can use. Each takes a few milliseconds at most for numbers below 10^1000: floating
 * point stands in where the exact way would take long.
 */
const mathFunctions: ReadonlyMap<string, Entry> = new Map<string, Entry>([
  ['mod', two(remainder)],
  ['pow', two(power)],
  ['factorial', one(factorial)],
  ['abs', one((a) => a.abs())],
  ['sign', one((a) => (a.isZero() ? a : a.div(a.abs())))],
  ['sqrt', one((a) => a.sqrt())],
  ['cbrt', one((a) => a.cbrt())],
  ['floor', one((a) => a.floor())],
  ['ceil', one((a) => a.ceil())],
  ['trunc', one((a) => a.trunc())],
  ['round', { takes: [1, 2], compute: round }],
  ['min', many((...all) => all.reduce((least, each) => (each.lt(least) ? each : least)))],
  ['max', many((...all) => all.reduce((most, each) => (each.gt(most) ? each : most)))],
  ['sum', many((...all) => all.reduce((total, each) => total.plus(each)))],
  ['mean', many((...all) => all.reduce((total, each) => total.plus(each)).div(all.length))],
  [
    'hypot',
    many((...all) =>
      all
        .map((each) => each.times(each))
        .reduce((total, each) => total.plus(each))
        .sqrt(),
    ),
  ],
  ['exp', float(Math.exp)],
  ['ln', float(Math.log)],
  ['log', { takes: [1, 2], compute: logarithm }],
  ['log2', float(Math.log2)],
  ['log10', float(Math.log10)],
  ['sin', float(Math.sin)],
  ['cos', float(Math.cos)],
  ['tan', float(Math.tan)],
  ['asin', float(Math.asin)],
  ['acos', float(Math.acos)],
  ['atan', float(Math.atan)],
  ['atan2', two((a, b) => Math.atan2(a.toNumber(), b.toNumber()))],
  ['sinh', float(Math.sinh)],
  ['cosh', float(Math.cosh)],
  ['tanh', float(Math.tanh)],
]);

function one(compute: (a: Decimal) => Decimal | number): Entry {
  return { takes: [1, 1], compute };
}

function two(compute: (a: Decimal, b: Decimal) => Decimal | number): Entry {
  return { takes: [2, 2], compute: (a, b = a) => compute(a, b) };
}

function many(compute: MathFunction): Entry {
  return { takes: [1, Number.POSITIVE_INFINITY], compute };
}

function float(compute: (a: number) => number): Entry {
  return one((a) => compute(a.toNumber()));
}

/** Of the sign of the divisor, so that `-7 mod 3` is 2. */
function remainder(a: Decimal, b: Decimal): Decimal {
  const rest = a.mod(b);
  return rest.isZero() || rest.isNegative() === b.isNegative() ? rest : rest.plus(b);
}

function power(a: Decimal, b: Decimal): Decimal | number {
  const exact = b.isInteger() && b.abs().lte(largestPower);
  return exact ? a.pow(b) : a.toNumber() ** b.toNumber();
}

function factorial(a: Decimal): Decimal {
  if (!a.isInteger() || a.isNegative() || a.gt(largestFactorial)) {
    throw new RangeError(`a factorial is computed for whole numbers from 0 to ${largestFactorial}`);
  }
  let product = a.pow(0);
  for (let factor = 2; factor <= a.toNumber(); factor += 1) product = product.times(factor);
  return product;
}

function round(a: Decimal, decimals = a.minus(a)): Decimal {
  if (!decimals.isInteger() || decimals.isNegative() || decimals.gt(mostDecimals)) {
    throw new RangeError(`round(x, n) takes n from 0 to ${mostDecimals}`);
  }
  return a.toDecimalPlaces(decimals.toNumber());
}

/** Bases 2 and 10 have functions of their own, which are right to the last digit where a quotient is not. */
function logarithm(a: Decimal, base?: Decimal): number {
  if (base === undefined) return Math.log(a.toNumber());
  if (base.eq(10)) return Math.log10(a.toNumber());
  return base.eq(2) ? Math.log2(a.toNumber()) : Math.log(a.toNumber()) / Math.log(base.toNumber());
}
