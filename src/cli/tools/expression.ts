import { Decimal } from 'decimal.js';
import { mathFunctions, mathOperators } from './math-functions.ts';

/** What an expression comes to. A rough value went through floating point and holds about 15 digits. */
export interface Evaluated {
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
export function evaluate(expression: string): Evaluated {
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
