import type { StandardSchemaV1 } from '@standard-schema/spec';
import { AgentLoopError, type JSONSchema, shownValue } from '../../core/contracts/index.ts';
import { isStandardSchema, memberSchema } from '../../tools/tool-options.ts';
import type { OutputMode } from './output-way.ts';

/** Describes an output: a Standard Schema (Zod, Valibot, ArkType, …) or a JSON Schema, of anything that is JSON. */
export type OutputSchema = StandardSchemaV1 | JSONSchema;

export interface StructuredOutputOptions<S extends OutputSchema> {
  /**
   * A Standard Schema or a JSON Schema, of an object or of anything else: arrays, unions, strings and numbers travel as the member `value` of
   * an object. What it gives has to be JSON.
   */
  readonly schema: S;
  /** What the model reads as schema, for a Standard Schema that cannot tell its JSON Schema. */
  readonly jsonSchema?: JSONSchema | undefined;
  /** Of the finish tool. Default `__finish__`. */
  readonly name?: string | undefined;
  /** How often the model is asked again after an output that does not fit, or none. Default 2. */
  readonly parseRetries?: number | undefined;
  /** Whether a model that has used its iterations up gets one more, for the output alone. Default true. */
  readonly forceFinish?: boolean | undefined;
  /**
   * `'tool'`: by a finish tool, or as XML where the provider cannot be made to call it. `'native'`: as text in a `responseFormat`.
   * `'auto'` (default): as `'tool'`, with the `responseFormat` in place of XML where the provider has it.
   */
  readonly mode?: OutputMode | undefined;
}

const modes: ReadonlySet<unknown> = new Set<OutputMode>(['auto', 'tool', 'native']);
const known = ['schema', 'jsonSchema', 'name', 'parseRetries', 'forceFinish', 'mode'];

/** Throws `INVALID_CONFIG`, naming the option and the cure. The schema and the name are for the tool to check. */
export function checkOutputOptions(options: StructuredOutputOptions<OutputSchema>): void {
  const { parseRetries = 2, forceFinish = true, mode = 'auto' } = options;
  if (!(Number.isSafeInteger(parseRetries) && parseRetries >= 0)) {
    throw invalid('parseRetries', parseRetries, 'give a whole number from 0');
  }
  if (typeof forceFinish !== 'boolean') throw invalid('forceFinish', forceFinish, 'give true or false');
  if (!modes.has(mode)) throw invalid('mode', mode, 'give "auto", "tool" or "native"');
  const { schema } = options;
  if (!isStandardSchema(schema) && (typeof schema !== 'object' || schema === null))
    throw invalid('schema', schema, 'give a Standard Schema or a JSON Schema');
  const member = memberSchema(schema);
  if (member !== undefined) {
    const what = `structuredOutput: schema is an object whose member "${member}" is a schema, and no schema itself`;
    throw new AgentLoopError('INVALID_CONFIG', `${what}; wrap it, with Zod as z.object({ ${member}: … }).`);
  }
  const stray = Object.keys(options).find((key) => !known.includes(key));
  if (stray !== undefined) throw invalid(stray, Reflect.get(options, stray), `the options are ${known.join(', ')}`);
}

function invalid(option: string, value: unknown, cure: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `structuredOutput: ${option} is ${shownValue(value)}; ${cure}.`);
}
