import type { ToolDefinition, ToolListContext, ToolProvider } from '../tools/interfaces.ts';
import { AgentLoopError, messageOf } from './errors.ts';

export interface OfferedTool {
  readonly definition: ToolDefinition;
  readonly provider: ToolProvider;
}

/** The tools of a turn, by name, and as the model is told of them. */
export interface ToolSet {
  readonly byName: ReadonlyMap<string, OfferedTool>;
  /** Without the engine's own members. */
  readonly offered: readonly ToolDefinition[];
  readonly functions: readonly ToolDefinition['function'][];
  /** Whether calls of any of them may have to be approved. */
  readonly anyNeedsApproval: boolean;
}

export const noTools: ToolSet = { byName: new Map(), offered: [], functions: [], anyNeedsApproval: false };

/**
 * Asks every provider for its tools, at the same time. Errors: `DUPLICATE_TOOL` where two tools have one name, naming both
 * providers; `TOOL_FAILED` where a provider fails or gives no list of definitions, naming it, with its error as the cause.
 */
export function collectTools(providers: readonly ToolProvider[], context: ToolListContext): ToolSet | Promise<ToolSet> {
  const lists = providers.map((provider) => listOf(provider, context));
  if (!lists.some((list) => list instanceof Promise))
    return toolSet(lists.flatMap((list) => (list instanceof Promise ? [] : list)));
  return Promise.all(lists).then((all) => toolSet(all.flat()));
}

/** A provider's tools. A promise of them never rejects unheard: all of them are waited for together. */
function listOf(
  provider: ToolProvider,
  context: ToolListContext,
): readonly OfferedTool[] | Promise<readonly OfferedTool[]> {
  const fail = (error: unknown): never => {
    if (AgentLoopError.isInstance(error)) throw error;
    const message = `The tool provider ${providerName(provider)} cannot list its tools: ${messageOf(error)}`;
    throw new AgentLoopError('TOOL_FAILED', message, { cause: error });
  };
  try {
    const answer = provider.getTools(context);
    if (!isPromiseLike(answer)) return offeredBy(provider, answer);
    return Promise.resolve(answer)
      .then((definitions) => offeredBy(provider, definitions))
      .catch(fail);
  } catch (error) {
    return Promise.reject(error).catch(fail);
  }
}

function offeredBy(provider: ToolProvider, definitions: readonly ToolDefinition[]): readonly OfferedTool[] {
  const usable = Array.isArray(definitions) && definitions.every((each) => typeof each?.function?.name === 'string');
  if (usable) return definitions.map((definition) => ({ definition, provider }));
  throw new TypeError('getTools gave no list of ToolDefinitions; return [{ type: "function", function: { name, … } }]');
}

function toolSet(tools: readonly OfferedTool[]): ToolSet {
  const byName = new Map<string, OfferedTool>();
  for (const tool of tools) addTool(byName, tool);
  const functions = tools.map((tool) => tool.definition.function);
  const anyNeedsApproval = tools.some(({ definition }) => definition.needsApproval);
  const offered = functions.map((each) => ({ type: 'function' as const, function: each }));
  return { byName, functions, offered, anyNeedsApproval };
}

function isPromiseLike<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

function addTool(byName: Map<string, OfferedTool>, tool: OfferedTool): void {
  const { name } = tool.definition.function;
  const other = byName.get(name);
  if (other) {
    const providers = [providerName(other.provider), providerName(tool.provider)];
    throw new AgentLoopError(
      'DUPLICATE_TOOL',
      `Two tools are called "${name}", one of ${providers.join(' and one of ')}; rename one of them.`,
    );
  }
  byName.set(name, tool);
}

function providerName(provider: ToolProvider): string {
  return provider.name ?? provider.constructor.name;
}
