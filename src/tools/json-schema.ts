import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js';
import type { ArgumentCheck, ArgumentChecker, JSONSchema } from '../core/contracts/index.ts';
import { argumentPath, problemText } from './argument-problems.ts';
import { compileJsonSchema } from './json-schema-engine.ts';

/**
 * A check of arguments against a JSON Schema of draft 2020-12 (the default), 2019-09 or draft-07, chosen by `$schema`.
 * The value is passed on unchanged: nothing is coerced, no default is filled in. Errors are reported field by field
 * in about 1,000 characters. `format` is an annotation and is not checked. There is no time limit.
 *
 * The first check loads ajv, if nothing has yet, and compiles the schema; all others answer without a promise. `owner`
 * names the schema in errors. A check throws or rejects with `INVALID_CONFIG` where the schema cannot be compiled.
 */
export function unlimitedChecker(schema: JSONSchema, owner: string): ArgumentChecker {
  return (value) => {
    const validate = compileJsonSchema(schema, owner);
    return validate instanceof Promise ? validate.then((ready) => answer(ready, value)) : answer(validate, value);
  };
}

function answer(validate: ValidateFunction, value: unknown): ArgumentCheck {
  if (validate(value) === true) return { ok: true, value };
  return { ok: false, message: problemText((validate.errors ?? []).map(problemOf)) };
}

function problemOf({ instancePath, keyword, message, ...error }: ErrorObject): string {
  const keys = instancePath.split('/').slice(1).map(unescapePointer);
  const params: Readonly<Record<string, unknown>> = error.params;
  switch (keyword) {
    case 'required':
      return `${argumentPath([...keys, String(params['missingProperty'])])} is required`;
    case 'additionalProperties':
      return `${argumentPath([...keys, String(params['additionalProperty'])])} is not a known argument`;
    case 'unevaluatedProperties':
      return `${argumentPath([...keys, String(params['unevaluatedProperty'])])} is not a known argument`;
    case 'enum':
      return `${argumentPath(keys)} must be one of ${JSON.stringify(params['allowedValues'])}`;
    case 'const':
      return `${argumentPath(keys)} must be ${JSON.stringify(params['allowedValue'])}`;
    case 'type':
      return `${argumentPath(keys)} must be ${[params['type']].flat().join(' or ')}`;
    case 'false schema':
      return `${argumentPath(keys)} is not allowed`;
    default:
      return `${argumentPath(keys)} ${message ?? `fails "${keyword}"`}`;
  }
}

function unescapePointer(key: string): string {
  return key.replaceAll('~1', '/').replaceAll('~0', '~');
}
