import { exceptionOf } from '../../observability/spans/tracing-options.ts';
import {
  type ArgumentCheck,
  type ArgumentChecker,
  andThen,
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
} from './call-hooks.ts';
import type { AllowedCall, CheckedCall, ToolCallDeps } from './tool-results.ts';
import type { ToolSet } from './tool-set.ts';

/**
 * Checks a call: looks up its tool, parses and checks its arguments, calls the `beforeToolCall` hooks, and decides about an approval. An
 * asynchronous check, or one with hooks or approvals, runs once, and its outcome is kept for the next plan. Returns a promise only if one of these
 * steps does; plan again when it resolves.
 */
export function checkOnce(deps: ToolCallDeps, place: CallPlace): CheckedCall | Promise<unknown> {
  const { unstartedCalls } = deps;
  const { pending, state } = place;
  const { call } = pending;
  const known = unstartedCalls.of(call).checked;
  if (known) return known;
  const { hooks } = deps;
  const isAsked = hooks.lists.beforeToolCall.length > 0 && hooks.isWanted('beforeToolCall', state, call);
  const isDecided = isAsked || mayAsk(deps);
  const checked = isDecided ? decidedCall(deps, place, isAsked) : checkedArguments(deps, place);
  if (checked instanceof Promise) {
    const done = checked.then((answer) => unstartedCalls.update(call, { checked: answer }));
    unstartedCalls.update(call, { checked: done });
    return done;
  }
  if (isDecided) unstartedCalls.update(call, { checked });
  return checked;
}

function decidedCall(deps: ToolCallDeps, place: CallPlace, isAsked: boolean): CheckedCall | Promise<CheckedCall> {
  const checked = checkedArguments(deps, place);
  const asked = isAsked ? andThen(checked, (each) => askExtensions(deps, place, each)) : checked;
  return mayAsk(deps) ? andThen(asked, (answer) => withDecision(deps, place, answer)) : asked;
}

/** Calls the hooks. If one fails, the call is refused, and the turn fails once the batch has stopped. */
function askExtensions(deps: ToolCallDeps, place: CallPlace, checked: CheckedCall): CheckedCall | Promise<CheckedCall> {
  if (checked.verdict !== 'run') return checked;
  const refuse = (error: unknown): CheckedCall => {
    const fails = failTurn(deps.hooks, error);
    return { verdict: 'refused', error: fails, arguments: checked.arguments, fails };
  };
  const recheck = ({ answer, deadline }: ChangedToolCall) =>
    andThen(
      'changed' in answer ? checkedValue(deps, place, { ...checked, arguments: answer.changed }) : answer,
      (each) => (each.verdict === 'run' ? { ...each, deadline } : each),
    );
  try {
    const answer = changeToolCall(deps, place, checked);
    return answer instanceof Promise ? answer.then(recheck).catch(refuse) : recheck(answer);
  } catch (error) {
    return refuse(error);
  }
}

/** Decides about an approval, unless it was recorded for these arguments, or the call started before. */
function withDecision(deps: ToolCallDeps, place: CallPlace, checked: CheckedCall): CheckedCall | Promise<CheckedCall> {
  const { pending } = place;
  if (checked.verdict !== 'run' || pending.attempts > 0 || approvalOf(pending, checked.arguments)) return checked;
  // The turn was left while a hook was pending: the call does not start, so nothing decides about it.
  if (deps.inbox.scope.aborted || deps.inbox.drain.aborted)
    return { verdict: 'refused', error: toolError('never_started'), arguments: checked.arguments };
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

/** The error of a call that was not approved. */
export function rejected(reason: string | undefined): ToolError {
  return toolError('rejected', reason === undefined || reason === '' ? {} : { says: reason });
}

function checkedArguments(deps: ToolCallDeps, place: CallPlace): CheckedCall | Promise<CheckedCall> {
  const { tools } = deps.segment;
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
    return checkThrew(deps, allowed, error);
  }
}

function checkedLater(deps: ToolCallDeps, allowed: AllowedCall, checked: Promise<ArgumentCheck>): Promise<CheckedCall> {
  return checked.then(
    (check) => checkedBy(check, allowed),
    (error: unknown) => checkThrew(deps, allowed, error),
  );
}

function checkedBy(check: ArgumentCheck, { tool, arguments: value }: AllowedCall): CheckedCall {
  return check.ok ? { verdict: 'run', tool, arguments: check.value } : invalid(check.message, value);
}

function invalid(message: string, value: unknown): CheckedCall {
  const error: ToolError = { code: 'TOOL_ARGUMENTS', reason: 'invalid_arguments', message };
  return { verdict: 'refused', error, arguments: value };
}

/** The outcome if the check throws. */
function checkThrew(deps: ToolCallDeps, { tool, arguments: value }: AllowedCall, thrown: unknown): CheckedCall {
  const error = exceptionOf(thrown, deps.segment.tracing.redact);
  const { taskId } = deps.segment.turn;
  deps.segment.config.logger.warn('tool arguments cannot be checked', {
    taskId,
    tool: tool.definition.function.name,
    error,
  });
  return invalid(messageOf(thrown), value);
}

/**
 * The check by the schema that a tool declares. A call that started before with the same arguments is not checked again: it may have taken
 * effect.
 */
function schemaCheck(
  { segment: { config, tools } }: ToolCallDeps,
  { attempts, intent }: PendingToolCall,
  { tool, arguments: value }: AllowedCall,
): ArgumentChecker | undefined {
  const check = config.argumentChecks && tools.schemaCheckOf(tool, config.argumentChecks);
  if (!check) return undefined;
  const letThrough = attempts > 0 && (!intent || stableJson(intent.arguments) === stableJson(value));
  return letThrough ? undefined : check;
}

/**
 * Loads what the argument checks of calls need, so that the calls of one response start together. Undefined if all is loaded. Never
 * rejects: the check itself reports what is missing.
 */
export function loadChecks(
  { segment: { config, tools } }: ToolCallDeps,
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

/** Whether the last model call offered the tool; the model does not know other tools. */
function isOffered(tools: ToolSet, name: string, { availableTools }: LoopState): boolean {
  if (availableTools === tools.functions || availableTools === neverOffered) return true;
  return availableTools.some((tool) => tool.name === name);
}

function unknownTool(tools: ToolSet, { availableTools }: LoopState, name: string): ToolError {
  const offered = availableTools === neverOffered ? tools.functions : availableTools;
  return toolError('unknown_tool', { name, known: offered.map((tool) => tool.name) });
}

/** The details exclude the reason: its wording depends on the version of Node. */
function notJson(name: string, why: string): ToolError {
  const message = `the arguments of "${name}" are not JSON (${why}); send one JSON object`;
  return { code: 'TOOL_ARGUMENTS', reason: 'not_json', details: { name }, message };
}

interface Parsed {
  readonly value: unknown;
  /** Why the string is not JSON. Absent if it is. */
  readonly why?: string;
}

/** Parses an empty string as `{}`: many models send one for a tool without parameters. */
function parseArguments(text: string): Parsed {
  if (text === '' || text.trim() === '') return { value: {} };
  try {
    return { value: parsedJson(text) };
  } catch (error) {
    return { value: { _raw: text }, why: messageOf(error) };
  }
}
