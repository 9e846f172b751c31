import { describe, expect, it } from '@jest/globals';
import { ClientToolProvider, type ToolContext } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { question } from '../dead-turn.ts';
import { type PlainTool, plainTools } from '../plain-tools.ts';
import { watch } from '../watch-events.ts';
import { calls, questionBench, statuses } from './question-bench.ts';

const { bench, waiting, resumed, resumedWithoutModel } = questionBench();

describe('a tool that asks', () => {
  const book =
    (seen: unknown[]): PlainTool =>
    (context: ToolContext) => {
      seen.push(context.attempt);
      const city = context.ask({ prompt: 'Where to?', data: { choices: ['Rome', 'Oslo'] } });
      const day = context.ask({ prompt: 'When?' });
      return `booked ${city} on ${day}`;
    };

  it('runs again with its answers, one question after the other', async () => {
    const seen: unknown[] = [];
    const { result } = await waiting({ book: book(seen) });
    expect(result.questions).toEqual([
      {
        id: '1:0',
        callId: '1:0',
        kind: 'input',
        toolName: 'book',
        prompt: 'Where to?',
        data: { choices: ['Rome', 'Oslo'] },
      },
    ]);
    const second = resumedWithoutModel({ '1:0': 'Rome' }, { book: book(seen) });
    expect((await second.result()).questions).toMatchObject([{ id: '1:0.2', callId: '1:0', prompt: 'When?' }]);
    const { turn, model } = resumed({ '1:0.2': 'Monday' }, { book: book(seen) });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ content: 'booked Rome on Monday' });
    expect(seen).toEqual([1, 2, 3]);
  });

  it('gets back what it keeps for itself with a question, which nobody else sees', async () => {
    const kept: unknown[] = [];
    const book: PlainTool = (context) => {
      kept.push(context.kept);
      const city = context.ask({ prompt: 'Where to?', private: { state: 'sesame-one' } });
      const day = context.ask({ prompt: 'When?', private: { state: 'sesame-two' } });
      return `booked ${city} on ${day}`;
    };
    const first = await waiting({ book });
    expect(first.result.questions).toEqual([
      { id: '1:0', callId: '1:0', kind: 'input', toolName: 'book', prompt: 'Where to?' },
    ]);
    const second = resumedWithoutModel({ '1:0': 'Rome' }, { book });
    const events = watch(second);
    const asked = await second.result();
    const { turn } = resumed({ '1:0.2': 'Monday' }, { book });
    const ended = await turn.result();
    expect(kept).toEqual([undefined, { state: 'sesame-one' }, { state: 'sesame-two' }]);
    expect(JSON.stringify([events.events, first.result, asked, ended])).not.toContain('sesame');
    expect(bench.store.read('t').filter(({ type }) => type === 'turn.asked')).toMatchObject([
      { private: { state: 'sesame-one' } },
      { private: { state: 'sesame-two' } },
    ]);
  });

  it('asks also where it swallows what ask throws', async () => {
    const { result } = await waiting({
      quiet: ({ ask }) => {
        try {
          return ask({ prompt: 'Well?' });
        } catch {
          return 'never mind';
        }
      },
    });
    expect(result).toMatchObject({ status: 'input-required', questions: [{ prompt: 'Well?' }] });
  });

  it('asks nobody any more once the turn is cancelled', async () => {
    const running = gate();
    const ask: PlainTool = async (context) => {
      const aborted = new Promise((resolve) => context.signal.addEventListener('abort', resolve));
      running.open();
      await aborted;
      return context.ask({ prompt: 'Which one?' });
    };
    const turn = bench
      .loop(calls('ask'), { toolProviders: [plainTools({ ask })] })
      .startTurn(question, { taskId: 't' });
    const ended = turn.result().catch((error: unknown) => error);
    await running.pass();
    await turn.cancel('enough');
    expect(await ended).toMatchObject({ code: 'CANCELED' });
    expect(bench.store.read('t').slice(-2)).toMatchObject([
      { type: 'tool.result', callId: '1:0', error: { code: 'CANCELED' } },
      { type: 'turn.canceled', reason: 'enough' },
    ]);
  });

  it('makes the turn auth-required where it asks for a login', async () => {
    const { result } = await waiting({ login: (context) => context.ask({ kind: 'auth', prompt: 'Sign in' }) });
    expect(result).toMatchObject({ status: 'auth-required', questions: [{ kind: 'auth' }] });
    expect(bench.store.list()).toMatchObject([{ state: 'auth-required' }]);
  });

  it.each([
    [{ data: 1n }, 'data that is not JSON'],
    [{ private: 1n }, 'a private value that is not JSON'],
  ])('is told what is wrong with a question: %o', async (asked, words) => {
    const toolProviders = [plainTools({ odd: (context) => context.ask(asked) })];
    const model = bench.model([...calls('odd'), { text: 'Done.' }]);
    await new AgentLoop(bench.config(model, { toolProviders })).startTurn(question).result();
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({
      content: expect.stringContaining(words),
    });
  });
});

describe('a tool of the client', () => {
  const provider = () =>
    new ClientToolProvider([
      { name: 'locate', description: 'Where the user is.', parameters: { type: 'object', required: ['exact'] } },
    ]);
  const locate = { toolCalls: [{ name: 'locate', arguments: { exact: true } }] };

  it('S1-50 suspends the turn; the client posts its result, and the turn goes on', async () => {
    const toolProviders = [provider()];
    const first = bench.loop([locate], { toolProviders }).startTurn(question, { taskId: 't' });
    const watcher = watch(first);
    expect(await first.result()).toMatchObject({
      status: 'input-required',
      questions: [{ callId: '1:0', kind: 'client-tool', toolName: 'locate', data: { exact: true } }],
    });
    await AgentLoop.answer('t', { store: bench.store, answers: { '1:0': { result: { city: 'Oslo' } } } });
    expect(bench.store.list()).toMatchObject([{ state: 'working', held: false }]);
    const model = bench.model([{ text: 'Oslo.' }]);
    const again = AgentLoop.resume('t', bench.config(model, { toolProviders: [provider()] }));
    const later = watch(again);
    expect(await again.result()).toMatchObject({ status: 'completed', text: 'Oslo.' });
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ role: 'tool', content: '{"city":"Oslo"}' });
    expect(statuses(watcher.events).at(-1)).toEqual(['input-required', true, ['1:0']]);
    expect(statuses(later.events)).toEqual([
      ['working', false, undefined],
      ['input-required', false, ['1:0']],
      ['input-required', false, ['1:0']],
      ['working', false, undefined],
      ['working', false, undefined],
      ['completed', true, undefined],
    ]);
  });

  it('may have failed', async () => {
    const first = bench.loop([locate], { toolProviders: [provider()] }).startTurn(question, { taskId: 't' });
    await first.result();
    const model = bench.model([{ text: 'Sorry.' }]);
    const config = bench.config(model, { toolProviders: [provider()] });
    await AgentLoop.resume('t', config, { answers: { '1:0': { error: 'no GPS' } } }).result();
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ status: 'error', content: 'Tool error: no GPS' });
  });

  it('is not asked with arguments that do not fit', async () => {
    const model = bench.model([{ toolCalls: [{ name: 'locate', arguments: {} }] }, { text: 'Sorry.' }]);
    const loop = new AgentLoop(bench.config(model, { toolProviders: [provider()] }));
    expect(await loop.startTurn(question).result()).toMatchObject({ status: 'completed' });
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({
      status: 'error',
      content: expect.stringContaining('exact'),
    });
  });
});
