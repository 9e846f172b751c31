import { describe, expect, it } from '@jest/globals';
import { inParallel, type TeamEvent, type TeamOptions, team, tool } from 'millrace';
import { watch } from '../core/watch-events.ts';
import { says, user } from './agent-bench.ts';
import { answer, lastOf, teamBench } from './team-bench.ts';

const { on, player, made } = teamBench();

describe('a team', () => {
  it('S4-25 S4-48 S4-50 lets the agent answer that is named, else the current one, at first the default', async () => {
    const [a, b] = [player('a', answer('A.')), player('b', [...answer('B.'), ...answer('B again.')])];
    const both = made([a, b], { defaultAgentId: 'b' });
    await expect(both.ask('1')).resolves.toMatchObject({ text: 'B.' });
    const turn = both.startTurn('2', { agentId: 'a' });
    const reader = watch(turn);
    await expect(turn.result()).resolves.toMatchObject({ text: 'A.' });
    expect(reader.events[0]).toMatchObject({ kind: 'task', agentId: 'team' });
    expect(reader.events.at(-1)).toMatchObject({ kind: 'status-update', agentId: 'a' });
    expect((await both.currentAgent()).id).toBe('b');
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
    expect(wrong({ rooting: 1 })).toThrow(/a team has no option "rooting"/);
    for (const routing of [{}, 'supervisor', null, { choose: 7 }])
      expect(wrong({ routing })).toThrow(/routing must be a strategy/);
    for (const interceptors of [7, { outgoing: 7 }, { outgoin: () => [] }])
      expect(wrong({ interceptors })).toThrow(/interceptors must be functions/);
    expect(wrong({ handOff: 'yes' })).toThrow(/handOff must be true or false, not "yes"/);
    expect(wrong({ maxHandOffs: -1 })).toThrow(/maxHandOffs must be an integer of at least 0, not -1/);
    expect(wrong({ view: 'all' })).toThrow(/view must be a function, not "all"/);
    expect(wrong({ id: '' })).toThrow(/id must be a non-empty text/);
  });

  it('S4-49 changes its current agent for the next message', async () => {
    const [a, b, c] = [player('a', answer('A.')), player('b', answer('B.')), player('c', answer('C.'))];
    const two = made([a, b]);
    await two.setAgentById('b');
    await two.ask('1');
    await two.setAgent(c.agent);
    await two.ask('2');
    expect((await two.currentAgent()).id).toBe('c');
    await two.setAgent(a.agent);
    await two.ask('3');
    expect(lastOf(a)).toEqual([user('1'), says('B.'), user('2'), says('C.'), user('3')]);
    await expect(two.setAgentById('z')).rejects.toThrow(/"z" is not in the team; the agents are: a, b, c/);
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
    const handing = { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'b', note: 'Your turn.' } }] };
    const a = player('a', [handing, ...answer('A in another.')]);
    const b = player('b', [...answer('B.'), ...answer('B again.')]);
    const two = made([a, b], { handOff: true });
    await expect(two.ask('1', { contextId: 'one' })).resolves.toMatchObject({ text: 'B.' });
    await expect(two.ask('2', { contextId: 'two' })).resolves.toMatchObject({ text: 'A in another.' });
    await expect(two.ask('3', { contextId: 'one' })).resolves.toMatchObject({ text: 'B again.' });
    const current = await Promise.all(['one', 'two', 'c'].map((context) => two.currentAgent(context)));
    expect(current.map(({ id }) => id)).toEqual(['b', 'a', 'a']);
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

  it('changes no answer that is on its way to a tool', async () => {
    const look = tool({ name: 'look', description: 'Looks.', parameters: { type: 'object' }, execute: () => 'a tree' });
    const a = player('a', [{ text: 'I look.', toolCalls: [{ name: 'look' }] }, ...answer('A tree.')], {
      tools: [look],
    });
    const shouting = made([a], {
      interceptors: { incoming: (message) => ({ ...message, content: `${message.content}`.toUpperCase() }) },
    });
    await expect(shouting.ask('What is there?')).resolves.toMatchObject({ allText: 'I look.\nA TREE.' });
  });

  it('changes the answers of agents in parallel before they are joined', async () => {
    const [a, b] = [player('a', answer('The pin is 1234.')), player('b', answer('Noted.'))];
    const incoming: NonNullable<TeamOptions['interceptors']>['incoming'] = (message) => ({
      ...message,
      content: String(message.content).replaceAll('1234', '****'),
    });
    const both = made([a, b], { interceptors: { incoming }, routing: inParallel(['a', 'b']) });
    await expect(both.ask('1')).resolves.toMatchObject({ text: 'The pin is ****.\n\nNoted.' });
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
