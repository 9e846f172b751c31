import {
  type AssistantMessage,
  type ContentPart,
  type Message,
  type ToolMessage,
  textOf,
} from '../../core/contracts/index.ts';

/**
 * The same history for a model that knows no tools: calls become words of the assistant, the results of a batch one message
 * of the user. Messages without calls pass as they are.
 */
export function toolsAsText(messages: readonly Message[]): readonly Message[] {
  const names = new Map<string, string>();
  const texts: Message[] = [];
  let results: ContentPart[] = [];
  const flush = (): void => {
    if (results.length > 0) texts.push({ role: 'user', content: results });
    results = [];
  };
  for (const message of messages) {
    if (message.role === 'tool') {
      results.push(...resultParts(message, names.get(message.toolCallId) ?? message.toolCallId));
      continue;
    }
    flush();
    if (message.role === 'assistant')
      for (const { id, function: called } of message.toolCalls ?? []) names.set(id, called.name);
    texts.push(message.role === 'assistant' ? callsAsText(message) : message);
  }
  flush();
  return texts;
}

function callsAsText(message: AssistantMessage): Message {
  if (message.toolCalls === undefined || message.toolCalls.length === 0) return message;
  const calls = message.toolCalls.map((call) => `[called ${call.function.name} with ${call.function.arguments}]`);
  const { toolCalls: _, ...rest } = message;
  return { ...rest, content: [textOf(message.content), ...calls].filter((line) => line !== '').join('\n') };
}

function resultParts({ content, status }: ToolMessage, name: string): readonly ContentPart[] {
  const head = status === 'error' ? `[${name} failed]` : `[result of ${name}]`;
  const others = typeof content === 'string' ? [] : content.filter((part) => part.type !== 'text');
  return [{ type: 'text', text: `${head}\n${textOf(content)}` }, ...others];
}
