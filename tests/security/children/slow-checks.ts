// Runs a turn of 40 tool calls, one after another or `together`, each with arguments whose check backtracks until its time is over. Tells that
// it begins. With `handler` it interrupts itself then, and tells how many checks were over when it heard of it; the turn is cancelled.

import { AgentLoop, LocalToolProvider, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const [mode = ''] = process.argv.slice(2);
let over = 0;
const begin = <T>(first: T): T => {
  process.send?.('begins');
  if (mode !== '') process.kill(process.pid, 'SIGINT');
  return first;
};
const call = { name: 'trap', arguments: { text: `${'a'.repeat(40)}!` } };
const count = 40;
const trap = tool({
  name: 'trap',
  description: 'Takes text.',
  parameters: { type: 'object', properties: { text: { type: 'string', pattern: '^(a+)+$' } } },
  execute: () => 'ran',
});
const calls = Array.from({ length: count }, () => call);
const steps = mode === 'together' ? [{ toolCalls: calls }] : calls.map((each) => ({ toolCalls: [each] }));
const turn = new AgentLoop({
  agentId: 'worker',
  llmProvider: scriptedLLM([
    ...steps.map((step, at) => () => (at === 0 ? begin(step) : step)),
    { text: 'All of them.' },
  ]),
  toolProviders: [new LocalToolProvider([trap])],
  maxIterations: 50,
}).startTurn([{ role: 'user', content: 'Go.' }]);
if (mode !== '') {
  process.once('SIGINT', () => {
    process.send?.(`heard after ${over}`);
    void turn.cancel();
  });
}
turn.subscribe({
  next: ({ kind }) => {
    if (kind === 'internal:tool-complete') over++;
  },
  error: () => {},
});
const ending = await turn.result().then(
  ({ status }) => status,
  ({ code }) => code,
);
await turn.settled;
process.send?.(`turn: ${ending}`, () => process.disconnect?.());
