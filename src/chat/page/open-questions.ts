import type { ShownQuestion } from '../../ui/shown-steps.ts';
import type { Part } from './api.ts';

/** The questions in the parts of a message: approvals are on their call, others are parts of their own. */
export function questionsIn(parts: readonly Part[]): readonly ShownQuestion[] {
  const found = new Map<string, ShownQuestion>();
  for (const part of parts) {
    const question = part['type'] === 'data-question' ? Object(part['data']) : approvalOf(part);
    if (typeof question?.id === 'string') found.set(question.id, question);
  }
  return [...found.values()];
}

function approvalOf({ state, approval, toolCallId: callId, toolName }: Part): ShownQuestion | undefined {
  if (state !== 'approval-requested') return undefined;
  const { id, descriptor } = Object(approval);
  // A call of a sub-agent is asked for on the call that the sub-agent works for.
  const { prompt, input: data, toolName: asking = toolName } = Object(descriptor);
  return { id, callId: String(callId), kind: 'approval', toolName: String(asking), prompt, data };
}

/** The body of a post that answers questions, in the forms that `uiMessageHandler` reads. */
export function answersOf(chat: string, messageId: string, answers: ReadonlyMap<string, unknown>): object {
  const last = { id: messageId, role: 'assistant', parts: [] };
  return { id: chat, messages: [last], trigger: 'submit-message', answers: Object.fromEntries(answers) };
}
