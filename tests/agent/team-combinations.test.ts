import { describe, expect, it } from '@jest/globals';
import { inParallel, inSequence, limits, supervisor, team, tool } from 'millrace';
import { watch } from '../core/watch-events.ts';
import { user } from './agent-bench.ts';
import { answer, handing, lastOf, teamBench } from './team-bench.ts';

const { on, player, made } = teamBench();
const usage = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };
const city = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const;
const rome = { toolCalls: [{ name: '__finish__', arguments: { city: 'Rome' } }] };

describe('a team with other features', () => {
  it('goes on in a sequence after an agent that ends with a value, and gives the value of the last', async () => {
    const [a, b] = [player('a', [rome], { outputSchema: city }), player('b', answer('Rome it is.'))];
    const both = made([a, b], { routing: inSequence(['a', 'b']) });
    await expect(both.ask('Where?')).resolves.toMatchObject({ text: 'Rome it is.', value: undefined });
    expect(JSON.stringify(lastOf(b))).toContain('Rome');
    const back = made([player('c', answer('Let me see.')), player('d', [rome], { outputSchema: city })], {
      routing: inSequence(['c', 'd']),
    });
    await expect(back.ask('Where?')).resolves.toMatchObject({ value: { city: 'Rome' }, agentId: 'd' });
  });

  it('lets the taker ask for an approval, and goes on with the answer in another process', async () => {
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      parameters: { type: 'object' },
      needsApproval: true,
      execute: () => 'paid',
    });
    const options = { handOff: true, taskStateStore: on.bench.store, messageStore: on.messages() };
    const before = made(
      [player('a', [handing('b')]), player('b', [{ toolCalls: [{ name: 'pay' }] }], { tools: [pay] })],
      options,
    );
    const { questions } = await before.ask('Pay.', { taskId: 't' });
    expect(questions).toMatchObject([{ id: '2:0', toolName: 'pay' }]);
    const after = made([player('a', []), player('b', answer('It is paid.'), { tools: [pay] })], options);
    const turn = await after.resume('t', { answers: { '2:0': { approved: true } } });
    await expect(turn.result()).resolves.toMatchObject({ text: 'It is paid.', agentId: 'b', status: 'completed' });
    expect((await after.currentAgent()).id).toBe('b');
  });

  it('asks in a child of a supervisor, and takes the answer to it', async () => {
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      parameters: { type: 'object' },
      needsApproval: true,
      execute: () => 'paid',
    });
    const store = on.bench.store;
    const options = { routing: supervisor('lead'), taskStateStore: store, messageStore: on.messages() };
    const asks = { toolCalls: [{ name: 'clerk', arguments: { message: 'Pay it.' } }] };
    const clerk = (steps: Parameters<typeof player>[1]) => player('clerk', steps, { tools: [pay] });
    const before = made([player('lead', [asks]), clerk([{ toolCalls: [{ name: 'pay' }] }])], options);
    const { questions } = await before.ask('Pay.', { taskId: 't' });
    const after = made([player('lead', answer('Done.')), clerk(answer('Paid.'))], options);
    const answers = { [questions[0]?.id ?? '']: { approved: true } };
    await expect((await after.resume('t', { answers })).result()).resolves.toMatchObject({ text: 'Done.' });
    expect(store.load('t:1:0')).toMatchObject({ status: 'completed' });
    expect(store.read('t:1:0')[0]).toMatchObject({ parent: { taskId: 't', callId: '1:0', agentId: 'lead' } });
  });

  it('has limits that count what all agents of a turn use', async () => {
    const a = player('a', [{ ...handing('b'), usage }]);
    const b = player('b', [{ ...handing('a'), usage }]);
    const extensions = [limits({ maxTokens: 150 })];
    const two = made([a, b], { handOff: true, extensions });
    await expect(two.ask('Go.')).rejects.toMatchObject({ code: 'LIMIT' });
  });

  it('sums up the usage of a chain and of agents in parallel', async () => {
    const chain = made(
      [
        player('a', [{ ...handing('b'), usage }]),
        player('b', [{ ...handing('c'), usage }]),
        player('c', [{ text: 'C.', usage }]),
      ],
      { handOff: true },
    );
    await expect(chain.ask('Go.')).resolves.toMatchObject({ usage: { totalTokens: 300 } });
    const both = made([player('d', [{ text: 'D.', usage }]), player('e', [{ text: 'E.', usage }])], {
      routing: inParallel(['d', 'e']),
    });
    await expect(both.ask('Go.')).resolves.toMatchObject({ usage: { totalTokens: 200 } });
  });

  it('steers the agent that has the turn with a message that comes while it runs', async () => {
    const b = player('b', answer('B hears.'));
    const two = made([player('a', [handing('b')]), b], { handOff: true, busy: 'steer', messageStore: on.messages() });
    const turn = two.startTurn('One.');
    const reader = watch(turn, (event) => {
      if (event.kind === 'internal:tool-complete') expect(two.startTurn('Two.')).toBe(turn);
    });
    await expect(turn.result()).resolves.toMatchObject({ text: 'B hears.' });
    await reader.ended;
    expect(lastOf(b)).toContainEqual(user('Two.'));
  });

  it('gives each agent with an output schema retries of its own', async () => {
    const bad = { text: 'Rome' };
    const a = player('a', [bad, bad, handing('b')], { outputSchema: city });
    const b = player('b', [bad, rome], { outputSchema: city });
    const two = made([a, b], { handOff: true });
    await expect(two.ask('Where?')).resolves.toMatchObject({ value: { city: 'Rome' }, agentId: 'b' });
  });

  it('refuses a team as a member that could be handed the turn, and takes it as a helper', async () => {
    const inner = made([player('a', answer('A.'))], { id: 'inner' }).asAgent();
    const lead = player('lead', [{ toolCalls: [{ name: 'inner', arguments: { message: 'Go.' } }] }, { text: 'So.' }]);
    expect(() => team({ agents: [inner], handOff: true })).toThrow(/"inner" is a team, which cannot be handed a turn/);
    const led = team({ agents: [lead.agent, inner], routing: supervisor('lead', { mayHandOff: false }) });
    await expect(led.ask('Go.')).resolves.toMatchObject({ text: 'So.' });
  });

  it('tells the current agent of a turn whose process died before it was saved', async () => {
    const messageStore = on.messages();
    const taskStateStore = on.bench.store;
    const players = () => [player('a', []), player('b', [])];
    const first = made([player('a', [handing('b')]), player('b', answer('B.'))], {
      handOff: true,
      taskStateStore,
      messageStore: Object.assign(Object.create(messageStore), {
        begin: messageStore.begin.bind(messageStore),
        load: messageStore.load.bind(messageStore),
        append: () => Promise.reject(new Error('killed')),
      }),
    });
    await first.ask('Go.', { taskId: 't' });
    expect(messageStore.load('c').agentId).toBeUndefined();
    const next = made(players(), { handOff: true, taskStateStore, messageStore });
    expect((await next.currentAgent()).id).toBe('b');
    expect(messageStore.load('c').messages).toHaveLength(4);
  });

  it('takes the options of its turns from the team, and from the first agent what it is not given', async () => {
    const leases: number[] = [];
    const store = on.bench.store;
    const acquire = store.acquire.bind(store);
    store.acquire = (taskId, owner, leaseMs, under) => {
      leases.push(leaseMs);
      return acquire(taskId, owner, leaseMs, under);
    };
    const first = () => player('a', answer('A.'), { leaseMs: 4_000 });
    await made([first()], { leaseMs: 2_000 }).ask('Go.');
    await made([first()], {}).ask('Go.');
    expect(leases).toEqual([2_000, 4_000]);
  });
});
