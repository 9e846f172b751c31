import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AgentLoop, cacheResponses, folderArtifactStore, type Message } from 'millrace';
import { LmdbCacheStore, LmdbMessageStore, LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';

// This file is two programs: one that is killed before it could save its turn, and one that finds and saves it.
const [folder = mkdtempSync(join(tmpdir(), 'millrace-stores-')), isFirst] = process.argv.slice(2);
// One file holds journals, messages and cached answers.
const path = join(folder, 'store');
const journals = new LmdbStateStore({ path });
const memory = new LmdbMessageStore({ path });
const contextId = 'ada';

if (isFirst) {
  const said: Message = { role: 'user', content: 'My name is Ada.' };
  await memory.begin(contextId, 'turn-1');
  const llmProvider = scriptedLLM([{ text: 'Hello Ada.' }]);
  const turn = new AgentLoop({ agentId: 'host', llmProvider, taskStateStore: journals }).startTurn([said], {
    contextId,
    taskId: 'turn-1',
  });
  await turn.result();
  await turn.settled;
  process.send?.('answered');
  // It runs as long as its parent process.
  process.channel?.ref();
} else {
  const first = fork(import.meta.filename, [folder, 'first']);
  await once(first, 'message');
  first.kill('SIGKILL');
  await once(first, 'exit');

  // The next turn of the context first saves the messages of the dead process. Saving twice stores them once.
  const { openTurns } = await memory.load(contextId);
  console.log('left open:', openTurns.join(', '));
  for (const taskId of openTurns) {
    const state = await journals.load(taskId);
    if (state?.isComplete) await memory.append(contextId, taskId, state.messages);
  }
  const { messages } = await memory.load(contextId);
  console.log('remembers:', messages.map(({ content }) => content).join(' | '));
  const { messages: newest } = await memory.list(contextId, { order: 'newest-first', limit: 1 });
  console.log('newest:', newest.map(({ id, message }) => `${id} ${message.content}`).join());

  // Content of any size is written chunk by chunk, and is invisible before the last one.
  const artifacts = folderArtifactStore(join(folder, 'artifacts'));
  const { artifactId } = await artifacts.create({ name: 'report.md', mediaType: 'text/markdown', contextId });
  await artifacts.append(artifactId, '# Elephants\n');
  await artifacts.append(artifactId, 'They never forget.\n', { last: true });
  const [report] = (await artifacts.list({ contextId })).artifacts;
  console.log(`${report?.name} v${report?.version}, ${report?.size} bytes`);

  // The same request again is answered from the cache, also after a restart.
  const model = scriptedLLM([{ text: 'Your name is Ada.' }]);
  for (const _ of ['first', 'second']) {
    const store = new LmdbCacheStore({ path });
    const llmProvider = cacheResponses({ store, namespace: 'demo' })(model);
    const loop = new AgentLoop({ agentId: 'host', llmProvider });
    console.log((await loop.startTurn([...messages, { role: 'user', content: 'Who am I?' }]).result()).text);
    await store.close();
  }
  console.log(model.calls.length === 1 ? 'asked once' : 'asked twice');
  await Promise.all([journals.close(), memory.close()]);
  rmSync(folder, { recursive: true });
}
