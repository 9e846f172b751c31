import { describe, expect, it } from '@jest/globals';
import {
  doneTool,
  type Extension,
  guardrails,
  type HookContext,
  inSequence,
  tool,
  toolPermissions,
  withoutCalls,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';
import { z } from 'zod';
import { ofKind, textsOf, watch } from '../core/watch-events.ts';
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

describe('a turn that is handed over', () => {
  it('is answered by the other agent, which is the current one from then on', async () => {
    const messageStore = on.messages();
    const [a, b] = [
      player('a', [handing('b', 'Your turn.')]),
      player('b', [...answer('B here.'), ...answer('Still B.')], { description: 'Knows.' }),
    ];
    const two = made([a, b], { messageStore, handOff: true });
    const { text, message, reason, agentId } = await two.ask('Help.');
    expect([text, message, reason, agentId]).toEqual(['B here.', says('B here.'), 'stop', 'b']);
    expect(a.model.calls[0]?.tools).toMatchObject([
      { function: { name: 'hand_off', parameters: { properties: { agentId: { enum: ['b'] } } } } },
    ]);
    expect((await two.currentAgent()).id).toBe('b');
    await expect(two.ask('And now?')).resolves.toMatchObject({ text: 'Still B.', agentId: 'b' });
    const roles = messageStore.load('c').messages.map(({ role }) => role);
    expect(roles).toEqual(['user', 'assistant', 'tool', 'user', 'assistant', 'user', 'assistant']);
  });

  it('T-11 streams the text of the taker as the answer of the turn, as it comes', async () => {
    const held = gate();
    const a = player('a', [handing('b')]);
    const b = player('b', [{ text: ['One, ', held.pass(), 'two.'] }]);
    const turn = made([a, b], { handOff: true }).startTurn('Count.');
    const reader = watch(turn);
    const { artifact, agentId } = await reader.until('artifact-update');
    expect([agentId, artifact.parts]).toEqual(['b', [{ kind: 'text', text: 'One, ' }]]);
    expect(reader.end).toBeUndefined();
    held.open();
    await expect(turn.result()).resolves.toMatchObject({ text: 'One, two.' });
    await reader.ended;
    expect(textsOf(reader.events)).toEqual({ 'answer-2': 'One, two.' });
  });

  it('T-12 goes on with all that was said: the user’s message with its image, then the note', async () => {
    const b = player('b', answer('A cat.'), { systemPrompt: 'You are B.' });
    const two = made([player('a', [handing('b', 'Look closely.')]), b], { handOff: true });
    await two.ask(picture);
    expect(lastOf(b)).toEqual([
      { role: 'system', content: 'You are B.' },
      picture,
      expect.objectContaining({ role: 'assistant', toolCalls: [expect.objectContaining({ id: 'call_1_0' })] }),
      { role: 'tool', toolCallId: 'call_1_0', content: 'Handed to b.' },
      { role: 'user', content: 'Look closely.', name: 'a' },
    ]);
  });

  it('T-12 shows the taker what the view of the team leaves, and its own part whole', async () => {
    const look = tool({ name: 'look', description: 'Looks.', parameters: { type: 'object' }, execute: () => 'seen' });
    const a = player('a', [{ text: 'I look.', toolCalls: [{ name: 'look' }] }, handing('b', 'Go on.')], {
      tools: [look],
    });
    const b = player('b', [{ toolCalls: [{ name: 'look' }] }, ...answer('B.'), ...answer('Again.')], { tools: [look] });
    const changes: unknown[] = [];
    const two = made([a, b], {
      handOff: true,
      view(messages, change) {
        changes.push(change);
        return withoutCalls(messages);
      },
    });
    await two.ask(picture);
    const note = { role: 'user', content: 'Go on.', name: 'a' };
    expect(b.model.calls[0]?.messages).toEqual([picture, says('I look.'), note]);
    expect(lastOf(b)?.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant', 'tool']);
    expect(changes).toEqual([
      { from: 'team', to: 'a' },
      { from: 'team', to: 'a' },
      { from: 'a', to: 'b' },
      { from: 'a', to: 'b' },
    ]);
    // What the view hides stays hidden in later turns.
    await two.ask('And now?');
    expect(JSON.stringify(lastOf(b))).not.toContain('seen');
    expect(lastOf(b)?.at(-1)).toEqual(user('And now?'));
  });

  it('T-13 ends with the value of a taker that has an output schema', async () => {
    const messageStore = on.messages();
    const outputSchema = {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
    } as const;
    const finish = { toolCalls: [{ name: '__finish__', arguments: { city: 'Rome' } }] };
    const b = player('b', [finish], { outputSchema });
    const two = made([player('a', [handing('b')]), b], { handOff: true, messageStore });
    const turn = two.startTurn('Where?');
    const reader = watch(turn);
    await expect(turn.result()).resolves.toMatchObject({ value: { city: 'Rome' }, agentId: 'b' });
    await reader.ended;
    expect(reader.of('artifact-update').at(-1)).toMatchObject({
      agentId: 'b',
      artifact: { artifactId: 'output', parts: [{ kind: 'data', data: { city: 'Rome' } }] },
      append: false,
      lastChunk: true,
    });
    const [, call] = messageStore.load('c').messages.filter(({ role }) => role === 'assistant');
    expect(JSON.stringify(call)).toContain('Rome');
  });

  it('T-14 goes from a to b to c and back in one turn; steering reaches who has it; events name who speaks', async () => {
    const held = gate();
    const wait = tool({
      name: 'wait',
      description: 'Waits.',
      parameters: { type: 'object' },
      execute: () => held.pass(),
    });
    const a = player('a', [handing('b'), { text: 'A again.' }]);
    const b = player('b', [{ text: 'B waits.', toolCalls: [{ name: 'wait' }] }, handing('c')], { tools: [wait] });
    const c = player('c', [handing('a')]);
    const turn = made([a, b, c], { handOff: true }).startTurn('Go.');
    const reader = watch(turn);
    await reader.until('internal:tool-start', ({ toolName }) => toolName === 'wait');
    turn.steer(user('Hurry.'));
    held.open();
    await expect(turn.result()).resolves.toMatchObject({ text: 'A again.', agentId: 'a', iterations: 5 });
    await reader.ended;
    expect(b.model.calls[0]?.messages).not.toContainEqual(user('Hurry.'));
    expect(b.model.calls[1]?.messages.at(-1)).toEqual(user('Hurry.'));
    const speakers = ofKind(reader.events, 'internal:llm-call').map(({ agentId }) => agentId);
    expect(speakers).toEqual(['a', 'b', 'b', 'c', 'a']);
    for (const event of reader.events) expect(['team', 'a', 'b', 'c']).toContain(event.agentId);
    const texts = ofKind(reader.events, 'artifact-update').map(
      ({ agentId, artifact }) => `${agentId} ${artifact.artifactId}`,
    );
    expect(new Set(texts)).toEqual(new Set(['b answer-2', 'a answer-5']));
  });

  it('takes the first of two hand-offs in one response, and tells the model so of the other', async () => {
    const both = { toolCalls: [handing('b', 'To b.'), handing('c', 'To c.')].flatMap(({ toolCalls }) => toolCalls) };
    const b = player('b', answer('B.'));
    const three = made([player('a', [both]), b, player('c', [])], { handOff: true });
    await expect(three.ask('1')).resolves.toMatchObject({ text: 'B.' });
    expect(lastOf(b)?.slice(2)).toEqual([
      { role: 'tool', toolCallId: 'call_1_0', content: 'Handed to b.' },
      { role: 'tool', toolCallId: 'call_1_1', content: expect.stringMatching(/handed to b already/), status: 'error' },
      { role: 'user', content: 'To b.', name: 'a' },
    ]);
  });

  const outputSchema = { type: 'object', properties: { n: { type: 'integer' } } } as const;
  const finishing = { toolCalls: [{ name: '__finish__', arguments: { n: 1 } }] };
  const doing = { toolCalls: [{ name: 'done', arguments: { message: 'Bye.' } }] };
  const orders: readonly (readonly [string, typeof finishing | typeof doing, Partial<AgentSettings>])[] = [
    ['an output', finishing, { outputSchema }],
    ['the end', doing, { extensions: [doneTool()] }],
  ];

  it.each(orders)(
    'comes before %s in the same response, which is then an error for the model',
    async (_, end, options) => {
      const both = { toolCalls: [...handing('b').toolCalls, ...end.toolCalls] };
      const b = player('b', answer('B.'));
      const two = made([player('a', [both], options), b], { handOff: true });
      await expect(two.ask('1')).resolves.toMatchObject({ text: 'B.', agentId: 'b' });
      expect(lastOf(b)?.slice(2)).toEqual([
        { role: 'tool', toolCallId: 'call_1_0', content: 'Handed to b.' },
        {
          role: 'tool',
          toolCallId: 'call_1_1',
          content: expect.stringMatching(/^Not taken: .* b already/),
          status: 'error',
        },
      ]);
    },
  );

  it.each(orders)('does not happen after %s in the same response', async (_, end, options) => {
    const both = { toolCalls: [...end.toolCalls, ...handing('b').toolCalls] };
    const two = made([player('a', [both], options), player('b', [])], { handOff: true });
    await expect(two.ask('1')).resolves.toMatchObject({ agentId: 'a' });
    expect((await two.currentAgent()).id).toBe('a');
  });

  it('is an error for the model where there is no such agent', async () => {
    const a = player('a', [handing('z'), ...answer('Then I do it.')]);
    const two = made([a, player('b', [])], { handOff: true });
    await expect(two.ask('Help.')).resolves.toMatchObject({ text: 'Then I do it.', agentId: 'a' });
    expect((await two.currentAgent()).id).toBe('a');
  });

  it('fails with LIMIT where it is handed over more often than maxHandOffs', async () => {
    const [a, b] = [player('a', [handing('b'), handing('b')]), player('b', [handing('a')])];
    const two = made([a, b], { handOff: true, maxHandOffs: 2 });
    await expect(two.ask('1')).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_hand_offs' });
  });

  it('gives each agent its own number of iterations', async () => {
    const [a, b] = [player('a', [handing('b')], { maxIterations: 1 }), player('b', answer('B.'), { maxIterations: 1 })];
    await expect(made([a, b], { handOff: true }).ask('1')).resolves.toMatchObject({ text: 'B.', iterations: 2 });
  });

  it('is handed over also where no tool may run that no rule names', async () => {
    const extensions = [toolPermissions({ rules: [], otherwise: 'deny' })];
    const two = made([player('a', [handing('b')], { extensions }), player('b', answer('B here.'))], { handOff: true });
    await expect(two.ask('Help.')).resolves.toMatchObject({ text: 'B here.', agentId: 'b' });
  });

  it('is suspended and cancelled as one turn', async () => {
    const remove = tool({
      name: 'remove',
      description: 'Deletes all of it.',
      parameters: { type: 'object' },
      needsApproval: true,
      execute: () => 'deleted',
    });
    const b = player('b', [{ toolCalls: [{ name: 'remove' }] }], { tools: [remove] });
    const store = on.bench.store;
    const two = made([player('a', [handing('b')]), b], { handOff: true, taskStateStore: store });
    await expect(two.ask('Help.', { taskId: 't' })).resolves.toMatchObject({ status: 'input-required', agentId: 'b' });
    await two.cancel('t', 'enough');
    expect(store.load('t')).toMatchObject({ status: 'canceled', agentId: 'team' });
  });

  it('has the extensions of the team in the part of each agent, and a prompt of the caller for the first one only', async () => {
    const seen: string[] = [];
    const b = player('b', answer('B.'), { systemPrompt: async () => 'You are B.' });
    const a = player('a', [handing('b')], { systemPrompt: 'You are A.' });
    const extensions = [
      { name: 'noting', beforeLLMCall: (_: unknown, { agentId }: HookContext) => void seen.push(agentId) },
    ];
    await made([a, b], { handOff: true, extensions }).ask('1', { systemPrompt: 'You are the first.' });
    expect(seen).toEqual(['a', 'b']);
    expect([lastOf(a)?.[0]?.content, lastOf(b)?.[0]?.content]).toEqual(['You are the first.', 'You are B.']);
  });

  it('goes on at the same agent in a fork that was cut right behind the hand-off', async () => {
    const { store } = on.bench;
    const players = () => [player('a', [handing('b')]), player('b', answer('B.'))];
    await made(players(), { handOff: true, taskStateStore: store }).ask('1', { taskId: 't' });
    const { taskId } = await AgentLoop.fork('t', { store, at: 1 });
    const again = made([player('a', []), player('b', answer('B once more.'))], {
      handOff: true,
      taskStateStore: store,
    });
    await expect((await again.resume(taskId)).result()).resolves.toMatchObject({ text: 'B once more.', agentId: 'b' });
  });

  it('begins with the next agent in a fork that was cut after the hand-off: what that one did first is not copied', async () => {
    const { store } = on.bench;
    const begun: string[] = [];
    const greeting: Extension = {
      name: 'greeting',
      beforeTurn({ taskId, agentId }) {
        begun.push(`${taskId} ${agentId}`);
        return { messages: [user(`You are in ${taskId}.`)] };
      },
    };
    const of = (first: Parameters<typeof player>[1], b: ReturnType<typeof player>) =>
      made([player('a', first), b], { handOff: true, taskStateStore: store });
    await of([handing('b')], player('b', answer('B.'), { extensions: [greeting] })).ask('1', { taskId: 't' });
    await AgentLoop.fork('t', { store, at: 1, taskId: 'f' });
    const b = player('b', answer('B once more.'), { extensions: [greeting] });
    await expect((await of([], b).resume('f')).result()).resolves.toMatchObject({ text: 'B once more.' });
    expect(begun).toEqual(['t b', 'f b']);
    expect(lastOf(b)?.filter(({ role }) => role === 'user')).toEqual([user('1'), user('You are in f.')]);
  });

  it('continues at the next agent of a sequence in a fork that was cut after the answer of the first one', async () => {
    const { store } = on.bench;
    const of = (first: Parameters<typeof player>[1], next: Parameters<typeof player>[1]) =>
      made([player('a', first), player('b', next)], { routing: inSequence(['a', 'b']), taskStateStore: store });
    await of(answer('A.'), answer('B.')).ask('1', { taskId: 't' });
    const { taskId } = await AgentLoop.fork('t', { store, at: 1 });
    const again = of([], answer('B once more.'));
    await expect((await again.resume(taskId)).result()).resolves.toMatchObject({ text: 'B once more.', agentId: 'b' });
    expect(store.read(taskId).filter(({ type }) => type === 'agent.changed')).toHaveLength(
      store.read('t').filter(({ type }) => type === 'agent.changed').length,
    );
  });

  it('remembers what was said before a guardrail refused the answer of a turn', async () => {
    const polite = guardrails({
      output: [{ name: 'polite', check: (text) => (text.includes('rude') ? { block: 'it is rude' } : undefined) }],
    });
    const messageStore = on.messages();
    const b = player('b', [{ toolCalls: [{ name: 'count' }] }, { text: 'A rude answer.' }, { text: 'Two.' }], {
      extensions: [polite],
      tools: [tool({ name: 'count', description: 'Counts.', parameters: z.object({}), execute: () => '2' })],
    });
    const one = made([b], { messageStore });
    await expect(one.ask('How many?')).rejects.toMatchObject({ code: 'GUARDRAIL' });
    const { messages } = messageStore.load('c');
    expect(messages.slice(0, 3)).toMatchObject([
      user('How many?'),
      { role: 'assistant' },
      { role: 'tool', content: '2' },
    ]);
    await expect(one.ask('And politely?')).resolves.toMatchObject({ text: 'Two.' });
    expect(lastOf(b)?.slice(0, messages.length)).toEqual(messages);
  });

  it('asks the input guardrails of an agent about what the user says now, and remembers nothing that they refuse', async () => {
    const seen: unknown[] = [];
    const no = guardrails({
      input: [
        {
          name: 'no',
          check(messages) {
            seen.push(messages);
            return JSON.stringify(messages).includes('secret') ? { block: 'it is secret' } : undefined;
          },
        },
      ],
    });
    const messageStore = on.messages();
    const one = made([player('a', answer('Fine.'), { extensions: [no] })], { messageStore });
    await expect(one.ask('A secret.')).rejects.toMatchObject({ code: 'GUARDRAIL' });
    await expect(one.ask('Hello.')).resolves.toMatchObject({ text: 'Fine.' });
    expect(seen).toEqual([[user('A secret.')], [user('Hello.')]]);
    expect(messageStore.load('c').messages).toEqual([user('Hello.'), says('Fine.')]);
  });
});
