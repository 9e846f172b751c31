import { describe, expect, it } from '@jest/globals';
import { limitConcurrency, type Usage } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, scriptedLLM } from 'millrace/testing';
import { chunksOf, failure, hi, streamOf } from './scripted-calls.ts';

describe('limitConcurrency', () => {
  it('lets so many turns of several loops ask at a time, in the order in which they came', async () => {
    const gates = Array.from({ length: 6 }, gate);
    const llm = scriptedLLM(gates.map((each, n) => ({ gate: each.pass(), text: `answer ${n}` })));
    const limited = limitConcurrency({ max: 2 });
    const turns = gates.map((_, n) =>
      new AgentLoop({ agentId: `loop-${n}`, llmProvider: limited(llm) })
        .startTurn(hi.messages, { detached: true })
        .result(),
    );
    for (const [n, each] of gates.entries()) {
      await each.reached;
      each.open();
      expect((await turns[n])?.text).toBe(`answer ${n}`);
    }
    expect(llm.maxActive).toBe(2);
  });

  it('gives the place of a call that failed or was left to the next, and never makes one that was left waiting', async () => {
    const asked = gate();
    const silence = () => {
      void asked.pass();
      return { never: true };
    };
    const llm = scriptedLLM([{ error: failure('PROVIDER_SERVER') }, silence, { text: 'third' }]);
    const provider = limitConcurrency({ max: 1 })(llm);
    const failed = provider.call(hi);
    await expect(failed).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    const left = streamOf(provider).subscribe();
    await asked.reached;
    const told: Usage[] = [];
    const waiting = streamOf(provider, { ...hi, noteUsage: (usage) => told.push(usage) }).subscribe();
    const last = chunksOf(provider);
    waiting.unsubscribe();
    left.unsubscribe();
    expect(await last).toEqual(['third', 'done third']);
    expect(llm.calls).toHaveLength(3);
    expect(told).toEqual([]);
  });

  it('keeps going where a provider throws instead of giving a stream', async () => {
    const thrown = new Error('not today');
    const rude = {
      call: () => Promise.reject(thrown),
      stream: () => {
        throw thrown;
      },
    };
    const provider = limitConcurrency({ max: 1 })(rude);
    for (let n = 0; n < 2; n++)
      await expect(provider.call(hi)).rejects.toMatchObject({ code: 'PROVIDER_FAILED', cause: thrown });
  });
});
