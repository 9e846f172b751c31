import { type Tool, tool } from '../../tools/tool.ts';
import { type Evaluated, evaluate } from './expression.ts';

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
