import type { Decimal } from 'decimal.js';

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
export const mathOperators: ReadonlyMap<string, Entry> = new Map<string, Entry>([
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
export const mathFunctions: ReadonlyMap<string, Entry> = new Map<string, Entry>([
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
