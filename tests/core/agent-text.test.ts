import { describe, expect, it } from '@jest/globals';
import { type AgentEvent, agentText, agentTools } from 'millrace';
import type { AgentText } from 'millrace/types';
import { TestScheduler } from 'rxjs/testing';
import { agentBench } from '../agent/agent-bench.ts';

const on = agentBench();

describe('agentText', () => {
  it('emits the text of the turn and of its descendants as it streams, with the path to the speaker', async () => {
    const message = { message: 'Go on.' };
    const cy = on.agent([{ text: ['De', 'ep.'] }], { id: 'cy' });
    const bo = on.agent([{ toolCalls: [{ name: 'cy', arguments: message }] }, { text: 'Cy says deep.' }], {
      id: 'bo',
      toolProviders: [agentTools([cy])],
    });
    const ada = on.agent([{ text: 'Wait.', toolCalls: [{ name: 'bo', arguments: message }] }, { text: ['S', 'o.'] }], {
      toolProviders: [agentTools([bo])],
    });
    const turn = ada.startTurn('Ask.', { taskId: 't' });
    const pieces: AgentText[] = [];
    turn.pipe(agentText()).subscribe((piece) => pieces.push(piece));
    await turn.result();
    const texts = new Map<string, string>();
    for (const { path, artifactId, text, append } of pieces) {
      const key = [...path.map(({ agentId }) => agentId), artifactId].join('/');
      texts.set(key, (append ? (texts.get(key) ?? '') : '') + text);
    }
    expect([...texts]).toEqual([
      ['answer-1', 'Wait.'],
      ['bo/cy/answer-1', 'Deep.'],
      ['bo/answer-2', 'Cy says deep.'],
      ['answer-2', 'So.'],
    ]);
    expect(pieces[0]).toEqual({ path: [], artifactId: 'answer-1', text: 'Wait.', append: false, lastChunk: false });
    expect(pieces.filter(({ lastChunk }) => lastChunk)).toHaveLength(4);
    expect(pieces.find(({ path }) => path.length === 2)?.path).toEqual([
      { agentId: 'bo', taskId: 't:1:0', callId: '1:0' },
      { agentId: 'cy', taskId: 't:1:0:1:0', callId: '1:0' },
    ]);
  });

  it('leaves out all other events, ends as the source does and leaves it', () => {
    const base = { taskId: 't', contextId: 'c', agentId: 'ada', timestamp: '2030-01-01T00:00:00.000Z' };
    const artifact = { artifactId: 'answer-1', parts: [{ kind: 'text' as const, text: 'Hi' }] };
    const events: Record<string, AgentEvent> = {
      a: { ...base, kind: 'internal:iteration-start', iteration: 1 },
      b: { ...base, kind: 'artifact-update', artifact, append: false, lastChunk: false },
    };
    const b: AgentText = { path: [], artifactId: 'answer-1', text: 'Hi', append: false, lastChunk: false };
    const scheduler = new TestScheduler((actual, expected) => expect(actual).toEqual(expected));
    scheduler.run(({ cold, expectObservable, expectSubscriptions }) => {
      const source = cold('ab-a|', events);
      expectObservable(source.pipe(agentText())).toBe('-b--|', { b });
      const failing = cold('b#', events);
      expectObservable(failing.pipe(agentText())).toBe('b#', { b });
      const left = cold('abbbb', events);
      expectObservable(left.pipe(agentText()), '^-!').toBe('-b', { b });
      expectSubscriptions(left.subscriptions).toBe('^-!');
    });
  });
});
