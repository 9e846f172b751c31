import { createHash } from 'node:crypto';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import {
  AgentLoopError,
  type HookContext,
  type IterationChange,
  type IterationView,
  isObject,
  type JSONSchema,
  type LLMCapabilities,
  type Message,
  shownValue,
  stableJson,
  textOf,
} from '../../core/contracts/index.ts';
import { anyJsonSchemaOf, isStandardSchema, memberSchema, type ToolParameters } from '../../tools/tool-options.ts';
import { xmlTemplate } from './xml/write-xml.ts';

/** Describes an output: a Standard Schema (Zod, Valibot, ArkType, …) or a JSON Schema, of anything that is JSON. */
export type OutputSchema = StandardSchemaV1 | JSONSchema;

/** Options of `structuredOutput`, and of `output` of an agent: the schema of the value, and how the model returns it. */
export interface StructuredOutputOptions<S extends OutputSchema> {
  /**
   * A Standard Schema or a JSON Schema, of an object or of anything else: arrays, unions, strings and numbers are wrapped as the member `value` of
   * an object. Its output must be JSON.
   */
  readonly schema: S;
  /** The schema for the model, if a Standard Schema cannot be converted to JSON Schema. */
  readonly jsonSchema?: JSONSchema | undefined;
  /** The name of the finish tool. Default `__finish__`. */
  readonly name?: string | undefined;
  /** How often the model is asked again after an invalid or missing output. Default 2. */
  readonly parseRetries?: number | undefined;
  /** Whether a model without remaining iterations gets one more, for the output alone. Default true. */
  readonly forceFinish?: boolean | undefined;
  /**
   * `'tool'`: by a finish tool, or as XML if the provider cannot be forced to call it. `'native'`: as text in a `responseFormat`.
   * `'auto'` (default): as `'tool'`, with the `responseFormat` instead of XML if the provider supports it.
   */
  readonly mode?: OutputMode | undefined;
}

const modes: ReadonlySet<unknown> = new Set<OutputMode>(['auto', 'tool', 'native']);
const optionNames = ['schema', 'jsonSchema', 'name', 'parseRetries', 'forceFinish', 'mode'];

/** Throws `INVALID_CONFIG`, naming the option, after its owner, and the fix. The tool checks the name. */
export function checkOutputOptions(options: StructuredOutputOptions<OutputSchema>, owner: string): void {
  const { parseRetries = 2, forceFinish = true, mode = 'auto' } = options;
  const invalid = (option: string, value: unknown, cure: string) =>
    new AgentLoopError('INVALID_CONFIG', `${owner}: ${option} is ${shownValue(value)}; ${cure}.`);
  if (!(Number.isSafeInteger(parseRetries) && parseRetries >= 0)) {
    throw invalid('parseRetries', parseRetries, 'give a whole number from 0');
  }
  if (typeof forceFinish !== 'boolean') throw invalid('forceFinish', forceFinish, 'give true or false');
  if (!modes.has(mode)) throw invalid('mode', mode, 'give "auto", "tool" or "native"');
  const { schema, jsonSchema } = options;
  if (!isStandardSchema(schema) && (typeof schema !== 'object' || schema === null))
    throw invalid('schema', schema, 'give a Standard Schema or a JSON Schema');
  const member = memberSchema(schema);
  if (member !== undefined) {
    const what = `${owner}: schema is an object whose member "${member}" is a schema, and no schema itself`;
    throw new AgentLoopError('INVALID_CONFIG', `${what}; wrap it, with Zod as z.object({ ${member}: … }).`);
  }
  if (!isStandardSchema(schema) && 'properties' in schema && schema['type'] !== 'object')
    throw invalid('schema.type', schema['type'], 'what has properties is an object: give type "object"');
  if (!isStandardSchema(schema) && jsonSchema !== undefined)
    throw invalid('jsonSchema', jsonSchema, 'it goes with a Standard Schema only; leave it out');
  const stray = Object.keys(options).find((key) => !optionNames.includes(key));
  if (stray !== undefined)
    throw invalid(stray, Reflect.get(options, stray), `the options are ${optionNames.join(', ')}`);
}

/** How the output is requested: `auto` uses the first way that the provider supports. */
export type OutputMode = 'auto' | 'tool' | 'native';

/** How a model call returns the output: as the arguments of the finish tool, as text in a guaranteed form, or as XML. */
export type OutputWay = 'tool' | 'native' | 'xml';

/** The way of a call. `forced`: the model must return the output now. */
export function wayOf(mode: OutputMode, capabilities: LLMCapabilities | undefined, forced: boolean): OutputWay {
  if (mode === 'native') return 'native';
  const { tools = true, toolChoice = true, responseFormat = false } = capabilities ?? {};
  if (tools && (toolChoice || !forced)) return 'tool';
  return mode === 'auto' && responseFormat ? 'native' : 'xml';
}

/** The form in which the model returns an output. Vendors accept objects only, so anything else is wrapped as the member `value`. */
export interface OutputWire {
  readonly parameters: ToolParameters;
  readonly jsonSchema: JSONSchema | undefined;
  readonly wrap: (value: unknown) => unknown;
  /** `undefined` if the member does not exist yet. */
  readonly unwrap: (wrapped: unknown) => unknown;
}

/** Errors: `INVALID_CONFIG` if a Standard Schema cannot be converted to JSON Schema. */
export function outputWire(schema: OutputSchema, given: JSONSchema | undefined, owner: string): OutputWire {
  const same = (value: unknown) => value;
  if (!isStandardSchema(schema)) {
    return needsWrap(schema)
      ? { parameters: wrapped(schema), jsonSchema: given, wrap, unwrap }
      : { parameters: schema, jsonSchema: given, wrap: same, unwrap: same };
  }
  const described = given ?? anyJsonSchemaOf(schema, owner);
  return needsWrap(described)
    ? { parameters: checkingValue(schema), jsonSchema: wrapped(described), wrap, unwrap }
    : { parameters: checkingObject(schema), jsonSchema: described, wrap: same, unwrap: same };
}

function needsWrap(schema: unknown): schema is JSONSchema {
  return isObject(schema) && Reflect.get(schema, 'type') !== 'object' && !('properties' in schema);
}

function wrap(value: unknown): unknown {
  return { value };
}

function unwrap(wrapped: unknown): unknown {
  return typeof wrapped === 'object' && wrapped !== null ? Reflect.get(wrapped, 'value') : undefined;
}

/** Moves definitions to the root, where references expect them; references to the root are rewritten to the member. */
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

type ViewChange = NonNullable<IterationChange['view']>;

/** Requests an answer in the form of the schema. A forced answer is offered no tools. */
export function nativeView(
  { tools }: IterationView,
  { name, schema, forced }: { readonly name: string; readonly schema: JSONSchema; readonly forced: boolean },
): ViewChange {
  const names = forced ? [] : tools.map((tool) => tool.function.name).filter((each) => each !== name);
  return { tools: names, settings: { responseFormat: { type: 'json_schema', name: 'output', schema } } };
}

/** Requests the output as XML, after the history. For a model without tool support, tool calls are removed from the history. */
export function xmlView(
  { messages, tools }: IterationView,
  { schema, canCallTools }: { readonly schema: JSONSchema; readonly canCallTools: boolean },
): ViewChange {
  const content = `Give the result now, as XML in exactly this form and without any other text:\n\n${xmlTemplate(schema)}`;
  const history = canCallTools ? messages : messages.map(withoutCalls);
  return { messages: [...history, { role: 'user', content }], tools: tools.map((tool) => tool.function.name) };
}

function withoutCalls(message: Message): Message {
  if (message.role === 'tool') return { role: 'user', content: textOf(message.content) };
  if (message.role !== 'assistant' || !message.toolCalls) return message;
  const { toolCalls: _, ...said } = message;
  return { ...said, content: said.content ?? '' };
}

/** The extension's state of a turn; it is journaled, so that it survives a crash. */
interface OutputMemory {
  /** The agent of the output: after a hand-off, the next agent has its own retries. */
  readonly agentId: string;
  /** The task that counted the retries: one that continues it, as `retry` does, has retries of its own. */
  readonly taskId: string;
  /** How often the model was asked again. */
  readonly retries: number;
  /** Whether it must return the output now. */
  readonly forced: boolean;
  /** The fingerprint of the accepted output: changes by others are validated again. */
  readonly accepted?: string;
}

export function memoryOf({ data, agentId, taskId }: Pick<HookContext, 'data' | 'agentId' | 'taskId'>): OutputMemory {
  const known: Readonly<Record<string, unknown>> = typeof data === 'object' && data !== null ? { ...data } : {};
  const isOwn = known['agentId'] === undefined || known['agentId'] === agentId;
  const { taskId: countedBy, retries, forced, accepted } = isOwn ? known : {};
  return {
    agentId,
    taskId,
    retries: typeof retries === 'number' && (countedBy === undefined || countedBy === taskId) ? retries : 0,
    forced: forced === true,
    ...(typeof accepted === 'string' ? { accepted } : {}),
  };
}

export function fingerprint(value: unknown): string {
  return createHash('sha256').update(stableJson(value)).digest('hex');
}
