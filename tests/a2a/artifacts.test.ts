import { expect, it } from '@jest/globals';
import { InMemoryArtifactStore } from 'millrace';
import { a2aBench, call, send } from './bench.ts';
import { collect, message, request, shortOf } from './messages.ts';

const list = {
  tenant: '',
  contextId: '',
  status: 0,
  pageToken: '',
  statusTimestampAfter: undefined,
  includeArtifacts: true,
} as const;
const create = (name: string, content: string) => ({
  toolCalls: [{ name: 'create_artifact', arguments: { name, content } }],
});

it('shows what tools keep: as it is made, with the task later, and large contents by reference', async () => {
  const artifactStore = new InMemoryArtifactStore();
  const { handler } = a2aBench({
    steps: [create('note.txt', 'Short.'), create('book.txt', 'x'.repeat(300_000)), { text: 'Both kept.' }],
    agent: { artifactStore },
    handler: { artifactUrl: ({ artifactId }) => `https://files.example/${artifactId}` },
  });
  const seen = await collect(handler.sendMessageStream(request(message('Keep')), call()));
  const { id } = Object(seen[0]?.payload?.value);
  expect(seen.map(shortOf)).toContain(`${id}:1:0.:Short.`);
  const { artifacts } = await handler.getTask({ tenant: '', id }, call());
  expect(artifacts.map(({ name, parts }) => [name, parts[0]?.content])).toEqual([
    ['', { $case: 'text', value: 'Both kept.' }],
    ['note.txt', { $case: 'text', value: 'Short.' }],
    ['book.txt', { $case: 'url', value: `https://files.example/${id}:2:0` }],
  ]);
  expect((await handler.listTasks(list, call())).tasks[0]?.artifacts).toEqual(artifacts);
});

it('lists the tasks whose artifacts fit into 3 MiB, and the others on the pages behind', async () => {
  const artifactStore = new InMemoryArtifactStore();
  const { handler } = a2aBench({ steps: [{ text: 'One.' }, { text: 'Two.' }], agent: { artifactStore } });
  const ids = [(await send(handler, 'Hi')).id, (await send(handler, 'Hi')).id];
  for (const taskId of ids)
    for (let index = 0; index < 7; index++)
      await artifactStore.create({ artifactId: `${taskId}:${index}`, name: 'a', taskId, content: 'x'.repeat(262_144) });
  const first = await handler.listTasks(list, call());
  expect([first.tasks.map(({ id }) => id), first.totalSize]).toEqual([[ids[1]], 2]);
  const second = await handler.listTasks({ ...list, pageToken: first.nextPageToken }, call());
  expect(second).toMatchObject({ tasks: [{ id: ids[0] }], nextPageToken: '' });
  expect(second.tasks[0]?.artifacts).toHaveLength(8);
});

it('says what there is of a large content that cannot be fetched, and sends others as bytes', async () => {
  const artifactStore = new InMemoryArtifactStore();
  const { handler } = a2aBench({
    steps: [{ text: 'Hi.' }],
    agent: { artifactStore },
    handler: { maxInlineArtifactBytes: 4 },
  });
  const { id } = await send(handler, 'Hi');
  await artifactStore.create({
    artifactId: 'a',
    name: 'a.png',
    mediaType: 'image/png',
    taskId: id,
    content: Buffer.from('png'),
  });
  await artifactStore.create({ artifactId: 'b', name: 'b.txt', taskId: id, content: 'too long' });
  const { artifacts } = await handler.getTask({ tenant: '', id }, call());
  expect(artifacts.slice(1).map(({ parts }) => parts[0])).toEqual([
    {
      content: { $case: 'raw', value: Buffer.from('png') },
      filename: 'a.png',
      mediaType: 'image/png',
      metadata: undefined,
    },
    expect.objectContaining({
      content: { $case: 'data', value: expect.objectContaining({ artifactId: 'b', size: 8, mediaType: 'text/plain' }) },
    }),
  ]);
});

it('keeps artifacts of one owner from the model of another, which knows their ids', async () => {
  const artifactStore = new InMemoryArtifactStore();
  const { handler, model } = a2aBench({
    steps: [
      create('diary.txt', 'Dear diary'),
      { text: 'Kept.' },
      ({ messages }) => ({
        toolCalls: [{ name: 'read_artifact', arguments: { artifactId: String(messages.at(-1)?.content) } }],
      }),
      { text: 'There is none.' },
    ],
    agent: { artifactStore },
  });
  const { id } = await send(handler, 'Keep', { user: 'ann' });
  await send(handler, `${id}:1:0`, { user: 'bob' });
  const read = model.calls[3]?.messages.at(-1);
  expect(read).toMatchObject({ role: 'tool', status: 'error' });
  expect(JSON.stringify(read)).not.toContain('Dear diary');
  expect(JSON.stringify(read)).toContain('known artifacts: none');
});
