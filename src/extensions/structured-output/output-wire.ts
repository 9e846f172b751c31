import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { JSONSchema } from '../../core/contracts/index.ts';
import { isStandardSchema, type ToolParameters } from '../../tools/tool-options.ts';
import { anyJsonSchemaOf } from '../../tools/tool-parameters.ts';
import type { OutputSchema } from './output-options.ts';

/** The form in which the model gives an output. Vendors take objects only, so anything else is the member `value` of one. */
export interface OutputWire {
  readonly parameters: ToolParameters;
  readonly jsonSchema: JSONSchema | undefined;
  readonly wrap: (value: unknown) => unknown;
  /** `undefined` where the member is not there yet. */
  readonly unwrap: (wrapped: unknown) => unknown;
}

/** Errors: `INVALID_CONFIG` where a Standard Schema cannot tell its JSON Schema. */
export function outputWire(schema: OutputSchema, given: JSONSchema | undefined, toolName: string): OutputWire {
  const same = (value: unknown) => value;
  if (!isStandardSchema(schema)) {
    return needsWrap(schema)
      ? { parameters: wrapped(schema), jsonSchema: given, wrap, unwrap }
      : { parameters: schema, jsonSchema: given, wrap: same, unwrap: same };
  }
  const described = given ?? anyJsonSchemaOf(schema, toolName);
  return needsWrap(described)
    ? { parameters: checkingValue(schema), jsonSchema: wrapped(described), wrap, unwrap }
    : { parameters: checkingObject(schema), jsonSchema: described, wrap: same, unwrap: same };
}

/** A schema with `properties` and no type is left to the tool, which says what it lacks. */
function needsWrap(schema: unknown): schema is JSONSchema {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return false;
  return Reflect.get(schema, 'type') !== 'object' && !('properties' in schema);
}

function wrap(value: unknown): unknown {
  return { value };
}

function unwrap(wrapped: unknown): unknown {
  return typeof wrapped === 'object' && wrapped !== null ? Reflect.get(wrapped, 'value') : undefined;
}

/** Definitions move to the root, where references expect them; references to the root follow it into the member. */
function wrapped({ $schema: _, ...schema }: JSONSchema): JSONSchema {
  const outer = { type: 'object', required: ['value'], additionalProperties: false };
  if ('$id' in schema) return { ...outer, properties: { value: schema } };
  const { $defs, definitions, ...inner } = schema;
  return {
    ...outer,
    properties: { value: rebased(inner) },
    ...($defs !== undefined && { $defs: rebased($defs) }),
    ...(definitions !== undefined && { definitions: rebased(definitions) }),
  };
}

function rebased(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(rebased);
  if (typeof schema !== 'object' || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [
      key,
      key === '$ref' && typeof value === 'string' ? reference(value) : rebased(value),
    ]),
  );
}

function reference(ref: string): string {
  if (!ref.startsWith('#') || /^#\/(\$defs|definitions)\//.test(ref)) return ref;
  return `#/properties/value${ref.slice(1)}`;
}

function checkingObject({ '~standard': standard }: StandardSchemaV1): StandardSchemaV1<object, unknown> {
  return { '~standard': { version: 1, vendor: standard.vendor, validate: (given) => standard.validate(given) } };
}

function checkingValue({ '~standard': standard }: StandardSchemaV1): StandardSchemaV1<object> {
  const resultOf = (result: StandardSchemaV1.Result<unknown>): StandardSchemaV1.Result<object> =>
    result.issues
      ? { issues: result.issues.map((issue) => ({ ...issue, path: ['value', ...(issue.path ?? [])] })) }
      : { value: { value: result.value } };
  return {
    '~standard': {
      version: 1,
      vendor: standard.vendor,
      validate(given) {
        const result = standard.validate(unwrap(given));
        return 'then' in result ? Promise.resolve(result).then(resultOf) : resultOf(result);
      },
    },
  };
}
