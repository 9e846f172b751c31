import { describe, expect, it } from '@jest/globals';
import { agent, InMemoryMessageStore, InMemoryStateStore, systemClock, team, tool } from 'millrace';
import { VirtualProcess } from '../crash/in-process.ts';
import type { Life } from '../crash/workload/life.ts';
import { mortalStore } from '../crash/workload/mortal-store.ts';
import { model, mortalMessages } from './mortal-team.ts';

const leaseMs = 10_000;

const handsTo = (agentId: string) => ({ call: 'hand_off', args: { agentId, note: `To ${agentId}.` } });

/** What outlives processes: stores, and what tools did. */
class World {
  passedMs = 0;
  readonly effects: string[] = [];
  readonly messages = new InMemoryMessageStore();
  readonly store = new InMemoryStateStore({ clock: { ...systemClock, now: () => systemClock.now() + this.passedMs } });

  /** The team as one process has it: a hands to b, which pays and hands to c. */
  team(life: Life & Pick<VirtualProcess, 'clock'>) {
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      parameters: { type: 'object' },
      idempotent: true,
      onInDoubt: 'retry',
      execute: (_, { idempotencyKey }) => {
        if (!this.effects.includes(idempotencyKey)) this.effects.push(idempotencyKey);
        return 'paid';
      },
    });
    const common = { clock: life.clock, leaseMs, enableTracing: false };
    const a = agent({ ...common, id: 'a', provider: model(() => handsTo('b')) });
    const b = agent({
      ...common,
      id: 'b',
      tools: [pay],
      provider: model(({ role }) => (role === 'tool' ? handsTo('c') : { call: 'pay', args: {} })),
    });
    const c = agent({
      ...common,
      id: 'c',
      provider: model(({ content }) => (content === 'Thanks.' ? 'You are welcome.' : 'It is paid.')),
    });
    return team({
      agents: [a, b, c],
      contextId: 'c',
      handOff: true,
      taskStateStore: mortalStore(this.store, life),
      messageStore: mortalMessages(this.messages, life),
    });
  }
}

/** One turn whose process dies at a moment; then another process takes it over, and a third goes on with the conversation. */
async function interrupted(dieAt: number) {
  const world = new World();
  const doomed = new VirtualProcess(dieAt);
  const ran = world.team(doomed).startTurn('Pay.', { taskId: 't' }).result();
  const died = (await Promise.race([doomed.death, ran])) === 'died';
  ran.catch(() => {});
  if (died) world.passedMs += leaseMs;
  const second = world.team(new VirtualProcess(Number.POSITIVE_INFINITY));
  const turn = world.store.load('t') ? await second.resume('t') : second.startTurn('Pay.', { taskId: 't' });
  const result = await turn.result();
  const third = world.team(new VirtualProcess(Number.POSITIVE_INFINITY));
  const next = await third.ask('Thanks.');
  const current = (await third.currentAgent()).id;
  const changes = world.store.read('t').flatMap((record) => (record.type === 'agent.changed' ? [record.to] : []));
  const { messages } = world.messages.load('c');
  const { effects } = world;
  return { died, seen: { text: result.text, next: next.text, by: next.agentId, current, changes, effects, messages } };
}

describe('a hand-off', () => {
  it('T-15 survives the death of its process at every moment: same history, no call twice, the taker is current', async () => {
    const whole = await interrupted(Number.POSITIVE_INFINITY);
    expect(whole.seen).toMatchObject({
      text: 'It is paid.',
      next: 'You are welcome.',
      by: 'c',
      current: 'c',
      changes: ['a', 'b', 'c'],
      effects: ['t:2:0'],
    });
    expect(whole.seen.messages).toHaveLength(12);
    let deaths = 0;
    for (let dieAt = 1; ; dieAt++) {
      const { died, seen } = await interrupted(dieAt);
      if (!died) break;
      deaths++;
      expect({ dieAt, ...seen }).toEqual({ dieAt, ...whole.seen });
    }
    expect(deaths).toBeGreaterThan(30);
  });
});
