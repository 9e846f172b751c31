import { describe, expect, it } from '@jest/globals';
import { byRule, inParallel, inSequence, router, supervisor, tool } from 'millrace';
import { gate } from 'millrace/testing';
import { watch } from '../core/watch-events.ts';
import { says, user } from './agent-bench.ts';
import { answer, handing, lastOf, teamBench } from './team-bench.ts';

const { on, player, made } = teamBench();
const usage = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };

/** A model that waits until the test opens the gate. */
function waiting(text: string) {
  const held = gate();
  const reached = gate();
  const step = () => {
    void reached.pass();
    return { text: [held.pass(), text], usage };
  };
  return { step, reached: reached.reached, open: held.open };
}

describe('an agent that is removed from its team', () => {
  it('U-14 is not routed to, named or current any more; registered again it is', async () => {
    const [a, b] = [player('a', answer('A.')), player('b', [...answer('B is back.'), ...answer('B again.')])];
    const messageStore = on.messages();
    const two = made([a, b], { messageStore, routing: { choose: ({ text }) => (text === 'To b.' ? 'b' : undefined) } });
    await two.setAgentById('b');
    await two.removeAgent('b');
    expect(two.agents.map(({ id }) => id)).toEqual(['a']);
    expect((await two.currentAgent()).id).toBe('a');
    await expect(two.ask('To anybody.')).resolves.toMatchObject({ text: 'A.', agentId: 'a' });
    const gone = expect.stringContaining('"b" is not in the team; the agents are: a');
    await expect(two.ask('To b.')).rejects.toMatchObject({ code: 'INVALID_INPUT', message: gone });
    expect(() => two.startTurn('1', { agentId: 'b' })).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
    await expect(two.setAgentById('b')).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(two.removeAgent('b')).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    two.registerAgent(b.agent);
    await expect(two.ask('To b.')).resolves.toMatchObject({ text: 'B is back.', agentId: 'b' });
    await expect(two.ask('To anybody.')).resolves.toMatchObject({ text: 'B again.' });
  });

  it.each([
    ['the default', {}, 'a', /"a" is the default of the team/],
    ['the supervisor', { routing: supervisor('b') }, 'b', /the routing of the team needs agent "b"/],
    ['one of a sequence', { routing: inSequence(['a', 'b']) }, 'b', /needs agent "b"/],
    ['one of those in parallel', { routing: inParallel(['a', 'b']) }, 'b', /needs agent "b"/],
    ['the joiner', { routing: inParallel(['a'], { joiner: 'b' }) }, 'b', /needs agent "b"/],
    ['the router', { routing: router('b') }, 'b', /needs agent "b"/],
  ])('U-14 may not be %s', async (_, options, id, message) => {
    const two = made([player('a', []), player('b', [])], options);
    await expect(two.removeAgent(id)).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringMatching(message),
    });
    expect(two.agents).toHaveLength(2);
  });

  it('U-14 ends the turn that it runs, whose usage counts for it; removeAgent resolves then', async () => {
    const held = waiting('B ends.');
    const [a, b] = [player('a', answer('A.')), player('b', [held.step])];
    const two = made([a, b], { busy: 'queue' });
    const turn = two.startTurn('1', { agentId: 'b' });
    const ended = turn.result();
    await held.reached;
    let left = false;
    const removed = two.removeAgent('b').then(() => {
      left = true;
    });
    const next = two.ask('2');
    expect([two.agents.length, left]).toEqual([1, false]);
    held.open();
    await expect(ended).resolves.toMatchObject({ text: 'B ends.', agentId: 'b' });
    await removed;
    expect(b.agent.usage?.usage.totalTokens).toBe(100);
    await expect(next).resolves.toMatchObject({ text: 'A.' });
    expect(lastOf(a)).toEqual([user('1'), says('B ends.'), user('2')]);
  });

  it('U-14 is not handed a turn that was offered it; the model is told who is left', async () => {
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: { type: 'object' },
      execute: () => {
        void two.removeAgent('b');
        return 'seen';
      },
    });
    const a = player('a', [{ toolCalls: [{ name: 'look' }] }, handing('b'), ...answer('I do it.')], { tools: [look] });
    const two = made([a, player('b', []), player('c', [])], { handOff: true });
    await expect(two.ask('Go.')).resolves.toMatchObject({ text: 'I do it.', agentId: 'a' });
    const refusal = expect.stringMatching(/agent "b" was removed from the team; the others are: c/);
    expect(lastOf(a)?.at(-1)).toMatchObject({ role: 'tool', content: refusal });
  });

  it('U-14 is not asked by a supervisor that runs, but one that it asks already answers', async () => {
    const held = waiting('B ends.');
    const asks = { toolCalls: [{ name: 'b', arguments: { message: 'Go.' } }] };
    const lead = player('lead', [asks, asks, ...answer('Done.')]);
    const b = player('b', [held.step]);
    const led = made([lead, b], { routing: supervisor('lead') });
    const ended = led.ask('Go.');
    await held.reached;
    const removed = led.removeAgent('b');
    held.open();
    await expect(ended).resolves.toMatchObject({ text: 'Done.' });
    await removed;
    const results = lastOf(lead)?.filter(({ role }) => role === 'tool');
    const refusal = expect.stringContaining('agent "b" was removed from the team; the agents are: lead');
    expect(results).toMatchObject([{ content: 'B ends.' }, { content: refusal }]);
    expect(b.agent.usage?.usage.totalTokens).toBe(100);
  });

  it('U-14 keeps a turn that a hand-off to it was recorded for', async () => {
    const two = made([player('a', [handing('b')]), player('b', answer('B.'))], { handOff: true });
    const turn = two.startTurn('Go.');
    let removed: Promise<void> | undefined;
    turn.subscribe((event) => {
      if (event.kind === 'internal:tool-complete') removed = two.removeAgent('b');
    });
    await expect(turn.result()).resolves.toMatchObject({ text: 'B.', agentId: 'b' });
    await removed;
    expect((await two.currentAgent()).id).toBe('a');
  });
});

describe('an agent that was added at run time', () => {
  it.each([
    ['by a hand-off', { handOff: true }, [handing('late')]],
    ['by a rule', { routing: byRule([{ when: /./, agentId: 'late' }]) }, []],
  ])(
    'U-14 has a turn %s, which a process without it cannot resume until it is registered there',
    async (_, more, steps) => {
      const options = { ...more, messageStore: on.messages(), taskStateStore: on.bench.store };
      const down = new AbortController();
      const first = made([player('a', steps, { shutdown: down.signal })], options);
      first.registerAgent(player('late', [{ never: true }]).agent);
      const reader = watch(first.startTurn('1', { taskId: 't' }));
      await reader.until('internal:llm-call', ({ agentId }) => agentId === 'late');
      down.abort();
      await reader.ended;
      const second = made([player('a', [])], options);
      await expect((await second.resume('t')).result()).rejects.toMatchObject({
        code: 'MISSING_AGENT',
        retryable: true,
        message: expect.stringMatching(/at the agent "late", which this process does not know; .*registerAgent/),
      });
      expect(on.bench.store.load('t')).toMatchObject({ status: 'working' });
      second.registerAgent(player('late', answer('Here.')).agent);
      await expect((await second.resume('t')).result()).resolves.toMatchObject({ text: 'Here.', agentId: 'late' });
    },
  );

  it('U-14 has a turn that a process without it can cancel', async () => {
    const options = { messageStore: on.messages(), taskStateStore: on.bench.store };
    const down = new AbortController();
    const first = made([player('a', [], { shutdown: down.signal })], options);
    first.registerAgent(player('late', [{ never: true }]).agent);
    const reader = watch(first.startTurn('1', { taskId: 't', agentId: 'late' }));
    await reader.until('internal:llm-call');
    down.abort();
    await reader.ended;
    const second = made([player('a', answer('A.'))], options);
    await second.cancel('t', 'enough');
    expect(on.bench.store.load('t')).toMatchObject({ status: 'canceled' });
    await expect(second.ask('2')).resolves.toMatchObject({ text: 'A.' });
  });

  it('U-14 is asked as a helper; a process without it that resumes the call fails with MISSING_TOOL', async () => {
    const options = { routing: supervisor('lead'), messageStore: on.messages(), taskStateStore: on.bench.store };
    const down = new AbortController();
    const asks = { toolCalls: [{ name: 'late', arguments: { message: 'Go.' } }] };
    const first = made([player('lead', [asks], { shutdown: down.signal })], options);
    first.registerAgent(player('late', [{ never: true }]).agent);
    const reader = watch(first.startTurn('1', { taskId: 't' }));
    await reader.until('internal:tool-start');
    down.abort();
    on.bench.clock.advance(5_000);
    await reader.ended;
    const second = made([player('lead', answer('Done.'))], options);
    await expect((await second.resume('t')).result()).rejects.toMatchObject({ code: 'MISSING_TOOL' });
    second.registerAgent(player('late', answer('Here.')).agent);
    await expect((await second.resume('t')).result()).resolves.toMatchObject({ text: 'Done.' });
  });
});
