import { agent, agentTools, InMemoryArtifactStore, InMemoryStateStore, isSubAgentUpdate } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const taskStateStore = new InMemoryStateStore();
const artifactStore = new InMemoryArtifactStore();

const researcher = agent({
  name: 'researcher',
  description: 'Finds facts.',
  provider: scriptedLLM([{ text: ['Elephants ', 'sleep two hours a day.'] }]),
  taskStateStore,
});

const writer = agent({
  name: 'writer',
  provider: scriptedLLM([
    { toolCalls: [{ name: 'researcher', arguments: { message: 'How long do elephants sleep?' } }] },
    { toolCalls: [{ name: 'create_artifact', arguments: { name: 'sleep.md', content: '# Two hours a day' } }] },
    { text: 'It is in sleep.md.' },
    ({ messages }) => ({ text: `I remember ${messages.length - 2} messages before that one.` }),
  ]),
  systemPrompt: () => 'You write short notes.',
  toolProviders: [agentTools([researcher])],
  taskStateStore,
  artifactStore,
});

writer.on('agent:state', ({ state }) => console.log('state   ', state));
writer.on('message:sent', ({ messages }) => console.log('sent    ', messages[0]?.content));
writer.on('message:received', ({ text }) => console.log('received', text));
writer.on('internal:tool-progress', ({ update }) => {
  if (!isSubAgentUpdate(update) || update.event.kind !== 'artifact-update') return;
  const [part] = update.event.artifact.parts;
  if (part?.kind === 'text' && part.text !== '') console.log('below   ', `${update.path.join('/')}: ${part.text}`);
});

await writer.run('Write a note on how long elephants sleep.', { taskId: 'note' });
const { artifacts } = await artifactStore.list();
console.log('kept    ', artifacts.map(({ name, size }) => `${name}, ${size} bytes`).join());
await writer.run('What do you remember?');
console.log(
  'journals',
  (await taskStateStore.list()).map(({ taskId, agentId }) => `${agentId} ${taskId.slice(0, 8)}`).sort(),
);
console.log('used    ', `${writer.usage?.turns} turns, ${writer.usage?.iterations} model calls`);
await writer.close();
