// Prints, as JSON, how many steps one turn takes while 10 turns run and while 10,000 do: its start, a text delta, a message to it, its end, and the
// cancellation of another one. A step is a block of this package's code or of RxJS that was entered, such as the body of a loop, an element that
// an iterator gave or that a method of arrays may have looked at or moved.
import { createHash } from 'node:crypto';
import { Session } from 'node:inspector';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { AgentLoop, agent, InMemoryMessageStore, InMemoryStateStore, team } from 'millrace';
import { a2aRequestHandler } from 'millrace/a2a';
import { uiMessageHandler } from 'millrace/ui';
import { Observable } from 'rxjs';

const [few, many] = [10, 10_000];

let isCounting = false;
let looked = 0;
const natives =
  'concat every filter find findIndex findLast findLastIndex flat flatMap forEach includes indexOf lastIndexOf map reduce reverse shift slice some sort toSorted toReversed unshift';
for (const name of natives.split(' ')) {
  const own = Array.prototype[name];
  Array.prototype[name] = function (...given) {
    if (isCounting) looked += this.length;
    return Reflect.apply(own, this, given);
  };
}
const { splice } = Array.prototype;
Array.prototype.splice = function (...given) {
  if (isCounting) looked += this.length - given[0];
  return Reflect.apply(splice, this, given);
};
for (const iterable of [[], new Map(), new Set()]) {
  const iterator = Object.getPrototypeOf(iterable[Symbol.iterator]());
  const { next } = iterator;
  iterator.next = function () {
    if (isCounting) looked++;
    return next.call(this);
  };
}

const session = new Session();
session.connect();
const post = (method, params) =>
  new Promise((resolve, reject) => {
    session.post(method, params, (error, value) => (error ? reject(error) : resolve(value)));
  });

async function stepsOf(run) {
  await post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  looked = 0;
  isCounting = true;
  await run();
  isCounting = false;
  const { result } = await post('Profiler.takePreciseCoverage');
  await post('Profiler.stopPreciseCoverage');
  const counted = result.filter(({ url }) => url.includes('/dist/'));
  const ranges = counted.flatMap(({ functions }) => functions.flatMap((each) => each.ranges));
  return looked + ranges.reduce((sum, { count }) => sum + count, 0);
}

/** Without timers: the leases of running turns are not renewed while steps are counted. */
const clock = { now: () => 1_000_000, elapsed: () => 1_000_000, schedule: () => () => {} };

/** Each call waits until it is answered, the first of each turn by its first message. */
const calls = new Map();
const provider = {
  call: () => Promise.reject(new Error('The model streams.')),
  stream: ({ messages }) =>
    new Observable((to) => {
      const said = messages.findLast(({ role }) => role === 'user').content;
      const text = typeof said === 'string' ? said : said.map((part) => part.text).join('');
      calls.get(text)?.(to);
      if (text === 'more') finish(to);
    }),
};

function nextCall(text) {
  return new Promise((resolve) => calls.set(text, resolve));
}

function finish(to) {
  to.next({ type: 'done', response: { message: { role: 'assistant', content: 'words' }, toolCalls: [] } });
  to.complete();
}

/** Ids in no order, as those that are made are. */
const idOf = (n) => createHash('sha256').update(String(n)).digest('hex').slice(0, 32);
const user = (content) => ({ role: 'user', content });

const agentOf = (options = {}) =>
  agent({ id: 'a', provider, clock, taskStateStore: new InMemoryStateStore({ clock }), ...options });

/** By name: gives how to start a turn, and what to do with it. */
const lanes = {
  agent: () => turnsOf(agentOf({ busy: 'queue', messageStore: new InMemoryMessageStore({ clock, maxContexts: 5 }) })),
  loop: () =>
    turnsOf(
      new AgentLoop({ agentId: 'a', llmProvider: provider, clock, taskStateStore: new InMemoryStateStore({ clock }) }),
    ),
  team: () => {
    const agents = ['a', 'b'].map((id) => agentOf({ id }));
    return turnsOf(team({ id: 't', agents, defaultAgentId: 'a', clock }));
  },
  'UI handler': () => postsOf(agentOf({ busy: 'queue' })),
  'A2A server': () => sendsOf(agentOf()),
};

function turnsOf(runner) {
  return {
    async start(n, text) {
      const call = nextCall(text);
      const turn = runner.startTurn([user(text)], { contextId: idOf(`c${n}`), taskId: idOf(`t${n}`) });
      turn.subscribe(() => {});
      const to = await call;
      calls.delete(text);
      return { to, turn };
    },
    say: ({ turn }) => turn.steer(user('more')),
    end: ({ turn }) => turn.result(),
    cancel: ({ turn }) => turn.cancel(),
  };
}

function postsOf(served) {
  const handler = uiMessageHandler({ agent: served, scopeOf: () => 'u', onDisconnect: 'continue', recoverEveryMs: 0 });
  const ask = (path, body) =>
    handler(
      new Request(`http://localhost/api/chat${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      }),
    );
  return {
    async start(n, text) {
      const call = nextCall(text);
      const messages = [{ id: idOf(`m${n}`), role: 'user', parts: [{ type: 'text', text }] }];
      const response = await ask('', { id: idOf(`c${n}`), messages });
      const to = await call;
      calls.delete(text);
      return { to, response, id: idOf(`c${n}`) };
    },
    say: () => {},
    end: ({ response }) => response.text(),
    cancel: async ({ id }) => (await ask(`/${id}/stop`)).text(),
  };
}

function sendsOf(served) {
  const card = {
    name: 'A',
    description: 'Answers.',
    version: '1.0.0',
    supportedInterfaces: [],
    capabilities: { streaming: true, extensions: [] },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [],
    signatures: [],
    securitySchemes: {},
    securityRequirements: [],
  };
  const handler = a2aRequestHandler({ agent: served, card });
  const context = new ServerCallContext({ requestedVersion: '1.0', state: new Map([['headers', {}]]) });
  const request = (n, text, rest) => ({
    tenant: '',
    message: {
      messageId: idOf(`${text}${n}`),
      contextId: '',
      taskId: '',
      role: 1,
      parts: [{ content: { $case: 'text', value: text }, mediaType: '', filename: '' }],
      extensions: [],
      referenceTaskIds: [],
      ...rest,
    },
    configuration: { acceptedOutputModes: [], returnImmediately: true },
  });
  return {
    async start(n, text) {
      const call = nextCall(text);
      // A conversation that the client names may have a history.
      const stream = handler.sendMessageStream(request(n, text, { contextId: idOf(`c${n}`) }), context);
      const first = await stream.next();
      const to = await call;
      calls.delete(text);
      return { to, n, stream, task: first.value.payload.value };
    },
    say: ({ n, task }) =>
      handler.sendMessage(request(n, 'more', { taskId: task.id, contextId: task.contextId }), context),
    async end({ stream }) {
      for await (const _ of stream);
    },
    cancel: ({ task }) => handler.cancelTask({ id: task.id, tenant: '' }, context),
  };
}

let turns = 0;

async function measured(lane) {
  const { start, say, end, cancel } = lanes[lane]();
  let running = 0;
  const runUpTo = async (most) => {
    for (; running < most; running++) await start(`r${running}`, `r${running}`);
  };
  const one = async () => {
    const n = turns++;
    const first = await start(`x${n}`, 'first');
    first.to.next({ type: 'text', text: 'wor' });
    await say(first);
    finish(first.to);
    await end(first);
    await cancel(await start(`y${n}`, 'second'));
    await new Promise((resolve) => setImmediate(resolve));
  };
  const steps = async (most) => {
    await runUpTo(most);
    for (let times = 0; times < 3; times++) await one();
    return stepsOf(one);
  };
  return { few: await steps(few), many: await steps(many) };
}

await post('Profiler.enable');
const found = {};
for (const lane of Object.keys(lanes)) found[lane] = await measured(lane);
console.log(JSON.stringify(found));
process.exit();
