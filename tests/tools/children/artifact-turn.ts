// Keeps an artifact with the tools of a loop's `artifactStore`, says so, and stays in the next model call until it is killed.
import { AgentLoop, folderArtifactStore } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';

const [path = ''] = process.argv.slice(2);
const create = { name: 'create_artifact', arguments: { name: 'report.md', content: '# One' } };
const loop = new AgentLoop({
  agentId: 'writer',
  llmProvider: scriptedLLM([{ toolCalls: [create] }, { text: ['Half'], never: true }]),
  taskStateStore: new LmdbStateStore({ path: `${path}/journal` }),
  artifactStore: folderArtifactStore(`${path}/artifacts`),
  leaseMs: 100,
  enableTracing: false,
});
const turn = loop.startTurn([{ role: 'user', content: 'Write.' }], { taskId: 't', contextId: 'c' });
for await (const event of turn) {
  if (event.kind === 'artifact-update' && event.artifact.artifactId === 'answer-2') process.send?.('in its call');
}
