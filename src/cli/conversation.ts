import type { AgentEvent } from '../core/events.ts';
import type { Message } from '../core/messages.ts';

/** The text of a response that is not complete; empty where none is open. */
export function foldOpenText(open: string, event: AgentEvent): string {
  if (event.kind !== 'artifact-update') return open;
  if (event.lastChunk) return '';
  const text = event.artifact.parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
  return event.append ? open + text : text;
}

/** A turn that was added to a conversation. */
export interface SaidTurn {
  readonly question: Message;
  /** What the turn added by then. */
  readonly added: readonly Message[];
  /** Text that was shown of a response that broke off. */
  readonly openText: string;
}

/** The conversation with a turn more. What was shown stays, so that the user can refer to it; an answer without a word does not. */
export function extended(history: readonly Message[], { question, added, openText }: SaidTurn): readonly Message[] {
  const broken: readonly Message[] =
    openText === '' ? [] : [{ role: 'assistant', content: `${openText} [interrupted]` }];
  const answer = [...added, ...broken];
  return answer.length === 0 ? history : [...history, question, ...answer];
}
