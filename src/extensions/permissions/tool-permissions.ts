import type { Extension, ToolCallRequest } from '../../core/contracts/index.ts';
import { aFunction, assertOptions, type OptionRule, oneOf, wrongOption } from '../../options/option-rules.ts';
import { isEngineTool } from '../../tools/tool.ts';

/** Allows or denies calls of some tools. */
export interface PermissionRule {
  /** Names of tools; `*` matches any characters, in names of your own tools. */
  readonly tools: readonly string[];
  /** Whether matching calls may run. */
  readonly allow: boolean;
  /** Restricts the rule, by arguments, caller, or turn. Default: all calls. */
  readonly when?: (request: ToolCallRequest) => boolean | Promise<boolean>;
  /** The reason of a denial, for the model. */
  readonly reason?: string;
}

/** Options of `toolPermissions`: rules, then a function, then a default. */
export interface ToolPermissionsOptions {
  /** The first matching rule decides. Default none. */
  readonly rules?: readonly PermissionRule[] | undefined;
  /** Called if no rule matches: true, or the reason of the denial, for the model; false denies without a reason. */
  readonly canExecute?: ((request: ToolCallRequest) => boolean | string | Promise<boolean | string>) | undefined;
  /** The default decision. Default `'allow'`. */
  readonly otherwise?: 'allow' | 'deny' | undefined;
}

/**
 * Decides which tool calls may run. A denied call gets an error result, so that the model can do something else; the turn
 * continues. Decides on the validated arguments, before approval. A rule or function that throws fails the turn, and nothing runs.
 *
 * The engine's own tools (the finish tool of an output schema, those of `doneTool`, of a team's `handOff` and of
 * `toolOutputCache`) are allowed unless a rule contains their exact name: `*`, `canExecute` and `otherwise` do not apply to them.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function toolPermissions(options: ToolPermissionsOptions): Extension {
  assertOptions('toolPermissions', options, { rules: someRules, canExecute: aFunction, otherwise: aDefault });
  if (!options.rules && !options.canExecute)
    throw wrongOption('toolPermissions', 'neither rules nor canExecute is given');
  return {
    name: 'tool-permissions',
    async beforeToolCall(request) {
      const verdict = await verdictOn(options, request);
      if (verdict === true) return undefined;
      const why = verdict === false ? '' : `: ${verdict}`;
      return { deny: `the tool "${request.call.function.name}" may not be called like this${why}` };
    },
  };
}

const someRules: OptionRule = {
  fits: (value) => Array.isArray(value) && value.every(isRule),
  must: 'be an array of { tools: ["name"], allow: true or false }, each with an optional function `when` and an optional string `reason`',
};
const aDefault = oneOf('allow', 'deny');

function isRule(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { tools, allow, when, reason }: Readonly<Record<string, unknown>> = { ...value };
  const fits = (member: unknown, type: 'function' | 'string') => member === undefined || typeof member === type;
  const areNames = Array.isArray(tools) && tools.every((name) => typeof name === 'string');
  return areNames && typeof allow === 'boolean' && fits(when, 'function') && fits(reason, 'string');
}

/** Returns true, or false or the reason of a denial. */
async function verdictOn(
  { rules = [], canExecute, otherwise = 'allow' }: ToolPermissionsOptions,
  request: ToolCallRequest,
): Promise<boolean | string> {
  const { name } = request.call.function;
  const ofEngine = isEngineTool(request.tool);
  for (const { tools, allow, when, reason } of rules) {
    if (!(ofEngine ? tools.includes(name) : matchesName(tools, name))) continue;
    if (when && !(await when(request))) continue;
    return allow || (reason ?? false);
  }
  if (ofEngine) return true;
  if (!canExecute) return otherwise === 'allow';
  const verdict = await canExecute(request);
  if (typeof verdict === 'boolean' || typeof verdict === 'string') return verdict;
  throw new TypeError('canExecute answered neither true nor false nor a reason');
}

/** Whether a name matches one of these patterns; `*` matches any characters: `write_*`. */
export function matchesName(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => expressionOf(pattern).test(name));
}

function expressionOf(pattern: string): RegExp {
  const parts = pattern.split('*').map((part) => part.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's');
}
