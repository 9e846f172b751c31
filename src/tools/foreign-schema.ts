import type { Context, Script } from 'node:vm';
import { AgentLoopError } from '../core/errors.ts';
import type { ArgumentChecker, JSONSchema } from './interfaces.ts';
import { jsonSchemaChecker } from './json-schema.ts';
import { loadJsonSchemaEngine } from './json-schema-engine.ts';

/** Milliseconds that a check may take. */
const checkMs = 500;
/** A schema whose checks took longer so many times is not tried again. */
const maxLate = 2;

/**
 * A check by a JSON Schema that somebody else wrote, such as an MCP server: as `jsonSchemaChecker` does, within 500 ms. A pattern that
 * backtracks, a `$ref` that doubles, or `uniqueItems` of a long array can take for ever otherwise, in the one thread that all turns share.
 * A check that takes longer throws `TOOL_TIMEOUT`; after two such checks the schema is not tried again. `INVALID_CONFIG` where it cannot be
 * compiled. The limit costs about 0.1 ms a check. Where nothing in the schema can take long, only the first check, which compiles it, has one,
 * and those of large values: each value in an array may be compared with each member of an `anyOf` or `enum`, with an error for each.
 */
export function foreignSchemaChecker(schema: JSONSchema, owner: string): ArgumentChecker {
  const check = jsonSchemaChecker(schema, owner);
  let late = 0;
  /** How many values a check may have without a limit; unknown before the first. */
  let most: number | undefined;
  const isQuick = (value: unknown) => most !== undefined && most > 0 && isWithin(value, most);
  const bounded = (value: unknown) => {
    if (late >= maxLate) throw tooSlow(owner);
    try {
      const answer = withinMs(checkMs, () => check(value));
      most ??= Math.floor(mostCompared / sizeOfLinear(schema));
      return answer;
    } catch (thrown) {
      if (!isTimeout(thrown)) throw thrown;
      late++;
      throw tooSlow(owner);
    }
  };
  return (value) => {
    if (isQuick(value)) return check(value);
    const loading = loadParts(schema, owner);
    return loading === undefined ? bounded(value) : loading.then(() => bounded(value));
  };
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

/**
 * How many values a schema has whose checks take at most that many steps for each value checked. `Infinity` for a schema that has one of the
 * slow keywords anywhere, also as the name of a property, and for one that holds an object twice: nesting that may double it at each level.
 */
function sizeOfLinear(schema: JSONSchema): number {
  const seen = new Set<object>();
  const open: unknown[] = [schema];
  let size = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    size++;
    if (typeof next !== 'object' || next === null) continue;
    if (seen.has(next)) return Number.POSITIVE_INFINITY;
    seen.add(next);
    if (Object.keys(next).some((key) => slowKeywords.has(key))) return Number.POSITIVE_INFINITY;
    for (const value of Object.values(next)) if (value !== undefined) open.push(value);
  }
  return size;
}

/** Whether a value of JSON has at most so many values in it, itself included. */
function isWithin(value: unknown, most: number): boolean {
  const open: unknown[] = [value];
  for (let count = 1; open.length > 0; count += open.length) {
    if (count > most) return false;
    const level = open.splice(0);
    for (const each of level) {
      if (typeof each !== 'object' || each === null) continue;
      for (const inner of Object.values(each)) {
        if (open.push(inner) > most) return false;
      }
    }
  }
  return true;
}

let next: () => void = () => {};
let limited: { readonly context: Context; readonly script: Script } | undefined;

/** What a check needs: ajv, and `node:vm`, which programs without such a check never load. Nothing where both are there. */
function loadParts(schema: JSONSchema, owner: string): Promise<void> | undefined {
  const engine = loadJsonSchemaEngine(schema, owner);
  return limited && engine === undefined ? undefined : Promise.all([engine, loadLimit()]).then(() => {});
}

async function loadLimit(): Promise<void> {
  const { createContext, Script } = await import('node:vm');
  limited ??= { context: createContext({ run: () => next() }), script: new Script('run()') };
}

/** Runs a synchronous function, and ends it, wherever it is, when its time is over: also within a regular expression. */
function withinMs<T>(timeout: number, run: () => T): T {
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

function tooSlow(owner: string): AgentLoopError {
  return new AgentLoopError(
    'TOOL_TIMEOUT',
    `a check by the JSON Schema of ${owner} takes more than ${checkMs} ms; its owner has to simplify the pattern or the schema`,
  );
}
