import type { ArgumentCheck, ToolDefinition } from '../tools/interfaces.ts';
import { messageOf } from './errors.ts';
import type { ToolCall } from './messages.ts';
import type { PendingToolCall } from './state.ts';
import { approvalOf, type Decision, type DecisionDeps, decide } from './tool-approval.ts';
import type { OfferedTool, ToolSet } from './tool-set.ts';

/** A call that may run, or why it may not, in words for the model. */
export type CheckedCall =
  | {
      readonly ok: true;
      readonly tool: OfferedTool;
      readonly arguments: unknown;
      /** Somebody has to approve it first. */
      readonly ask?: { readonly prompt: string | undefined };
    }
  | {
      readonly ok: false;
      readonly code: 'TOOL_NOT_FOUND' | 'TOOL_ARGUMENTS' | 'TOOL_REJECTED';
      readonly message: string;
      readonly arguments: unknown;
    };

interface CheckDeps extends DecisionDeps {
  readonly tools: ToolSet;
  /** Is told of a call whose approval takes a while. */
  readonly deciding: WeakSet<ToolCall>;
}

/**
 * Looks a call's tool up, parses its arguments, checks them, and whether it may run. A promise only where one of the checks is one.
 */
export function checkCall(deps: CheckDeps, pending: PendingToolCall): CheckedCall | Promise<CheckedCall> {
  const checked = checkedArguments(deps.tools, pending.call);
  const decided = (answer: CheckedCall) => withDecision(deps, pending, answer);
  return checked instanceof Promise ? checked.then(decided) : decided(checked);
}

/** Once somebody was asked about these very arguments, it is theirs to decide; a call that was started before was let through then. */
function withDecision(
  deps: CheckDeps,
  pending: PendingToolCall,
  checked: CheckedCall,
): CheckedCall | Promise<CheckedCall> {
  if (!checked.ok || pending.attempts > 0 || approvalOf(pending, checked.arguments)) return checked;
  const decision = decide(deps, { pending, tool: checked.tool, arguments: checked.arguments });
  const answer = (decided: Decision): CheckedCall => {
    if (decided.decision === 'approve') return checked;
    if (decided.decision === 'ask') return { ...checked, ask: { prompt: decided.prompt } };
    return { ok: false, code: 'TOOL_REJECTED', message: rejected(decided.reason), arguments: checked.arguments };
  };
  if (!(decision instanceof Promise)) return answer(decision);
  deps.deciding.add(pending.call);
  return decision.then(answer);
}

/** What the model reads of a call that was not approved. */
export function rejected(reason: string | undefined): string {
  return `the call was rejected${reason === undefined || reason === '' ? '' : `: ${reason}`}`;
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
  if (!parsed.ok || !checkArguments) return { ok: true, tool, arguments: parsed.value };
  return checked(tool, parsed.value, checkArguments);
}

function checked(
  tool: OfferedTool,
  value: unknown,
  checkArguments: NonNullable<ToolDefinition['checkArguments']>,
): CheckedCall | Promise<CheckedCall> {
  const refuse = (message: string): CheckedCall => ({ ok: false, code: 'TOOL_ARGUMENTS', message, arguments: value });
  const answer = (check: ArgumentCheck): CheckedCall =>
    check.ok ? { ok: true, tool, arguments: check.value } : refuse(check.message);
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
