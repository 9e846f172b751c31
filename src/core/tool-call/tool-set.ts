import {
  AgentLoopError,
  type ArgumentChecker,
  type ArgumentChecks,
  isPromiseLike,
  messageOf,
  type ToolDefinition,
  type ToolListContext,
  type ToolProvider,
} from '../contracts/index.ts';
import type { Changes } from '../journal/index.ts';

export interface OfferedTool {
  readonly definition: ToolDefinition;
  readonly provider: ToolProvider;
}

/** The part of tool definitions that the model receives. */
export interface Offer {
  /** Without the engine's own members. */
  readonly offered: readonly ToolDefinition[];
  readonly functions: readonly ToolDefinition['function'][];
}

/** The tools of a turn. As an offer: what the model is offered where no extension changed that. */
export class ToolSet implements Offer {
  readonly offered: readonly ToolDefinition[];
  readonly functions: readonly ToolDefinition['function'][];
  /** Every tool, offered or not. */
  readonly byName: ReadonlyMap<string, OfferedTool>;
  readonly #byName = new Map<string, OfferedTool>();
  #offers: WeakMap<object, Offer> | undefined;
  #schemaChecks: Map<OfferedTool, ArgumentChecker> | undefined;
  /** Tools whose schema checks have all that they need. */
  #loaded: Set<OfferedTool> | undefined;
  /** Whether calls of any of them may have to be approved. */
  anyNeedsApproval = false;

  /** Errors: `DUPLICATE_TOOL`, naming both providers. */
  constructor(tools: readonly OfferedTool[]) {
    this.byName = this.#byName;
    this.add(tools);
    const shown = tools.filter(({ definition }) => !definition.hidden);
    const { offered, functions } = offerOf(shown.map(({ definition }) => definition));
    this.offered = offered;
    this.functions = functions;
  }

  /** Tools that are not offered by themselves. Errors: `DUPLICATE_TOOL`, naming both providers. */
  add(tools: readonly OfferedTool[]): void {
    for (const tool of tools) {
      addTool(this.#byName, tool);
      if (tool.definition.needsApproval) this.anyNeedsApproval = true;
    }
  }

  /** What the model is offered after the changes of a turn. Made once for each of them. */
  after(changes: Changes['tools']): Offer {
    if (changes === undefined) return this;
    const known = this.#offers?.get(changes);
    if (known) return known;
    const names = new Set([...this.functions.map(({ name }) => name), ...changes.added]);
    for (const name of changes.removed) names.delete(name);
    const offer = this.only([...names]);
    this.#offers ??= new WeakMap();
    this.#offers.set(changes, offer);
    return offer;
  }

  /** The check of a call's arguments by the schema that its tool declares, made once; `undefined` where it declares none. */
  schemaCheckOf(tool: OfferedTool, argumentChecks: ArgumentChecks): ArgumentChecker | undefined {
    const known = this.#schemaChecks?.get(tool);
    if (known) return known;
    const { name, parameters } = tool.definition.function;
    if (typeof parameters !== 'object' || parameters === null) return undefined;
    const check = argumentChecks(parameters, `tool "${name}" of ${providerName(tool.provider)}`);
    this.#schemaChecks ??= new Map();
    this.#schemaChecks.set(tool, check);
    return check;
  }

  /** Loads what the check of a tool's schema needs; `undefined` where all is there. */
  loadSchemaCheck(tool: OfferedTool, argumentChecks: ArgumentChecks): Promise<void> | undefined {
    if (this.#loaded?.has(tool)) return undefined;
    const { parameters } = tool.definition.function;
    const isSchema = typeof parameters === 'object' && parameters !== null;
    const loading = isSchema && !tool.definition.checkArguments ? argumentChecks.load?.(parameters) : undefined;
    if (loading) return loading;
    this.#loaded ??= new Set();
    this.#loaded.add(tool);
    return undefined;
  }

  /** The tools of those names that there are, in their order. */
  only(names: readonly string[]): Offer {
    return offerOf(names.flatMap((name) => this.#byName.get(name)?.definition ?? []));
  }
}

function offerOf(definitions: readonly ToolDefinition[]): Offer {
  const functions = definitions.map((definition) => definition.function);
  return { functions, offered: functions.map((each) => ({ type: 'function' as const, function: each })) };
}

export const noTools: ToolSet = new ToolSet([]);

/**
 * Asks every provider for its tools, at the same time. Errors: `TOOL_FAILED` where a provider fails or gives no list of definitions, naming it, with its error as the cause.
 * `waiting` has those that have not answered yet.
 */
export function collectTools(
  providers: readonly ToolProvider[],
  context: ToolListContext,
  waiting?: Set<ToolProvider>,
): readonly OfferedTool[] | Promise<readonly OfferedTool[]> {
  const lists = providers.map((provider) => {
    const list = listOf(provider, context);
    if (!(list instanceof Promise)) return list;
    waiting?.add(provider);
    return list.finally(() => waiting?.delete(provider));
  });
  if (!lists.some((list) => list instanceof Promise))
    return lists.flatMap((list) => (list instanceof Promise ? [] : list));
  return Promise.all(lists).then((all) => all.flat());
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

/** What errors call a provider. */
export function providerName(provider: ToolProvider): string {
  return provider.name ?? provider.constructor.name;
}
