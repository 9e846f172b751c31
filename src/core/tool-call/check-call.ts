import { exceptionOf } from '../../observability/spans/tracing-options.ts';
import {
  type ArgumentCheck,
  type ArgumentChecker,
  messageOf,
  parsedJson,
  stableJson,
  type ToolError,
  toolError,
} from '../contracts/index.ts';
import { failTurn } from '../hooks/ask-hooks.ts';
import { type LoopState, neverOffered, type PendingToolCall } from '../journal/index.ts';
import {
  approvalOf,
  type CallPlace,
  type ChangedToolCall,
  changeToolCall,
  type Decision,
  decide,
  mayAsk,
} from './ask-call.ts';
import type { AllowedCall, CheckedCall, ToolCallDeps } from './tool-results.ts';
import type { ToolSet } from './tool-set.ts';

/**
 * Looks a call's tool up, parses its arguments, checks them, asks the extensions, and whether it may run. A check that is asynchronous, or that
 * somebody decides, is made once: its answer is kept for the next plan. A promise only where one of them gives one.
 */
export function checkOnce(deps: ToolCallDeps, place: CallPlace): CheckedCall | Promise<unknown> {
  const { unstartedCalls } = deps;
  const { call } = place.pending;
  const known = unstartedCalls.of(call).checked;
  if (known) return known;
  const isDecided = deps.hooks.lists.beforeToolCall.length > 0 || mayAsk(deps);
  const checked = isDecided ? decidedCall(deps, place) : checkedArguments(deps, place);
  if (checked instanceof Promise) {
    const done = checked.then((answer) => unstartedCalls.update(call, { checked: answer }));
    unstartedCalls.update(call, { checked: done });
    return done;
  }
  if (isDecided) unstartedCalls.update(call, { checked });
  return checked;
}

function decidedCall(deps: ToolCallDeps, place: CallPlace): CheckedCall | Promise<CheckedCall> {
  const checked = checkedArguments(deps, place);
  const asked =
    deps.hooks.lists.beforeToolCall.length === 0 ? checked : then(checked, (each) => askExtensions(deps, place, each));
  return mayAsk(deps) ? then(asked, (answer) => withDecision(deps, place, answer)) : asked;
}

function then<A, B>(given: A | Promise<A>, next: (value: A) => B | Promise<B>): B | Promise<B> {
  return given instanceof Promise ? given.then(next) : next(given);
}

/** By a failure of an extension the turn fails, once the batch has stopped. */
function askExtensions(deps: ToolCallDeps, place: CallPlace, checked: CheckedCall): CheckedCall | Promise<CheckedCall> {
  if (checked.verdict !== 'run') return checked;
  const refuse = (error: unknown): CheckedCall => {
    const fails = failTurn(deps.hooks, error);
    return { verdict: 'refused', error: fails, arguments: checked.arguments, fails };
  };
  const recheck = ({ answer, deadline }: ChangedToolCall) =>
    then('changed' in answer ? checkedValue(deps, place, { ...checked, arguments: answer.changed }) : answer, (each) =>
      each.verdict === 'run' ? { ...each, deadline } : each,
    );
  try {
    const answer = changeToolCall(deps, place, checked);
    return answer instanceof Promise ? noted(deps, place, answer).then(recheck).catch(refuse) : recheck(answer);
  } catch (error) {
    return refuse(error);
  }
}

/** Notes for as long as a promise is open that extensions are asked about a call. */
function noted<T>({ unstartedCalls }: ToolCallDeps, { pending }: CallPlace, answer: Promise<T>): Promise<T> {
  unstartedCalls.update(pending.call, { isAsked: true });
  return answer.finally(() => unstartedCalls.update(pending.call, { isAsked: false }));
}

/** Once somebody was asked about these very arguments, it is theirs to decide; a call that was started before was let through then. */
function withDecision(deps: ToolCallDeps, place: CallPlace, checked: CheckedCall): CheckedCall | Promise<CheckedCall> {
  const { pending } = place;
  if (checked.verdict !== 'run' || pending.attempts > 0 || approvalOf(pending, checked.arguments)) return checked;
  const decision = decide(deps, place, { pending, tool: checked.tool, arguments: checked.arguments });
  const answer = (decided: Decision): CheckedCall => {
    if (decided.decision === 'approve') return checked;
    if (decided.decision === 'ask') return { ...checked, ask: { prompt: decided.prompt } };
    return { verdict: 'refused', error: rejected(decided.reason), arguments: checked.arguments };
  };
  if (!(decision instanceof Promise)) return answer(decision);
  deps.unstartedCalls.update(pending.call, { isDeciding: true });
  return decision.then(answer);
}

/** Why a call does not run that was not approved. */
export function rejected(reason: string | undefined): ToolError {
  return toolError('rejected', reason === undefined || reason === '' ? {} : { says: reason });
}

function checkedArguments(deps: ToolCallDeps, place: CallPlace): CheckedCall | Promise<CheckedCall> {
  const { tools } = deps;
  const { pending, state } = place;
  const { name, arguments: text } = pending.call.function;
  const parsed = parseArguments(text);
  const tool = isOffered(tools, name, state) ? tools.byName.get(name) : undefined;
  if (!tool) {
    return { verdict: 'refused', error: unknownTool(tools, state, name), arguments: parsed.value };
  }
  if (parsed.why !== undefined && !tool.definition.acceptsRaw) {
    return { verdict: 'refused', error: notJson(name, parsed.why), arguments: parsed.value };
  }
  const allowed = { verdict: 'run' as const, tool, arguments: parsed.value };
  return parsed.why === undefined ? checkedValue(deps, place, allowed) : allowed;
}

function checkedValue(
  deps: ToolCallDeps,
  { pending }: CallPlace,
  allowed: AllowedCall,
): CheckedCall | Promise<CheckedCall> {
  const check = allowed.tool.definition.checkArguments ?? schemaCheck(deps, pending, allowed);
  if (!check) return allowed;
  try {
    const checked = check(allowed.arguments);
    return checked instanceof Promise ? checkedLater(deps, allowed, checked) : checkedBy(checked, allowed);
  } catch (error) {
    return uncheckable(deps, allowed, error);
  }
}

function checkedLater(deps: ToolCallDeps, allowed: AllowedCall, checked: Promise<ArgumentCheck>): Promise<CheckedCall> {
  return checked.then(
    (check) => checkedBy(check, allowed),
    (error: unknown) => uncheckable(deps, allowed, error),
  );
}

function checkedBy(check: ArgumentCheck, { tool, arguments: value }: AllowedCall): CheckedCall {
  return check.ok ? { verdict: 'run', tool, arguments: check.value } : invalid(check.message, value);
}

function invalid(message: string, value: unknown): CheckedCall {
  const error: ToolError = { code: 'TOOL_ARGUMENTS', reason: 'invalid_arguments', message };
  return { verdict: 'refused', error, arguments: value };
}

/** The check threw. */
function uncheckable(deps: ToolCallDeps, { tool, arguments: value }: AllowedCall, thrown: unknown): CheckedCall {
  const error = exceptionOf(thrown, deps.tracing.redact);
  const { taskId } = deps.turn;
  deps.config.logger.warn('tool arguments cannot be checked', { taskId, tool: tool.definition.function.name, error });
  return invalid(messageOf(thrown), value);
}

/**
 * By the schema that a tool declares. A call that was started before was let through then: it may have taken effect, so it is not refused
 * for the same arguments.
 */
function schemaCheck(
  { config, tools }: ToolCallDeps,
  { attempts, intent }: PendingToolCall,
  { tool, arguments: value }: AllowedCall,
): ArgumentChecker | undefined {
  const check = config.argumentChecks && tools.schemaCheckOf(tool, config.argumentChecks);
  if (!check) return undefined;
  const letThrough = attempts > 0 && (!intent || stableJson(intent.arguments) === stableJson(value));
  return letThrough ? undefined : check;
}

/**
 * Loads what the checks of calls need, so that calls of one response are checked, asked about and started together. Nothing where all is
 * there. Never rejects: what is missing is said by the check that needs it.
 */
export function loadChecks(
  { config, tools }: ToolCallDeps,
  calls: readonly (Pick<PendingToolCall, 'call'> & { readonly result?: unknown })[],
): Promise<unknown> | undefined {
  const { argumentChecks } = config;
  if (!argumentChecks?.load) return undefined;
  const loading: Promise<void>[] = [];
  for (const { call, result } of calls) {
    const tool = result ? undefined : tools.byName.get(call.function.name);
    const load = tool && tools.loadSchemaCheck(tool, argumentChecks);
    if (load) loading.push(load);
  }
  return loading.length > 0 ? Promise.all(loading) : undefined;
}

/** A tool that was not offered with the last call of the model is not known to it. */
function isOffered(tools: ToolSet, name: string, { availableTools }: LoopState): boolean {
  if (availableTools === tools.functions || availableTools === neverOffered) return true;
  return availableTools.some((tool) => tool.name === name);
}

function unknownTool(tools: ToolSet, { availableTools }: LoopState, name: string): ToolError {
  const offered = availableTools === neverOffered ? tools.functions : availableTools;
  return toolError('unknown_tool', { name, known: offered.map((tool) => tool.name) });
}

/** Each version of Node says in its own words what is wrong with a JSON text, so that is no part of the details. */
function notJson(name: string, why: string): ToolError {
  const message = `the arguments of "${name}" are not JSON (${why}); send one JSON object`;
  return { code: 'TOOL_ARGUMENTS', reason: 'not_json', details: { name }, message };
}

interface Parsed {
  readonly value: unknown;
  /** Why they are not JSON, where they are not. */
  readonly why?: string;
}

/** No arguments at all count as none: many models send an empty text for a tool without parameters. */
function parseArguments(text: string): Parsed {
  if (text === '' || text.trim() === '') return { value: {} };
  try {
    return { value: parsedJson(text) };
  } catch (error) {
    return { value: { _raw: text }, why: messageOf(error) };
  }
}
