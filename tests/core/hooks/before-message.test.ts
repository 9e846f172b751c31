import { describe, expect, it } from '@jest/globals';
import type { Extension, Message } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { question } from '../dead-turn.ts';
import { turnBench } from '../turn-bench.ts';
import { watch } from '../watch-events.ts';

const bench = turnBench();
const user = (content: string): Message => ({ role: 'user', content });
const adding = (name: string, more: Partial<Extension> = {}): Extension => ({
  name,
  beforeMessage: ({ content }) => user(`${content} ${name}`),
  ...more,
});
const failing = (more: Partial<Extension> = {}): Extension => ({
  name: 'guard',
  beforeMessage: ({ content }) => {
    if (content === 'bad') throw new Error('not that');
    return undefined;
  },
  ...more,
});

/** A turn whose first answer waits; `steer` is told meanwhile. */
async function steered(extensions: readonly Extension[], steer: (taskId: string) => void, log: unknown[] = []) {
  const answer = gate();
  const model = bench.model([{ gate: answer.pass(), text: 'Two.' }, { text: 'And three.' }]);
  const silent = () => {};
  const logger = { debug: silent, info: silent, error: silent, warn: (...said: unknown[]) => void log.push(said) };
  const turn = new AgentLoop(bench.config(model, { extensions, logger })).startTurn(question, { taskId: 't' });
  const reader = watch(turn);
  await reader.until('internal:llm-call');
  steer('t');
  turn.steer(user('And pears?'));
  answer.open();
  await turn.result();
  return model.calls[1]?.messages.slice(2);
}

describe('beforeMessage', () => {
  it('changes messages before they are recorded, one extension behind another', async () => {
    const model = bench.model([{ text: 'Two.' }]);
    const extensions = [adding('one'), adding('two')];
    const loop = new AgentLoop(bench.config(model, { extensions }));
    await loop.startTurn([user('Count.')], { taskId: 't' }).result();
    expect(model.calls[0]?.messages).toEqual([user('Count. one two')]);
    expect(bench.store.read('t')[0]).toMatchObject({ type: 'turn.started', messages: [user('Count. one two')] });
  });

  it('knows a turn again by the messages as they were given', async () => {
    const loop = bench.loop([{ text: 'Two.' }], { extensions: [adding('one')] });
    await loop.startTurn([user('Count.')], { taskId: 't' }).result();
    await expect(loop.startTurn([user('Count.')], { taskId: 't' }).result()).resolves.toMatchObject({ text: 'Two.' });
    await expect(loop.startTurn([user('Stop.')], { taskId: 't' }).result()).rejects.toMatchObject({ code: 'CONFLICT' });
  });

  it('changes those by which a turn is steered, also by commands', async () => {
    const told = await steered([adding('one')], (taskId) => {
      bench.store.post(taskId, { id: 'c', type: 'steer', message: user('And plums?') });
    });
    expect(told).toEqual([user('And plums? one'), user('And pears? one')]);
    expect(JSON.stringify(bench.store.read('t'))).not.toContain('And pears?"');
  });

  it('refuses the message where it fails, and the turn goes on', async () => {
    const log: unknown[] = [];
    const told = await steered(
      [failing()],
      (taskId) => bench.store.post(taskId, { id: 'c', type: 'steer', message: user('bad') }),
      log,
    );
    expect(told).toEqual([user('And pears?')]);
    const error = 'Extension "guard" failed in beforeMessage: not that';
    expect(log).toEqual([['steering message refused', { taskId: 't', error }]]);
    const loop = bench.loop([], { extensions: [failing()] });
    expect(() => loop.startTurn([user('bad')])).toThrow(
      expect.objectContaining({ code: 'EXTENSION_FAILED', message: error }),
    );
  });

  it('leaves the message where a failure shall not count, or nothing is answered', async () => {
    const model = bench.model([{ text: 'Well.' }]);
    const extensions = [failing({ onError: 'continue' })];
    await new AgentLoop(bench.config(model, { extensions })).startTurn([user('bad'), user('good')]).result();
    expect(model.calls[0]?.messages).toEqual([user('bad'), user('good')]);
  });

  it.each([
    ['a promise', Promise.resolve(user('late')), 'it answered with a promise; it has to answer at once'],
    ['no message', { role: 'boss' }, 'messages[0] needs a role'],
  ])('takes %s for a failure', (_, answer, why) => {
    const extension = { name: 'odd', beforeMessage: () => answer };
    const config = { ...bench.config(bench.model([])), extensions: [extension] };
    const loop: AgentLoop = Reflect.construct(AgentLoop, [config]);
    expect(() => loop.startTurn(question)).toThrow(`Extension "odd" failed in beforeMessage: ${why}`);
  });
});
