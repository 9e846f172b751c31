import type { ErrorCode } from '../contracts/errors.ts';
import { type AssistantMessage, type Message, type ToolCall, textOf } from '../contracts/messages.ts';
import { isObject, parsedJson } from '../contracts/values.ts';
import type { Finish } from './extension-record.ts';
import type { Stamped, TurnDone } from './records.ts';
import { isSameJson, type ReplacedPart, withoutReplaced } from './replaced-text.ts';
import type { Draft } from './state.ts';

/** Shows the last response with what stands for it at the end of the turn. */
export function showReplaced(draft: Draft): void {
  const { lastResponse, changes } = draft;
  if (!lastResponse || !changes.replaced) return;
  draft.lastResponse = { ...lastResponse, message: withoutReplaced(lastResponse.message, changes.replaced) };
}

/** Stands for an answer that an extension refused. */
export const withheldAnswer = 'This answer was withheld.';

/** The text of the answer so far, whether a response or an extension gave it. */
export function answerText({ changes, lastResponse }: Pick<Draft, 'changes' | 'lastResponse'>): string {
  return changes.finish?.text ?? textOf(lastResponse?.message.content);
}

/** What `afterTurn` replaces is in no message that the turn leaves to others. */
export function replaceAnswer(draft: Draft, finish: Pick<Finish, 'text' | 'value'>): void {
  replaceParts(draft, replacedParts(draft, finish));
}

/** An answer that an extension refused, so that the model gives another: what it leaves to others is withheld once the turn ends. */
export function refuseAnswer(draft: Draft): void {
  const parts = replacedParts(draft, { text: withheldAnswer, value: withheldAnswer });
  draft.changes = { ...draft.changes, withheld: [...(draft.changes.withheld ?? []), ...parts] };
}

/** At the end of the turn. An answer that was refused and then accepted is the answer. */
export function withholdRefused(draft: Draft, { text }: { readonly text?: string } = {}): void {
  const { withheld } = draft.changes;
  if (withheld)
    replaceParts(
      draft,
      withheld.filter(({ from }) => from !== text),
    );
}

/** The parts of the answer that differ from what stands for them: its text, its value, and the arguments of the call that gave the value. */
function replacedParts(draft: Draft, { text, value }: Pick<Finish, 'text' | 'value'>): readonly ReplacedPart[] {
  const { finish, finishedBy } = draft.changes;
  const said = answerText(draft);
  const parts: ReplacedPart[] = text === undefined || text === said || said === '' ? [] : [{ from: said, to: text }];
  if (value === undefined || finish?.value === undefined || isSameJson(value, finish.value)) return parts;
  const by = draft.closedCalls.find(({ callId }) => callId === finishedBy);
  const given = by ? [by.intent?.arguments, givenArguments(by.call)] : [];
  for (const from of [finish.value, ...given]) {
    if (from !== undefined) parts.push({ from, to: isObject(from) && !isObject(value) ? { value } : value });
  }
  return parts;
}

function givenArguments({ function: { arguments: text } }: ToolCall): unknown {
  try {
    return parsedJson(text);
  } catch {
    return undefined;
  }
}

function replaceParts(draft: Draft, parts: readonly ReplacedPart[]): void {
  if (parts.length === 0) return;
  const replaced = [...(draft.changes.replaced ?? []), ...parts];
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
  const unread = changes.steered ?? [];
  let end = history.length;
  while (end > turn.given && unread.some((message) => message === history.at(end - 1))) end--;
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
const refusals: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['GUARDRAIL', 'REJECTED', 'EXTENSION_FAILED']);

/** Whether the last answer is refused by a failure with this code. In other phases none was given. */
export function isRefusal(code: ErrorCode, { phase }: Pick<Draft, 'phase'>): boolean {
  return refusals.has(code) && (phase === 'answered' || phase === 'closed');
}

/** A refused answer is in no message that the turn leaves to others: the next turn would send it to the model. */
export function withholdAnswer(draft: Draft): void {
  replaceAnswer(draft, { text: withheldAnswer, value: withheldAnswer });
}
