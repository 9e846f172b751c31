import { type Content, type Message, textOf } from '../../core/contracts/index.ts';
import { isSummary } from './summary-message.ts';

/**
 * Messages as text for a model that shall read them, not answer them: one entry for each, in order. Images and files are named only;
 * summaries of earlier messages are left out.
 */
export function transcriptOf(messages: readonly Message[]): readonly string[] {
  return messages.filter((message) => !isSummary(message)).map(entryOf);
}

function entryOf(message: Message): string {
  const text = contentText(message.content);
  switch (message.role) {
    case 'tool':
      return `Result of ${message.toolCallId}${message.status === 'error' ? ' (failed)' : ''}: ${text}`;
    case 'assistant':
      return [
        ...(text === '' ? [] : [`Assistant: ${text}`]),
        ...(message.toolCalls ?? []).map((call) => {
          return `Assistant calls ${call.function.name}(${call.function.arguments}), as ${call.id}`;
        }),
      ].join('\n');
    default:
      return `${message.role === 'user' ? 'User' : 'Instructions'}: ${text}`;
  }
}

function contentText(content: Content | null): string {
  if (content === null || typeof content === 'string') return content ?? '';
  const others = content
    .filter(({ type }) => type !== 'text')
    .map(({ type }) => (type === 'file' ? '[file]' : '[image]'));
  return [textOf(content), ...others].filter((part) => part !== '').join(' ');
}
