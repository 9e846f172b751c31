import { describe, expect, it } from '@jest/globals';
import {
  agent,
  byRole,
  byRule,
  InMemoryMessageStore,
  InMemoryStateStore,
  inParallel,
  type RoutingContext,
  systemClock,
  team,
} from 'millrace';
import { gate } from 'millrace/testing';
import type { RoutingRequest } from 'millrace/types';
import { watch } from '../core/watch-events.ts';
import { VirtualProcess } from '../crash/in-process.ts';
import { mortalStore } from '../crash/workload/mortal-store.ts';
import { says, user } from './agent-bench.ts';
import { model, mortalMessages } from './mortal-team.ts';
import { answer, type Player, teamBench } from './team-bench.ts';

const { on, player, made } = teamBench();
/** A model that never answers, and when it was asked. */
function silent() {
  const reached = gate();
  const step = () => {
    void reached.pass();
    return { never: true };
  };
  return { step, asked: reached.reached };
}
const aborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

describe('a routing call that waits', () => {
  it('U-14 sees the conversation, the metadata and the context of the turn; no model is called before it answers', async () => {
    const held = gate();
    const seen: (RoutingRequest & Partial<RoutingContext>)[] = [];
    const [a, b] = [player('a', []), player('b', answer('B.'))];
    const messageStore = on.messages();
    messageStore.append('c', 'before', [user('Hello.'), says('Hello.')]);
    const both = made([a, b], {
      messageStore,
      routing: {
        async choose(request, { metadata, authContext, context }) {
          await held.pass();
          seen.push({ ...request, metadata, authContext, context });
          return metadata['plan'] === 'gold' ? 'b' : 'a';
        },
      },
    });
    const given = { metadata: { plan: 'gold' }, authContext: { user: 'ann' }, context: { shop: 7 } };
    const turn = both.startTurn('A refund.', given);
    const reader = watch(turn);
    await held.reached;
    expect(reader.of('internal:llm-call')).toEqual([]);
    held.open();
    await expect(turn.result()).resolves.toMatchObject({ text: 'B.', agentId: 'b' });
    expect(seen).toMatchObject([
      { ...given, text: 'A refund.', messages: [user('Hello.'), says('Hello.'), user('A refund.')] },
    ]);
  });

  it('U-14 may be a rule or a role; rules are tried one after another', async () => {
    const tried: string[] = [];
    const rule = (agentId: string, fits: boolean) => ({
      agentId,
      when: async (text: string, { messages }: RoutingRequest, { metadata }: RoutingContext) => {
        await Promise.resolve();
        tried.push(`${agentId}: ${text}, ${messages.length}, ${metadata['plan']}`);
        return fits;
      },
    });
    const [a, b, c] = [player('a', []), player('b', answer('B.')), player('c', [])];
    const options = { metadata: { plan: 'gold' } };
    const rules = made([a, b, c], { routing: byRule([rule('a', false), rule('b', true), rule('c', true)]) });
    await expect(rules.ask('Hi.', options)).resolves.toMatchObject({ text: 'B.' });
    expect(tried).toEqual(['a: Hi., 1, gold', 'b: Hi., 1, gold']);
    const seller = player('seller', answer('Goods.'), { metadata: { role: 'sales' } });
    const roles = made([a, seller], { routing: byRole(async (_, __, { metadata }) => String(metadata['want'])) });
    await expect(roles.ask('Hi.', { metadata: { want: 'sales' } })).resolves.toMatchObject({ text: 'Goods.' });
  });

  it.each([
    ['stops with its signal', (signal: AbortSignal) => aborted(signal)],
    ['ignores its signal', () => new Promise<never>(() => {})],
  ])('U-14 is cancelled with its turn at once, where it %s', async (_, wait) => {
    const reached = gate();
    let signal: AbortSignal | undefined;
    const one = made([player('a', [])], {
      taskStateStore: on.bench.store,
      routing: {
        choose: (_request, context) => {
          signal = context.signal;
          void reached.pass();
          return wait(context.signal);
        },
      },
    });
    const turn = one.startTurn('1', { taskId: 't' });
    const ended = turn.result();
    ended.catch(() => {});
    await reached.reached;
    await turn.cancel('enough');
    await expect(ended).rejects.toMatchObject({ code: 'CANCELED', reason: 'enough' });
    expect(signal).toMatchObject({ aborted: true, reason: { code: 'CANCELED' } });
    expect(on.bench.store.load('t')).toMatchObject({ status: 'canceled' });
  });

  it('U-14 fails its turn with the cause of what it threw', async () => {
    const cause = new RangeError('no map');
    const choose = async (): Promise<never> => Promise.reject(cause);
    const one = made([player('a', [])], { routing: { choose } });
    await expect(one.ask('1')).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: 'The routing of the team failed: no map',
      cause,
    });
  });

  it('U-14 fails its turn when it takes longer than routingTimeoutMs, and its child turns end with it', async () => {
    const waiting = silent();
    const asked = player('asked', [waiting.step]);
    const store = on.bench.store;
    let signal: AbortSignal | undefined;
    const one = made([player('a', [])], {
      taskStateStore: store,
      clock: on.bench.clock,
      routingTimeoutMs: 5_000,
      routing: {
        async choose({ messages }, context) {
          signal = context.signal;
          return (await context.ask(asked.agent, messages)).text;
        },
      },
    });
    const ended = one.ask('1', { taskId: 't' });
    ended.catch(() => {});
    await waiting.asked;
    on.bench.clock.advance(4_999);
    expect(signal?.aborted).toBe(false);
    on.bench.clock.advance(1);
    await expect(ended).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: 'The routing of the team did not answer within 5000 ms (routingTimeoutMs).',
    });
    expect(signal?.aborted).toBe(true);
    expect(store.load('t')).toMatchObject({ status: 'failed' });
    expect(store.load('t.0.route')).toMatchObject({ status: 'canceled' });
    expect(() => made([player('b', [])], { routingTimeoutMs: -1 })).toThrow(
      /routingTimeoutMs must be milliseconds from 0/,
    );
  });

  it('U-14 cancels the child turns that it does not wait for', async () => {
    const waiting = silent();
    const [slow, fast] = [player('slow', [waiting.step]), player('fast', answer('a'))];
    const one = made([player('a', answer('A.'))], {
      taskStateStore: on.bench.store,
      routing: {
        async choose({ messages }, { ask }) {
          const both = [ask(slow.agent, messages), ask(fast.agent, messages)];
          await waiting.asked;
          return (await Promise.race(both)).text;
        },
      },
    });
    await expect(one.ask('1', { taskId: 't' })).resolves.toMatchObject({ text: 'A.' });
    expect(on.bench.store.load('t.0.route')).toMatchObject({ status: 'canceled' });
    expect(on.bench.store.load('t.0.route1')).toMatchObject({ status: 'completed' });
  });

  it.each([
    ['stops with its signal', (signal: AbortSignal) => aborted(signal)],
    ['ignores its signal', () => new Promise<never>(() => {})],
    ['answers all the same', (signal: AbortSignal) => aborted(signal).catch(() => 'a')],
  ])('U-14 is left to the next process on a shutdown, which asks again, where it %s', async (_, wait) => {
    const down = new AbortController();
    const reached = gate();
    const options = { messageStore: on.messages(), taskStateStore: on.bench.store };
    const choose = (_request: RoutingRequest, { signal }: RoutingContext) => {
      void reached.pass();
      return wait(signal);
    };
    const before = made([player('a', [], { shutdown: down.signal }), player('b', [])], {
      ...options,
      routing: { choose },
    });
    const reader = watch(before.startTurn('1', { taskId: 't' }));
    await reached.reached;
    down.abort();
    await reader.ended;
    expect(reader.end).toMatchObject({ error: { code: 'SHUTDOWN' } });
    expect(on.bench.store.load('t')).toMatchObject({ status: 'submitted' });
    const after = made([player('a', []), player('b', answer('B.'))], {
      ...options,
      routing: { choose: async () => 'b' },
    });
    await expect((await after.resume('t')).result()).resolves.toMatchObject({ text: 'B.', agentId: 'b' });
  });

  it('U-14 leaves the agents that it asks to the next process on a shutdown', async () => {
    const down = new AbortController();
    const waiting = silent();
    const asked = player('asked', [waiting.step]);
    const options = { messageStore: on.messages(), taskStateStore: on.bench.store };
    const routed = (who: Player, shutdown?: AbortSignal) =>
      made([player('a', shutdown ? [] : answer('A.'), { shutdown })], {
        ...options,
        routing: { choose: async ({ messages }, { ask }) => (await ask(who.agent, messages)).text },
      });
    const reader = watch(routed(asked, down.signal).startTurn('1', { taskId: 't' }));
    await waiting.asked;
    down.abort();
    await reader.ended;
    expect(on.bench.store.load('t.0.route')).toMatchObject({ status: 'working', isComplete: false });
    const next = routed(player('asked', answer('a')));
    await expect((await next.resume('t')).result()).resolves.toMatchObject({ text: 'A.' });
    expect(on.bench.store.load('t.0.route')).toMatchObject({ status: 'completed' });
  });

  it('U-14 loses its turn with an agent that it asks and loses, also where it handles that', async () => {
    const down = new AbortController();
    const waiting = silent();
    const asked = player('asked', [waiting.step], { shutdown: down.signal });
    const one = made([player('a', [])], {
      taskStateStore: on.bench.store,
      routing: {
        choose: async ({ messages }, { ask }) =>
          ask(asked.agent, messages).then(
            () => 'a',
            () => 'a',
          ),
      },
    });
    const reader = watch(one.startTurn('1', { taskId: 't' }));
    await waiting.asked;
    down.abort();
    await reader.ended;
    expect(reader.end).toMatchObject({ error: { code: 'SHUTDOWN' } });
    expect(on.bench.store.read('t').map(({ type }) => type)).not.toContain('agent.changed');
  });
});

it('U-14 leaves the other agents that it asks to the next process where one of them is lost', async () => {
  const down = new AbortController();
  const [first, second] = [silent(), silent()];
  const lost = player('lost', [first.step], { shutdown: down.signal });
  const other = player('other', [second.step]);
  const one = made([player('a', [])], {
    taskStateStore: on.bench.store,
    routing: {
      choose: async ({ messages }, { ask }) =>
        (await Promise.all([ask(lost.agent, messages), ask(other.agent, messages)]))[0].text,
    },
  });
  const reader = watch(one.startTurn('1', { taskId: 't' }));
  await Promise.all([first.asked, second.asked]);
  down.abort();
  await reader.ended;
  expect(reader.end).toMatchObject({ error: { code: 'SHUTDOWN' } });
  expect(on.bench.store.load('t.0.route1')).toMatchObject({ status: 'working', isComplete: false });
});

describe('join', () => {
  it('U-14 may wait, and is limited like a choice', async () => {
    const players = () => [player('a', answer('Yes.')), player('b', answer('No.'))];
    const routing = inParallel(['a', 'b'], {
      join: async (answers) => answers.map(({ agentId, text }) => `${agentId}: ${text}`).join(' '),
    });
    await expect(made(players(), { routing }).ask('1')).resolves.toMatchObject({ text: 'a: Yes. b: No.' });
    const cause = new RangeError('no pen');
    const failing = inParallel(['a', 'b'], { join: () => Promise.reject(cause) });
    await expect(made(players(), { routing: failing }).ask('1')).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: 'join of inParallel failed: no pen',
      cause,
    });
    const reached = gate();
    const { clock } = on.bench;
    const waiting = inParallel(['a', 'b'], { join: (_, { signal }) => reached.pass().then(() => aborted(signal)) });
    const late = made(players(), { routing: waiting, clock, routingTimeoutMs: 50 }).ask('1');
    late.catch(() => {});
    await reached.reached;
    clock.advance(50);
    await expect(late).rejects.toMatchObject({
      message: 'join of inParallel did not answer within 50 ms (routingTimeoutMs).',
    });
  });
});

const leaseMs = 10_000;

/** A turn whose process dies at a moment, maybe while its routing asks an agent; then another process takes it over. */
async function interrupted(dieAt: number) {
  let passedMs = 0;
  const store = new InMemoryStateStore({ clock: { ...systemClock, now: () => systemClock.now() + passedMs } });
  const messages = new InMemoryMessageStore();
  const asked: number[] = [];
  const teamOf = (life: VirtualProcess) => {
    const common = { clock: life.clock, leaseMs, enableTracing: false };
    const dispatcher = agent({
      ...common,
      id: 'dispatcher',
      provider: model(() => {
        asked.push(dieAt);
        return 'b';
      }),
    });
    const a = agent({ ...common, id: 'a', provider: model(() => 'A.') });
    const b = agent({ ...common, id: 'b', provider: model(() => 'B.') });
    return team({
      agents: [a, b],
      contextId: 'c',
      routing: { choose: async (request, { ask }) => (await ask(dispatcher, request.messages)).text },
      taskStateStore: mortalStore(store, life),
      messageStore: mortalMessages(messages, life),
    });
  };
  const doomed = new VirtualProcess(dieAt);
  const ran = teamOf(doomed).startTurn('Hi.', { taskId: 't' }).result();
  ran.catch(() => {});
  const died = (await Promise.race([doomed.death, ran])) === 'died';
  if (died) passedMs += leaseMs;
  const route = () => (store.load('t.0.route') ? store.read('t.0.route') : []);
  const wasAnswered = route().some(({ type }) => type === 'llm.done');
  const second = teamOf(new VirtualProcess(Number.POSITIVE_INFINITY));
  const { text } = await (store.load('t')
    ? await second.resume('t')
    : second.startTurn('Hi.', { taskId: 't' })
  ).result();
  await second.currentAgent(); // Saves a turn that ended with its process.
  const changes = store.read('t').flatMap((record) => (record.type === 'agent.changed' ? [record.to] : []));
  const answers = route().filter(({ type }) => type === 'llm.done').length;
  return {
    died,
    wasAnswered,
    askedTwice: asked.length > 1,
    seen: { text, changes, answers, kept: messages.load('c').messages },
  };
}

describe('a crash in the middle of routing', () => {
  it('U-14 leaves one choice at every moment; what an agent has answered to it is not asked again', async () => {
    const whole = await interrupted(Number.POSITIVE_INFINITY);
    expect(whole.seen).toMatchObject({ text: 'B.', changes: ['b'], answers: 1, kept: [user('Hi.'), says('B.')] });
    let deaths = 0;
    let answeredBefore = 0;
    for (let dieAt = 1; ; dieAt++) {
      const { died, wasAnswered, askedTwice, seen } = await interrupted(dieAt);
      if (!died) break;
      deaths++;
      if (wasAnswered) answeredBefore++;
      expect({ dieAt, ...seen }).toEqual({ dieAt, ...whole.seen });
      expect({ dieAt, askedTwice: wasAnswered && askedTwice }).toEqual({ dieAt, askedTwice: false });
    }
    expect(deaths).toBeGreaterThan(20);
    expect(answeredBefore).toBeGreaterThan(5);
  });
});
