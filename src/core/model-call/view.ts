import { type LLMCallParams, type Message, pairedMessages, textOf } from '../contracts/index.ts';
import { type History, isInstruction, type LoopState } from '../journal/index.ts';

/** The message to the model at the limit with `onLimit: 'summarize'`. */
const summaryRequest: Message = {
  role: 'user',
  content:
    'You have reached the limit of steps. Call no more tools: sum up what you found and answer as well as you can.',
};

/** A model call of this run. */
export interface LastCall {
  readonly iteration: number;
  readonly params: LLMCallParams;
  /** The length of the history at that call. */
  readonly historyLength: number;
}

interface ViewOptions {
  readonly systemPrompt: string | undefined;
  /** Whether to request the closing summary. */
  readonly summary: boolean;
}

/**
 * The messages of one model call, a new array: first one system message, the system prompt and any system or
 * developer messages of the history, joined by an empty line in that order; then the rest of the history unchanged.
 */
export function viewOf(history: History, { systemPrompt, summary }: ViewOptions): readonly Message[] {
  const messages = withoutInstructions(history);
  return messagesWith(instructionsOf(history, systemPrompt), messages, summary);
}

/** Prepends the instructions to a view. Mutates `messages`, which the caller must own. */
export function messagesWith(instructions: string | undefined, messages: Message[], summary: boolean): Message[] {
  if (summary) messages.push(summaryRequest);
  if (instructions !== undefined) messages.unshift({ role: 'system', content: instructions });
  return messages;
}

/** The system prompt, followed by the system and developer messages of a history. */
export function instructionsOf(history: History, systemPrompt: string | undefined): string | undefined {
  if (!history.hasInstructions) return systemPrompt;
  const texts = history
    .toArray()
    .filter(isInstruction)
    .map((message) => textOf(message.content));
  return [...(systemPrompt === undefined ? [] : [systemPrompt]), ...texts].join('\n\n');
}

/**
 * The messages of the last model call of this process, without instructions, and those added after it. If another
 * process made that call: the history.
 */
export function viewSince(lastCall: LastCall | undefined, { history }: LoopState): readonly Message[] {
  if (!lastCall) return withoutInstructions(history);
  const sent = lastCall.params.messages.filter((message) => !isInstruction(message));
  return [...sent, ...history.toArray().slice(lastCall.historyLength)];
}

/** A new array in which each call has its result: the caller may have passed others. */
export function withoutInstructions(history: History): Message[] {
  const all = history.toArray();
  const messages = history.hasInstructions ? all.filter((message) => !isInstruction(message)) : all;
  return history.isPaired ? messages : [...pairedMessages(messages)];
}
