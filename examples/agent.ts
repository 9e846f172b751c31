import { agent, agentText, agentTools, InMemoryArtifactStore, InMemoryStateStore } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const taskStateStore = new InMemoryStateStore();
const artifactStore = new InMemoryArtifactStore();

const researcher = agent({
  name: 'researcher',
  description: 'Finds facts.',
  provider: scriptedLLM([{ text: ['Elephants ', 'sleep two hours a day.'] }]),
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

const note = writer.startTurn('Write a note on how long elephants sleep.', { taskId: 'note' });
note.pipe(agentText()).subscribe(({ path, text }) => {
  const agents = path.map(({ agentId }) => agentId).join('/');
  if (agents !== '' && text !== '') console.log('below   ', `${agents}: ${text}`);
});
await note.result();
const { artifacts } = await artifactStore.list();
console.log('kept    ', artifacts.map(({ name, size }) => `${name}, ${size} bytes`).join());
await writer.run('What do you remember?');
console.log(
  'journals',
  taskStateStore
    .list()
    .map(({ agentId, parentTaskId }) => `${agentId}${parentTaskId ? ` below ${parentTaskId}` : ''}`)
    .sort(),
);
console.log('used    ', `${writer.usage?.turns} turns, ${writer.usage?.iterations} model calls`);
await writer.close();
