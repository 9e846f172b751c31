import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import {
  AgentLoopError,
  type ArgumentCheck,
  type ArgumentChecker,
  type JSONSchema,
  messageOf,
} from '../core/contracts/index.ts';
import { argumentPath, problemText } from './argument-problems.ts';

/** Checks and converts arguments by a Standard Schema; a promise only where the schema answers with one. */
export function standardChecker(schema: StandardSchemaV1): ArgumentChecker {
  return (value) => {
    const result = schema['~standard'].validate(value);
    return 'then' in result ? Promise.resolve(result).then(checkOf) : checkOf(result);
  };
}

/**
 * The JSON Schema of what a Standard Schema takes in, asked of the schema itself (`~standard.jsonSchema`): draft
 * 2020-12, else draft-07. Throws `INVALID_CONFIG` where it cannot tell, or where it does not describe an object.
 */
export function jsonSchemaOf(schema: StandardSchemaV1, toolName: string): JSONSchema {
  const jsonSchema = anyJsonSchemaOf(schema, toolName);
  if (jsonSchema['type'] !== 'object') {
    const { vendor } = schema['~standard'];
    throw invalid(toolName, `its ${vendor} schema does not describe an object; wrap what it describes in one`);
  }
  return jsonSchema;
}

/** As `jsonSchemaOf`, of anything. */
export function anyJsonSchemaOf(schema: StandardSchemaV1, toolName: string): JSONSchema {
  const { vendor } = schema['~standard'];
  if (!tellsJsonSchema(schema)) {
    const cure = wrapping.get(vendor) ?? 'give that as the option jsonSchema';
    throw invalid(toolName, `its ${vendor} schema does not tell its JSON Schema; ${cure}`);
  }
  const { $schema: _, ...jsonSchema } = inputSchema(schema, toolName);
  return jsonSchema;
}

export const effectCure =
  'pass Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema)), with Schema of "effect"';

/** How a schema of a library is made to tell its JSON Schema, by the name that it gives as its vendor. */
const wrapping: ReadonlyMap<string, string> = new Map([
  ['valibot', 'pass toStandardJsonSchema(schema) of "@valibot/to-json-schema", or give that as the option jsonSchema'],
  ['effect', `${effectCure}, or give that as the option jsonSchema`],
]);

function tellsJsonSchema(schema: StandardSchemaV1): schema is StandardSchemaV1 & StandardJSONSchemaV1 {
  return 'jsonSchema' in schema['~standard'];
}

function inputSchema(schema: StandardJSONSchemaV1, toolName: string): JSONSchema {
  const { jsonSchema, vendor } = schema['~standard'];
  try {
    return jsonSchema.input({ target: 'draft-2020-12' });
  } catch (refusal) {
    try {
      return jsonSchema.input({ target: 'draft-07' });
    } catch {
      const what = `its ${vendor} schema has no JSON Schema (${messageOf(refusal)}); give one as the option jsonSchema`;
      throw invalid(toolName, what, refusal);
    }
  }
}

function checkOf(result: StandardSchemaV1.Result<unknown>): ArgumentCheck {
  if (result.issues === undefined) return { ok: true, value: result.value };
  return { ok: false, message: problemText(result.issues.map(problemOf)) };
}

function problemOf({ path = [], message }: StandardSchemaV1.Issue): string {
  return `${argumentPath(path.map((segment) => (typeof segment === 'object' ? segment.key : segment)))}: ${message}`;
}

function invalid(toolName: string, what: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `Tool "${toolName}": ${what}.`, { cause });
}
