import { describe, expect, it } from '@jest/globals';
import type { Agent } from '../../src/agent/agent.ts';
import type { AgentSettings, GivenTools } from '../../src/agent/agent-options.ts';
import { byRole, byRule, inParallel, inSequence, supervisor } from '../../src/agent/routing.ts';
import { isSubAgentUpdate } from '../../src/agent/sub-agent.ts';
import { team } from '../../src/agent/team.ts';
import type { TeamEvent } from '../../src/agent/team-events.ts';
import type { TeamOptions } from '../../src/agent/team-options.ts';
import { toolPermissions } from '../../src/extensions/permissions/tool-permissions.ts';
import type { ScriptedLLMStep } from '../../src/testing/llm-step.ts';
import type { ScriptedLLM } from '../../src/testing/scripted-llm.ts';
import { tool } from '../../src/tools/tool.ts';
import { watch } from '../core/watch-events.ts';
import { agentBench, says, user } from './agent-bench.ts';

const on = agentBench();

interface Player {
  readonly agent: Agent;
  readonly model: ScriptedLLM;
}

function player(
  id: string,
  steps: readonly ScriptedLLMStep[],
  options: Partial<AgentSettings> & GivenTools = {},
): Player {
  const model = on.bench.model(steps);
  return { model, agent: on.agent([], { id, provider: model, contextId: `of ${id}`, ...options }) };
}

const made = (players: readonly Player[], options: Partial<TeamOptions> = {}) =>
  team({ agents: players.map((each) => each.agent), contextId: 'c', ...options });
const answer = (text: string) => [{ text }];
const lastOf = ({ model }: Player) => model.calls.at(-1)?.messages;

describe('a team', () => {
  it('S4-25 S4-48 S4-50 lets the agent answer that is named, else the current one, at first the default', async () => {
    const [a, b] = [player('a', answer('A.')), player('b', [...answer('B.'), ...answer('B again.')])];
    const both = made([a, b], { defaultAgentId: 'b' });
    await expect(both.ask('1')).resolves.toMatchObject({ text: 'B.' });
    const turn = both.startTurn('2', { agentId: 'a' });
    const reader = watch(turn);
    await expect(turn.result()).resolves.toMatchObject({ text: 'A.' });
    expect(reader.events[0]).toMatchObject({ kind: 'task', agentId: 'a' });
    expect(both.getAgent().id).toBe('b');
    await expect(both.ask('3')).resolves.toMatchObject({ text: 'B again.' });
    expect(lastOf(b)).toEqual([user('1'), says('B.'), user('2'), says('A.'), user('3')]);
    const first = made([player('a', answer('First.')), player('b', [])]);
    await expect(first.ask('1')).resolves.toMatchObject({ text: 'First.' });
  });

  it('S4-48 says at its creation what is wrong with it', () => {
    const a = player('a', []);
    const wrong = (options: object) => () => Reflect.apply(team, undefined, [{ agents: [a.agent], ...options }]);
    expect(wrong({ defaultAgentId: 'z' })).toThrow(/defaultAgentId "z" is not known; the agents are: a/);
    expect(wrong({ agents: [] })).toThrow(/a team needs agents/);
    expect(wrong({ agents: [a.agent, a.agent] })).toThrow(/two agents have the id "a"/);
    expect(wrong({ rooting: 1 })).toThrow(/rooting is not an option of a team/);
    for (const routing of [{}, 'supervisor', null, { choose: 7 }])
      expect(wrong({ routing })).toThrow(/routing must be a strategy/);
    for (const interceptors of [7, { outgoing: 7 }, { outgoin: () => [] }])
      expect(wrong({ interceptors })).toThrow(/interceptors must be functions/);
    expect(wrong({ handOff: 'yes' })).toThrow(/handOff must be true or false, not "yes"/);
    expect(() => Reflect.apply(supervisor, undefined, [7])).toThrow(/supervisor needs the id of an agent/);
    expect(wrong({ id: '' })).toThrow(/id must be a non-empty text/);
  });

  it('S4-49 changes its current agent for the next message', async () => {
    const [a, b, c] = [player('a', answer('A.')), player('b', answer('B.')), player('c', answer('C.'))];
    const two = made([a, b]);
    two.setAgentById('b');
    await two.ask('1');
    two.setAgent(c.agent);
    await two.ask('2');
    expect(two.getAgent().id).toBe('c');
    two.setAgent(a.agent);
    await two.ask('3');
    expect(lastOf(a)).toEqual([user('1'), says('B.'), user('2'), says('C.'), user('3')]);
    expect(() => two.setAgentById('z')).toThrow(/"z" is not of the team; the agents are: a, b, c/);
    expect(() => two.startTurn('4', { agentId: 'z' })).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  });

  it('S4-18 puts its system prompt in front of the one of the agent, an empty line between', async () => {
    const [a, b, c] = [
      player('a', answer('A.'), { systemPrompt: 'You are A.' }),
      player('b', answer('B.'), { systemPrompt: async () => 'You are B.' }),
      player('c', answer('C.')),
    ];
    const all = made([a, b, c], { systemPrompt: 'Be kind.' });
    for (const agentId of ['a', 'b', 'c']) await all.ask('Who?', { agentId });
    const prompts = [a, b, c].map((each) => lastOf(each)?.[0]?.content);
    expect(prompts).toEqual(['Be kind.\n\nYou are A.', 'Be kind.\n\nYou are B.', 'Be kind.']);
  });

  it('S4-49 hands over one context and leaves the current agent of the others', async () => {
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b', message: 'Your turn.' } }] };
    const a = player('a', [handing, ...answer('A in another.')]);
    const b = player('b', [...answer('B.'), ...answer('B again.')]);
    const two = made([a, b], { handOff: true });
    await expect(two.ask('1', { contextId: 'one' })).resolves.toMatchObject({ text: 'B.' });
    await expect(two.ask('2', { contextId: 'two' })).resolves.toMatchObject({ text: 'A in another.' });
    await expect(two.ask('3', { contextId: 'one' })).resolves.toMatchObject({ text: 'B again.' });
    expect([two.getAgent('one').id, two.getAgent('two').id, two.getAgent().id]).toEqual(['b', 'a', 'a']);
  });

  it('offers no hand-over to an agent that is alone', async () => {
    const a = player('a', answer('A.'));
    await made([a], { handOff: true }).ask('1');
    expect(a.model.calls[0]?.tools ?? []).toEqual([]);
  });

  it('has one turn of a context at a time, whoever answers', async () => {
    const [a, b] = [player('a', [{ never: true }]), player('b', [])];
    const two = made([a, b]);
    const turn = two.startTurn('1');
    const reader = watch(turn);
    await reader.until('internal:llm-call');
    expect(() => two.startTurn('2', { agentId: 'b' })).toThrow(expect.objectContaining({ code: 'AGENT_BUSY' }));
    await two.close();
    expect(reader.events.at(-1)).toMatchObject({ status: { state: 'canceled' } });
  });

  it('S4-46 keeps tools of the same name apart by their agents', async () => {
    const ran: string[] = [];
    const search = (by: string) =>
      tool({ name: 'search', description: 'Searches.', parameters: { type: 'object' }, execute: () => ran.push(by) });
    const steps = [{ toolCalls: [{ name: 'search' }] }, { text: 'Found.' }];
    const two = made([player('a', steps, { tools: [search('a')] }), player('b', steps, { tools: [search('b')] })]);
    await two.ask('1', { agentId: 'b' });
    await two.ask('2', { agentId: 'a' });
    expect(ran).toEqual(['b', 'a']);
  });

  it('S4-23 changes messages on both ways before anybody has them', async () => {
    const messageStore = on.messages();
    const a = player('a', answer('The pin is 1234.'));
    const hide = (text: string) => text.replaceAll('1234', '****');
    const guarded = made([a], {
      messageStore,
      interceptors: {
        outgoing: (messages) => messages.map((message) => user(hide(String(message.content)))),
        incoming: (message) => ({ ...message, content: hide(String(message.content)) }),
      },
    });
    await expect(guarded.ask('My pin is 1234.')).resolves.toMatchObject({ text: 'The pin is ****.' });
    expect(lastOf(a)).toEqual([user('My pin is ****.')]);
    expect(messageStore.load('c').messages).toEqual([user('My pin is ****.'), says('The pin is ****.')]);
  });

  it('changes the answers of agents that a plan asks before others have them', async () => {
    const [a, b] = [player('a', answer('The pin is 1234.')), player('b', answer('Noted.'))];
    const incoming: NonNullable<TeamOptions['interceptors']>['incoming'] = (message) => ({
      ...message,
      content: String(message.content).replaceAll('1234', '****'),
    });
    await made([a, b], { interceptors: { incoming }, routing: inSequence(['a', 'b']) }).ask('1');
    expect(lastOf(b)).toEqual([user('The pin is ****.')]);
  });

  it('tells what happens in the words of chat applications', async () => {
    const look = tool({ name: 'look', description: 'Looks.', parameters: { type: 'object' }, execute: () => 'seen' });
    const a = player('a', [{ toolCalls: [{ name: 'look' }] }, { text: ['I ', 'saw.'] }], { tools: [look] });
    const one = made([a]);
    const heard: string[] = [];
    const types: readonly TeamEvent['type'][] = [
      'message:sent',
      'message:received',
      'stream:start',
      'stream:chunk',
      'tool:called',
      'tool:result',
      'stream:end',
      'error',
    ];
    for (const type of types) {
      one.on(type, (event) => heard.push(event.type === 'stream:chunk' ? `${event.type} ${event.chunk}` : event.type));
    }
    await one.ask('Look.');
    expect(heard).toEqual([
      'stream:start',
      'message:sent',
      'tool:called',
      'tool:result',
      'stream:chunk I ',
      'stream:chunk saw.',
      'message:received',
      'stream:end',
    ]);
  });
});

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
    ['Cabbage', 'host'],
  ])('takes an id in the answer of the router, %j, as a word of its own, the first', async (routed, chosen) => {
    const others = ['host', 'a', 'b', 'sales', 'sales-eu'].map((id) =>
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

describe('a conversation that is handed over', () => {
  it('is answered by the other agent, which is the current one from then on', async () => {
    const messageStore = on.messages();
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b', message: 'Your turn.' } }] };
    const [a, b] = [
      player('a', [handing]),
      player('b', [...answer('B here.'), ...answer('Still B.')], { description: 'Knows.' }),
    ];
    const two = made([a, b], { messageStore, handOff: true });
    const { text, message, reason } = await two.ask('Help.');
    expect([text, message, reason]).toEqual(['B here.', says('B here.'), 'handed_off']);
    expect(a.model.calls[0]?.tools).toMatchObject([
      { function: { name: 'hand_off', parameters: { properties: { agentId: { enum: ['b'] } } } } },
    ]);
    expect(b.model.calls[0]?.messages).toEqual([user('Your turn.')]);
    expect(two.getAgent().id).toBe('b');
    await expect(two.ask('And now?')).resolves.toMatchObject({ text: 'Still B.' });
    expect(messageStore.load('c').messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
      'assistant',
    ]);
  });

  it('is handed over also where no tool may run that no rule names', async () => {
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b', message: 'Your turn.' } }] };
    const extensions = [toolPermissions({ rules: [], otherwise: 'deny' })];
    const two = made([player('a', [handing], { extensions }), player('b', answer('B here.'))], { handOff: true });
    await expect(two.ask('Help.')).resolves.toMatchObject({ text: 'B here.', reason: 'handed_off' });
  });

  it('is cancelled with the turn that handed it over, also where that was suspended', async () => {
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b', message: 'Delete it.' } }] };
    const remove = tool({
      name: 'remove',
      description: 'Deletes all of it.',
      parameters: { type: 'object' },
      needsApproval: true,
      execute: () => 'deleted',
    });
    const [a, b] = [player('a', [handing]), player('b', [{ toolCalls: [{ name: 'remove' }] }], { tools: [remove] })];
    const [c, store] = [player('c', []), on.bench.store];
    const three = made([a, c, b], { handOff: true, taskStateStore: store, messageStore: on.messages() });
    await expect(three.ask('Help.', { taskId: 't' })).resolves.toMatchObject({ status: 'input-required' });
    expect(store.load('t:1:0')).toMatchObject({ status: 'input-required', agentId: 'b' });
    await three.cancel('t', 'enough');
    expect(store.load('t')).toMatchObject({ status: 'canceled' });
    expect(store.load('t:1:0')).toMatchObject({ status: 'canceled' });
  });
});
