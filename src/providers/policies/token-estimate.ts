import type { Message } from '../../core/messages.ts';
import type { ToolDefinition } from '../../tools/interfaces.ts';
import type { LLMCallParams } from '../interfaces.ts';

const charactersOfToken = 4;

/** Each message and tool is measured once: a history grows by a few messages a call. */
const measured = new WeakMap<Message | ToolDefinition, number>();

/** A guess at the tokens of a text of so many characters: four of them to a token. */
export function tokensOfCharacters(characters: number): number {
  return Math.ceil(characters / charactersOfToken);
}

/** A guess at the tokens of one message, by the characters of its JSON. */
export function estimateTokens(message: Message): number {
  return tokensOfCharacters(charactersOf(message, message));
}

/** A guess at the tokens of a request's messages and tools, by the characters of their JSON. */
export function estimatePromptTokens({ messages, tools = [] }: LLMCallParams): number {
  let characters = 0;
  for (const message of messages) characters += charactersOf(message, message);
  for (const tool of tools) characters += charactersOf(tool, tool.function);
  return tokensOfCharacters(characters);
}

function charactersOf(key: Message | ToolDefinition, value: object): number {
  const known = measured.get(key);
  if (known !== undefined) return known;
  const characters = JSON.stringify(value).length;
  measured.set(key, characters);
  return characters;
}
