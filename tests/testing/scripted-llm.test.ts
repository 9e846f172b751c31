import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import type { LLMCallParams, LLMChunk } from 'millrace';
import { gate, type ScriptedLLM, scriptedLLM } from 'millrace/testing';
import { firstValueFrom, lastValueFrom, type Observable, takeWhile, tap, toArray } from 'rxjs';

const ask: LLMCallParams = { messages: [{ role: 'user', content: 'Hello' }] };

function stream(llm: ScriptedLLM, params = ask): Observable<LLMChunk> {
  if (llm.stream === undefined) throw new Error('The provider does not stream.');
  return llm.stream(params);
}

const chunksOf = (llm: ScriptedLLM): Promise<LLMChunk[]> => lastValueFrom(stream(llm).pipe(toArray()));

describe('scriptedLLM', () => {
  it('streams reasoning, text and calls in that order, then the whole response', async () => {
    const llm = scriptedLLM([
      {
        reasoning: 'Hm.',
        text: ['Let me ', 'look.'],
        toolCalls: [
          { name: 'search', arguments: { query: 'x' } },
          { name: 'read', arguments: ['{"pa', 'th":1}'], id: 'mine' },
        ],
        usage: { promptTokens: 3, completionTokens: 4, totalTokens: 7 },
      },
    ]);
    const chunks = await chunksOf(llm);
    expect(chunks).toEqual([
      { type: 'reasoning', text: 'Hm.' },
      { type: 'text', text: 'Let me ' },
      { type: 'text', text: 'look.' },
      { type: 'tool-call', index: 0, id: 'call_1_0', name: 'search', arguments: '{"query":"x"}' },
      { type: 'tool-call', index: 1, id: 'mine', name: 'read', arguments: '{"pa' },
      { type: 'tool-call', index: 1, arguments: 'th":1}' },
      {
        type: 'done',
        response: {
          message: {
            role: 'assistant',
            content: 'Let me look.',
            reasoning: 'Hm.',
            toolCalls: [
              { id: 'call_1_0', type: 'function', function: { name: 'search', arguments: '{"query":"x"}' } },
              { id: 'mine', type: 'function', function: { name: 'read', arguments: '{"path":1}' } },
            ],
          },
          usage: { promptTokens: 3, completionTokens: 4, totalTokens: 7 },
        },
      },
    ]);
  });

  it('gives the same response through call and through stream', async () => {
    const step = { text: 'Hi', toolCalls: [{ name: 'a' }], finishReason: 'length' } as const;
    const llm = scriptedLLM([step]);
    const done = (await chunksOf(llm)).at(-1);
    const called = await scriptedLLM([step]).call(ask);
    expect(done).toEqual({ type: 'done', response: called });
    expect(called.finishReason).toBe('length');
  });

  it('has no stream where it shall not, and hands on capabilities and info', () => {
    const llm = scriptedLLM([], { streaming: false, capabilities: { tools: false }, info: { model: 'm' } });
    expect('stream' in llm).toBe(false);
    expect([llm.capabilities, llm.info]).toEqual([{ tools: false }, { model: 'm' }]);
  });

  it('answers within subscribe where it is synchronous, and after it where not', async () => {
    for (const synchronous of [true, false]) {
      const llm = scriptedLLM([{ text: 'Hi' }], { synchronous });
      const seen: string[] = [];
      const finished = new Promise<void>((resolve) => {
        stream(llm).subscribe({ next: ({ type }) => seen.push(type), complete: resolve });
      });
      expect(seen).toEqual(synchronous ? ['text', 'done'] : []);
      await finished;
      expect(seen).toEqual(['text', 'done']);
    }
  });

  it('is cold: each subscription is a call of its own', async () => {
    const llm = scriptedLLM([{ text: 'one' }, { text: 'two' }]);
    const source = stream(llm);
    expect(llm.calls).toHaveLength(0);
    expect(await firstValueFrom(source)).toEqual({ type: 'text', text: 'one' });
    expect(await firstValueFrom(source)).toEqual({ type: 'text', text: 'two' });
    llm.assertDone();
  });

  it('waits at its gates, before the answer and within it', async () => {
    const [before, within] = [gate(), gate()];
    const llm = scriptedLLM([{ gate: before.pass(), text: ['a', within.pass(), 'b'] }], { synchronous: true });
    const seen: LLMChunk[] = [];
    const a = new Promise<void>((resolve) => {
      stream(llm).subscribe((chunk) => {
        seen.push(chunk);
        if (seen.length === 1) resolve();
      });
    });
    expect(seen).toEqual([]);
    before.open();
    await a;
    expect(seen).toEqual([{ type: 'text', text: 'a' }]);
    expect(llm.active).toBe(1);
    within.open();
    await within.pass();
    expect(seen.map((chunk) => (chunk.type === 'done' ? chunk.response.message.content : chunk.type))).toEqual([
      'text',
      'text',
      'ab',
    ]);
    expect([llm.active, llm.unsubscribed]).toEqual([0, 0]);
  });

  it('errors with what the step says, after what it streams', async () => {
    const broken = new Error('broken');
    const llm = scriptedLLM([{ text: 'half', error: broken }, { error: broken }, { gate: Promise.reject(broken) }]);
    const seen: LLMChunk[] = [];
    await expect(
      new Promise((_, reject) => {
        stream(llm).subscribe({ next: (chunk) => seen.push(chunk), error: reject });
      }),
    ).rejects.toBe(broken);
    expect(seen).toEqual([{ type: 'text', text: 'half' }]);
    await expect(llm.call(ask)).rejects.toBe(broken);
    await expect(llm.call(ask)).rejects.toBe(broken);
    expect([llm.active, llm.unsubscribed]).toEqual([0, 0]);
    llm.assertDone();
  });

  it('counts who left, who is under way and the most at a time', () => {
    const llm = scriptedLLM([{ never: true }, { text: 'x', never: true }], { synchronous: true });
    const first = stream(llm).subscribe();
    const second = stream(llm).subscribe();
    expect([llm.active, llm.maxActive, llm.unsubscribed]).toEqual([2, 2, 0]);
    first.unsubscribe();
    expect([llm.active, llm.maxActive, llm.unsubscribed]).toEqual([1, 2, 1]);
    second.unsubscribe();
    expect([llm.active, llm.maxActive, llm.unsubscribed]).toEqual([0, 2, 2]);
  });

  it('emits nothing more once it is unsubscribed', async () => {
    const llm = scriptedLLM([{ text: ['a', 'b', 'c'] }]);
    const seen: LLMChunk[] = [];
    await new Promise<void>((resolve) => {
      const subscription = stream(llm).subscribe((chunk) => {
        seen.push(chunk);
        subscription.unsubscribe();
        setImmediate(resolve);
      });
    });
    expect(seen).toEqual([{ type: 'text', text: 'a' }]);
    expect(llm.unsubscribed).toBe(1);
  });

  it('does not count a caller who leaves with the whole answer', () => {
    const llm = scriptedLLM([{ text: 'a' }], { synchronous: true });
    let completed = false;
    stream(llm)
      .pipe(
        tap({ complete: () => (completed = true) }),
        takeWhile(({ type }) => type !== 'done', true),
      )
      .subscribe();
    expect(completed).toBe(false);
    expect([llm.active, llm.unsubscribed]).toEqual([0, 0]);
  });

  it('rejects a call when its signal is aborted, before and during it', async () => {
    const llm = scriptedLLM([{ never: true }]);
    await expect(llm.call({ ...ask, signal: AbortSignal.abort('early') })).rejects.toBe('early');
    expect(llm.calls).toHaveLength(0);
    const controller = new AbortController();
    const call = llm.call({ ...ask, signal: controller.signal });
    expect(llm.active).toBe(1);
    controller.abort('late');
    await expect(call).rejects.toBe('late');
    expect([llm.active, llm.unsubscribed]).toEqual([0, 1]);
  });

  it('takes its listener off the signal again', async () => {
    const { signal } = new AbortController();
    await scriptedLLM([{ text: 'x' }]).call({ ...ask, signal });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('keeps what it was asked as it was then, and does not read the signal', async () => {
    const messages = [...ask.messages];
    let reads = 0;
    const params: LLMCallParams = {
      messages,
      temperature: 0,
      toolChoice: 'none',
      get signal() {
        reads += 1;
        return AbortSignal.abort();
      },
    };
    const llm = scriptedLLM([{ text: 'x' }]);
    await lastValueFrom(stream(llm, params));
    messages.push({ role: 'user', content: 'later' });
    expect(llm.calls).toEqual([{ messages: ask.messages, temperature: 0, toolChoice: 'none' }]);
    expect(reads).toBe(0);
    expect(llm.calls[0]?.signal?.aborted).toBe(true);
  });

  it('lets a step look at the request, and errors with what it throws', async () => {
    const wrong = new Error('wrong request');
    const llm = scriptedLLM([
      ({ messages }) => ({ text: `${messages.length} message` }),
      () => {
        throw wrong;
      },
    ]);
    expect((await llm.call(ask)).message.content).toBe('1 message');
    await expect(llm.call(ask)).rejects.toBe(wrong);
  });

  it('fails on a call beyond its steps, also when nobody looks at the error', async () => {
    const llm = scriptedLLM([{ text: 'x' }]);
    await llm.call(ask);
    llm.assertDone();
    await expect(llm.call(ask)).rejects.toMatchObject({ code: 'INVALID_CONFIG', retryable: false });
    expect(() => llm.assertDone()).toThrow('The scripted model was called 2 times but has 1 steps; add a step');
  });

  it('fails on steps that are left', () => {
    expect(() => scriptedLLM([{ text: 'x' }]).assertDone()).toThrow('was called 0 times but has 1 steps; remove');
  });

  it('says nothing where a step says nothing', async () => {
    const { message } = await scriptedLLM([{}]).call(ask);
    expect(message).toEqual({ role: 'assistant', content: null });
  });
});
