import {
  AgentLoopError,
  type ArgumentChecker,
  type ArgumentChecks,
  isPromiseLike,
  reasonOf,
  type ToolDefinition,
  type ToolListContext,
  type ToolProvider,
} from '../contracts/index.ts';
import type { Changes } from '../journal/index.ts';

export interface OfferedTool {
  readonly definition: ToolDefinition;
  readonly provider: ToolProvider;
}

/** The tools offered to the model, and nothing of their definitions but what it receives. */
export interface Offer {
  /** The same as `functions`, wrapped as definitions. */
  readonly offered: readonly ToolDefinition[];
  readonly functions: readonly ToolDefinition['function'][];
}

/** The argument checks of tools, compiled from their schemas. */
interface SchemaChecks {
  readonly made: Map<OfferedTool, ArgumentChecker>;
  /** Tools whose checks have loaded what they need. */
  readonly loaded: Set<OfferedTool>;
}

/** The tools of a turn. Its `offered` and `functions` are the offer that no extension has changed. */
export class ToolSet implements Offer {
  readonly offered: readonly ToolDefinition[];
  readonly functions: readonly ToolDefinition['function'][];
  /** Every tool, offered or not. */
  byName: ReadonlyMap<string, OfferedTool>;
  /** Whether any tool has `needsApproval`. */
  anyNeedsApproval: boolean;
  /** Shared with copies of this set. */
  readonly #checks: SchemaChecks;
  #offers: WeakMap<object, Offer> | undefined;

  /** Creates a set of tools, or a copy of a set. Errors: `DUPLICATE_TOOL`, naming both providers. */
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

  /** Adds tools, which are not offered unless an extension adds them. Errors: `DUPLICATE_TOOL`, naming both providers. */
  add(tools: readonly OfferedTool[]): void {
    const byName = new Map(this.byName);
    for (const tool of tools) {
      addTool(byName, tool);
      if (tool.definition.needsApproval) this.anyNeedsApproval = true;
    }
    this.byName = byName;
  }

  /** The offer after the changes of extensions. Created once for each `changes` object. */
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

  /** The argument check by the schema of a tool, compiled once; `undefined` if it declares none. */
  schemaCheckOf(tool: OfferedTool, argumentChecks: ArgumentChecks): ArgumentChecker | undefined {
    const known = this.#checks.made.get(tool);
    if (known) return known;
    const { name, parameters } = tool.definition.function;
    if (typeof parameters !== 'object' || parameters === null) return undefined;
    const check = argumentChecks(parameters, `tool "${name}" of ${providerName(tool.provider)}`);
    this.#checks.made.set(tool, check);
    return check;
  }

  /** Loads what the check of a tool's schema needs; `undefined` if all is loaded. */
  loadSchemaCheck(tool: OfferedTool, argumentChecks: ArgumentChecks): Promise<void> | undefined {
    if (this.#checks.loaded.has(tool)) return undefined;
    const { parameters } = tool.definition.function;
    const isSchema = typeof parameters === 'object' && parameters !== null;
    const loading = isSchema && !tool.definition.checkArguments ? argumentChecks.load?.(parameters) : undefined;
    if (loading) return loading;
    this.#checks.loaded.add(tool);
    return undefined;
  }

  /** The offer of the named tools, in the order of the names. Unknown names are ignored. */
  only(names: readonly string[]): Offer {
    return offerOf(names.flatMap((name) => this.byName.get(name)?.definition ?? []));
  }
}

function offerOf(definitions: readonly ToolDefinition[]): Offer {
  const functions = definitions.map((definition) => definition.function);
  return { functions, offered: functions.map((each) => ({ type: 'function' as const, function: each })) };
}

export const noTools: ToolSet = new ToolSet([]);

/** The last set for each array of providers: most providers list the same definitions for every turn. */
const lastSets = new WeakMap<readonly ToolProvider[], ToolSet>();

/** Lists the tools of a turn: a copy of the previous set if the definitions are the same objects. Errors as `collectTools`. */
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

/** Whether a set has exactly the tools of these lists, in their order. */
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
 * Lists the tools of all providers, concurrently, in the order of the providers. Errors: `TOOL_FAILED`, naming the provider, if one fails or
 * returns no array of definitions; its error is the cause.
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

/** The definitions of each provider. `waiting` contains the providers that have not answered yet. */
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

/** The definitions of one provider, or a promise of them. Failures are rejections, also of a provider that throws. */
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
  const message = `The tool provider ${providerName(provider)} cannot list its tools: ${reasonOf(error)}`;
  throw new AgentLoopError('TOOL_FAILED', message, { cause: error });
}

function checkedList(definitions: Definitions): Definitions {
  if (Array.isArray(definitions) && definitions.every((each) => typeof each?.function?.name === 'string'))
    return definitions;
  throw new TypeError('getTools must return an array of definitions: [{ type: "function", function: { name, … } }]');
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

/** The name of a provider in errors. */
export function providerName(provider: ToolProvider): string {
  return provider.name ?? provider.constructor.name;
}
