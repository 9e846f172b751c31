import { describe, expect, it } from '@jest/globals';
import { agent, agentTools, artifactTools, InMemoryArtifactStore, tool, writeArtifact } from 'millrace';
import { deadTurn, firstCall } from '../core/dead-turn.ts';
import { type EventOf, textOfParts, watch } from '../core/watch-events.ts';
import { toolCall, toolContext } from '../tools/tool-context.ts';
import { agentBench } from './agent-bench.ts';

const on = agentBench();
const shown = (event: EventOf<'artifact-update'>) => [textOfParts(event), event.append, event.lastChunk];
const textOf = async (store: InMemoryArtifactStore, artifactId: string) =>
  new TextDecoder().decode((await store.get(artifactId))?.content);

const create = {
  name: 'create_artifact',
  arguments: { name: 'report.md', content: '# One', mediaType: 'text/markdown' },
};

describe('the artifacts of an agent', () => {
  it('S1-07 S1-22 S1-92 are made, changed, read and listed by the model, shown, and there after the turn', async () => {
    const artifactStore = new InMemoryArtifactStore();
    const provider = on.bench.model([
      { toolCalls: [create] },
      { toolCalls: [{ name: 'update_artifact', arguments: { artifactId: 't:1:0', content: '# Two' } }] },
      {
        toolCalls: [
          { name: 'read_artifact', arguments: { artifactId: 't:1:0' } },
          { name: 'list_artifacts' },
          { name: 'read_artifact', arguments: { artifactId: 'nothing' } },
        ],
      },
      { text: 'Done.' },
    ]);
    const turn = on.agent([], { provider, artifactStore }).startTurn('Write it.', { taskId: 't' });
    const reader = watch(turn);
    await turn.result();
    expect(await artifactStore.get('t:1:0')).toMatchObject({
      version: 2,
      name: 'report.md',
      mediaType: 'text/markdown',
      taskId: 't',
      contextId: 'c',
    });
    expect(await textOf(artifactStore, 't:1:0')).toBe('# Two');
    const updates = reader.of('artifact-update').filter(({ artifact }) => artifact.artifactId === 't:1:0');
    expect(updates.map(shown)).toEqual([
      ['# One', false, true],
      ['# Two', false, true],
    ]);
    const [read, list, missing] = provider.calls[3]?.messages.slice(-3) ?? [];
    expect(read).toMatchObject({ content: '# Two' });
    expect(JSON.parse(String(list?.content))).toEqual({
      artifacts: [{ artifactId: 't:1:0', version: 2, name: 'report.md', mediaType: 'text/markdown', size: 5 }],
    });
    expect(missing).toMatchObject({ status: 'error', content: expect.stringContaining('known artifacts: t:1:0') });
  });

  it('S1-22 need no store: without one the model has no such tools', async () => {
    const provider = on.bench.model([{ text: 'Hi.' }]);
    await on.agent([], { provider }).run('Hello');
    expect(provider.calls[0]?.tools).toBeUndefined();
  });

  it('are made once by a call that runs again after a crash', async () => {
    const artifactStore = new InMemoryArtifactStore();
    await artifactStore.create({ artifactId: 't:1:0', name: 'report.md', content: '# One' });
    const call = {
      id: 'k',
      type: 'function' as const,
      function: { name: create.name, arguments: JSON.stringify(create.arguments) },
    };
    const message = { role: 'assistant' as const, content: null, toolCalls: [call] };
    deadTurn(on.bench, [
      { type: 'x.conversation', hook: 'beforeTurn', data: { history: 0 } },
      firstCall,
      {
        type: 'llm.done',
        iteration: 1,
        attempt: 1,
        message,
        calls: [{ callId: '1:0', call }],
        finishReason: 'tool_calls',
      },
      { type: 'tool.intent', callId: '1:0', attempt: 1, arguments: create.arguments },
    ]);
    const { messages } = await on
      .agent([{ text: 'Done.' }], { artifactStore })
      .resume('t')
      .result();
    expect(messages[1]).toMatchObject({ role: 'tool', content: expect.stringContaining('"version":1') });
  });

  it('S1-93 are shown chunk by chunk while a tool writes them, in order, and hold what was shown', async () => {
    const artifactStore = new InMemoryArtifactStore();
    async function* chunks() {
      for (const chunk of ['Once ', 'upon ', 'a time.']) yield chunk;
    }
    const story = tool({
      name: 'story',
      description: 'Tells a story.',
      parameters: { type: 'object' },
      async execute(_, context) {
        const { artifactId } = await artifactStore.create({ artifactId: 'story', name: 'story.txt' });
        const { version, size } = await writeArtifact(artifactStore, artifactId, chunks(), context);
        return `version ${version}, ${size} bytes`;
      },
    });
    const ada = on.agent([{ toolCalls: [{ name: 'story' }] }, { text: 'Told.' }], { tools: [story] });
    const turn = ada.startTurn('Tell.', { taskId: 't' });
    const reader = watch(turn);
    const { messages } = await turn.result();
    const updates = reader.of('artifact-update').filter(({ artifact }) => artifact.artifactId === 'story');
    expect(updates.map(shown)).toEqual([
      ['Once ', false, false],
      ['upon ', true, false],
      ['a time.', true, false],
      ['', true, true],
    ]);
    expect(await textOf(artifactStore, 'story')).toBe(updates.map(textOfParts).join(''));
    expect(messages[1]).toMatchObject({ content: 'version 2, 17 bytes' });
    expect(JSON.stringify(on.bench.store.read('t'))).not.toContain('upon');
  });

  it('are left as they were where the call is cancelled while it writes', async () => {
    const artifactStore = new InMemoryArtifactStore();
    await artifactStore.create({ artifactId: 'story', name: 'story.txt', content: 'Old.' });
    const cancel = new AbortController();
    function* chunks() {
      yield 'New';
      cancel.abort(new Error('enough'));
      yield ' text.';
    }
    const context = { signal: cancel.signal, progress: () => {} };
    await expect(writeArtifact(artifactStore, 'story', chunks(), context)).rejects.toThrow('enough');
    expect(await textOf(artifactStore, 'story')).toBe('Old.');
  });

  it.each([
    ['one', 'one', true],
    ['one', 'other', false],
    [undefined, 'one', false],
    ['alice:one', 'alice:other', true],
    ['alice:one', 'bob:one', false],
    ['alice:one', 'one', false],
  ])('of the context %s are read in the context %s: %p', async (of, contextId, isRead) => {
    const store = new InMemoryArtifactStore();
    await store.create({ artifactId: 'a', name: 'note', content: 'One', ...(of && { contextId: of }) });
    const context = toolContext({ contextId, arguments: { artifactId: 'a' } });
    const read = Promise.resolve(artifactTools(store).executeTool(toolCall('read_artifact'), context));
    if (isRead) expect(await read).toMatchObject({ content: 'One' });
    else await expect(read).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('of a sub-agent are read by the sub-agent', async () => {
    const artifactStore = new InMemoryArtifactStore();
    const writing = on.bench.model([
      { toolCalls: [create] },
      ({ messages }) => {
        const { artifactId } = JSON.parse(String(messages.at(-1)?.content));
        return { toolCalls: [{ name: 'read_artifact', arguments: { artifactId } }] };
      },
      { text: 'Written.' },
    ]);
    const writer = agent({ name: 'writer', description: 'Writes.', provider: writing, artifactStore });
    const steps = [{ toolCalls: [{ name: 'writer', arguments: { message: 'Write.' } }] }, { text: 'Done.' }];
    await on.agent(steps, { toolProviders: [agentTools([writer])] }).run('Go.');
    expect(writing.calls[2]?.messages.at(-1)).toMatchObject({ role: 'tool', content: '# One' });
  });

  it('are changed once by a call that runs again', async () => {
    const store = new InMemoryArtifactStore();
    await store.create({ artifactId: 'a', name: 'note', content: 'One', contextId: 'context' });
    const tools = artifactTools(store);
    const again = toolContext({ arguments: { artifactId: 'a', content: 'Two' } });
    for (const attempt of [1, 2]) await tools.executeTool(toolCall('update_artifact'), { ...again, attempt });
    expect(await store.describe('a')).toMatchObject({ version: 2 });
    const next = toolContext({ arguments: { artifactId: 'a', content: 'Three' }, idempotencyKey: 'task:2:0' });
    await tools.executeTool(toolCall('update_artifact'), next);
    expect(await store.describe('a')).toMatchObject({ version: 3 });
  });
});
