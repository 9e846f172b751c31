import type { Context, Script } from 'node:vm';
import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js';
import {
  type AgentLoopConfig,
  AgentLoopError,
  type ArgumentCheck,
  type ArgumentChecker,
  type ArgumentChecks,
  type JSONSchema,
} from '../core/contracts/index.ts';
import { RecentMap } from '../recent-map.ts';
import {
  argumentPath,
  compileJsonSchema,
  endlessSchema,
  loadJsonSchemaEngine,
  problemText,
  testWithoutEngine,
  verifyJsonSchema,
} from './json-schema-engine.ts';
import { plainProblems } from './plain-problems.ts';

/** Schemas that are remembered by what they say; the one that was not asked for longest is forgotten first. */
const maxSchemas = 100;
/** A longer schema is remembered only for as long as its object. Characters of JSON. */
const maxLength = 20_000;

interface Known {
  readonly owner: string;
  readonly check: ArgumentChecker;
}

const byObject = new WeakMap<JSONSchema, Known>();
const byContent = new RecentMap<string, ArgumentChecker>(maxSchemas);

/**
 * The default of `argumentChecks`: checks by the JSON Schema itself, of draft 2020-12 (the default), 2019-09 or draft-07. Nothing is coerced,
 * no default is filled in. Nobody knows where a provider has its schemas from, so a check ends after 500 ms, as those of MCP servers do.
 *
 * A provider that makes its definitions anew for each turn has its schemas compiled once, not once a turn: checks are remembered by the
 * schema's object, and the last 100 by its JSON. A check throws or rejects with `INVALID_CONFIG` where the schema is not one.
 */
export const jsonSchemaChecks: ArgumentChecks = Object.assign(checkerOf, { load });

function checkerOf(parameters: JSONSchema, owner: string): ArgumentChecker {
  const known = byObject.get(parameters);
  if (known?.owner === owner) return known.check;
  const check = sameSchema(parameters, owner) ?? foreignSchemaChecker(parameters, owner);
  byObject.set(parameters, { owner, check });
  return check;
}

/** Where this fails, so does the check, which says why. */
function load(parameters: JSONSchema): Promise<void> | undefined {
  try {
    if (quickTest(parameters, 'a tool')) return undefined;
    return loadLimitedChecks(parameters, 'a tool')?.catch(() => {});
  } catch {
    return undefined;
  }
}

/** The check of a schema that says the same, made before or now; `undefined` for one that is too long, or has no JSON. */
function sameSchema(parameters: JSONSchema, owner: string): ArgumentChecker | undefined {
  const json = jsonOf(parameters);
  if (json === undefined || json.length > maxLength) return undefined;
  const key = `${owner}\n${json}`;
  const check = byContent.get(key) ?? foreignSchemaChecker(parameters, owner);
  byContent.set(key, check);
  return check;
}

function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** A configuration of a loop with `argumentChecks`: its own, else the default. What is no configuration stays as it is. */
export function withArgumentChecks<C extends Pick<AgentLoopConfig, 'argumentChecks'>>(config: C): C {
  if (typeof config !== 'object' || config === null || config.argumentChecks !== undefined) return config;
  return { ...config, argumentChecks: jsonSchemaChecks };
}

/** Milliseconds that a check may take. */
const checkMs = 500;
/** A schema whose checks took longer so many times is not tried again. */
const maxLate = 2;

/**
 * A check by a JSON Schema that somebody else wrote, such as an MCP server: as `unlimitedChecker` does, within 500 ms. A pattern that
 * backtracks, a `$ref` that doubles, or `uniqueItems` of a long array can take for ever otherwise, in the one thread that all turns share.
 * A check that takes longer throws `TOOL_TIMEOUT`, and the next one waits until signals, timers and other turns had their turn; after two such checks the schema is not tried again. `INVALID_CONFIG` where it cannot be
 * compiled. The limit costs about 0.1 ms a check. Where nothing in the schema can take long, only the first check, which compiles it, has one,
 * and those of large values: each value in an array may be compared with each member of an `anyOf` or `enum`, with an error for each.
 */
export function foreignSchemaChecker(schema: JSONSchema, owner: string): ArgumentChecker {
  return limitedChecker(schema, owner, maxLate);
}

/**
 * A check by a JSON Schema of the program's own, of arguments that a model or a client wrote. As `foreignSchemaChecker`, but the first check
 * of a small value has no limit either, and a check that is late fails its call only: the arguments are to blame, and the next ones may be short.
 */
export function jsonSchemaChecker(schema: JSONSchema, owner: string): ArgumentChecker {
  return limitedChecker(schema, owner, Number.POSITIVE_INFINITY);
}

function limitedChecker(schema: JSONSchema, owner: string, lateChecks: number): ArgumentChecker {
  const check = unlimitedChecker(schema, owner);
  const isForeign = Number.isFinite(lateChecks);
  let late = 0;
  /** How many values a check may have without a limit; unknown before the first. */
  let most: number | undefined;
  const isQuick = (value: unknown) => {
    if (!isForeign) most ??= quickValues(schema);
    return most !== undefined && most > 0 && sizeOf(value, most) <= most;
  };
  const bounded = (value: unknown) => {
    if (late >= lateChecks) throw tooSlow(owner, isForeign);
    try {
      const answer = withinMs(checkMs, () => check(value));
      most ??= quickValues(schema);
      return answer;
    } catch (thrown) {
      if (!isTimeout(thrown)) throw thrown;
      late++;
      breathe();
      throw tooSlow(owner, isForeign);
    }
  };
  let quick: QuickTest | false | undefined;
  return (value) => {
    quick ??= quickTest(schema, owner) ?? false;
    if (quick && sizeOf(value, quick.most) <= quick.most) {
      if (quick.test(value)) return { ok: true, value };
      const most = quick.most / problemSteps;
      if (sizeOf(value, most) <= most) return { ok: false, message: problemText(plainProblems(schema, value)) };
    }
    if (isQuick(value)) return check(value);
    const loading = loadLimitedChecks(schema, owner) ?? breath;
    return loading === undefined ? bounded(value) : loading.then(() => afterBreath(() => bounded(value)));
  };
}

/** To find what is wrong with a value takes so many times as long as to test it; beyond that compiled code is faster. */
const problemSteps = 20;

/** Tells without ajv whether a small value is allowed. */
interface QuickTest {
  readonly test: (value: unknown) => boolean;
  /** How many values a value may have. */
  readonly most: number;
}

/** The test of a schema whose checks need no limit, and of which `plainProblems` says what is wrong with a small value. Throws as `testWithoutEngine`. */
function quickTest(schema: JSONSchema, owner: string): QuickTest | undefined {
  const test = testWithoutEngine(schema, owner);
  const most = test ? quickValues(schema) : 0;
  return test && most > 0 ? { test, most } : undefined;
}

/** There from a check that was late until the event loop has run: one answer of a model may bring 100 calls that are late. */
let breath: Promise<void> | undefined;

function breathe(): void {
  breath = new Promise((resolve) => {
    const end = () => {
      breath = undefined;
      resolve();
    };
    // The next immediate may run before the event loop looks for signals; the one after it cannot.
    setImmediate(() => setImmediate(end));
  });
}

/** All that waited run one after another; the first of them that is late makes the others wait again. */
async function afterBreath<T>(run: () => T): Promise<Awaited<T>> {
  while (breath !== undefined) await breath;
  return await run();
}

/** What can take longer than the schema and the value are long. */
const slowKeywords: ReadonlySet<string> = new Set([
  'pattern',
  'patternProperties',
  'uniqueItems',
  '$ref',
  '$dynamicRef',
  '$recursiveRef',
]);

/** Values of a schema times values of the arguments that are checked without a limit: some milliseconds. */
const mostCompared = 100_000;
/** So many characters of a string or of a name take about as long as a value: each `maxLength` counts them, each error of an `enum` names them. */
const charactersOfValue = 16;

/**
 * How many values may be checked by a schema without a limit. A schema takes as many steps at most for each of them as it has values itself.
 * None for a schema that has one of the slow keywords anywhere, also as the name of a property, and for a large one. An object that the
 * schema holds in several places counts in each.
 */
function quickValues(schema: JSONSchema): number {
  let isSlow = false;
  const size = sizeOf(schema, mostCompared, (name) => {
    isSlow ||= slowKeywords.has(name);
  });
  return isSlow ? 0 : Math.floor(mostCompared / size);
}

/** How many values are in a value of JSON, itself included, with those that its texts and names count for; more than `most` where there are more. */
function sizeOf(value: unknown, most: number, onName?: (name: string) => void): number {
  const open: unknown[] = [value];
  let size = 0;
  for (let length = 1; length > 0 && size <= most; length = open.length) {
    const next = open.pop();
    size++;
    if (typeof next === 'string') size += next.length / charactersOfValue;
    else if (Array.isArray(next)) {
      if (next.length > most) return next.length;
      for (const inner of next) if (inner !== undefined) open.push(inner);
    } else if (typeof next === 'object' && next !== null) {
      for (const name of Object.keys(next)) {
        onName?.(name);
        size += name.length / charactersOfValue;
        const inner: unknown = Reflect.get(next, name);
        if (inner !== undefined) open.push(inner);
      }
    }
  }
  return size;
}

/** As `verifyJsonSchema`, for `foreignSchemaChecker`: from then on a value that the schema allows is answered without a promise. */
export async function verifyForeignSchema(schema: JSONSchema, owner: string): Promise<void> {
  await verifyJsonSchema(schema, owner);
  if (!quickTest(schema, owner)) await loadLimitedChecks(schema, owner);
}

/** As `verifyForeignSchema`, for `jsonSchemaChecker`, apart from checks of large values by a schema that needs no limit otherwise. */
export async function verifyOwnSchema(schema: JSONSchema, owner: string): Promise<void> {
  await verifyJsonSchema(schema, owner);
  if (quickValues(schema) === 0) await loadLimitedChecks(schema, owner);
}

let next: () => void = () => {};
let limited: { readonly context: Context; readonly script: Script } | undefined;

/**
 * Loads what such a check needs: ajv, and `node:vm`, which programs without one never load. Nothing where both are there: then a check answers
 * without a promise. Throws or rejects with `INVALID_CONFIG` for a draft that is not known, and where ajv cannot be loaded.
 */
function loadLimitedChecks(schema: JSONSchema, owner: string): Promise<void> | undefined {
  const engine = loadJsonSchemaEngine(schema, owner);
  return limited && engine === undefined ? undefined : Promise.all([engine, loadLimit()]).then(() => {});
}

async function loadLimit(): Promise<void> {
  const { createContext, Script } = await import('node:vm');
  limited ??= { context: createContext({ run: () => next() }), script: new Script('run()') };
}

/** A check that was late because the process hardly ran is tried so often: it may have been stopped, or its machine is busy. */
const maxTries = 3;

function withinMs<T>(ms: number, run: () => T): T {
  for (let tries = 1; ; tries++) {
    const before = process.cpuUsage();
    try {
      return endedAfter(ms, run);
    } catch (thrown) {
      const { user, system } = process.cpuUsage(before);
      if (!isTimeout(thrown) || tries === maxTries || user + system > (ms * 1_000) / 2) throw thrown;
    }
  }
}

/** Runs a synchronous function, and ends it, wherever it is, when its time is over: also within a regular expression. */
function endedAfter<T>(timeout: number, run: () => T): T {
  let result: { readonly value: T } | undefined;
  next = () => {
    result = { value: run() };
  };
  try {
    limited?.script.runInContext(limited.context, { timeout });
  } finally {
    next = () => {};
  }
  if (result === undefined) throw new Error('it gave nothing');
  return result.value;
}

function isTimeout(thrown: unknown): boolean {
  return (
    typeof thrown === 'object' && thrown !== null && 'code' in thrown && thrown.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
  );
}

function tooSlow(owner: string, isForeign: boolean): AgentLoopError {
  const cure = isForeign
    ? 'its owner has to simplify the pattern or the schema'
    : 'call it with fewer values, or simplify the schema';
  const what = `a check by the JSON Schema of ${owner} takes more than ${checkMs} ms`;
  return new AgentLoopError('TOOL_TIMEOUT', `${what}; ${cure}`);
}

/**
 * A check of arguments against a JSON Schema of draft 2020-12 (the default), 2019-09 or draft-07, chosen by `$schema`.
 * The value is passed on unchanged: nothing is coerced, no default is filled in. Errors are reported field by field
 * in about 1,000 characters. `format` is an annotation and is not checked. There is no time limit.
 *
 * The first check loads ajv, if nothing has yet, and compiles the schema; all others answer without a promise. `owner`
 * names the schema in errors. A check throws or rejects with `INVALID_CONFIG` where the schema cannot be compiled.
 */
function unlimitedChecker(schema: JSONSchema, owner: string): ArgumentChecker {
  let compiled: ValidateFunction | undefined;
  return (value) => {
    if (compiled) return answer(compiled, value, owner);
    const validate = compileJsonSchema(schema, owner);
    if (validate instanceof Promise) return validate.then((ready) => answer(ready, value, owner));
    compiled = validate;
    return answer(validate, value, owner);
  };
}

function answer(validate: ValidateFunction, value: unknown, owner: string): ArgumentCheck {
  try {
    if (validate(value) === true) return { ok: true, value };
  } catch (thrown) {
    throw thrown instanceof RangeError ? endlessSchema(owner, thrown) : thrown;
  }
  return { ok: false, message: problemText((validate.errors ?? []).map(problemOf)) };
}

/** What an error of ajv says, as a model reads it. */
export function problemOf({ instancePath, keyword, message, ...error }: ErrorObject): string {
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
