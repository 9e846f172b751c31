import type { OfferedTool } from '../model-server/chat-request.ts';
import type { Conversation } from './conversation-of.ts';
import type { Question } from './questions-of.ts';
import { listed } from './words.ts';

interface Situation {
  readonly conversation: Conversation;
  readonly tools: readonly OfferedTool[];
  /** Whether the prompt says nothing else. */
  readonly isAlone: boolean;
}

/** Who is speaking, said wherever somebody could take the model for a real one. */
export const itself = 'I am a stand-in for a model: I match questions with tools and know nothing of my own.';

type Saying = readonly [RegExp, (text: string, situation: Situation) => string | undefined];

const sayings: readonly Saying[] = [
  [
    /^(?:hi|hello|hey|good (?:morning|afternoon|evening)|greetings)\b[\s!.,]*(?:there|all)?[!.]*$/i,
    (_, situation) => (situation.isAlone ? `Hello! ${introduction(situation.tools)}` : ''),
  ],
  [/^(?:many )?thank(?:s| you)\b.{0,30}$/i, () => 'You are welcome.'],
  [
    /\b(?:who|what) are you\b|\bwhat can you do\b|^help\b|\bwhat tools\b|\bwhich tools\b|\bwhat model are you\b/i,
    (_, { tools }) => introduction(tools),
  ],
  [
    /\bmy name is\s+\p{L}+/iu,
    (text) => `Nice to meet you, ${nameIn(text)}. I will know your name as long as this conversation lasts.`,
  ],
  [/\bwhat(?:'s| is) my name\b|\bwho am i\b/i, (_, { conversation }) => recallName(conversation)],
  [
    /\b(?:what|which)\b.*\b(?:did|have|was)\b.*\b(?:i|my)\b.*\b(?:ask|asked|say|said|question|questions|before|prompt)\b/i,
    (_, { conversation }) => recallQuestion(conversation),
  ],
  [
    /\bwhat\b.*\b(?:did you|was (?:your|the)|were your)\b.*\b(?:say|answer|answers|result|reply|tell me)\b/i,
    (_, { conversation }) => recallAnswer(conversation),
  ],
];

/** What the model says without any tool: greetings, who it is, what was said before. Undefined where it is none of that. */
export function smallTalk(question: Question, situation: Situation): string | undefined {
  const saying = sayings.find(([pattern]) => pattern.test(question.text));
  return saying?.[1](question.text, situation);
}

export function introduction(tools: readonly OfferedTool[]): string {
  if (tools.length === 0) return `${itself} No tool is offered to me now, so there is little that I can do.`;
  return `${itself} I am offered ${listed(tools.map(({ name }) => name))}: ask me something that they can answer.`;
}

function nameIn(text: string): string | undefined {
  return /\bmy name is\s+(\p{L}[\p{L}'-]*)/iu.exec(text)?.[1];
}

function recallName({ earlierPrompts, prompts }: Conversation): string {
  const texts = [...earlierPrompts, ...prompts.map(({ text }) => text)];
  const name = texts.map(nameIn).findLast((found) => found !== undefined);
  return name === undefined ? 'You have not told me your name.' : `You told me that your name is ${name}.`;
}

function recallQuestion({ earlierPrompts }: Conversation): string {
  const last = earlierPrompts.at(-1);
  return last === undefined ? 'This is the first thing that you ask me.' : `Before this you asked: “${last}”`;
}

function recallAnswer({ earlierAnswers }: Conversation): string {
  const last = earlierAnswers.at(-1);
  return last === undefined ? 'I have not answered anything yet.' : `I said: “${last}”`;
}
