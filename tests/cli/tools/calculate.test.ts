import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { calculateTool } from 'millrace/internals';
import { timesAsLong } from '../../processor-time.ts';
import { runTool } from './run-tool.ts';

const calculate = calculateTool();
const run = (expression: string) => runTool(calculate, { expression });

const results: readonly (readonly [expression: string, text: string])[] = [
  ['2 + 3 * 4', '14'],
  ['0.1 + 0.2', '0.3'],
  ['-2^2', '-4'],
  ['2^3^2', '512'],
  ['(1 + 2) (3 + 4)', '21'],
  ['1/3 * 3', '1'],
  ['sqrt(2)^2', '2'],
  ['7/2', '3.5'],
  ['1/3', '0.333333333333333'],
  ['123456789 * 987654321', '121932631112635269'],
  ['2^128', '340282366920938463463374607431768211456'],
  ['2^200', '1.60693804425899e+60'],
  ['5!', '120'],
  ['0!', '1'],
  ['factorial(20)', '2432902008176640000'],
  ['17 mod 5', '2'],
  ['-7 mod 3', '2'],
  ['7 mod -3', '-2'],
  ['2 pi', '6.28318530717959'],
  ['e', '2.71828182845905'],
  ['sin(pi/6)', '0.5'],
  ['atan2(1, 1) * 4', '3.14159265358979'],
  ['log(8, 2)', '3'],
  ['log(1000, 10)', '3'],
  ['log(81, 3)', '4'],
  ['log(e)', '1'],
  ['ln(e^2)', '2'],
  ['2^0.5', '1.4142135623731'],
  ['2^0.5 * 1e20', '141421356237310000000'],
  ['cbrt(-27)', '-3'],
  ['hypot(3, 4)', '5'],
  ['round(2.345, 2)', '2.35'],
  ['round(-2.5)', '-3'],
  ['floor(-2.5) + ceil(2.1) + trunc(-1.9)', '-1'],
  ['min(3, 1, 2) + max(3, 1, 2)', '4'],
  ['sum(1, 2, 3) + mean(1, 2)', '7.5'],
  ['abs(-3) * sign(-2)', '-3'],
  ['sign(0)', '0'],
  ['-0', '0'],
  ['1.5e3', '1500'],
  ['1e-10', '1e-10'],
];

it.each(results)('computes %s as %s', async (expression, text) => {
  expect(await run(expression)).toBe(text);
});

it('adds, subtracts and multiplies whole numbers exactly', async () => {
  const whole = fc.bigInt({ min: -(10n ** 18n), max: 10n ** 18n });
  await fc.assert(
    fc.asyncProperty(whole, whole, whole, async (a, b, c) => {
      expect(await run(`(${a}) * (${b}) - (${c}) + 1`)).toBe(String(a * b - c + 1n));
    }),
  );
});

it('reads precedence, signs and parentheses as JavaScript does', async () => {
  const { expression } = fc.letrec<{ expression: string; number: string; signed: string; pair: string }>((tie) => ({
    number: fc.integer({ min: 0, max: 9 }).map(String),
    signed: tie('expression').map((operand) => `-(${operand})`),
    pair: fc
      .tuple(tie('expression'), fc.constantFrom(' + ', ' - ', ' * '), tie('expression'), fc.boolean())
      .map(([left, operator, right, inside]) => (inside ? `(${left + operator + right})` : left + operator + right)),
    expression: fc.oneof({ maxDepth: 5 }, tie('number'), tie('signed'), tie('pair')),
  }));
  await fc.assert(
    fc.asyncProperty(
      expression.filter((text) => text.length <= 200),
      async (text) => {
        const expected: unknown = runInNewContext(text);
        fc.pre(Number.isSafeInteger(expected));
        expect(await run(text)).toBe(String(Number(expected) + 0));
      },
    ),
  );
});

it('answers whatever it is given with a number, a SyntaxError or a RangeError', async () => {
  const pieces = ['1', '.5', '2.', '1e3', 'pi', ' mod ', '+', '-', '*', '/', '^', '!', '(', ')', ',', 'max(', ' ', 'x'];
  const given = fc.oneof(
    fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 12 }).map((all) => all.join('')),
    fc.string({ minLength: 1, maxLength: 30, unit: 'grapheme' }),
  );
  await fc.assert(
    fc.asyncProperty(
      given.filter((text) => !text.includes('%')),
      async (text) => {
        const answer = await run(text).catch((error: Error) => error.name);
        expect(answer).toMatch(/^(-?\d+(\.\d+)?(e[+-]\d+)?|SyntaxError|RangeError)$/);
      },
    ),
    { numRuns: 1_000 },
  );
});

describe('what it refuses', () => {
  const refused: readonly (readonly [expression: string, message: string])[] = [
    ['1/0', 'the value is not finite: a division by zero, or a number too large'],
    ['0/0', 'the expression has no real value'],
    ['sqrt(-1)', 'the expression has no real value'],
    ['log(0)', 'the value is not finite'],
    ['asin(2)', 'no real value'],
    ['9^9^9', 'not finite'],
    ['1e9999999', 'numbers are computed between 10^-1000 and 10^1000'],
    ['1e-9999999', 'numbers are computed between'],
    ['451!', 'a factorial is computed for whole numbers from 0 to 450'],
    ['1e15!', 'a factorial is computed'],
    ['0.5!', 'a factorial is computed'],
    ['(-1)!', 'a factorial is computed'],
    ['round(1, 1e9)', 'round(x, n) takes n from 0 to 60'],
    ['50%', '"%" is ambiguous; write x / 100 for a percentage, a mod b for a remainder'],
    ['1 +', 'Unexpected end of expression'],
    ['sin()', 'sin takes 1 argument, not 0'],
    ['round(1, 2, 3)', 'round takes 1 or 2 arguments, not 3'],
    ['max()', 'max takes 1 or more arguments, not 0'],
    [
      'x + 1',
      '"x" is not understood; there are numbers, + - * / ^ !, parentheses, and pi, tau, e, mod, pow, factorial, abs',
    ],
    ['3 km', '"km" is not understood'],
    ['sqroot(2)', '"sqroot" is not known'],
  ];

  it.each(refused)('%s', async (expression, message) => {
    await expect(run(expression)).rejects.toThrow(message);
  });

  const escapes = [
    'import("fs")',
    'evaluate("1")',
    'parse("1")',
    'createUnit("x")',
    'simplify("x")',
    'derivative("x", "x")',
    'f(x) = f(x); f(1)',
    'x = 1',
    '[1, 2, 3]',
    '{"a": 1}',
    '"text"',
    'true',
    'cos.constructor("return 1")()',
    'constructor',
    '__proto__',
    'toString()',
    '1:1000000000',
    'zeros(100000000)',
    '3 > 2 ? 1 : 2',
    'process.exit(1)',
  ];

  it.each(escapes)('everything beyond arithmetic: %s', async (expression) => {
    await expect(run(expression)).rejects.toThrow(/is not understood|is not known|Value expected/);
  });

  it('an expression of more than 500 characters, or none', async () => {
    expect(await run(`1${'+1'.repeat(249)}`)).toBe('250');
    await expect(run('1'.repeat(501))).rejects.toThrow('arguments.expression must NOT have more than 500 characters');
    await expect(run('')).rejects.toThrow('arguments.expression must NOT have fewer than 1 characters');
  });
});

it('takes time by the length of an expression, not by its numbers', async () => {
  const fill = (term: string) => Array.from({ length: Math.floor(501 / (term.length + 1)) }, () => term).join('+');
  const hard = [
    '9^9^9^9',
    '1.000001^999999',
    '1e1000 mod 7',
    '1e999^0.3',
    '450!',
    'sin(1e1000)',
    '1e-999^1e-999',
    'cbrt(1e-999)',
  ];
  const nested = ['('.repeat(249) + 1 + ')'.repeat(249), `${'2^'.repeat(240)}2`, '-'.repeat(499) + 1];
  const base = () => run(fill('2.5*3'));
  for (const expression of [...hard.map(fill), ...nested]) {
    const compared = { run: () => run(expression).catch(() => {}), base, most: 500 };
    expect(await timesAsLong(compared)).toBeLessThan(500);
  }
});
