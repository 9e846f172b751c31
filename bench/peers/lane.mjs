import { agent, fromAsyncIterable, tool } from 'millrace';
import { bare } from '../bare.ts';
import { echo, echoParameters, ran } from '../echo-tool.ts';
import { engine } from '../engine.ts';
import { sharedFakeModel } from '../fake-model.ts';
import { medianOf, race } from '../measure.ts';

const onEvent = () => {};
/** Each turn has a conversation of its own. */
let turns = 0;

/** An agent as the documentation shows it, with all its defaults. */
function withDefaults(work) {
  const answer = sharedFakeModel(work);
  const stream = ({ messages }) => fromAsyncIterable(() => answer(messages));
  const provider = { call: () => Promise.reject(new Error('The bench streams.')), stream };
  const echoes = tool({ name: 'echo', description: 'Says it again.', parameters: echoParameters, execute: echo });
  const bench = agent({ id: 'bench', provider, tools: [echoes], maxIterations: 1_000_000 });
  return async () => {
    const turn = bench.startTurn('Hello', { contextId: `context-${++turns}` });
    turn.subscribe(onEvent);
    const { text } = await turn.result();
    return text;
  };
}

function byHand(work) {
  const answer = sharedFakeModel(work);
  return () => bare(answer);
}

/** Loaded where it is asked for: each contender has a process of its own. */
const contenders = {
  bare: () => byHand,
  millrace: () => (work) => engine(sharedFakeModel(work), { onEvent }),
  'millrace-journal': () => (work) => engine(sharedFakeModel(work), { keptTasks: 100, onEvent }),
  'millrace-agent': () => withDefaults,
  pi: async () => (await import('./pi.mjs')).pi,
  'pi-agent': async () => (await import('./pi.mjs')).piAgent,
  'pi-0.73': async () => (await import('./pi-0.73.mjs')).pi073,
  'ai-sdk': async () => (await import('./ai-sdk.mjs')).aiSdk,
  'openai-agents': async () => (await import('./openai-agents.mjs')).openaiAgents,
  langgraph: async () => (await import('./langgraph.mjs')).langgraph,
  mastra: async () => (await import('./mastra.mjs')).mastra,
};

const works = {
  'one call': { work: { iterations: 0 }, units: 1 },
  '10 iterations': { work: { iterations: 10 }, units: 10 },
  '200 iterations': { work: { iterations: 200 }, units: 200 },
  '50 tools': { work: { iterations: 1, calls: 50 }, units: 50 },
  '20,000 deltas': { work: { iterations: 0, deltas: 20_000 }, units: 20_000 },
};

const [who, what] = process.argv.slice(2);
/** Gives what runs turns of that work. */
const prepare = await contenders[who]();

/** One turn, which must answer with the text of the model and run the tool as often as it asks. */
async function check(run, work) {
  const before = ran.times;
  const [text, expected] = [await run(), 'words '.repeat(work.deltas ?? 1)];
  if (text !== expected) throw new Error(`${who} answers ${text.slice(0, 40)}, not ${expected.slice(0, 40)}.`);
  const calls = work.iterations * (work.calls ?? 1);
  if (ran.times - before !== calls) throw new Error(`${who} runs the tool ${ran.times - before} times, not ${calls}.`);
}

/** CPU time a turn of 1,000 at once, behind three rounds, and the most memory that was held. */
async function together() {
  const work = { iterations: 3, delayMs: 10 };
  const run = prepare(work);
  await check(run, work);
  const samples = [];
  for (let round = 0; round < 8; round++) {
    const before = process.cpuUsage();
    await Promise.all(Array.from({ length: 1_000 }, run));
    const { user, system } = process.cpuUsage(before);
    samples.push((user + system) / 1_000);
  }
  return { micros: medianOf(samples.slice(3)), peakMiB: process.resourceUsage().maxRSS / 1024 };
}

async function beside({ work, units }) {
  const run = prepare(work);
  const runBare = byHand(work);
  for (const each of [run, runBare]) await check(each, work);
  const lanes = [
    { name: 'bare', run: runBare },
    { name: who, run },
  ];
  const [base, own] = await race(lanes);
  return { micros: own.median / units, ratio: own.median / base.median, least: own.least / base.least };
}

console.log(JSON.stringify(what === 'together' ? await together() : await beside(works[what])));
