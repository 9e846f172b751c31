import { describe, expect, it } from '@jest/globals';
import { type Message, replay } from 'millrace';
import { AgentLoop, History } from 'millrace/internals';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';

const bench = turnBench();

function asking(id: string): Message {
  return {
    role: 'assistant',
    content: null,
    toolCalls: [{ id, type: 'function', function: { name: 'count', arguments: '{}' } }],
  };
}

function callIdsIn(messages: readonly Message[]) {
  return messages
    .flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []))
    .map(({ id }) => id);
}

function resultIdsIn(messages: readonly Message[]) {
  return messages.flatMap((message) => (message.role === 'tool' ? [message.toolCallId] : []));
}

describe('the ids of tool calls', () => {
  const toolProviders = () => [plainTools({ count: () => 2 })];
  const step = (...ids: readonly string[]) => ({ toolCalls: ids.map((id) => ({ name: 'count', id })) });

  it('are different within a history, also where providers give the same id in several answers', async () => {
    const steps = [step('call_1', 'call_2'), step('call_1'), step('call_3', 'call_1'), { text: 'Two.' }];
    const { messages } = await bench
      .loop(steps, { toolProviders: toolProviders() })
      .startTurn(question, { taskId: 't' })
      .result();
    const ids = callIdsIn(messages);
    expect(ids).toEqual(['call_1', 'call_2', '2:0', 'call_3', '3:1']);
    expect(resultIdsIn(messages)).toEqual(ids);
    expect(await replay(bench.store.read('t')).result()).toMatchObject({ deviations: [], messages });
  });

  it('are different from those of the turns before, also where no provider gave any', async () => {
    const loop = bench.loop([step(''), { text: 'Two.' }, step(''), { text: 'Two.' }, step(''), { text: 'Two.' }], {
      toolProviders: toolProviders(),
    });
    let history: readonly Message[] = [];
    for (let turn = 0; turn < 3; turn++) {
      const given = [...history, ...question];
      history = [...given, ...(await loop.startTurn(given).result()).messages];
    }
    const ids = callIdsIn(history);
    expect(ids).toEqual(['1:0', '1:0.5', '1:0.9']);
    expect(resultIdsIn(history)).toEqual(ids);
  });

  it('are different in a turn that another process goes on with', async () => {
    const first = bench.loop([step('call_1'), { error: new Error('cut') }], { toolProviders: toolProviders() });
    await expect(first.startTurn(question, { taskId: 't' }).result()).rejects.toMatchObject({
      code: 'PROVIDER_FAILED',
    });
    const cut = bench.store.read('t').slice(1, -1);
    const [started] = bench.store.read('t');
    if (started?.type !== 'turn.started') throw new Error('no turn was started');
    bench.store.create('again', { ...started, taskId: 'again' });
    const lease = bench.store.acquire('again', 'the dead', 1_000);
    bench.store.append(lease, cut, { status: 'working', barrier: true });
    bench.store.release(lease);
    const config = bench.config(bench.model([step('call_1'), { text: 'Two.' }]), { toolProviders: toolProviders() });
    const { messages } = await AgentLoop.resume('again', config).result();
    expect(callIdsIn(messages)).toEqual(['call_1', '2:0']);
  });
});

describe('a history', () => {
  it('knows the calls of its own version, whatever was appended to others', () => {
    const one = History.of([asking('a')]);
    const two = one.append(asking('b'));
    expect([two.hasCall('a'), two.hasCall('b'), one.hasCall('b')]).toEqual([true, true, false]);
    const other = one.append(asking('c'));
    expect([other.hasCall('b'), other.hasCall('c'), two.hasCall('c')]).toEqual([false, true, false]);
    const later = two.append(asking('d'));
    expect([later.hasCall('d'), two.hasCall('d')]).toEqual([true, false]);
    expect(two.with(new Map([[1, asking('e')]])).hasCall('b')).toBe(false);
  });

  it('looks at each message once, however often it is asked', () => {
    let looks = 0;
    const message = asking('a');
    const watched = new Proxy(message, {
      get(target, name) {
        if (name === 'toolCalls') looks++;
        return Reflect.get(target, name);
      },
    });
    let history = History.of([watched]);
    for (let index = 0; index < 100; index++) {
      expect(history.hasCall(`call_${index}`)).toBe(false);
      history = history.append(asking(`call_${index}`));
    }
    expect(looks).toBe(1);
  });
});
