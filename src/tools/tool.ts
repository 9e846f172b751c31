import type { Tool, ToolDefinition, ToolPolicy } from '../core/contracts/index.ts';
import { inBatches } from './batched-calls.ts';
import { jsonSchemaChecker, verifyOwnSchema } from './limited-schema.ts';
import {
  type AnyToolOptions,
  type ArgumentsOf,
  assertToolOptions,
  isStandardSchema,
  type RawArguments,
  type ToolOptions,
  type ToolParameters,
} from './tool-options.ts';
import { jsonSchemaOf, standardChecker } from './tool-parameters.ts';

export type { Tool } from '../core/contracts/index.ts';

/** `tool`, with the type of `context`. */
export type ToolFactory<C> = <
  const P extends ToolParameters,
  const Raw extends boolean = false,
  const Name extends string = string,
  Result = unknown,
>(
  options: ToolOptions<P, Raw, C, Name, Result>,
) => Tool<ArgumentsOf<P> | (Raw extends true ? RawArguments : never), C, Name, Awaited<Result>>;

/**
 * Describes a tool. `parameters` is a Standard Schema (Zod 4, Valibot, ArkType, …), which gives `execute` its typed and
 * converted output, or a JSON Schema, which is sent and checked as it stands.
 *
 * A Standard Schema tells its JSON Schema itself, or the option `jsonSchema` does. What `execute` returns becomes text
 * for the model: see `toContent`; `contentParts` hands over images and files. Throws `INVALID_CONFIG` for a wrong option.
 *
 * `tool<Context>()` gives this function for tools of agents that are made by `agent<Context>()`: their `context` has that type.
 */
export function tool<C>(): ToolFactory<C>;
export function tool<
  const P extends ToolParameters,
  const Raw extends boolean = false,
  const Name extends string = string,
  Result = unknown,
>(
  options: ToolOptions<P, Raw, unknown, Name, Result>,
): Tool<ArgumentsOf<P> | (Raw extends true ? RawArguments : never), unknown, Name, Awaited<Result>>;
export function tool(...given: readonly [] | readonly [AnyToolOptions]): Tool | ((options: AnyToolOptions) => Tool) {
  return given.length === 0 ? described : described(given[0]);
}

function described(options: AnyToolOptions): Tool {
  assertToolOptions(options);
  const { name, parameters } = options;
  const execute = executeOf(options);
  if (isStandardSchema(parameters)) {
    const jsonSchema = options.jsonSchema ?? jsonSchemaOf(parameters, name);
    return { definition: definitionOf(options, jsonSchema, standardChecker(parameters)), execute };
  }
  const owner = `tool "${name}"`;
  const definition = definitionOf(options, parameters, jsonSchemaChecker(parameters, owner));
  return { definition, execute, prepare: () => verifyOwnSchema(parameters, owner) };
}

function executeOf(options: AnyToolOptions): Tool['execute'] {
  if (options.executeBatch) return inBatches((calls) => options.executeBatch(calls));
  return (args, context) => options.execute(args, context);
}

function definitionOf(
  options: AnyToolOptions,
  parameters: ToolDefinition['function']['parameters'],
  checkArguments: NonNullable<ToolDefinition['checkArguments']>,
): ToolDefinition {
  const { name, description } = options;
  return { type: 'function', function: { name, description, parameters }, ...policyOf(options), checkArguments };
}

/** The policy alone, without options that were not given. */
export function policyOf(options: ToolPolicy): ToolPolicy {
  const {
    timeoutMs,
    sequential,
    readOnly,
    idempotent,
    onInDoubt,
    needsApproval,
    hidden,
    cache,
    acceptsRaw,
    childTurn,
  } = options;
  return {
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(sequential !== undefined && { sequential }),
    ...(readOnly !== undefined && { readOnly }),
    ...(idempotent !== undefined && { idempotent }),
    ...(onInDoubt !== undefined && { onInDoubt }),
    ...(needsApproval !== undefined && { needsApproval }),
    ...(hidden !== undefined && { hidden }),
    ...(cache !== undefined && { cache }),
    ...(acceptsRaw !== undefined && { acceptsRaw }),
    ...(childTurn !== undefined && { childTurn }),
  };
}
