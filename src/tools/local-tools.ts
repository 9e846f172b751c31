import {
  AgentLoopError,
  DoneSignal,
  isPromiseLike,
  messageOf,
  parsedJson,
  TaskComplete,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
  type ToolProvider,
  type ToolResult,
} from '../core/contracts/index.ts';
import { policyOf, type Tool, tool } from './tool.ts';
import { toContent } from './tool-content.ts';

/**
 * Tools that are functions of this process: those of {@link tool}, or a function registered with a definition.
 *
 * `getTools` lists them in the order of registration; the first listing checks their JSON Schemas and rejects with
 * `INVALID_CONFIG` where one is wrong. `executeTool` answers without a promise where the function does. It runs with
 * `context.arguments`, which the engine has checked; where those are `undefined`, the call's own JSON text is parsed and
 * checked first (`TOOL_ARGUMENTS` if it does not fit). What the function throws is passed on; a `DoneSignal` that it returns is thrown
 * as a `TaskComplete`.
 */
export class LocalToolProvider implements ToolProvider {
  readonly name: string;
  readonly #tools = new Map<string, Tool>();
  #unprepared: (() => Promise<void>)[] = [];
  /** One preparation for all turns that start at the same time: each would load and build the checks anew. */
  #preparing: Promise<readonly ToolDefinition[]> | undefined;

  /** `name` is what errors call this provider. */
  constructor(tools: readonly Tool[] = [], { name = 'LocalToolProvider' }: { readonly name?: string } = {}) {
    this.name = name;
    for (const one of tools) this.register(one);
  }

  /** Adds a tool, or a function with its definition. Throws `DUPLICATE_TOOL`, and `INVALID_CONFIG` for a wrong one. */
  register(added: Tool): this;
  register(definition: ToolDefinition, execute: Tool['execute']): this;
  register(added: Tool | ToolDefinition, execute?: Tool['execute']): this {
    const one = 'definition' in added ? added : toolOf(added, execute);
    const { name } = one.definition.function;
    if (this.#tools.has(name)) {
      throw new AgentLoopError('DUPLICATE_TOOL', `${this.name} has a tool "${name}" already; rename one of them.`);
    }
    this.#tools.set(name, one);
    if (one.prepare !== undefined) {
      this.#unprepared.push(one.prepare);
      this.#preparing = undefined;
    }
    return this;
  }

  getTools(): readonly ToolDefinition[] | Promise<readonly ToolDefinition[]> {
    if (this.#unprepared.length === 0) return this.#definitions();
    this.#preparing ??= this.#prepared();
    return this.#preparing;
  }

  executeTool(call: ToolCall, context: ToolContext): ToolResult | Promise<ToolResult> {
    const one = this.#tools.get(call.function.name);
    if (one === undefined) return Promise.reject(this.#unknown(call.function.name));
    if (context.arguments === undefined) return runUnchecked(one, call, context);
    return run(one, call, context.arguments, context);
  }

  async #prepared(): Promise<readonly ToolDefinition[]> {
    const waiting = this.#unprepared;
    try {
      await Promise.all(waiting.map((prepare) => prepare()));
    } finally {
      this.#preparing = undefined;
    }
    this.#unprepared = this.#unprepared.filter((prepare) => !waiting.includes(prepare));
    return this.#definitions();
  }

  #definitions(): readonly ToolDefinition[] {
    return [...this.#tools.values()].map(({ definition }) => definition);
  }

  #unknown(name: string): AgentLoopError {
    const names = [...this.#tools.keys()].join(', ') || 'none';
    return new AgentLoopError(
      'TOOL_NOT_FOUND',
      `Tool "${name}" is not known to ${this.name}; its tools are: ${names}.`,
    );
  }
}

/** A function with the definition that describes it, as one tool. A definition's own `checkArguments` is kept. */
function toolOf(definition: ToolDefinition, execute: Tool['execute'] | undefined): Tool {
  const { checkArguments } = definition;
  const options = { ...definition.function, ...policyOf(definition), execute: execute ?? missing(definition) };
  const { prepare, ...made } = tool(options);
  if (checkArguments !== undefined) return { ...made, definition: { ...made.definition, checkArguments } };
  return prepare === undefined ? made : { ...made, prepare };
}

function missing(definition: ToolDefinition): never {
  const { name } = definition.function;
  throw new AgentLoopError(
    'INVALID_CONFIG',
    `Tool "${name}": execute is missing; pass the function after its definition.`,
  );
}

function run(one: Tool, call: ToolCall, args: unknown, context: ToolContext): ToolResult | Promise<ToolResult> {
  const returned = one.execute(args, context);
  return isPromiseLike(returned)
    ? Promise.resolve(returned).then((value) => resultOf(call, value))
    : resultOf(call, returned);
}

async function runUnchecked(one: Tool, call: ToolCall, context: ToolContext): Promise<ToolResult> {
  const parsed = parse(one.definition, call.function.arguments);
  const check = parsed.ok && !parsed.raw ? ((await one.definition.checkArguments?.(parsed.value)) ?? parsed) : parsed;
  if (check.ok) return run(one, call, check.value, context);
  throw new AgentLoopError('TOOL_ARGUMENTS', `Tool "${call.function.name}" was not run: ${check.message}.`);
}

type Parsed =
  | { readonly ok: true; readonly value: unknown; readonly raw: boolean }
  | { readonly ok: false; readonly message: string };

/** Models send nothing at all for a tool without parameters. */
function parse(definition: ToolDefinition, text: string): Parsed {
  try {
    return { ok: true, value: parsedJson(text.trim() === '' ? '{}' : text), raw: false };
  } catch (thrown) {
    if (definition.acceptsRaw === true) return { ok: true, value: { _raw: text }, raw: true };
    return { ok: false, message: `the arguments are not JSON (${messageOf(thrown)})` };
  }
}

function resultOf(call: ToolCall, value: unknown): ToolResult {
  if (DoneSignal.isInstance(value)) throw new TaskComplete(value.finalMessage);
  return { toolCallId: call.id, content: toContent(value, call.function.name), success: true };
}
