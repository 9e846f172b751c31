// Runs a turn with a tool and one that fails on the built package, and prints which exports of `millrace/operators` those turns called, as JSON.
import { Session } from 'node:inspector';
import { AgentLoop, LocalToolProvider, tool } from 'millrace';
import * as operators from 'millrace/operators';
import { scriptedLLM } from 'millrace/testing';

const count = tool({ name: 'count', description: 'Counts.', parameters: { type: 'object' }, execute: () => 2 });

async function run(steps) {
  const toolProviders = [new LocalToolProvider([count])];
  const loop = new AgentLoop({ agentId: 'a', llmProvider: scriptedLLM(steps), toolProviders });
  await loop.startTurn([{ role: 'user', content: 'How many?' }]).result();
}

const session = new Session();
const post = (method, params) =>
  new Promise((resolve, reject) => {
    session.post(method, params, (error, value) => (error ? reject(error) : resolve(value)));
  });
session.connect();
await post('Profiler.enable');
await post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
await run([{ toolCalls: [{ name: 'count' }] }, { text: 'Two.' }]);
await run([{ error: new Error('no') }]).catch(() => {});
const { result } = await post('Profiler.takePreciseCoverage');
const called = new Set();
// The bundler gives a function a number if another one has its name.
for (const { functions } of result)
  for (const { functionName, ranges } of functions)
    if (ranges[0].count > 0) called.add(functionName.replace(/\d+$/, ''));
const exported = Object.keys(operators);
const split = (isCalled) => exported.filter((name) => called.has(name) === isCalled).toSorted();
console.log(JSON.stringify({ called: split(true), others: split(false) }));
