import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AgentLoop, InMemoryStateStore, LocalToolProvider, replay, tool } from 'millrace';
import { loadCassette, recordTurn, scriptedLLM } from 'millrace/testing';

let asked = 0;
const weather = (description: string) =>
  tool({
    name: 'weather',
    description,
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    readOnly: true,
    execute({ city }) {
      asked++;
      return `Rain in ${city}.`;
    },
  });

// A turn, as it ran in production.
const store = new InMemoryStateStore();
const toolProviders = [new LocalToolProvider([weather('Tells the weather of a city.')])];
const model = scriptedLLM([
  { toolCalls: [{ name: 'weather', arguments: { city: 'Oslo' } }] },
  { text: 'Take an umbrella.' },
]);
const turn = new AgentLoop({ agentId: 'guide', llmProvider: model, toolProviders, taskStateStore: store }).startTurn([
  { role: 'user', content: 'What shall I wear in Oslo?' },
]);
console.log('then:    ', (await turn.result()).text);

// Fork: what would it have said on a sunny day? The tool does not run again.
const { taskId } = await AgentLoop.fork(turn.taskId, {
  store,
  at: 1,
  edits: { results: { '1:0': { content: 'Sun in Oslo.' } } },
});
const other = scriptedLLM([({ messages }) => ({ text: `Sunglasses, for: ${String(messages.at(-1)?.content)}` })]);
const forked = AgentLoop.resume(taskId, {
  agentId: 'guide',
  llmProvider: other,
  toolProviders,
  taskStateStore: store,
});
console.log('forked:  ', (await forked.result()).text);

// Record and replay: the turn as a test. No model, no tool, no store.
const folder = mkdtempSync(join(tmpdir(), 'millrace-cassette-'));
const path = join(folder, 'umbrella.jsonl');
await recordTurn(turn.taskId, path, { store });
const cassette = await loadCassette(path);
rmSync(folder, { recursive: true });
console.log('replayed:', (await replay(cassette, { toolProviders }).result()).text);
console.log('the tool ran', asked === 1 ? 'once' : `${asked} times`);

// A changed loop is detected.
const changed = [new LocalToolProvider([weather('Tells the weather.')])];
await replay(cassette, { toolProviders: changed })
  .result()
  .catch((error: Error) => console.log(error.message));
