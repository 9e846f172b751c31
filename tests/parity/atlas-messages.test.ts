import { expect, it } from '@jest/globals';
import type { Message, ToolContext } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { textOfParts, watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();

it('S4-02 S0-07 keeps the roles of a history and their order; instructions are merged into one first message', async () => {
  const rest: readonly Message[] = [
    { role: 'user', content: 'What is there?' },
    {
      role: 'assistant',
      content: null,
      toolCalls: [{ id: 'a', type: 'function', function: { name: 'look', arguments: '{}' } }],
    },
    { role: 'tool', toolCallId: 'a', content: 'a tree' },
    { role: 'assistant', content: 'A tree.' },
    { role: 'user', content: 'Of which colour?' },
  ];
  const history: readonly Message[] = [
    { role: 'system', content: 'Speak of plants.' },
    ...rest.slice(0, 4),
    { role: 'developer', content: 'One word.' },
    ...rest.slice(4),
  ];
  const model = bench.model([{ text: 'Green.' }]);
  const turn = new AgentLoop(bench.config(model, { systemPrompt: 'You are a gardener.' })).startTurn(history);
  await turn.result();
  expect(model.calls[0]?.messages).toEqual([
    { role: 'system', content: 'You are a gardener.\n\nSpeak of plants.\n\nOne word.' },
    ...rest,
  ]);
});

it('S4-12 tells a tool the conversation, the request, the agent and the metadata of its turn', async () => {
  const contexts: ToolContext[] = [];
  const step = [{ toolCalls: [{ name: 'look' }] }, { text: 'Green.' }];
  const toolProviders = [localTools({ look: (_args, context) => contexts.push(context) })];
  const loop = bench.loop([...step, ...step], { toolProviders });
  const turns = [
    { taskId: 'first', contextId: 'garden', agentId: 'gardener', metadata: { tenant: 'north', flags: [1, 2] } },
    { taskId: 'second', contextId: 'garden', agentId: 'guest', metadata: { tenant: 'south' } },
  ];
  for (const told of turns) {
    const watcher = watch(loop.startTurn(question, told));
    await watcher.ended;
    expect(watcher.of('task')).toMatchObject([told]);
  }
  const toldTo = ({ taskId, contextId, agentId, metadata }: ToolContext) => ({ taskId, contextId, agentId, metadata });
  expect(contexts.map(toldTo)).toEqual(turns);
});

it('S4-15 shows all the text of a provider that has only call at once, then its response with text and calls', async () => {
  const step = { text: ['I ', 'look.'], toolCalls: [{ name: 'look', id: 'a' }] };
  const model = bench.model([step, { text: 'Green.' }], { streaming: false });
  expect(model).not.toHaveProperty('stream');
  const toolProviders = [localTools({ look: () => 'a tree' })];
  const watcher = watch(new AgentLoop(bench.config(model, { toolProviders })).startTurn(question));
  await watcher.ended;
  const shown = watcher.events.flatMap((event) => {
    if (event.kind === 'artifact-update') return [[event.artifact.artifactId, textOfParts(event)]];
    if (event.kind !== 'internal:llm-response') return [];
    return [['response', event.text, ...(event.toolCalls ?? []).map(({ call }) => call)]];
  });
  expect(shown).toEqual([
    ['answer-1', 'I look.'],
    ['response', 'I look.', { id: 'a', type: 'function', function: { name: 'look', arguments: '{}' } }],
    ['answer-2', 'Green.'],
    ['response', 'Green.'],
  ]);
});
