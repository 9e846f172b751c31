import type { AgentLoopConfig, ArgumentChecker, ArgumentChecks, JSONSchema } from '../core/contracts/index.ts';
import { RecentMap } from '../core/journal/index.ts';
import { foreignSchemaChecker, loadLimitedChecks } from './limited-schema.ts';

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
