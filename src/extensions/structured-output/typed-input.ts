import type { StandardSchemaV1 } from '@standard-schema/spec';
import { AgentLoopError, isObject, type JSONSchema, type UserMessage } from '../../core/contracts/index.ts';
import { aName, assertGiven, assertOptions, type OptionRule } from '../../options/option-rules.ts';
import { jsonSchemaChecker } from '../../tools/schema-checks.ts';
import { type FromJsonSchema, isStandardSchema, standardChecker } from '../../tools/tool-options.ts';
import { toXml } from './xml/write-xml.ts';

/** The schema of an input of any type. */
export type InputSchema = StandardSchemaV1 | JSONSchema;

/** Options of `typedInput`. */
export interface TypedInputOptions<S extends InputSchema> {
  /** A Standard Schema or a JSON Schema. */
  readonly schema: S;
  /** The name of the XML element around the input. Default `input`. */
  readonly name?: string | undefined;
}

/** The input type of a schema. */
export type InputOf<S> = S extends StandardSchemaV1 ? StandardSchemaV1.InferInput<S> : FromJsonSchema<S>;

/** Converts typed input to messages. */
export interface TypedInput<T> {
  /**
   * The messages of a turn with this input: one user message with the validated input as XML. Rejects with
   * `INVALID_INPUT`, naming the field, before any model call.
   */
  readonly messages: (input: T) => Promise<readonly [UserMessage]>;
}

/**
 * Validates the input of turns by a schema and writes it as XML for the model; the system prompt is the configuration's. Errors:
 * `INVALID_CONFIG`, naming the option.
 */
export function typedInput<const S extends InputSchema>(options: TypedInputOptions<S>): TypedInput<InputOf<S>>;
export function typedInput(options: TypedInputOptions<InputSchema>): TypedInput<unknown> {
  assertOptions('typedInput', options, { schema: aSchema, name: aName });
  const { schema, name = 'input' } = options;
  assertGiven('typedInput', 'schema', schema, 'give a Standard Schema or a JSON Schema');
  const check = isStandardSchema(schema) ? standardChecker(schema) : jsonSchemaChecker(schema, 'typedInput');
  return {
    async messages(input) {
      const checked = await check(input);
      if (!checked.ok) throw invalidInput(checked.message);
      return [{ role: 'user', content: toXml(checked.value, name) }];
    },
  };
}

const aSchema: OptionRule = {
  fits: (value) => isStandardSchema(value) || isObject(value),
  must: 'be a Standard Schema or a JSON Schema',
};

function invalidInput(problems: string): AgentLoopError {
  const message = problems.replaceAll(/(^|; )arguments/g, '$1input');
  return new AgentLoopError('INVALID_INPUT', `The input does not fit its schema: ${message}.`);
}
