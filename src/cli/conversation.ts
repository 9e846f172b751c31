import type { AgentEvent } from '../core/events.ts';
import type { Message } from '../core/messages.ts';

/** The texts of a turn by artifact, as far as they were shown. */
export type ShownTexts = ReadonlyMap<string, string>;

export function foldShown(shown: ShownTexts, event: AgentEvent): ShownTexts {
  if (event.kind !== 'artifact-update') return shown;
  const { artifactId, parts } = event.artifact;
  const before = event.append ? (shown.get(artifactId) ?? '') : '';
  const text = parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
  return new Map(shown).set(artifactId, before + text);
}

/**
 * What a conversation keeps of a turn that did not complete: the question and the text that was shown, so that the user
 * can refer to it; nothing where there was none.
 */
export function keptOfBrokenTurn(question: Message, shown: ShownTexts): readonly Message[] {
  const text = [...shown.values()].filter((part) => part !== '').join('\n\n');
  return text === '' ? [] : [question, { role: 'assistant', content: `${text} [interrupted]` }];
}
