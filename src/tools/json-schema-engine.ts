import type { Ajv2020, ErrorObject, Options, ValidateFunction } from 'ajv/dist/2020.js';
import { AgentLoopError, type JSONSchema, maxSchemaDepth, messageOf, nestsTooDeep } from '../core/contracts/index.ts';
import { isPlainSchema, plainTest } from './plain-schema.ts';

type Draft = '2020-12' | '2019-09' | 'draft-07';
type Ajv = Pick<Ajv2020, 'compile' | 'errorsText' | 'validateSchema'> & { errors?: ErrorObject[] | null | undefined };
type AjvClass = new (options: Options) => Ajv;

const options: Options = {
  strict: false,
  allErrors: true,
  logger: false,
  ownProperties: true,
  validateFormats: false,
  code: { regExp: Object.assign(lenientRegExp, { code: 'new RegExp' }) },
};

const classes = new Map<Draft, AjvClass>();
const schemaChecks = new Map<Draft, Ajv>();
const compiled = new WeakMap<JSONSchema, ValidateFunction>();

/**
 * The compiled form of a schema, kept for as long as the schema object. A promise only where ajv has yet to be loaded.
 * `owner` names the schema in errors. `INVALID_CONFIG` where it cannot be compiled.
 */
export function compileJsonSchema(schema: JSONSchema, owner: string): ValidateFunction | Promise<ValidateFunction> {
  const ready = compiled.get(schema);
  if (ready !== undefined) return ready;
  const draft = draftOf(schema, owner);
  const loaded = classes.get(draft);
  if (loaded !== undefined) return compile(loaded, schema, owner);
  return load(draft).then((fresh) => compiled.get(schema) ?? compile(fresh, schema, owner));
}

/** Loads what a schema's draft needs; nothing where that is there already. `INVALID_CONFIG` for a draft that is not known. */
export function loadJsonSchemaEngine(schema: JSONSchema, owner: string): Promise<void> | undefined {
  const draft = draftOf(schema, owner);
  return classes.has(draft) ? undefined : load(draft).then(() => {});
}

/**
 * A test that is true only for values that the schema allows, made without ajv; `undefined` for a schema that only ajv can tell. Throws
 * `INVALID_CONFIG` for a draft that is not known, and for a schema that nests too deep.
 */
export function testWithoutEngine(schema: JSONSchema, owner: string): ((value: unknown) => boolean) | undefined {
  assertDepth(schema, owner);
  draftOf(schema, owner);
  const body = bodyOf(schema);
  return isPlainSchema(body) ? plainTest(body) : undefined;
}

/**
 * Checks that a schema is one of its draft; loads ajv, unless `testWithoutEngine` can tell. Rejects with `INVALID_CONFIG`, naming `owner`, if it is not. A
 * `$ref` that leads nowhere is found only when the schema is compiled.
 */
export async function verifyJsonSchema(schema: JSONSchema, owner: string): Promise<void> {
  if (testWithoutEngine(schema, owner)) return;
  const draft = draftOf(schema, owner);
  const ajvClass = await load(draft);
  if (isPlainSchema(bodyOf(schema))) return;
  const ajv = schemaChecks.get(draft) ?? new ajvClass(options);
  schemaChecks.set(draft, ajv);
  if (ajv.validateSchema(bodyOf(schema)) === true) return;
  throw invalid(owner, ajv.errorsText(ajv.errors, { dataVar: 'schema' }).slice(0, 500));
}

/** One ajv for each schema: a shared one would keep every schema for ever, and mix up two that have the same `$id`. */
function compile(ajvClass: AjvClass, schema: JSONSchema, owner: string): ValidateFunction {
  assertDepth(schema, owner);
  try {
    const validate = new ajvClass({ ...options, meta: false, validateSchema: false }).compile(bodyOf(schema));
    compiled.set(schema, validate);
    return validate;
  } catch (thrown) {
    // Only the stack limits how long a chain of references may be.
    const what = thrown instanceof RangeError ? 'a chain of its references is too long' : messageOf(thrown);
    throw invalid(owner, what, thrown);
  }
}

function assertDepth(schema: JSONSchema, owner: string): void {
  if (nestsTooDeep(schema, maxSchemaDepth)) throw invalid(owner, `it nests deeper than ${maxSchemaDepth} levels`);
}

/** The error of a schema whose references never end, so that a check by it overflows the stack. */
export function endlessSchema(owner: string, cause: RangeError): AgentLoopError {
  return invalid(owner, 'its references have no end', cause);
}

async function load(draft: Draft): Promise<AjvClass> {
  const ajvClass = await importClass(draft);
  classes.set(draft, ajvClass);
  return ajvClass;
}

async function importClass(draft: Draft): Promise<AjvClass> {
  if (draft === 'draft-07') return classIn(await import('ajv'), 'Ajv');
  if (draft === '2019-09') return classIn(await import('ajv/dist/2019.js'), 'Ajv2019');
  return classIn(await import('ajv/dist/2020.js'), 'Ajv2020');
}

/** A class of a CommonJS module. Of such a module a bundler that splits its output into chunks exports `default` only. */
function classIn(module: { readonly default?: unknown }, name: string): AjvClass {
  const found = [module, module.default].map((each) => each && Reflect.get(Object(each), name)).find(isClass);
  if (found) return found;
  throw new AgentLoopError('MISSING_PACKAGE', `The package ajv exports no ${name}; install ajv 8.`);
}

function isClass(value: unknown): value is AjvClass {
  return typeof value === 'function';
}

function draftOf(schema: JSONSchema, owner: string): Draft {
  const named = schema['$schema'];
  if (named === undefined) return '2020-12';
  const match = /^https?:\/\/json-schema\.org\/(?:draft\/)?(2020-12|2019-09|draft-07)\/schema#?$/.exec(String(named));
  const draft = match?.[1];
  if (draft === '2020-12' || draft === '2019-09' || draft === 'draft-07') return draft;
  throw invalid(owner, `"$schema" is ${JSON.stringify(named)}; use draft 2020-12, 2019-09 or draft-07`);
}

/**
 * Without `$schema`, as each class knows one draft, whatever spelling of its address the schema uses; and without ajv's
 * own `$async`, which makes a check answer with a promise, true even where the check fails.
 */
function bodyOf(schema: JSONSchema): JSONSchema {
  const { $schema: _, $async: __, ...body } = schema;
  return body;
}

/** JSON Schema wants Unicode patterns; many schemas in the wild hold escapes that only the older form allows. */
function lenientRegExp(pattern: string): RegExp {
  try {
    return new RegExp(pattern, 'u');
  } catch {
    return new RegExp(pattern);
  }
}

function invalid(owner: string, what: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `The JSON Schema of ${owner} is not valid: ${what}.`, { cause });
}

const maxProblems = 10;
const maxLength = 1_000;

/** The place of a value inside the arguments, as a model reads it: `arguments.days[0].name`. */
export function argumentPath(keys: readonly PropertyKey[]): string {
  return keys.reduce<string>((path, key) => path + accessOf(key), 'arguments');
}

/** One text of at most 1,000 characters for all that is wrong; what does not fit is counted. Repetitions are left out. */
export function problemText(problems: readonly string[]): string {
  const all = [...new Set(problems)];
  const shown: string[] = [];
  let length = 0;
  for (const problem of all.slice(0, maxProblems)) {
    if (shown.length > 0 && length + problem.length > maxLength) break;
    shown.push(shortened(problem));
    length += problem.length + 2;
  }
  const rest = all.length - shown.length;
  return rest === 0 ? shown.join('; ') : `${shown.join('; ')}; and ${rest} more`;
}

function accessOf(key: PropertyKey): string {
  const text = String(key);
  if (/^\d+$/.test(text)) return `[${text}]`;
  return /^[A-Za-z_$][\w$]*$/.test(text) ? `.${text}` : `[${JSON.stringify(text)}]`;
}

function shortened(problem: string): string {
  return problem.length <= maxLength ? problem : `${problem.slice(0, maxLength)}…`;
}
