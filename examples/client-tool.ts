import { AgentLoop, ClientToolProvider, InMemoryStateStore } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

// A tool that runs on the user's side: in a browser, on a phone, in an editor.
const device = new ClientToolProvider([
  {
    name: 'where_am_i',
    description: 'Tells where the user is.',
    parameters: { type: 'object', properties: { exact: { type: 'boolean' } }, required: ['exact'] },
  },
]);

const store = new InMemoryStateStore();
const config = {
  agentId: 'guide',
  llmProvider: scriptedLLM([
    { toolCalls: [{ name: 'where_am_i', arguments: { exact: false } }] },
    { text: 'You are in Oslo: go and see the opera house.' },
  ]),
  toolProviders: [device],
  taskStateStore: store,
};

// The server runs the turn until it needs the client, and forgets about it.
const turn = new AgentLoop(config).startTurn([{ role: 'user', content: 'What is worth a visit here?' }]);
const { taskId, status, questions } = await turn.result();
const [question] = questions;
console.log(status, question);

// The client runs the tool. Its answer may reach another server than the one that asked.
if (question) {
  await AgentLoop.answer(taskId, { store, answers: { [question.id]: { result: { city: 'Oslo' } } } });
}

// A worker finds the turn, which is runnable again and has no owner, and resumes it.
for (const task of store.list({ state: 'working' })) {
  if (task.held) continue;
  const { text } = await AgentLoop.resume(task.taskId, config).result();
  console.log(text);
}
