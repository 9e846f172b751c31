import { describe, expect, it } from '@jest/globals';
import type { AgentEvent, LLMChunk, LLMProvider } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { from, lastValueFrom, toArray } from 'rxjs';
import { question } from './dead-turn.ts';

const text = 'a🔥b👩‍👩‍👧é';
const lone = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

function streaming(chunks: readonly LLMChunk[], content: string): LLMProvider {
  const done: LLMChunk = { type: 'done', response: { message: { role: 'assistant', content } } };
  return { call: () => Promise.reject(new Error('it streams')), stream: () => from([...chunks, done]) };
}

async function eventsOf(chunks: readonly LLMChunk[], content = text): Promise<readonly AgentEvent[]> {
  const llmProvider = streaming(chunks, content);
  return lastValueFrom(new AgentLoop({ agentId: 'tester', llmProvider }).startTurn(question).pipe(toArray()));
}

/** All ways to cut a string in three. */
const cuts = Array.from({ length: text.length + 1 }, (_, first) =>
  Array.from({ length: text.length - first + 1 }, (_, more) => [first, first + more] as const),
).flat();
const piecesAt = ([first, second]: readonly [number, number]) => [
  text.slice(0, first),
  text.slice(first, second),
  text.slice(second),
];

const shown = (events: readonly AgentEvent[]) =>
  events.flatMap((event) =>
    event.kind === 'artifact-update'
      ? event.artifact.parts.flatMap((part) => (part.kind === 'text' ? [part.text] : []))
      : [],
  );

describe('a character that is split over deltas', () => {
  it('M-21 is emitted whole in the text, for every split in three', async () => {
    for (const cut of cuts) {
      const texts = shown(await eventsOf(piecesAt(cut).map((piece) => ({ type: 'text', text: piece }))));
      expect(texts.join('')).toBe(text);
      expect(texts.filter((piece) => lone.test(piece))).toEqual([]);
    }
  });

  it('M-21 is emitted whole in the reasoning', async () => {
    for (const cut of cuts) {
      const events = await eventsOf(piecesAt(cut).map((piece) => ({ type: 'reasoning', text: piece })));
      const texts = events.flatMap((event) => (event.kind === 'internal:reasoning-delta' ? [event.text] : []));
      expect(texts.join('')).toBe(text);
      expect(texts.filter((piece) => lone.test(piece))).toEqual([]);
    }
  });

  it('M-21 is emitted whole in the arguments of each call, also where deltas of other calls and text come between', async () => {
    for (const cut of cuts) {
      const chunks = piecesAt(cut).flatMap((piece, at): readonly LLMChunk[] => [
        { type: 'tool-call', index: 0, ...(at === 0 && { id: 'a', name: 'look' }), arguments: piece },
        { type: 'text', text: piece },
        { type: 'tool-call', index: 1, ...(at === 0 && { id: 'b', name: 'look' }), arguments: piece },
      ]);
      const events = await eventsOf(chunks);
      const deltas = events.filter((event) => event.kind === 'internal:tool-call-delta');
      for (const index of [0, 1]) {
        const own = deltas.filter((delta) => delta.index === index);
        expect(own.map((delta) => delta.arguments).join('')).toBe(text);
        expect(own[0]).toMatchObject({ toolName: 'look' });
      }
      expect(deltas.filter((delta) => lone.test(delta.arguments))).toEqual([]);
      expect(shown(events).join('')).toBe(text);
    }
  });

  it('does not join halves of two attempts', async () => {
    const events = await eventsOf(
      [
        { type: 'text', text: 'a\ud83d' },
        { type: 'attempt', state: 'void', reason: 'cut' },
        { type: 'attempt', state: 'begin' },
        { type: 'text', text: 'b' },
      ],
      'b',
    );
    expect(shown(events)).toEqual(['a', 'b', '']);
  });
});
