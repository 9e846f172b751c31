import type { Tool, ToolContext, ToolDefinition, ToolPolicy } from '../core/contracts/index.ts';
import { jsonSchemaChecker, verifyOwnSchema } from './schema-checks.ts';
import {
  type AnyToolOptions,
  type ArgumentsOf,
  assertToolOptions,
  type BatchedCall,
  type BatchResults,
  isStandardSchema,
  jsonSchemaOf,
  type RawArguments,
  standardChecker,
  type ToolOptions,
  type ToolParameters,
} from './tool-options.ts';

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

type ExecuteBatch = (calls: readonly BatchedCall[]) => BatchResults | Promise<BatchResults>;

interface WaitingCall extends BatchedCall {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A function for single calls that gathers those of the same iteration of a turn until the event loop comes round, and runs them in one
 * invocation. Calls that are cancelled by then are left out.
 */
function inBatches(executeBatch: ExecuteBatch): (args: unknown, context: ToolContext) => Promise<unknown> {
  const batches = new Map<string, WaitingCall[]>();
  return (args, context) =>
    new Promise((resolve, reject) => {
      const { callId, taskId, iteration } = context;
      const call = { callId, arguments: args, context, resolve, reject };
      const key = `${iteration} ${taskId}`;
      const begun = batches.get(key);
      if (begun) {
        begun.push(call);
        return;
      }
      const batch = [call];
      batches.set(key, batch);
      setImmediate(() => {
        batches.delete(key);
        void runBatch(executeBatch, batch);
      });
    });
}

/** Settles every call. Never rejects. */
async function runBatch(executeBatch: ExecuteBatch, batch: readonly WaitingCall[]): Promise<void> {
  const calls = batch.filter(({ context, reject }) => {
    if (context.signal.aborted) reject(context.signal.reason);
    return !context.signal.aborted;
  });
  if (calls.length === 0) return;
  try {
    const results = await executeBatch(
      calls.map(({ callId, arguments: args, context }) => ({ callId, arguments: args, context })),
    );
    for (const call of calls) settle(call, resultIn(results, call.callId));
  } catch (error) {
    for (const { reject } of calls) reject(error);
  }
}

function resultIn(results: BatchResults, callId: string): unknown {
  const known = results instanceof Map ? results.has(callId) : Object.hasOwn(results, callId);
  if (!known) return new Error(`executeBatch gave no result for the call "${callId}"`);
  return results instanceof Map ? results.get(callId) : Reflect.get(results, callId);
}

function settle({ resolve, reject }: WaitingCall, result: unknown): void {
  if (result instanceof Error) reject(result);
  else resolve(result);
}

const definitions = new WeakSet<ToolDefinition>();

/**
 * Marks the definition of a tool that the engine offers for its own working, such as one that ends a turn: what users say of their tools in
 * general is not meant for it. No option of a tool, so that no provider can claim it for what it brings.
 */
export function engineDefinition(definition: ToolDefinition): ToolDefinition {
  definitions.add(definition);
  return definition;
}

/** As `engineDefinition`, of a tool. */
export function engineTool<Args>(tool: Tool<Args>): Tool<Args> {
  definitions.add(tool.definition);
  return tool;
}

export function isEngineTool(definition: ToolDefinition): boolean {
  return definitions.has(definition);
}
