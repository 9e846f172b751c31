import type { ArgumentCheck, ToolDefinition, ToolListContext, ToolProvider } from '../tools/interfaces.ts';
import { AgentLoopError, messageOf } from './errors.ts';
import type { ToolCall } from './messages.ts';

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

/** A call that may run, or why it may not, in words for the model. */
export type CheckedCall =
  | {
      readonly ok: true;
      readonly tool: OfferedTool;
      readonly arguments: unknown;
      /** Whether it has to be approved. */
      readonly needsApproval: boolean;
    }
  | {
      readonly ok: false;
      readonly code: 'TOOL_NOT_FOUND' | 'TOOL_ARGUMENTS' | 'TOOL_FAILED';
      readonly message: string;
      readonly arguments: unknown;
    };

/** What a check may look at besides the call. */
export interface CheckDeps {
  readonly tools: ToolSet;
  readonly turn: Omit<ToolListContext, 'authContext'>;
  readonly authContext: ToolListContext['authContext'];
}

/**
 * Looks a call's tool up, parses its arguments, checks them and whether it has to be approved. A promise only where one of the tool's
 * own checks is one.
 */
export function checkCall(deps: CheckDeps, call: ToolCall): CheckedCall | Promise<CheckedCall> {
  const checked = checkedArguments(deps.tools, call);
  if (checked instanceof Promise) return checked.then((answer) => withApproval(deps, answer));
  return withApproval(deps, checked);
}

function withApproval(deps: CheckDeps, checked: CheckedCall): CheckedCall | Promise<CheckedCall> {
  const needsApproval = checked.ok && checked.tool.definition.needsApproval;
  if (!checked.ok || !needsApproval) return checked;
  if (needsApproval === true) return { ...checked, needsApproval: true };
  const answer = (needed: boolean): CheckedCall => ({ ...checked, needsApproval: needed });
  const refuse = (error: unknown): CheckedCall => {
    const message = `whether the call needs approval could not be found out: ${messageOf(error)}`;
    return { ok: false, code: 'TOOL_FAILED', message, arguments: checked.arguments };
  };
  try {
    const { taskId, agentId, contextId, metadata } = deps.turn;
    const context = { taskId, agentId, contextId, metadata, authContext: deps.authContext };
    const needed = needsApproval(checked.arguments, context);
    return needed instanceof Promise ? needed.then(answer, refuse) : answer(needed);
  } catch (error) {
    return refuse(error);
  }
}

function checkedArguments(tools: ToolSet, call: ToolCall): CheckedCall | Promise<CheckedCall> {
  const { name } = call.function;
  const parsed = parseArguments(call.function.arguments);
  const tool = tools.byName.get(name);
  if (!tool) return { ok: false, code: 'TOOL_NOT_FOUND', message: unknownTool(tools, name), arguments: parsed.value };
  if (!parsed.ok && !tool.definition.acceptsRaw) {
    const message = `the arguments of "${name}" are not JSON (${parsed.why}); send one JSON object`;
    return { ok: false, code: 'TOOL_ARGUMENTS', message, arguments: parsed.value };
  }
  const { checkArguments } = tool.definition;
  if (!parsed.ok || !checkArguments) return { ok: true, tool, arguments: parsed.value, needsApproval: false };
  return checked(tool, parsed.value, checkArguments);
}

function checked(
  tool: OfferedTool,
  value: unknown,
  checkArguments: NonNullable<ToolDefinition['checkArguments']>,
): CheckedCall | Promise<CheckedCall> {
  const refuse = (message: string): CheckedCall => ({ ok: false, code: 'TOOL_ARGUMENTS', message, arguments: value });
  const answer = (check: ArgumentCheck): CheckedCall =>
    check.ok ? { ok: true, tool, arguments: check.value, needsApproval: false } : refuse(check.message);
  try {
    const check = checkArguments(value);
    if (!(check instanceof Promise)) return answer(check);
    return check.then(answer, (error: unknown) => refuse(messageOf(error)));
  } catch (error) {
    return refuse(messageOf(error));
  }
}

function unknownTool(tools: ToolSet, name: string): string {
  const known = [...tools.byName.keys()];
  const list = known.length > 0 ? `known tools: ${known.join(', ')}` : 'there are no tools';
  return name === '' ? `the call names no tool; ${list}` : `tool "${name}" is not known; ${list}`;
}

type Parsed =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly value: unknown; readonly why: string };

/** No arguments at all count as none: many models send an empty text for a tool without parameters. */
function parseArguments(text: string): Parsed {
  if (text === '' || text.trim() === '') return { ok: true, value: {} };
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch (error) {
    return { ok: false, value: { _raw: text }, why: messageOf(error) };
  }
}
