import { describe, expect, it } from '@jest/globals';
import { agent } from 'millrace';
import { agentBench, says, user } from './agent-bench.ts';

const on = agentBench();

describe('Agent.submit', () => {
  it('F-01 writes one record; a resume of the agent, also in another process, begins it with what its context remembers', async () => {
    const messageStore = on.messages();
    const ada = on.agent([{ text: 'One.' }], { messageStore, metadata: { team: 'blue' } });
    await ada.run('1');
    const { taskId } = await ada.submit('2', { metadata: { order: 17 } });
    expect(on.bench.store.read(taskId)).toMatchObject([
      { type: 'turn.started', messages: [user('2')], metadata: { team: 'blue', order: 17 }, submitted: {} },
    ]);
    const provider = on.bench.model([{ text: 'Two.' }]);
    const elsewhere = on.agent([], { messageStore, provider });
    expect(await elsewhere.resume(taskId).result()).toMatchObject({ text: 'Two.' });
    expect(provider.calls[0]?.messages).toEqual([user('1'), says('One.'), user('2')]);
    expect(on.bench.store.read(taskId).map(({ type }) => type)).not.toContain('turn.resumed');
    expect(messageStore.load('c')).toMatchObject({ openTurns: [] });
  });

  it('turns of one context run in the order in which they were submitted, whichever is resumed first', async () => {
    const provider = on.bench.model([{ text: 'One.' }, { text: 'Two.' }]);
    const ada = on.agent([], { provider, busy: 'queue' });
    await ada.submit('1', { taskId: 'first' });
    await ada.submit('2', { taskId: 'second' });
    const second = ada.resume('second').result();
    await ada.resume('first').result();
    await second;
    expect(provider.calls[1]?.messages).toEqual([user('1'), says('One.'), user('2')]);
  });

  it('with busy "reject" a turn behind an open one is refused, and nothing of it stays', async () => {
    const ada = on.agent([{ text: 'One.' }]);
    await ada.submit('1', { taskId: 'first' });
    await expect(ada.submit('2', { taskId: 'second' })).rejects.toMatchObject({
      code: 'AGENT_BUSY',
      message: expect.stringContaining('turn "first" has not begun'),
    });
    expect(on.bench.store.describe('second')).toBeNull();
    expect(await ada.submit('1', { taskId: 'first' })).toMatchObject({ created: false });
    await ada.resume('first').result();
    expect(await ada.submit('2', { taskId: 'second' })).toMatchObject({ created: true });
  });

  it('of two that are submitted at the same moment one is refused', async () => {
    const messageStore = on.messages();
    const agents = [on.agent([], { messageStore }), on.agent([], { messageStore })];
    const given = await Promise.allSettled(agents.map((each, index) => each.submit(`${index}`)));
    expect(given.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(on.bench.store.list()).toHaveLength(1);
  });

  it('needs a store', async () => {
    const ada = agent({ id: 'ada', provider: on.bench.model([]) });
    await expect(ada.submit('1')).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });
});
