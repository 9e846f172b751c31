import { describe, expect, it } from '@jest/globals';
import { byRole, byRule, inParallel, inSequence, supervisor } from '../../src/agent/routing.ts';
import { isSubAgentUpdate } from '../../src/agent/sub-agent.ts';
import { team } from '../../src/agent/team.ts';
import { watch } from '../core/watch-events.ts';
import { says, user } from './agent-bench.ts';
import { answer, lastOf, teamBench } from './team-bench.ts';

const { on, player, made } = teamBench();

describe('the routing of a team', () => {
  it('S4-52 goes by rules and by roles, and to the default where none fits', async () => {
    const code = player('coder', [...answer('Code.'), ...answer('More code.')], { metadata: { role: 'code' } });
    const shop = player('seller', answer('Goods.'), { metadata: { role: 'product' } });
    const hi = player('host', [...answer('Hello.'), ...answer('Hello again.')]);
    const rules = made([hi, code, shop], {
      routing: byRule([
        { when: /\bbug\b/g, agentId: 'coder' },
        { when: (text) => text.includes('price'), agentId: 'seller' },
      ]),
    });
    expect((await rules.ask('There is a bug.')).text).toBe('Code.');
    expect((await rules.ask('What is the price?')).text).toBe('Goods.');
    expect((await rules.ask('Good morning.')).text).toBe('Hello.');
    const roles = made([hi, code, shop], { routing: byRole((text) => (text.includes('bug') ? 'code' : undefined)) });
    expect((await roles.ask('Another bug.')).text).toBe('More code.');
    expect((await roles.ask('Good night.')).text).toBe('Hello again.');
  });

  it('S4-51 takes a strategy of one’s own, and agents that are registered later', async () => {
    const seen: string[] = [];
    const [a, late] = [player('a', []), player('late', answer('Here.'))];
    const one = made([a], {
      routing: {
        choose: ({ text, agents }) => {
          seen.push(text);
          return agents.at(-1)?.id;
        },
      },
    });
    one.registerAgent(late.agent);
    await expect(one.ask('Who is new?')).resolves.toMatchObject({ text: 'Here.' });
    expect(seen).toEqual(['Who is new?']);
  });

  it('refuses the message where the strategy fails, or does not answer at once', () => {
    const lost = (): never => {
      throw new Error('no map');
    };
    const strategies = [{ choose: lost }, byRule([{ when: lost, agentId: 'a' }]), { choose: async () => 'a' }];
    const refusals = strategies.map((routing) => {
      const one = Reflect.apply(team, undefined, [{ agents: [player('a', []).agent], routing }]);
      return () => one.startTurn('1');
    });
    const words = [/failed: no map$/, /failed: no map$/, /failed: choose must return the id of an agent/];
    for (const [index, refusal] of refusals.entries()) {
      const message = expect.stringMatching(words[index] ?? '');
      expect(refusal).toThrow(expect.objectContaining({ code: 'EXTENSION_FAILED', message }));
    }
  });

  it('S4-53 asks a router who answers: only that one is called, and its text is the final one', async () => {
    const messageStore = on.messages();
    const router = player('router', answer('I would say: seller.'));
    const [coder, seller] = [player('coder', []), player('seller', answer('Ten euros.'), { description: 'Sells.' })];
    const led = made([coder, seller, router], { messageStore, routing: supervisor('router') });
    messageStore.append('c', 'before', [user('Hello.'), says('Hello.')]);
    await expect(led.ask('How much?')).resolves.toMatchObject({ text: 'Ten euros.', message: says('Ten euros.') });
    expect(lastOf(router)?.at(-1)?.content).toMatch(/- coder: no description\n- seller: Sells\.\n\nHow much\?$/);
    expect(lastOf(seller)).toEqual([user('Hello.'), says('Hello.'), user('How much?')]);
    expect(messageStore.load('c').messages.slice(2)).toEqual([user('How much?'), says('Ten euros.')]);
  });

  it.each([
    [byRule, 7, /byRule needs rules/],
    [byRule, [{ when: 'contract', agentId: 'a' }], /byRule needs rules/],
    [byRole, undefined, /byRole needs a function/],
    [inSequence, [], /inSequence needs ids of agents/],
    [inSequence, 'ab', /inSequence needs ids of agents/],
    [inParallel, undefined, /inParallel needs ids of agents/],
  ])('is refused where %p is given %j', (strategy, wrong, message) => {
    expect(() => Reflect.apply(strategy, undefined, [wrong])).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) }),
    );
  });

  it.each([
    ['b, because it is a better fit', 'b'],
    ['sales-eu', 'sales-eu'],
    ['sales. Not sales-eu.', 'sales'],
    ['law.tax it is', 'law.tax'],
    ['Cabbage', 'host'],
  ])('takes an id in the answer of the router, %j, as a word of its own, the first', async (routed, chosen) => {
    const others = ['host', 'a', 'b', 'sales', 'sales-eu', 'law', 'law.tax'].map((id) =>
      player(id, id === chosen ? answer('Here.') : []),
    );
    const led = made([...others, player('router', answer(routed))], { routing: supervisor('router') });
    await expect(led.ask('1')).resolves.toMatchObject({ text: 'Here.' });
  });

  it('goes to the current agent where the router names none', async () => {
    const [a, router] = [player('a', answer('A.')), player('router', answer('Nobody.'))];
    await expect(made([a, router], { routing: supervisor('router') }).ask('1')).resolves.toMatchObject({ text: 'A.' });
  });

  it('asks one after another, each with what the one before it said', async () => {
    const [a, b] = [player('a', answer('A draft.')), player('b', answer('The final text.'))];
    const chain = made([a, b], { routing: inSequence(['a', 'b']) });
    await expect(chain.ask('Write.')).resolves.toMatchObject({ text: 'The final text.' });
    expect(lastOf(a)).toEqual([user('Write.')]);
    expect(lastOf(b)).toEqual([user('A draft.')]);
  });

  it('asks several at once and joins what they say in the order of the plan', async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const a = player('a', [{ gate, text: 'Yes.' }]);
    const b = player('b', [
      () => {
        open();
        return { text: 'No.' };
      },
    ]);
    const join = (answers: readonly { agentId: string; text: string }[]) =>
      answers.map(({ agentId, text }) => `${agentId}: ${text}`).join(' ');
    const panel = made([a, b], { routing: inParallel(['a', 'b'], join) });
    await expect(panel.ask('Is it?')).resolves.toMatchObject({ text: 'a: Yes. b: No.' });
  });

  it('fails where an agent of a plan fails or is not of the team', async () => {
    const a = player('a', [{ error: new Error('no line') }]);
    const failing = made([a], { routing: inSequence(['a']) });
    await expect(failing.ask('1')).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
    const astray = made([player('b', [])], { routing: inSequence(['z']) });
    await expect(astray.ask('1')).rejects.toMatchObject({ message: expect.stringContaining('"z" is not of the team') });
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('no idea');
      },
      /The plan of the team failed: no idea/,
    ],
    ['gives nothing', () => undefined, /next must return/],
    ['gives a promise', async () => ({ answer: 'Yes.' }), /next must return/],
    ['asks nobody', () => ({ ask: [] }), /next must return/],
    ['asks without a message', () => ({ ask: [{ agentId: 'a' }] }), /next must return/],
    ['answers with a number', () => ({ answer: 7 }), /next must return/],
  ])('fails, and not as a model would, where a plan %s', async (_, next, message) => {
    const led = Reflect.apply(team, undefined, [{ agents: [player('a', []).agent], routing: { next } }]);
    await expect(led.ask('1')).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: expect.stringMatching(message),
    });
  });

  it('cancels a turn of a plan that another process left, with those below it', async () => {
    const down = new AbortController();
    const draining = { shutdown: down.signal };
    const options = { messageStore: on.messages(), taskStateStore: on.bench.store, routing: inSequence(['a']) };
    const reader = watch(made([player('a', [{ never: true }], draining)], options).startTurn('1', { taskId: 't' }));
    const asks = ({ update }: { readonly update: unknown }) =>
      isSubAgentUpdate(update) && update.event.kind === 'internal:llm-call';
    await reader.until('internal:tool-progress', asks);
    down.abort();
    on.bench.clock.advance(5_000);
    await reader.ended;
    const next = made([player('a', answer('Two.'))], options);
    await expect(next.ask('2')).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    await next.cancel('t', 'enough');
    expect(on.bench.store.load('t')).toMatchObject({ status: 'canceled' });
    expect(on.bench.store.load('t:1:0')).toMatchObject({ status: 'canceled' });
    await expect(next.ask('2')).resolves.toMatchObject({ text: 'Two.' });
    await expect(next.cancel('nobody')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('goes on with a plan in another process where it was: an agent that answered is not asked again', async () => {
    const messageStore = on.messages();
    const options = { messageStore, taskStateStore: on.bench.store, routing: inSequence(['a', 'b']) };
    const down = new AbortController();
    const draining = { shutdown: down.signal };
    const before = [player('a', answer('A draft.'), draining), player('b', [{ never: true }], draining)];
    const reader = watch(made(before, options).startTurn('Write.', { taskId: 't' }));
    await reader.until('internal:tool-start', ({ callId }) => callId === '2:0');
    await reader.until(
      'internal:tool-progress',
      ({ update }) => isSubAgentUpdate(update) && update.event.kind === 'internal:llm-call' && update.path[0] === 'b',
    );
    down.abort();
    on.bench.clock.advance(5_000);
    await reader.ended;
    expect(reader.end).toMatchObject({ error: { code: 'SHUTDOWN' } });
    const [a, b] = [player('a', []), player('b', answer('The final text.'))];
    const turn = await made([a, b], options).resume('t');
    await expect(turn.result()).resolves.toMatchObject({ text: 'The final text.' });
    expect(lastOf(b)).toEqual([user('A draft.')]);
    expect(messageStore.load('c').messages).toEqual([user('Write.'), says('The final text.')]);
    await expect(made([a, b], options).resume('nobody')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});
