import type { Approval, TurnAsked } from './records.ts';
import type { LoopState, PendingToolCall } from './state.ts';
import type { TurnDeps } from './turn-deps.ts';

/** Whether a call was approved, once that was asked and answered. */
export function approvalOf({ answers }: PendingToolCall): Approval | undefined {
  const given = answers.find(({ question }) => question.kind === 'approval');
  return given?.answer as Approval | undefined;
}

/** The calls of a batch that may have to be approved and were not asked about yet, in call order. */
export function callsToApprove(
  deps: TurnDeps,
  state: LoopState,
  busy: ReadonlySet<string>,
): readonly PendingToolCall[] {
  if (!deps.tools.anyNeedsApproval) return [];
  return state.pendingToolCalls.filter((pending) => {
    const { callId, call, intent, question, result } = pending;
    if (question || result || intent || busy.has(callId) || approvalOf(pending)) return false;
    return Boolean(deps.tools.byName.get(call.function.name)?.definition.needsApproval);
  });
}

/** The question whether a call may run. */
export function askApproval({ callId, call }: PendingToolCall, args: unknown): TurnAsked {
  const toolName = call.function.name;
  const prompt = `May the tool "${toolName}" run with these arguments?`;
  return { type: 'turn.asked', question: { callId, kind: 'approval', toolName, prompt, data: args } };
}
