import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import {
  AgentLoopError,
  type ArgumentCheck,
  type ArgumentChecker,
  isObject,
  type JSONSchema,
  messageOf,
  type ToolContext,
  type ToolDefinition,
  type ToolListContext,
  type ToolPolicy,
} from '../core/contracts/index.ts';
import { argumentPath, problemText } from './json-schema-engine.ts';

/**
 * A Standard Schema (Zod, Valibot, ArkType, …) or a JSON Schema, of an object. A Standard Schema may make something else of the object, or an
 * object of something that has no type yet.
 */
export type ToolParameters = StandardSchemaV1<object, unknown> | StandardSchemaV1<unknown, object> | JSONSchema;

/**
 * What `execute` gets: the output type of a Standard Schema, or the type that a literal JSON Schema describes; a plain
 * record where the type of a JSON Schema does not say more.
 */
export type ArgumentsOf<P> = P extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<P>
  : unknown extends FromJsonSchema<P>
    ? Readonly<Record<string, unknown>>
    : FromJsonSchema<P>;

/** Arguments that were not JSON, as the model wrote them. */
export interface RawArguments {
  /** The arguments as the model wrote them. */
  readonly _raw: string;
}

/** Options of `tool`: what the model reads, how the engine treats it, and what runs it. */
export type ToolOptions<
  P extends ToolParameters,
  Raw extends boolean,
  C = unknown,
  Name extends string = string,
  Result = unknown,
> = ToolDescription<P, Raw, Name> & (BatchExecution<P, Raw, C> | SingleExecution<P, Raw, C, Result>);

/** A tool that runs each call on its own. */
export interface SingleExecution<P extends ToolParameters, Raw extends boolean, C, Result> {
  /** Runs the tool. May return any data, also a promise of it. A throw becomes an error result for the model. */
  readonly execute: (args: Arguments<P, Raw>, context: ToolContext<C>) => Result;
  /** A tool has one of both. */
  readonly executeBatch?: never;
}

/** A tool that runs the calls of a response together. */
export interface BatchExecution<P extends ToolParameters, Raw extends boolean, C> {
  /**
   * In place of `execute`: runs the calls of a response that start together in one invocation, at most `toolConcurrency` of them. Where it
   * throws, all of them have failed.
   */
  readonly executeBatch: (calls: readonly BatchedCall<Arguments<P, Raw>, C>[]) => BatchResults | Promise<BatchResults>;
  /** A tool has one of both. */
  readonly execute?: never;
}

/** What the model reads of a tool, and how the engine treats it. */
export interface ToolDescription<P extends ToolParameters, Raw extends boolean, Name extends string>
  extends Omit<ToolPolicy, 'needsApproval'> {
  /** 1 to 64 letters, digits, `_` and `-`. */
  readonly name: Name;
  /** What the tool does and when to use it, in words for the model. */
  readonly description: string;
  /** A Standard Schema or a JSON Schema of an object. */
  readonly parameters: P;
  /** What the model reads as parameters, for a Standard Schema that cannot tell its JSON Schema. */
  readonly jsonSchema?: JSONSchema | undefined;
  readonly acceptsRaw?: Raw | undefined;
  /** As in `ToolPolicy`; a function gets the arguments as `execute` does. */
  readonly needsApproval?:
    | boolean
    | ((args: Arguments<P, Raw>, context: ToolListContext) => boolean | Promise<boolean>)
    | undefined;
}

/** What `execute` receives: the arguments as the schema converts them; with `acceptsRaw` also arguments that were not JSON. */
export type Arguments<P, Raw> = ArgumentsOf<P> | (Raw extends true ? RawArguments : never);

/** The options of some tool, the types of its arguments not known. */
export type AnyToolOptions = AnyToolDescription & (AnySingleExecution | AnyBatchExecution);

interface AnyToolDescription extends ToolPolicy {
  readonly name: string;
  readonly description: string;
  readonly parameters: ToolParameters;
  readonly jsonSchema?: JSONSchema | undefined;
}

interface AnySingleExecution {
  execute(args: unknown, context: ToolContext): unknown;
  readonly executeBatch?: never;
}

interface AnyBatchExecution {
  executeBatch(calls: readonly BatchedCall[]): BatchResults | Promise<BatchResults>;
  readonly execute?: never;
}

const namePattern = /^[a-zA-Z0-9_-]{1,64}$/;
const flags = ['sequential', 'readOnly', 'idempotent', 'hidden', 'cache', 'acceptsRaw'] as const;
const known: ReadonlySet<string> = new Set<keyof AnyToolOptions>([
  ...flags,
  'name',
  'description',
  'parameters',
  'jsonSchema',
  'execute',
  'executeBatch',
  'timeoutMs',
  'onInDoubt',
  'needsApproval',
  'childTurn',
]);

/** Throws `INVALID_CONFIG`, naming the tool, the option and the cure, where a value is not the options of a tool. */
export function assertToolOptions(value: unknown): asserts value is AnyToolOptions {
  if (!isObject(value))
    throw new AgentLoopError('INVALID_CONFIG', `A tool is described by an object, not by ${shown(value)}.`);
  const fail = failureOf(value['name']);
  checkNames(value, fail);
  // Before the options that are needed: a misspelt one tells more than the one that it leaves out.
  const stray = Object.keys(value).find((key) => !known.has(key));
  if (stray !== undefined) fail(stray, value[stray], `it is no option of a tool; those are ${[...known].join(', ')}`);
  checkSchemas(value, fail);
  checkExecution(value, fail);
  checkPolicy(value, fail);
}

function checkExecution({ execute, executeBatch }: Fields, fail: Fail): void {
  if (executeBatch === undefined) {
    if (typeof execute !== 'function') fail('execute', execute, 'give a function (args, context) => result');
    return;
  }
  if (typeof executeBatch !== 'function')
    fail('executeBatch', executeBatch, 'give a function (calls) => results by call id');
  if (execute !== undefined) fail('execute', execute, 'give either execute or executeBatch');
}

const described: ReadonlySet<string> = new Set<keyof ToolDefinition['function']>(['name', 'description', 'parameters']);

/** As `assertToolOptions`, for the definition of a tool that runs elsewhere; its `parameters` are a JSON Schema. */
export function assertDescription(value: unknown): asserts value is ToolDefinition['function'] {
  if (!isObject(value)) {
    const message = `A tool is described by { name, description, parameters }, not by ${shown(value)}.`;
    throw new AgentLoopError('INVALID_CONFIG', message);
  }
  const fail = failureOf(value['name']);
  const { parameters } = value;
  checkNames(value, fail);
  if (!isObject(parameters) || isStandardSchema(parameters)) {
    fail('parameters', parameters, 'give the JSON Schema of an object, which is sent as it stands');
  }
  checkObjectSchema('parameters', parameters, fail);
  const stray = Object.keys(value).find((key) => !described.has(key));
  if (stray !== undefined) fail(stray, value[stray], `it is no member; those are ${[...described].join(', ')}`);
}

/** Whether a value is a Standard Schema. ArkType's are functions. */
export function isStandardSchema(value: unknown): value is StandardSchemaV1 {
  return (
    isObjectOrFunction(value) &&
    '~standard' in value &&
    isObjectOrFunction(value['~standard']) &&
    'validate' in value['~standard']
  );
}

/** The name of the first member that is a Standard Schema, of an object that is none itself. */
export function memberSchema(value: unknown): string | undefined {
  if (!isObject(value) || isStandardSchema(value)) return undefined;
  return Object.entries(value).find(([, member]) => isStandardSchema(member))?.[0];
}

/** Effect's schemas are no Standard Schemas by themselves. */
function isEffectSchema(value: unknown): boolean {
  return isObjectOrFunction(value) && 'ast' in value && 'pipe' in value;
}

type Fail = (option: string, value: unknown, cure: string) => never;
type Fields = Readonly<Record<string, unknown>>;

function failureOf(name: unknown): Fail {
  const who = typeof name === 'string' && name !== '' ? `Tool "${name}"` : 'A tool without a name';
  return (option, value, cure) => {
    throw new AgentLoopError('INVALID_CONFIG', `${who}: ${option} is ${shown(value)}; ${cure}.`);
  };
}

function checkNames({ name, description }: Fields, fail: Fail): void {
  if (typeof name !== 'string' || !namePattern.test(name)) {
    fail('name', name, 'use 1 to 64 of the characters a-z, A-Z, 0-9, _ and -');
  }
  if (typeof description !== 'string' || description.trim() === '') {
    fail('description', description, 'say in a sentence what the tool does, for the model');
  }
}

function checkSchemas({ parameters, jsonSchema }: Fields, fail: Fail): void {
  if (isStandardSchema(parameters)) {
    if (jsonSchema !== undefined) checkObjectSchema('jsonSchema', jsonSchema, fail);
    return;
  }
  if (isEffectSchema(parameters)) fail('parameters', parameters, effectCure);
  if (jsonSchema !== undefined) fail('jsonSchema', jsonSchema, 'it goes with a Standard Schema only; leave it out');
  checkObjectSchema('parameters', parameters, fail);
}

function checkObjectSchema(option: string, schema: unknown, fail: Fail): void {
  if (!isObject(schema)) fail(option, schema, 'give a Standard Schema or a JSON Schema of an object');
  const member = memberSchema(schema);
  if (member !== undefined) fail(option, schema, `wrap it, with Zod as z.object({ ${member}: … })`);
  if (schema['type'] !== 'object')
    fail(`${option}.type`, schema['type'], 'arguments are an object: give type "object"');
}

function checkPolicy(value: Fields, fail: Fail): void {
  const { timeoutMs, onInDoubt, idempotent, readOnly, needsApproval } = value;
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && Number.isFinite(timeoutMs) && timeoutMs >= 0)) {
    fail('timeoutMs', timeoutMs, 'give a finite number of milliseconds, or 0 for no limit');
  }
  for (const flag of flags) {
    if (value[flag] !== undefined && typeof value[flag] !== 'boolean') fail(flag, value[flag], 'give true or false');
  }
  const choices: readonly unknown[] = [undefined, 'retry', 'fail', 'ask'];
  if (typeof onInDoubt !== 'function' && !choices.includes(onInDoubt)) {
    fail('onInDoubt', onInDoubt, 'give "retry", "fail", "ask" or a function');
  }
  if (needsApproval !== undefined && typeof needsApproval !== 'boolean' && typeof needsApproval !== 'function') {
    fail('needsApproval', needsApproval, 'give true, false or a function (args, context) => boolean');
  }
  if (value['childTurn'] !== undefined && typeof value['childTurn'] !== 'function')
    fail('childTurn', value['childTurn'], 'give a function (call) => ({ taskId, agentId })');
  if (onInDoubt === 'retry' && idempotent !== true && readOnly !== true) {
    fail('onInDoubt', onInDoubt, 'running it twice has to be safe: set idempotent or readOnly too, or use "fail"');
  }
}

function isObjectOrFunction(value: unknown): value is Fields {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80));
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return 'an array';
  const member = memberSchema(value);
  if (member !== undefined) return `an object whose member "${member}" is a schema, and no schema itself`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

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
  const owner = `Tool "${toolName}"`;
  const jsonSchema = anyJsonSchemaOf(schema, owner);
  if (jsonSchema['type'] !== 'object') {
    const { vendor } = schema['~standard'];
    throw invalid(owner, `its ${vendor} schema does not describe an object; wrap what it describes in one`);
  }
  return jsonSchema;
}

/** As `jsonSchemaOf`, of anything. `owner` begins the message of an error. */
export function anyJsonSchemaOf(schema: StandardSchemaV1, owner: string): JSONSchema {
  const { vendor } = schema['~standard'];
  if (!tellsJsonSchema(schema)) {
    const cure = wrapping.get(vendor) ?? 'give that as the option jsonSchema';
    throw invalid(owner, `its ${vendor} schema does not tell its JSON Schema; ${cure}`);
  }
  const { $schema: _, ...jsonSchema } = inputSchema(schema, owner);
  return jsonSchema;
}

const effectCure = 'pass Schema.toStandardJSONSchemaV1(Schema.toStandardSchemaV1(schema)), with Schema of "effect"';

/** How a schema of a library is made to tell its JSON Schema, by the name that it gives as its vendor. */
const wrapping: ReadonlyMap<string, string> = new Map([
  ['valibot', 'pass toStandardJsonSchema(schema) of "@valibot/to-json-schema", or give that as the option jsonSchema'],
  ['effect', `${effectCure}, or give that as the option jsonSchema`],
  ['zod', 'use zod 4, since zod 3 has none, or give that as the option jsonSchema (outputSchema: output.jsonSchema)'],
]);

function tellsJsonSchema(schema: StandardSchemaV1): schema is StandardSchemaV1 & StandardJSONSchemaV1 {
  return 'jsonSchema' in schema['~standard'];
}

function inputSchema(schema: StandardJSONSchemaV1, owner: string): JSONSchema {
  const { jsonSchema, vendor } = schema['~standard'];
  try {
    return jsonSchema.input({ target: 'draft-2020-12' });
  } catch (refusal) {
    try {
      return jsonSchema.input({ target: 'draft-07' });
    } catch {
      const what = `its ${vendor} schema has no JSON Schema (${messageOf(refusal)}); give one as the option jsonSchema`;
      throw invalid(owner, what, refusal);
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

function invalid(owner: string, what: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `${owner}: ${what}.`, { cause });
}

/**
 * The type that a JSON Schema written as a literal describes: `type`, `properties`, `required`, `items`, `enum` and
 * `const` are read. Anything else, and any schema whose type is too wide to read, gives `unknown`.
 */
export type FromJsonSchema<S> = S extends { readonly const: infer Value }
  ? Value
  : S extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : S extends { readonly type: infer Type }
      ? FromType<Type, S>
      : unknown;

type FromType<Type, S> = Type extends readonly (infer One)[]
  ? FromType<One, S>
  : Type extends 'string'
    ? string
    : Type extends 'number' | 'integer'
      ? number
      : Type extends 'boolean'
        ? boolean
        : Type extends 'null'
          ? null
          : Type extends 'array'
            ? FromItems<S>
            : Type extends 'object'
              ? FromProperties<S>
              : unknown;

type FromItems<S> = S extends { readonly items: infer Item } ? readonly FromJsonSchema<Item>[] : readonly unknown[];

type FromProperties<S> = S extends { readonly properties: infer Properties }
  ? Flat<
      {
        readonly [Key in keyof Properties as Key extends RequiredKey<S> ? Key : never]: FromJsonSchema<Properties[Key]>;
      } & {
        readonly [Key in keyof Properties as Key extends RequiredKey<S> ? never : Key]?: FromJsonSchema<
          Properties[Key]
        >;
      }
    >
  : Readonly<Record<string, unknown>>;

type RequiredKey<S> = S extends { readonly required: readonly (infer Key)[] }
  ? string extends Key
    ? never
    : Key
  : never;

type Flat<T> = { [Key in keyof T]: T[Key] };

/** One of the calls of an invocation of `executeBatch`. */
export interface BatchedCall<Args = unknown, C = unknown> {
  /** `<iteration>:<index>`, by which its result is given. */
  readonly callId: string;
  readonly arguments: Args;
  /** The context of this call. */
  readonly context: ToolContext<C>;
}

/**
 * What the calls of one invocation came to, by call id: what `execute` would return for each, or an `Error` for one that failed. A call
 * that is missing has failed.
 */
export type BatchResults = Readonly<Record<string, unknown>> | ReadonlyMap<string, unknown>;
