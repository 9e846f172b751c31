import { describe, expect, it } from '@jest/globals';
import { agent, type Extension, guardrails, InMemoryStateStore, inSequence, team, tool } from 'millrace';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import type { ReadOptions } from 'millrace/types';
import { approval, chunksOf, said } from './chat-client.ts';
import type { FoldedMessage } from './fold-ui-message.ts';
import { call, folded, idOf, made } from './ui-message-bench.ts';

describe('the messages of a chat', () => {
  it('gives the messages of a chat as their streams gave them, and what the user said in the open turn', async () => {
    const { client } = made([{ text: 'Let me.', ...call('asks') }, { text: 'Going.' }, call('refund')]);
    const message = await folded(await client.post('c', said('m1', 'Book.')));
    const question = message.parts.find(({ type }) => type === 'data-question')?.toolCallId ?? '';
    message.continue();
    await folded(await client.post('c', said('m1', 'Book.'), { answers: { [question]: 'Oslo' } }), message);
    await (await client.post('c', said('m2', 'Refund.'))).text();
    const messages = await (await client.ask('GET', '/c/messages')).json();
    const shown = message.parts.map(({ toolCallId, ...part }) =>
      part.type === 'data-question' ? { ...part, id: toolCallId } : { ...part, ...(toolCallId && { toolCallId }) },
    );
    expect(messages).toMatchObject([
      { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Book.' }] },
      { id: message.id, role: 'assistant', parts: shown, metadata: message.metadata },
      { id: 'm2', role: 'user' },
    ]);
  });

  it('R-10 shows what the user said in every open turn, and resumes the stream of the one that asks', async () => {
    const { bo, store, client, runs } = made([call('refund'), { text: 'Refunded.' }, { text: 'Noon.' }], {
      agent: { busy: 'queue' },
    });
    const first = await folded(await client.post('c', said('m1', 'Refund.')));
    const refused = await client.post('c', said('m2', 'What time is it?'));
    expect(refused.status).toBe(409);
    expect(await refused.json()).toMatchObject({ error: { code: 'AGENT_BUSY' } });
    // The message of another client, which waits for the question.
    const contextId = (await store.describe(`${first.metadata?.['taskId']}`))?.contextId ?? '';
    await bo.submit({ role: 'user', id: 'm3', content: 'And the time?' }, { contextId, taskId: 't3' });
    const messages = await (await client.ask('GET', '/c/messages')).json();
    expect(messages).toMatchObject([
      { id: 'm1', role: 'user' },
      { id: 'm3', role: 'user' },
    ]);
    const shown = await folded(await client.ask('GET', '/c/stream'));
    expect(idOf(shown)).toBe(idOf(first));
    shown.continue();
    await folded(await client.post('c', approval(idOf(shown), true)), shown);
    expect((await bo.resume('t3').result()).text).toBe('Noon.');
    expect(runs()).toBe(1);
    expect(await (await client.ask('GET', '/c/messages')).json()).toMatchObject([
      { id: 'm1', role: 'user' },
      { role: 'assistant', parts: shown.parts.map(({ type }) => ({ type })) },
      { id: 'm3', role: 'user' },
      { role: 'assistant' },
    ]);
  });

  it('says of a call of a turn that was stopped that it was cancelled, live and from the store', async () => {
    const held = gate();
    const slow = tool({
      name: 'slow',
      description: 'Is slow.',
      parameters: { type: 'object' },
      execute: (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
          void held.pass();
        }),
    });
    const { client } = made([call('slow')], { agent: { tools: [slow] } });
    const response = await client.post('c', said('m1', 'Go.'));
    await held.reached;
    expect((await client.ask('POST', '/c/stop')).status).toBe(204);
    const chunks = await chunksOf(response);
    const providerMetadata = { millrace: { code: 'CANCELED' } };
    expect(chunks).toContainEqual(expect.objectContaining({ type: 'tool-output-error', providerMetadata }));
    const [, { parts }] = await (await client.ask('GET', '/c/messages')).json();
    expect(parts).toContainEqual(
      expect.objectContaining({ state: 'output-error', resultProviderMetadata: providerMetadata }),
    );
  });

  it('reads the journals of the newest 50 turns for the messages of a chat, and makes older ones of their messages', async () => {
    const read: string[] = [];
    class Counted extends InMemoryStateStore {
      override read(taskId: string, options?: ReadOptions) {
        read.push(taskId);
        return super.read(taskId, options);
      }
    }
    const steps = Array.from({ length: 60 }, (_, index) => ({ text: `Answer ${index}.` }));
    const { client } = made(steps, { store: new Counted() });
    for (let index = 0; index < 60; index++)
      await (await client.post('c', said(`m${index}`, `Question ${index}`))).text();
    read.length = 0;
    const messages: readonly FoldedMessage[] = await (await client.ask('GET', '/c/messages')).json();
    expect([messages.length, new Set(read).size]).toEqual([120, 50]);
    const texts = messages.map(({ parts }) => parts.find(({ type }) => type === 'text')?.text);
    expect(texts).toEqual(steps.flatMap(({ text }, index) => [`Question ${index}`, text]));
  });

  it('gives a rejected call as denied and a turn that failed with its code, as their streams did', async () => {
    const { client } = made([call('refund'), { text: 'Then not.' }, { error: new Error('SECRET') }]);
    const message = await folded(await client.post('c', said('m1', 'Refund.')));
    const id = idOf(message);
    await (await client.post('c', approval(id, false))).text();
    await (await client.post('c', said('m2', 'Hello.'))).text();
    const text = await (await client.ask('GET', '/c/messages')).text();
    expect(text).not.toContain('SECRET');
    const denied = { type: 'dynamic-tool', state: 'output-denied', approval: { id, approved: false } };
    expect(JSON.parse(text)).toMatchObject([
      { id: 'm1' },
      { parts: [{ type: 'step-start' }, denied, { type: 'step-start' }, { text: 'Then not.' }] },
      { id: 'm2' },
      { metadata: { state: 'failed', code: 'PROVIDER_FAILED', errorText: 'Something went wrong.' } },
    ]);
  });

  it('has a message once that was tried again in vain', async () => {
    const { client } = made([{ error: new Error('cut') }, { error: new Error('cut again') }]);
    await (await client.post('c', said('m1', 'Hello.'))).text();
    await (await client.post('c', said('m1', 'Hello.'), { trigger: 'regenerate-message' })).text();
    const messages: readonly FoldedMessage[] = await (await client.ask('GET', '/c/messages')).json();
    expect(messages.map(({ id }) => id).filter((id) => id === 'm1')).toEqual(['m1']);
  });

  it('gives the messages of a turn whose journal is not kept any more', async () => {
    const { client, store } = made([{ reasoning: 'Hm.', text: 'Let me.', ...call('asks') }, { text: 'Going.' }]);
    const message = await folded(await client.post('c', said('m1', 'Book.')));
    const question = message.parts.find(({ type }) => type === 'data-question')?.toolCallId ?? '';
    message.continue();
    await folded(await client.post('c', said('m1', 'Book.'), { answers: { [question]: 'Oslo' } }), message);
    store.delete(message.id ?? '');
    const messages = await (await client.ask('GET', '/c/messages')).json();
    const shown = message.parts.filter(({ type }) => type !== 'data-question');
    expect(messages).toMatchObject([{ id: 'm1' }, { id: message.id, role: 'assistant', parts: shown }]);
  });

  const polite = guardrails({
    output: [{ name: 'polite', check: (text) => (text === 'Damn.' ? { retry: 'Politely.' } : undefined) }],
  });
  const hint: Extension = {
    name: 'hint',
    afterToolCall: () => ({ messages: [{ role: 'user', content: 'Another way.' }] }),
  };
  const asking: ScriptedLLMStep = { toolCalls: [{ name: 'look' }] };
  const look = tool({
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object' },
    execute: () => 'seen',
  });
  it.each<readonly [string, readonly ScriptedLLMStep[], object]>([
    ['a guardrail', [{ text: 'Damn.' }, { text: 'Dear.' }], { extensions: [polite] }],
    ['an extension, while a call is open', [asking, { text: 'Dear.' }], { tools: [look], extensions: [hint] }],
  ])('R-10 does not show as the user’s what %s says to the model', async (_, steps, more) => {
    const { client, store, bo } = made(steps, { agent: more });
    const message = await folded(await client.post('c', said('m1', 'Hi.')));
    const shown = async () => (await client.ask('GET', '/c/messages')).json();
    expect(await shown()).toMatchObject([
      { id: 'm1', role: 'user' },
      { id: message.id, role: 'assistant' },
    ]);
    // As old turns are shown, from their messages.
    store.delete(message.id ?? '');
    expect(await shown()).toMatchObject([
      { id: 'm1', role: 'user' },
      { id: message.id, role: 'assistant' },
    ]);
    await bo.close();
  });

  it('R-10 does not show as the user’s what a team says to its next agent', async () => {
    const store = new InMemoryStateStore();
    const provider = scriptedLLM([{ text: 'First.' }, { text: 'Second.' }]);
    const of = (id: string) => agent({ id, description: id, provider });
    const pair = team({ agents: [of('one'), of('two')], routing: inSequence(['one', 'two']), taskStateStore: store });
    const { messages } = await pair.startTurn('Hi.', { contextId: 'c' }).result();
    expect(messages.filter(({ role }) => role === 'user')).toHaveLength(1);
    const stored = (await store.messages.list('c')).messages.map(({ message }) => message);
    expect(stored.filter(({ role }) => role === 'user')).toMatchObject([
      { content: 'Hi.' },
      { metadata: { 'millrace.added': true } },
    ]);
    expect(stored[0]).not.toHaveProperty('metadata');
    await pair.close();
  });

  it('gives calls the ids that they had live, also after a repeated call that was left out', async () => {
    const twice = { name: 'asks', id: 'a', arguments: {} };
    const toolCalls = [twice, twice, { name: 'refund', id: 'b' }];
    const { client, store } = made([{ toolCalls }, { text: 'Going.' }]);
    const message = await folded(await client.post('c', said('m1', 'Book.')));
    const question = message.parts.find(({ type }) => type === 'data-question')?.toolCallId ?? '';
    message.continue();
    await folded(await client.post('c', approval(idOf(message), true), { answers: { [question]: 'Oslo' } }), message);
    store.delete(message.id ?? '');
    const [, { parts }] = await (await client.ask('GET', '/c/messages')).json();
    const idsIn = (all: readonly { readonly type: string; readonly toolCallId?: string }[]) =>
      all.flatMap(({ type, toolCallId }) => (type === 'dynamic-tool' ? [toolCallId] : []));
    expect(idsIn(parts)).toEqual([`${message.id}/1:0`, `${message.id}/1:2`]);
    expect(idsIn(message.parts)).toEqual(idsIn(parts));
  });
});
