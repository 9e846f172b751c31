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

/** What is known of the schemas that tools declare. */
interface SchemaChecks {
  readonly made: Map<OfferedTool, ArgumentChecker>;
  /** Tools whose checks have all that they need. */
  readonly loaded: Set<OfferedTool>;
}

/** The tools of a turn. As an offer: what the model is offered where no extension changed that. */
export class ToolSet implements Offer {
  readonly offered: readonly ToolDefinition[];
  readonly functions: readonly ToolDefinition['function'][];
  /** Every tool, offered or not. */
  byName: ReadonlyMap<string, OfferedTool>;
  /** Whether calls of any of them may have to be approved. */
  anyNeedsApproval: boolean;
  /** Shared by the sets of the same tools. */
  readonly #checks: SchemaChecks;
  #offers: WeakMap<object, Offer> | undefined;

  /** Of tools, or of the same tools as another set: what is added to one is not in the other. Errors: `DUPLICATE_TOOL`, naming both providers. */
  constructor(tools: readonly OfferedTool[] | ToolSet) {
    if (tools instanceof ToolSet) {
      this.offered = tools.offered;
      this.functions = tools.functions;
      this.byName = tools.byName;
      this.anyNeedsApproval = tools.anyNeedsApproval;
      this.#checks = tools.#checks;
      return;
    }
    const shown = tools.filter(({ definition }) => !definition.hidden);
    const { offered, functions } = offerOf(shown.map(({ definition }) => definition));
    this.offered = offered;
    this.functions = functions;
    this.byName = new Map();
    this.anyNeedsApproval = false;
    this.#checks = { made: new Map(), loaded: new Set() };
    this.add(tools);
  }

  /** Tools that are not offered by themselves. Errors: `DUPLICATE_TOOL`, naming both providers. */
  add(tools: readonly OfferedTool[]): void {
    const byName = new Map(this.byName);
    for (const tool of tools) {
      addTool(byName, tool);
      if (tool.definition.needsApproval) this.anyNeedsApproval = true;
    }
    this.byName = byName;
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
    const known = this.#checks.made.get(tool);
    if (known) return known;
    const { name, parameters } = tool.definition.function;
    if (typeof parameters !== 'object' || parameters === null) return undefined;
    const check = argumentChecks(parameters, `tool "${name}" of ${providerName(tool.provider)}`);
    this.#checks.made.set(tool, check);
    return check;
  }

  /** Loads what the check of a tool's schema needs; `undefined` where all is there. */
  loadSchemaCheck(tool: OfferedTool, argumentChecks: ArgumentChecks): Promise<void> | undefined {
    if (this.#checks.loaded.has(tool)) return undefined;
    const { parameters } = tool.definition.function;
    const isSchema = typeof parameters === 'object' && parameters !== null;
    const loading = isSchema && !tool.definition.checkArguments ? argumentChecks.load?.(parameters) : undefined;
    if (loading) return loading;
    this.#checks.loaded.add(tool);
    return undefined;
  }

  /** The tools of those names that there are, in their order. */
  only(names: readonly string[]): Offer {
    return offerOf(names.flatMap((name) => this.byName.get(name)?.definition ?? []));
  }
}

function offerOf(definitions: readonly ToolDefinition[]): Offer {
  const functions = definitions.map((definition) => definition.function);
  return { functions, offered: functions.map((each) => ({ type: 'function' as const, function: each })) };
}

export const noTools: ToolSet = new ToolSet([]);

/** The last tools of each list of providers: most of them list the same definitions for every turn. */
const lastSets = new WeakMap<readonly ToolProvider[], ToolSet>();

/** The tools of a turn. Made anew only where a provider lists a definition that it did not list for the turn before. Errors as `collectTools`. */
export function listTools(
  providers: readonly ToolProvider[],
  context: ToolListContext,
  waiting: Set<ToolProvider>,
): ToolSet | Promise<ToolSet> {
  const lists = listsOf(providers, context, waiting);
  return lists instanceof Promise ? lists.then((all) => setOf(providers, all)) : setOf(providers, lists);
}

function setOf(providers: readonly ToolProvider[], lists: readonly Definitions[]): ToolSet {
  const last = lastSets.get(providers);
  if (last && hasExactly(last, providers, lists)) return new ToolSet(last);
  const tools = new ToolSet(offeredBy(providers, lists));
  lastSets.set(providers, tools);
  return new ToolSet(tools);
}

/** Whether a set is that of these lists, which name no tool twice. */
function hasExactly({ byName }: ToolSet, providers: readonly ToolProvider[], lists: readonly Definitions[]): boolean {
  const known = byName.values();
  for (const [index, definitions] of lists.entries()) {
    for (const definition of definitions) {
      const tool = known.next().value;
      if (tool?.definition !== definition || tool.provider !== providers[index]) return false;
    }
  }
  return known.next().done === true;
}

/**
 * Asks every provider for its tools, at the same time. Errors: `TOOL_FAILED` where a provider fails or gives no list of definitions, naming it, with its error as the cause.
 */
export function collectTools(
  providers: readonly ToolProvider[],
  context: ToolListContext,
): readonly OfferedTool[] | Promise<readonly OfferedTool[]> {
  const lists = listsOf(providers, context, new Set());
  return lists instanceof Promise ? lists.then((all) => offeredBy(providers, all)) : offeredBy(providers, lists);
}

function offeredBy(providers: readonly ToolProvider[], lists: readonly Definitions[]): readonly OfferedTool[] {
  return providers.flatMap((provider, index) => (lists[index] ?? []).map((definition) => ({ definition, provider })));
}

type Definitions = readonly ToolDefinition[];

/** What each provider lists. `waiting` has those that have not answered yet. */
function listsOf(
  providers: readonly ToolProvider[],
  context: ToolListContext,
  waiting: Set<ToolProvider>,
): readonly Definitions[] | Promise<readonly Definitions[]> {
  const lists: (Definitions | Promise<Definitions>)[] = [];
  const atOnce: Definitions[] = [];
  for (const provider of providers) {
    const list = listOf(provider, context);
    if (list instanceof Promise) {
      waiting.add(provider);
      lists.push(list.finally(() => waiting.delete(provider)));
    } else {
      atOnce.push(list);
      lists.push(list);
    }
  }
  return atOnce.length === lists.length ? atOnce : Promise.all(lists);
}

/** A provider's tools. A promise of them never rejects unheard: all of them are waited for together. */
function listOf(provider: ToolProvider, context: ToolListContext): Definitions | Promise<Definitions> {
  try {
    const answer = provider.getTools(context);
    if (!isPromiseLike(answer)) return checkedList(answer);
    return Promise.resolve(answer)
      .then(checkedList)
      .catch((error: unknown) => failList(provider, error));
  } catch (error) {
    return Promise.reject(error).catch((thrown: unknown) => failList(provider, thrown));
  }
}

function failList(provider: ToolProvider, error: unknown): never {
  if (AgentLoopError.isInstance(error)) throw error;
  const message = `The tool provider ${providerName(provider)} cannot list its tools: ${messageOf(error)}`;
  throw new AgentLoopError('TOOL_FAILED', message, { cause: error });
}

function checkedList(definitions: Definitions): Definitions {
  if (Array.isArray(definitions) && definitions.every((each) => typeof each?.function?.name === 'string'))
    return definitions;
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
