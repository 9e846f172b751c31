import { innermostQuestion, JsonCounter, maxJsonDepth } from '../core/contracts/index.ts';
import type { Question } from '../core/journal/index.ts';
import type { ShownQuestion } from './shown-steps.ts';
import type { Shown } from './stream-options.ts';

/** What stands for the name of a tool where tools are hidden. */
export const unnamed = 'tool';

/** What readers are shown of a question: of one that a child turn asks, that question. */
export function shownQuestion(question: Question, taskId: string, tools: Shown['tools']): ShownQuestion {
  const { kind, toolName, prompt, data } = innermostQuestion(question);
  const isHidden = tools === 'hidden';
  // What a tool asks is meant for whom it asks; a tool of the client needs its arguments, and whoever approves a call has to see what is approved. The rest are words and arguments about a call.
  const isOfTool = kind === 'input' || kind === 'auth';
  const isForReader = isOfTool || ((kind === 'client-tool' || kind === 'approval') && !isHidden);
  return {
    id: `${taskId}/${question.id}`,
    callId: `${taskId}/${question.callId}`,
    kind,
    ...(isHidden ? {} : { toolName }),
    ...(prompt !== undefined && (!isHidden || isOfTool) ? { prompt } : {}),
    ...(data !== undefined && (tools === 'full' || isForReader) ? { data } : {}),
  };
}

/** Whether a question is one of a call: `<callId>`, `<callId>.2`, … */
export function isOfCall(questionId: string, callId: string): boolean {
  return questionId === callId || questionId.startsWith(`${callId}.`);
}

/** Arguments as the model wrote them; those that are not JSON, or nest too deep, stay a string. */
export function parsedArguments(text: string): unknown {
  if (text === '') return {};
  try {
    return new JsonCounter(maxJsonDepth, Number.POSITIVE_INFINITY).add(new TextEncoder().encode(text))
      ? text
      : JSON.parse(text);
  } catch {
    return text;
  }
}
