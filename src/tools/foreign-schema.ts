import { createContext, Script } from 'node:vm';
import { AgentLoopError } from '../core/errors.ts';
import type { JSONSchema } from './interfaces.ts';
import { type ArgumentChecker, jsonSchemaChecker } from './json-schema.ts';
import { loadJsonSchemaEngine } from './json-schema-engine.ts';

/** Milliseconds that a check may take. */
const checkMs = 500;
/** A schema whose checks took longer so many times is not tried again. */
const maxLate = 2;

/**
 * A check by a JSON Schema that somebody else wrote, such as an MCP server: as `jsonSchemaChecker` does, within 500 ms. A pattern that
 * backtracks, a `$ref` that doubles, or `uniqueItems` of a long array can take for ever otherwise, in the one thread that all turns share.
 * A check that takes longer throws `TOOL_TIMEOUT`; after two such checks the schema is not tried again. `INVALID_CONFIG` where it cannot be
 * compiled.
 */
export function foreignSchemaChecker(schema: JSONSchema, owner: string): ArgumentChecker {
  const check = jsonSchemaChecker(schema, owner);
  let late = 0;
  const bounded = (value: unknown) => {
    if (late >= maxLate) throw tooSlow(owner);
    try {
      return withinMs(checkMs, () => check(value));
    } catch (thrown) {
      if (!isTimeout(thrown)) throw thrown;
      late++;
      throw tooSlow(owner);
    }
  };
  return (value) => {
    const loading = loadJsonSchemaEngine(schema, owner);
    return loading === undefined ? bounded(value) : loading.then(() => bounded(value));
  };
}

let next: () => void = () => {};
const context = createContext({ run: () => next() });
const script = new Script('run()');

/** Runs a synchronous function, and ends it, wherever it is, when its time is over: also within a regular expression. */
function withinMs<T>(timeout: number, run: () => T): T {
  let result: { readonly value: T } | undefined;
  next = () => {
    result = { value: run() };
  };
  try {
    script.runInContext(context, { timeout });
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
