import { type History, isInstruction } from './history.ts';
import { type Message, textOf } from './messages.ts';

/** What the model is told at the limit under `onLimit: 'summarize'`. */
const summaryRequest: Message = {
  role: 'user',
  content:
    'You have reached the limit of steps. Call no more tools: sum up what you found and answer as well as you can.',
};

export interface ViewOptions {
  readonly systemPrompt: string | undefined;
  /** Whether to ask for the closing summary. */
  readonly summary: boolean;
}

/**
 * The messages of one model call, a new array: one system message first, made of the system prompt and any system or
 * developer messages of the history, joined by an empty line in that order; then the rest of the history as it is.
 */
export function viewOf(history: History, { systemPrompt, summary }: ViewOptions): readonly Message[] {
  const messages = history.toArray();
  if (summary) messages.push(summaryRequest);
  if (history.hasInstructions) return withMergedInstructions(messages, systemPrompt);
  if (systemPrompt !== undefined) messages.unshift({ role: 'system', content: systemPrompt });
  return messages;
}

function withMergedInstructions(messages: readonly Message[], systemPrompt: string | undefined): readonly Message[] {
  const texts = messages.filter(isInstruction).map((message) => textOf(message.content));
  const content = [...(systemPrompt === undefined ? [] : [systemPrompt]), ...texts].join('\n\n');
  return [{ role: 'system', content }, ...messages.filter((message) => !isInstruction(message))];
}
