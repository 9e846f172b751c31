import { isDeepStrictEqual } from 'node:util';
import type { Part, Message as WireMessage } from '@a2a-js/sdk';
import type { A2AError } from '@a2a-js/sdk/errors';
import type { Extension, Message } from '../core/contracts/index.ts';
import { asJson } from '../core/options/index.ts';
import { incomingMessage } from '../core/turn/index.ts';
import { malformed } from './protocol-errors.ts';
import { namedAnswers } from './received-answers.ts';
import { userMessageOf } from './received-message.ts';
import { shownContext } from './scope.ts';
import type { TurnView } from './task-snapshot.ts';

/** How messages become those of a journal. */
export interface Intake {
  readonly extensions: readonly Extension[];
  readonly inputModes: readonly string[];
}

/** For a message id that stands for another message. */
export function reusedMessageId(): A2AError {
  return malformed(
    'message.messageId was sent before with different content; give each new message an id of its own, and repeat a message unchanged.',
  );
}

/** Whether the message that started a turn is this one. */
export function startedTurn({ records, state }: TurnView, message: WireMessage, intake: Intake): boolean {
  const [first] = records;
  if (first?.type !== 'turn.started') return false;
  const { contextId } = message;
  if (contextId !== '' && contextId !== shownContext(state.turn.contextId)) return false;
  const found = first.messages.find((each) => each.role === 'user' && each.id === message.messageId);
  return found !== undefined && isSame(found, message, intake);
}

/** What a turn recorded of a message that it received. */
export interface Told {
  /** Whether these are commands of the message. */
  readonly isOfMessage: (command: string) => boolean;
  readonly message: WireMessage;
}

/** Whether what a turn recorded of a message is all that this one says: its answers, and what it says besides. */
export function toldTurn({ records, state }: TurnView, { isOfMessage, message }: Told, intake: Intake): boolean {
  const answered = records.filter((record) => record.type === 'turn.answered' && isOfMessage(record.command ?? ''));
  const recorded = answered.flatMap((record) =>
    record.type === 'turn.answered' ? [[record.questionId, record.answer] as const] : [],
  );
  const steered = records.flatMap((record) =>
    record.type === 'x.steer' && isOfMessage(record.command ?? '') ? (record.effects?.messages ?? []) : [],
  );
  const { answers, rest } = repeatedAnswers(recorded, message.parts);
  const given = state.answers.map(({ question, answer }) => [question.id, answer] as const);
  const repeats = answers.every(([id, answer]) => given.some((each) => each[0] === id && isSameJson(each[1], answer)));
  if (!repeats || !recorded.every(([id]) => answers.some(([other]) => other === id))) return false;
  const [told, ...more] = steered;
  if (rest.length === 0 || told === undefined) return rest.length === 0 && told === undefined;
  return more.length === 0 && isSame(told, { ...message, parts: [...rest] }, intake);
}

type Pairs = readonly (readonly [questionId: string, answer: unknown])[];

/** The answers in a message whose question is not open any more: a part or texts that name none answer what they answered before. */
function repeatedAnswers(
  recorded: Pairs,
  parts: readonly Part[],
): { readonly answers: Pairs; readonly rest: readonly Part[] } {
  const named = parts.flatMap((part) => namedAnswers(part) ?? []);
  if (named.length > 0) {
    const rest = parts.filter((part) => namedAnswers(part) === undefined);
    return { answers: Object.entries(Object.assign({}, ...named)), rest };
  }
  const [only] = recorded;
  if (only === undefined || recorded.length > 1) return { answers: [], rest: parts };
  const data = parts.find(({ content }) => content?.$case === 'data');
  if (data?.content) return { answers: [[only[0], data.content.value]], rest: parts.filter((part) => part !== data) };
  const texts = parts.flatMap(({ content }) => (content?.$case === 'text' ? [content.value] : []));
  return { answers: [[only[0], texts.join('\n')]], rest: parts.filter(({ content }) => content?.$case !== 'text') };
}

/** Whether a message of a journal is one of a client. */
function isSame(found: Message, message: WireMessage, intake: Intake): boolean {
  const raw = userMessageOf(message, intake.inputModes);
  return isOneOf(found, raw, intake);
}

/** Extensions may change a message where it is received, and again where its turn takes it in. */
export function isOneOf(found: Message, raw: Message, { extensions }: Pick<Intake, 'extensions'>): boolean {
  const once = incomingMessage(extensions, raw);
  return [once, incomingMessage(extensions, once)].some((each) => isSameJson(each, found));
}

function isSameJson(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(asJson(one), asJson(other));
}
