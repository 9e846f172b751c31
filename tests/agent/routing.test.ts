import { describe, expect, it } from '@jest/globals';
import { agentTools, byRole, byRule, inParallel, inSequence, router, supervisor, team } from 'millrace';
import { gate } from 'millrace/testing';
import { textsOf, watch } from '../core/watch-events.ts';
import { says, user } from './agent-bench.ts';
import { answer, handing, lastOf, teamBench } from './team-bench.ts';

const { on, player, made } = teamBench();

const picture = {
  role: 'user' as const,
  content: [
    { type: 'text' as const, text: 'What is this?' },
    { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AAAA' } },
  ],
};
const asks = (name: string, message: string) => ({ toolCalls: [{ name, arguments: { message } }] });

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
    const seen: unknown[] = [];
    const [a, late] = [player('a', []), player('late', answer('Here.'))];
    const one = made([a], {
      routing: {
        choose: ({ text, messages, agents }) => {
          seen.push(text, messages);
          return agents.at(-1)?.id;
        },
      },
    });
    one.registerAgent(late.agent);
    await expect(one.ask(picture)).resolves.toMatchObject({ text: 'Here.', agentId: 'late' });
    expect(seen).toEqual(['What is this?', [picture]]);
  });

  it.each([100, 120, 121, 128])('asks a router in a turn whose task id has %i characters', async (length) => {
    const [chooser, a] = [player('chooser', answer('a')), player('a', answer('A.'))];
    const both = made([chooser, a], { routing: router(chooser.agent) });
    await expect(both.ask('Hello.', { taskId: 'x'.repeat(length) })).resolves.toMatchObject({ text: 'A.' });
  });

  it('T-16 waits for a choice that is a promise, records it, and does not ask again behind a crash', async () => {
    let asked = 0;
    const down = new AbortController();
    const routing = {
      choose: async () => {
        asked++;
        return 'b';
      },
    };
    const options = { messageStore: on.messages(), taskStateStore: on.bench.store, routing };
    const draining = { shutdown: down.signal };
    const players = [player('a', [], draining), player('b', [{ never: true }], draining)];
    const reader = watch(made(players, options).startTurn('1', { taskId: 't' }));
    await reader.until('internal:llm-call');
    down.abort();
    await reader.ended;
    const turn = await made([player('a', []), player('b', answer('B.'))], options).resume('t');
    await expect(turn.result()).resolves.toMatchObject({ text: 'B.', agentId: 'b' });
    expect(asked).toBe(1);
    const changes = on.bench.store.read('t').filter(({ type }) => type === 'agent.changed');
    expect(changes).toMatchObject([{ from: 'team', to: 'b', reason: 'route' }]);
  });

  it('fails the turn where the strategy fails', async () => {
    const lost = (): never => {
      throw new Error('no map');
    };
    const strategies = [{ choose: lost }, byRule([{ when: lost, agentId: 'a' }]), { choose: () => 7 }];
    const words = [/failed: no map$/, /failed: no map$/, /failed: choose must return the id of an agent/];
    for (const [index, routing] of strategies.entries()) {
      const one = Reflect.apply(team, undefined, [{ agents: [player('a', []).agent], routing }]);
      const message = expect.stringMatching(words[index] ?? '');
      await expect(one.ask('1')).rejects.toMatchObject({ code: 'EXTENSION_FAILED', message });
    }
    const astray = made([player('b', [])], { routing: { choose: () => 'z' } });
    await expect(astray.ask('1')).rejects.toMatchObject({ message: expect.stringContaining('"z" is not in the team') });
  });

  it.each([
    [byRule, 7, /byRule needs rules/],
    [byRule, [{ when: 'contract', agentId: 'a' }], /byRule needs rules/],
    [byRole, undefined, /byRole needs a function/],
    [inSequence, [], /inSequence needs agents or their ids/],
    [inSequence, 'ab', /inSequence needs agents or their ids/],
    [inParallel, undefined, /inParallel needs agents or their ids/],
    [supervisor, 7, /supervisor needs an agent or its id/],
    [router, '', /router needs an agent or its id/],
  ])('is refused where %p is given %j', (strategy, wrong, message) => {
    expect(() => Reflect.apply(strategy, undefined, [wrong])).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) }),
    );
  });
});

describe('a router', () => {
  it('S4-53 is a model that sees the conversation and names who answers; only that one is called', async () => {
    const messageStore = on.messages();
    const asked = player('router', answer('I would say: seller.'));
    const [coder, seller] = [player('coder', []), player('seller', answer('Ten euros.'), { description: 'Sells.' })];
    const led = made([coder, seller, asked], { messageStore, routing: router('router') });
    messageStore.append('c', 'before', [user('Hello.'), says('Hello.')]);
    await expect(led.ask(picture)).resolves.toMatchObject({ text: 'Ten euros.', agentId: 'seller' });
    expect(lastOf(asked)?.slice(0, -1)).toEqual([user('Hello.'), says('Hello.'), picture]);
    expect(lastOf(asked)?.at(-1)?.content).toMatch(/- coder: no description\n- seller: Sells\.$/);
    expect(lastOf(seller)).toEqual([user('Hello.'), says('Hello.'), picture]);
    expect(messageStore.load('c').messages.slice(2)).toEqual([picture, says('Ten euros.')]);
  });

  it.each([
    ['b, because it is a better fit', 'b'],
    ['sales-eu', 'sales-eu'],
    ['sales. Not sales-eu.', 'sales'],
    ['law.tax it is', 'law.tax'],
    ['Cabbage', 'host'],
  ])('names an agent by its id, in %j, as a word of its own, the first', async (routed, chosen) => {
    const others = ['host', 'a', 'b', 'sales', 'sales-eu', 'law', 'law.tax'].map((id) =>
      player(id, id === chosen ? answer('Here.') : []),
    );
    const led = made([...others, player('router', answer(routed))], { routing: router('router') });
    await expect(led.ask('1')).resolves.toMatchObject({ text: 'Here.' });
  });
});

describe('a supervisor', () => {
  it('T-19 asks one agent, then another with its result, then answers; images reach both', async () => {
    const lead = player('lead', [asks('a', 'Name it.'), asks('b', 'Price a cat.'), ...answer('A cat, ten euros.')]);
    const [a, b] = [player('a', answer('A cat.')), player('b', answer('Ten euros.'))];
    const led = made([a, b, lead], { routing: supervisor('lead'), taskStateStore: on.bench.store });
    await expect(led.ask(picture)).resolves.toMatchObject({ text: 'A cat, ten euros.', agentId: 'lead' });
    expect(lastOf(a)).toEqual([picture, user('Name it.')]);
    expect(lastOf(b)?.[0]).toEqual(picture);
    expect(lastOf(b)?.at(-1)).toEqual(user('Price a cat.'));
    expect(JSON.stringify(lastOf(b))).toContain('A cat.');
  });

  it('T-19 hands the turn to another agent', async () => {
    const lead = player('lead', [asks('a', 'Name it.'), handing('b', 'It is a cat.')]);
    const [a, b] = [player('a', answer('A cat.')), player('b', answer('Ten euros.'))];
    const led = made([a, b, lead], { routing: supervisor('lead') });
    await expect(led.ask(picture)).resolves.toMatchObject({ text: 'Ten euros.', agentId: 'b' });
    expect(lastOf(b)?.[0]).toEqual(picture);
    expect(lastOf(b)?.at(-1)).toEqual({ role: 'user', content: 'It is a cat.', name: 'lead' });
  });

  it('has a number of rounds, and no hand-off where it may not', async () => {
    const lead = player('lead', [asks('a', '1'), asks('a', '2')]);
    const led = made([player('a', [...answer('1'), ...answer('2')]), lead], {
      routing: supervisor('lead', { maxRounds: 2, mayHandOff: false }),
    });
    await expect(led.ask('Go.')).rejects.toMatchObject({ code: 'MAX_ITERATIONS' });
    expect(lead.model.calls[0]?.tools?.map((each) => each.function.name)).toEqual(['a']);
  });
});

describe('agents in sequence', () => {
  it('T-20 answer one after another in one turn: each streams, and sees the images and what was said', async () => {
    const held = gate();
    const [a, b] = [player('a', [{ text: ['A ', 'draft.'] }]), player('b', [{ text: ['The ', held.pass(), 'end.'] }])];
    const messageStore = on.messages();
    const turn = made([a, b], { routing: inSequence(['a', 'b']), messageStore }).startTurn(picture);
    const reader = watch(turn);
    await reader.until('artifact-update', ({ agentId }) => agentId === 'b');
    expect(textsOf(reader.events)).toEqual({ 'answer-1': 'A draft.', 'answer-2': 'The ' });
    held.open();
    await expect(turn.result()).resolves.toMatchObject({ text: 'The end.', agentId: 'b' });
    await reader.ended;
    expect(textsOf(reader.events)).toEqual({ 'answer-1': 'A draft.', 'answer-2': 'The end.' });
    expect(lastOf(a)).toEqual([picture]);
    expect(lastOf(b)).toEqual([picture, says('A draft.'), expect.objectContaining({ role: 'user', name: 'a' })]);
    expect(reader.of('internal:iteration-complete').map(({ agentId }) => agentId)).toEqual(['a', 'b']);
    expect(messageStore.load('c').agentId).toBeUndefined();
  });

  it('fail where one of them fails or is not of the team', async () => {
    const a = player('a', [{ error: new Error('no line') }]);
    const failing = made([a], { routing: inSequence(['a']) });
    await expect(failing.ask('1')).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
    const astray = made([player('b', [])], { routing: inSequence(['z']) });
    await expect(astray.ask('1')).rejects.toMatchObject({ message: expect.stringContaining('"z" is not in the team') });
  });

  it('go on in another process where they were: an agent that answered is not asked again', async () => {
    const messageStore = on.messages();
    const options = { messageStore, taskStateStore: on.bench.store, routing: inSequence(['a', 'b']) };
    const down = new AbortController();
    const draining = { shutdown: down.signal };
    const before = [player('a', answer('A draft.'), draining), player('b', [{ never: true }], draining)];
    const reader = watch(made(before, options).startTurn('Write.', { taskId: 't' }));
    await reader.until('internal:llm-call', ({ agentId }) => agentId === 'b');
    down.abort();
    await reader.ended;
    expect(reader.end).toMatchObject({ error: { code: 'SHUTDOWN' } });
    const next = made([player('a', []), player('b', answer('The final text.'))], options);
    await expect((await next.resume('t')).result()).resolves.toMatchObject({ text: 'The final text.' });
    const [asked, draft, , final] = messageStore.load('c').messages;
    expect([asked, draft, final]).toEqual([user('Write.'), says('A draft.'), says('The final text.')]);
    await expect(next.resume('nobody')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(next.cancel('nobody')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('agents in parallel', () => {
  it('T-20 answer at the same time, each in an artifact of its own with its images, and are joined in their order', async () => {
    const [first, second] = [gate(), gate()];
    const a = player('a', [{ text: ['Yes, ', first.pass(), 'it is.'] }]);
    const b = player('b', [{ text: ['No, ', second.pass(), 'it is not.'] }]);
    const join = (answers: readonly { agentId: string; text: string }[]) =>
      answers.map(({ agentId, text }) => `${agentId}: ${text}`).join(' ');
    const messageStore = on.messages();
    const both = made([a, b], { routing: inParallel(['a', 'b'], { join }), messageStore });
    const chunks: string[] = [];
    both.on('stream:chunk', ({ agentId, artifactId, chunk }) => chunks.push(`${artifactId} ${agentId}: ${chunk}`));
    const turn = both.startTurn(picture);
    const reader = watch(turn);
    for (const name of ['a', 'b']) await reader.until('artifact-update', ({ artifact }) => artifact.name === name);
    expect(textsOf(reader.events)).toEqual({ 'answer-1.0': 'Yes, ', 'answer-1.1': 'No, ' });
    second.open();
    first.open();
    const text = 'a: Yes, it is. b: No, it is not.';
    await expect(turn.result()).resolves.toMatchObject({ text });
    await reader.ended;
    expect(textsOf(reader.events)).toEqual({
      'answer-1.0': 'Yes, it is.',
      'answer-1.1': 'No, it is not.',
      'answer-2': text,
    });
    expect(chunks.slice(0, 2).sort()).toEqual(['answer-1.0 a: Yes, ', 'answer-1.1 b: No, ']);
    expect(chunks.at(-1)).toBe(`answer-2 team: ${text}`);
    expect([lastOf(a), lastOf(b)]).toEqual([[picture], [picture]]);
    expect(messageStore.load('c').messages).toEqual([picture, says(text)]);
  });

  it('T-20 are joined by another agent in the same turn, which streams', async () => {
    const held = gate();
    const [a, b] = [player('a', answer('Yes.')), player('b', answer('No.'))];
    const judge = player('judge', [{ text: ['It ', held.pass(), 'may.'] }]);
    const routing = inParallel(['a', 'b'], { joiner: 'judge' });
    const turn = made([a, b, judge], { routing }).startTurn(picture);
    const reader = watch(turn);
    await reader.until('artifact-update', ({ agentId }) => agentId === 'judge');
    expect(textsOf(reader.events)['answer-2']).toBe('It ');
    held.open();
    await expect(turn.result()).resolves.toMatchObject({ text: 'It may.', agentId: 'judge' });
    expect(lastOf(judge)?.[0]).toEqual(picture);
    expect(lastOf(judge)?.slice(-2)).toMatchObject([{ content: 'Yes.' }, { content: 'No.' }]);
  });

  it('fail the turn where one of them fails', async () => {
    const [a, b] = [player('a', [{ error: new Error('no line') }]), player('b', [{ never: true }])];
    await expect(made([a, b], { routing: inParallel(['a', 'b']) }).ask('1')).rejects.toMatchObject({
      code: 'PROVIDER_FAILED',
    });
  });

  it('are cancelled with the turn that another process left, each durably', async () => {
    const down = new AbortController();
    const draining = { shutdown: down.signal };
    const options = {
      messageStore: on.messages(),
      taskStateStore: on.bench.store,
      routing: inParallel(['a', 'b']),
    };
    const players = [player('a', [{ never: true }], draining), player('b', [{ never: true }], draining)];
    const reader = watch(made(players, options).startTurn('1', { taskId: 't' }));
    await reader.until('internal:tool-start', ({ callId }) => callId === '1:1');
    down.abort();
    on.bench.clock.advance(5_000);
    await reader.ended;
    const next = made([player('a', []), player('b', [])], options);
    await expect(next.ask('2')).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    await next.cancel('t', 'enough');
    for (const taskId of ['t', 't:1:0', 't:1:1'])
      expect(on.bench.store.load(taskId)).toMatchObject({ status: 'canceled' });
  });
});

describe('a team as one agent', () => {
  it('is a tool of another agent, and chooses who answers', async () => {
    const [a, b] = [player('a', []), player('b', [handing('c')])];
    const c = player('c', answer('C.'));
    const inner = made([a, b, c], { id: 'desk', handOff: true, routing: { choose: () => 'b' } });
    const outer = player('outer', [asks('desk', 'Help.'), ...answer('Done.')], {
      contextId: 'outer',
      toolProviders: [agentTools([inner.asAgent()])],
    });
    await expect(outer.agent.run('1')).resolves.toMatchObject({ text: 'Done.' });
    expect(lastOf(outer)?.at(-1)).toMatchObject({ role: 'tool', content: 'C.' });
  });
});
