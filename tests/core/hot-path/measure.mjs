// Runs turns on the built package and prints what one unit of work costs, as JSON: calls of functions and bytes, which no machine's speed
// changes. `node measure.mjs calls` or, with `--expose-gc`, `live` for what a waiting turn holds and, with a young generation that no turn
// fills and code that is compiled where it gets hot, not beside it, `bytes`.
import { Session } from 'node:inspector';
import { AgentLoop, agent, contextManagement, InMemoryMessageStore, InMemoryStateStore, retry } from 'millrace';
import { Observable } from 'rxjs';

const parameters = { type: 'object' };
const tools = [{ type: 'function', function: { name: 'echo', description: 'Says it again.', parameters } }];
const echo = { name: 'echo', static: true, getTools: () => tools, executeTool };

async function executeTool(call) {
  return { toolCallId: call.id, content: 'ok', success: true };
}

/**
 * A model that answers in a microtask: `iterations` answers with `calls` calls each, then a last one, and before it `deltas` deltas; then again for
 * the next turn.
 */
function modelOf({ iterations = 0, calls = 1, deltas = 0 }) {
  let answered = 0;
  const answer = async (to) => {
    await undefined;
    const isLast = ++answered > iterations;
    if (isLast) answered = 0;
    for (let left = isLast ? deltas : 0; left > 0; left--) to.next({ type: 'text', text: 'word ' });
    const toolCalls = Array.from({ length: isLast ? 0 : calls }, (_, index) => callOf(`${answered}-${index}`));
    to.next({ type: 'done', response: { message: { role: 'assistant', content: 'words' }, toolCalls } });
    to.complete();
  };
  const stream = () => new Observable((to) => void answer(to));
  return { call: () => Promise.reject(new Error('The model streams.')), stream };
}

function callOf(id) {
  return { id, type: 'function', function: { name: 'echo', arguments: '{"text":"hello"}' } };
}

/** Runs turns to their ends, one after another, each with one subscriber: all by the last of `loops` loops. */
async function run({ turns = 1, loops = 1, ...plan }) {
  for (let left = loops; left > 1; left--) runnerOf(plan);
  const runner = runnerOf(plan);
  for (let left = turns; left > 0; left--) await runOne(runner);
}

/** `managed`: what an agent has by default, with `agent()` or, as `'loop'`, with a loop of the same configuration. */
function runnerOf({ stored = false, managed, behind, model, ...plan }) {
  if (behind !== undefined) return agentBehind(behind);
  const store = stored ? { taskStateStore: new InMemoryStateStore({ maxEndedTasks: 2 }) } : {};
  const provider = model ?? modelOf(plan);
  const config = { toolProviders: [echo], maxIterations: 1_000_000, toolConcurrency: 100_000, ...store };
  const loopWith = (options) => new AgentLoop({ agentId: 'a', ...config, ...options });
  if (managed === 'agent') return agent({ id: 'a', provider, ...config });
  if (managed === 'loop')
    return loopWith({ llmProvider: retry({ maxRetries: 4 })(provider), extensions: contextManagement() });
  return loopWith({ llmProvider: provider });
}

const conversations = new Map();

/** The agent of a conversation of `messages` messages, each time the same. */
function agentBehind(messages) {
  const known = conversations.get(messages);
  if (known) return known;
  const messageStore = new InMemoryMessageStore();
  const said = Array.from({ length: messages }, (_, at) => ({ role: at % 2 ? 'assistant' : 'user', content: 'Hello' }));
  const contextId = `behind-${messages}`;
  messageStore.append(contextId, 'earlier', said);
  const made = agent({ id: 'a', provider: modelOf({}), messageStore, contextId });
  conversations.set(messages, made);
  return made;
}

let contexts = 0;

function start(runner) {
  const { contextId = `c-${contexts++}` } = [...conversations.values()].includes(runner) ? runner : {};
  const turn = runner.startTurn([{ role: 'user', content: 'Hello' }], { contextId });
  turn.subscribe(() => {});
  return turn;
}

async function runOne(runner) {
  await start(runner).result();
}

const session = new Session();
const post = (method, params) =>
  new Promise((resolve, reject) => {
    session.post(method, params, (error, value) => (error ? reject(error) : resolve(value)));
  });

let clockReads = 0;
const { now } = Date;
Date.now = () => {
  clockReads++;
  return now();
};

let abortControllers = 0;
globalThis.AbortController = class extends AbortController {
  constructor() {
    super();
    abortControllers++;
  }
};

/** How often functions were called. The first turn makes what later ones find: counts do not depend on how warm the code is. */
async function callsOf(plan) {
  await run(plan);
  await post('Profiler.takePreciseCoverage');
  clockReads = 0;
  abortControllers = 0;
  await run(plan);
  const { result } = await post('Profiler.takePreciseCoverage');
  const sum = { own: 0, rxjs: 0, subscriptions: 0, clockReads, abortControllers };
  for (const { url, functions } of result) {
    const kind = url.includes('/rxjs/') ? 'rxjs' : url.includes('/dist/') ? 'own' : undefined;
    if (!kind || (kind === 'own' && url.includes('node_modules'))) continue;
    for (const { functionName, ranges } of functions) {
      const [{ count }] = ranges;
      sum[kind] += count;
      if (kind === 'rxjs' && functionName === 'Observable.subscribe') sum.subscriptions += count;
    }
  }
  return sum;
}

/** What a turn holds that waits for its model. */
async function liveBytes(plan) {
  const waiting = {
    call: () => Promise.reject(new Error('The model streams.')),
    stream: () => new Observable(() => {}),
  };
  const runner = runnerOf({ ...plan, model: waiting });
  const turns = Array.from({ length: 100 }, () => start(runner));
  const settled = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  await settled();
  globalThis.gc();
  const before = process.memoryUsage().heapUsed;
  for (let more = 4_000; more > 0; more--) turns.push(start(runner));
  await settled();
  globalThis.gc();
  const held = process.memoryUsage().heapUsed - before;
  await Promise.all(turns.map((turn) => turn.cancel()));
  return held / 4_000;
}

/** Of three times: what is compiled meanwhile is held too. */
async function leastLiveBytes(plan) {
  const samples = [];
  for (let more = 3; more > 0; more--) samples.push(await liveBytes(plan));
  return Math.min(...samples);
}

/** What a turn holds after 20,000 deltas of an open answer, for each byte of their text. */
async function bytesOfText() {
  let out;
  const stream = () =>
    new Observable((to) => {
      out = to;
    });
  const turn = start(runnerOf({ model: { call: () => Promise.reject(new Error('The model streams.')), stream } }));
  let written = 0;
  const write = (text) => {
    written += text.length;
    out.next({ type: 'text', text });
  };
  for (let word = 10_000; word < 11_000; word++) write(`${word} `);
  // From here on, so that what an answer makes once does not count.
  globalThis.gc();
  written = 0;
  const before = process.memoryUsage().heapUsed;
  for (let word = 10_000; word < 30_000; word++) write(`${word} `);
  globalThis.gc();
  const held = process.memoryUsage().heapUsed - before;
  await turn.cancel();
  return held / written;
}

async function bytesOf(plan) {
  // Compiled code allocates less.
  for (let times = 0; times < 25; times++) await run(plan);
  const grown = [];
  for (let times = 0; times < 5; times++) {
    globalThis.gc();
    const before = process.memoryUsage().heapUsed;
    await run(plan);
    grown.push(process.memoryUsage().heapUsed - before);
  }
  return { bytes: grown.sort((one, other) => one - other)[2] };
}

/** What one more unit costs: the difference of two turns. */
async function perUnit(measure, [short, long], units) {
  const [less, more] = [await measure(short), await measure(long)];
  return Object.fromEntries(Object.keys(more).map((name) => [name, (more[name] - less[name]) / units]));
}

const iterations = (many, options = {}) => [
  { iterations: 2, ...options },
  { iterations: 2 + many, ...options },
];
const calls = (few, many) => [
  { iterations: 1, calls: few },
  { iterations: 1, calls: many },
];

const turns = (options = {}) => [
  { turns: 10, ...options },
  { turns: 110, ...options },
];

async function measuredBytes() {
  return {
    iteration: await perUnit(bytesOf, iterations(100), 100),
    call: await perUnit(bytesOf, calls(100, 500), 400),
    callOfMany: await perUnit(bytesOf, calls(1_000, 2_000), 1_000),
    // The history has 2,100 messages, on average.
    lateIteration: await perUnit(bytesOf, [{ iterations: 1_000 }, { iterations: 1_100 }], 100),
    // A run of few turns allocates up to half as much again, or not, beside what its turns do.
    turn: await perUnit(bytesOf, [{ turns: 100 }, { turns: 600 }], 500),
  };
}

async function measuredCalls() {
  return {
    loop: await perUnit(callsOf, [{ loops: 10 }, { loops: 110 }], 100),
    turn: await perUnit(callsOf, turns(), 100),
    storedTurn: await perUnit(callsOf, turns({ stored: true }), 100),
    iteration: await perUnit(callsOf, iterations(100), 100),
    storedIteration: await perUnit(callsOf, iterations(100, { stored: true }), 100),
    call: await perUnit(callsOf, calls(100, 500), 400),
    callOfMany: await perUnit(callsOf, calls(1_000, 2_000), 1_000),
    delta: await perUnit(callsOf, [{ deltas: 100 }, { deltas: 1_100 }], 1_000),
  };
}

session.connect();
if (process.argv[2] === 'bytes') console.log(JSON.stringify(await measuredBytes()));
else if (process.argv[2] === 'live')
  console.log(
    JSON.stringify({
      text: await bytesOfText(),
      turn: await leastLiveBytes({}),
      storedTurn: await leastLiveBytes({ stored: true }),
    }),
  );
else {
  await post('Profiler.enable');
  await post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  const agentIteration = await perUnit(callsOf, iterations(100, { managed: 'agent' }), 100);
  const lateAgentIteration = await perUnit(
    callsOf,
    [
      { iterations: 400, managed: 'agent' },
      { iterations: 500, managed: 'agent' },
    ],
    100,
  );
  const managedIteration = await perUnit(callsOf, iterations(100, { managed: 'loop' }), 100);
  const ofAgents = { agentIteration, lateAgentIteration, managedIteration };
  const behind = { few: await callsOf({ behind: 10 }), many: await callsOf({ behind: 1_000 }) };
  const lateIteration = await perUnit(callsOf, [{ iterations: 10_000 }, { iterations: 10_100 }], 100);
  console.log(JSON.stringify({ ...(await measuredCalls()), lateIteration, behind, ...ofAgents }));
}
