import type { ScalarType, Shape } from './schema-shape.ts';

const numberForm = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/;

/**
 * The value of a string, as far as the shape allows it; else the string itself, for the check of the schema to
 * name. Where both are allowed, it is a number, `true`, `false` or `null` only if it is written just like that.
 */
export function scalarValue(text: string, { scalars, values }: Shape): unknown {
  const listed = values?.find((value) => !isContainer(value) && String(value) === text);
  if (listed !== undefined) return listed;
  if (scalars.has('null') && (text === 'null' || (text === '' && !scalars.has('string')))) return null;
  return numberIn(text, scalars) ?? booleanIn(text, scalars) ?? text;
}

function numberIn(text: string, scalars: ReadonlySet<ScalarType>): number | undefined {
  if (!scalars.has('number') && !scalars.has('integer')) return undefined;
  const value = Number(text);
  if (!numberForm.test(text) || !Number.isFinite(value)) return undefined;
  return scalars.has('string') && String(value) !== text ? undefined : value;
}

function booleanIn(text: string, scalars: ReadonlySet<ScalarType>): boolean | undefined {
  const word = scalars.has('string') ? text : text.toLowerCase();
  return scalars.has('boolean') && (word === 'true' || word === 'false') ? word === 'true' : undefined;
}

function isContainer(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}
