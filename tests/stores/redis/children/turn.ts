// Runs a turn on Redis: the model calls `first`, which finishes, and `second`, which never does. Tells what it does in an outside file.
import { appendFileSync } from 'node:fs';
import { LocalToolProvider, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { RedisStateStore } from 'millrace/redis';
import { scriptedLLM } from 'millrace/testing';

const [redis = '', worldPath = '', taskId = ''] = process.argv.slice(2);

function worldTool(name: string, run: () => unknown) {
  return tool({
    name,
    description: name,
    parameters: { type: 'object' },
    execute: () => {
      appendFileSync(worldPath, `${name}\n`);
      return run();
    },
  });
}

const never = () => new Promise(() => {});
const loop = new AgentLoop({
  agentId: 'worker',
  llmProvider: scriptedLLM([{ text: ['Let me ', 'look.'], toolCalls: [{ name: 'first' }, { name: 'second' }] }]),
  toolProviders: [new LocalToolProvider([worldTool('first', () => 'one'), worldTool('second', never)])],
  taskStateStore: new RedisStateStore({ redis }),
  leaseMs: 300,
  enableTracing: false,
});
loop.startTurn([{ role: 'user', content: 'Go' }], { taskId }).subscribe((event) => {
  if (event.kind === 'internal:tool-complete') process.send?.('between');
});
