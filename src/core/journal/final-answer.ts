import type { ErrorCode } from '../contracts/errors.ts';
import { type AssistantMessage, type Message, textOf } from '../contracts/messages.ts';
import type { Finish } from './extension-record.ts';
import type { Stamped, TurnDone } from './records.ts';
import { type ReplacedText, withoutReplaced } from './replaced-text.ts';
import type { Draft } from './state.ts';

/** Shows the last response with what replaced its text. */
export function showReplaced(draft: Draft, replaced: readonly ReplacedText[]): void {
  const { lastResponse } = draft;
  if (lastResponse) draft.lastResponse = { ...lastResponse, message: withoutReplaced(lastResponse.message, replaced) };
}

/** What `afterTurn` replaces is in no message that the turn leaves to others. */
export function replaceAnswer(draft: Draft, { text: to }: Finish): void {
  const from = draft.changes.finish?.text ?? textOf(draft.lastResponse?.message.content);
  if (to === undefined || to === from || from === '') return;
  const replaced = [...(draft.changes.replaced ?? []), { from, to }];
  draft.changes = { ...draft.changes, replaced };
  const replacements = new Map<number, Message>();
  for (let index = draft.turn.given; index < draft.history.length; index++) {
    const message = draft.history.at(index);
    const shown = message && withoutReplaced(message, replaced);
    if (shown && shown !== message) replacements.set(index, shown);
  }
  if (replacements.size > 0) draft.history = draft.history.with(replacements);
}

/** The final text is the last message of the assistant: the response itself, or a message of its own if another text ends the turn. */
export function addAnswer(draft: Draft, { text, at }: Stamped<TurnDone>): void {
  if (text === '') return;
  const { history, turn, lastResponse, changes } = draft;
  const said = lastAnswer(draft);
  if (said !== undefined && textOf(said.content) === text) return;
  const answer = { role: 'assistant' as const, content: text };
  const end = history.length - (changes.late ?? 0);
  const last = end > turn.given ? history.at(end - 1) : undefined;
  const isAnswer = last?.role === 'assistant' && !last.toolCalls?.length && !draft.summary;
  draft.history = isAnswer ? history.with(new Map([[end - 1, answer]])) : history.insert(end, answer, at);
  if (isAnswer && lastResponse?.message === last) draft.lastResponse = { ...lastResponse, message: answer };
}

/** The last message of the assistant in this turn. */
function lastAnswer({ history, turn }: Draft): AssistantMessage | undefined {
  for (let index = history.length - 1; index >= turn.given; index--) {
    const message = history.at(index);
    if (message?.role === 'assistant') return message;
  }
  return undefined;
}

/** The failures of a turn whose answer an extension refused, or could not check. */
export const refusals: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['GUARDRAIL', 'REJECTED', 'EXTENSION_FAILED']);

/** A refused answer is in no message that the turn leaves to others: the next turn would send it to the model. In other phases none was given. */
export function withholdAnswer(draft: Draft): void {
  if (draft.phase !== 'answered' && draft.phase !== 'closed') return;
  replaceAnswer(draft, { text: 'This answer was withheld.' });
  if (draft.changes.replaced) showReplaced(draft, draft.changes.replaced);
}
