import { createRequire } from 'node:module';
import type { BigNumber, ConfigOptions, MathJsInstance, MathNode } from 'mathjs';
import { mathFunctions, mathOperators } from './math-functions.ts';

type Parser = Pick<
  MathJsInstance,
  | 'bignumber'
  | 'isBigNumber'
  | 'isConstantNode'
  | 'isFunctionNode'
  | 'isOperatorNode'
  | 'isParenthesisNode'
  | 'isSymbolNode'
  | 'parse'
>;

/** What an expression comes to. A rough value went through floating point and holds about 15 digits. */
export interface Evaluated {
  readonly value: BigNumber;
  readonly rough: boolean;
}

/** mathjs in one file: its thousand modules take four times as long to load. */
interface MathBundle {
  create(config: ConfigOptions): Parser;
}

const largestExponent = 1_000;
const digits = 64;

/**
 * A function that computes arithmetic expressions. mathjs, loaded here, only parses: numbers, parentheses, the constants
 * pi, tau and e, and the entries of `mathFunctions` and `mathOperators` are computed by us, and nothing else is, so that
 * neither mathjs's own functions nor JavaScript can be reached from an expression. The work grows with the length of the
 * expression, not with its numbers.
 *
 * Throws a `SyntaxError` for what cannot be read, and a `RangeError` for what has no finite real value.
 */
export function loadEvaluator(): (expression: string) => Evaluated {
  const bundle: MathBundle = createRequire(import.meta.url)('mathjs/lib/browser/math.js');
  const parser = bundle.create({ number: 'BigNumber', precision: digits });
  const pi = parser.bignumber(-1).acos();
  const constants = new Map<string, BigNumber>([
    ['pi', pi],
    ['tau', pi.times(2)],
    ['e', parser.bignumber(1).exp()],
  ]);
  return (expression) => evaluate(parser.parse(expression), { parser, constants });
}

interface Scope {
  readonly parser: Parser;
  readonly constants: ReadonlyMap<string, BigNumber>;
}

function evaluate(node: MathNode, scope: Scope): Evaluated {
  const { parser, constants } = scope;
  if (parser.isParenthesisNode(node)) return evaluate(node.content, scope);
  if (parser.isOperatorNode(node)) return apply(node.fn, node.args, scope);
  if (parser.isFunctionNode(node) && parser.isSymbolNode(node.fn)) return apply(node.fn.name, node.args, scope);
  if (parser.isConstantNode(node) && parser.isBigNumber(node.value)) return bounded(node.value, false);
  const constant = parser.isSymbolNode(node) ? constants.get(node.name) : undefined;
  if (constant !== undefined) return { value: constant, rough: false };
  throw new SyntaxError(`${JSON.stringify(node.toString())} is not understood; ${knownNames(scope)}`);
}

function apply(name: string, nodes: readonly MathNode[], scope: Scope): Evaluated {
  const entry = mathFunctions.get(name) ?? mathOperators.get(name);
  if (entry === undefined) throw new SyntaxError(`"${name}" is not known; ${knownNames(scope)}`);
  const [least, most] = entry.takes;
  const [first, ...rest] = nodes.map((node) => evaluate(node, scope));
  if (first === undefined || nodes.length < least || nodes.length > most) {
    throw new SyntaxError(`${name} takes ${countText(least, most)}, not ${nodes.length}`);
  }
  const made = entry.compute(first.value, ...rest.map(({ value }) => value));
  const rough = typeof made === 'number' || [first, ...rest].some((each) => each.rough);
  return bounded(typeof made === 'number' ? scope.parser.bignumber(made) : made, rough);
}

function countText(least: number, most: number): string {
  if (most === least) return least === 1 ? '1 argument' : `${least} arguments`;
  return most < Number.POSITIVE_INFINITY ? `${least} or ${most} arguments` : `${least} or more arguments`;
}

/** Numbers of any size would make the next step take any time. */
function bounded(value: BigNumber, rough: boolean): Evaluated {
  if (value.isNaN()) throw new RangeError('the expression has no real value');
  if (!value.isFinite()) throw new RangeError('the value is not finite: a division by zero, or a number too large');
  if (Math.abs(value.e) > largestExponent) {
    throw new RangeError(`numbers are computed between 10^-${largestExponent} and 10^${largestExponent}`);
  }
  return { value, rough };
}

function knownNames({ constants }: Scope): string {
  return `there are numbers, + - * / ^ !, parentheses, and ${[...constants.keys(), ...mathFunctions.keys()].join(', ')}`;
}
