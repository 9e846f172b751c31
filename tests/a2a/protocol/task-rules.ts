import assert from 'node:assert/strict';
import type { Task } from '@a2a-js/sdk';
import { gate } from 'millrace/testing';
import { obedient, plainTools } from '../../core/plain-tools.ts';
import { a2aBench, call, refusal, send } from '../bench.ts';
import { collect, message, request, shortOf } from '../messages.ts';
import type { Rule } from './rule.ts';

const says = () => ({ text: 'Hi.' });
const list = { tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined } as const;
const missing = { tenant: '', id: crypto.randomUUID() };

const ends: readonly (readonly [
  string,
  number,
  () => Promise<{ handler: ReturnType<typeof a2aBench>['handler']; task: Task }>,
])[] = [
  ['completed', 3, () => made({ steps: [says] })],
  ['failed', 4, () => made({ steps: [{ error: new Error('no') }] })],
  ['canceled', 5, cancelled],
];

async function made(options: Parameters<typeof a2aBench>[0]) {
  const { handler } = a2aBench(options);
  return { handler, task: await send(handler, 'Hi') };
}

async function cancelled() {
  const wait = gate();
  const { handler } = a2aBench({
    steps: [{ toolCalls: [{ name: 'wait' }] }],
    agent: { toolProviders: [plainTools({ wait: (context) => wait.pass().then(() => obedient(context)) })] },
  });
  const { id } = await send(handler, 'Hi', { returnImmediately: true });
  await wait.reached;
  wait.open();
  return { handler, task: await handler.cancelTask({ tenant: '', id, metadata: undefined }, call()) };
}

export const taskRules: readonly Rule[] = [
  ...ends.flatMap(([name, state, end]): readonly Rule[] => [
    {
      where: '1.0 §4.1.3',
      must: `a task that is ${name} MUST stay so: nothing changes it`,
      async check() {
        const { handler, task } = await end();
        assert.equal(task.status?.state, state);
        const { id } = task;
        await refusal(send(handler, message('More', { taskId: id })));
        await refusal(handler.cancelTask({ tenant: '', id, metadata: undefined }, call()));
        await handler.recover();
        assert.deepEqual(await handler.getTask({ tenant: '', id }, call()), task);
      },
    },
    {
      where: '1.0 §3.1.6',
      must: `a task that is ${name} MUST NOT be subscribed to`,
      async check() {
        const { handler, task } = await end();
        const stream = handler.resubscribe({ tenant: '', id: task.id }, call());
        assert.match(await refusal(stream), /^UnsupportedOperationError/);
      },
    },
    {
      where: '1.0 §3.1.5',
      must:
        name === 'canceled'
          ? 'a task that is cancelled twice is cancelled once'
          : `a task that is ${name} MUST NOT be cancelled`,
      async check() {
        const { handler, task } = await end();
        const again = handler.cancelTask({ tenant: '', id: task.id, metadata: undefined }, call());
        if (name === 'canceled') assert.deepEqual(await again, task);
        else assert.match(await refusal(again), /^TaskNotCancelableError/);
      },
    },
  ]),
  ...(['getTask', 'cancelTask', 'resubscribe'] as const).map(
    (method): Rule => ({
      where: '1.0 §3.3.2',
      must: `a task that there is not MUST be answered with TaskNotFound (${method})`,
      async check() {
        const { handler } = a2aBench();
        const params = { ...missing, metadata: undefined };
        const work = () => {
          if (method === 'getTask') return handler.getTask(params, call());
          return method === 'cancelTask' ? handler.cancelTask(params, call()) : handler.resubscribe(params, call());
        };
        assert.match(await refusal(work()), /^TaskNotFoundError/);
      },
    }),
  ),
  {
    where: '1.0 §3.3.2',
    must: 'a request without the id of its task MUST be refused as malformed',
    async check() {
      const { handler } = a2aBench();
      assert.match(await refusal(handler.getTask({ tenant: '', id: '' }, call())), /^RequestMalformedError/);
      assert.match(await refusal(handler.resubscribe({ tenant: '', id: ' ' }, call())), /^RequestMalformedError/);
    },
  },
  ...(
    [
      [undefined, 4],
      [0, 0],
      [1, 1],
      [2, 2],
      [99, 4],
    ] as const
  ).map(
    ([historyLength, count]): Rule => ({
      where: '1.0 §3.2.4',
      must: `no more than historyLength messages, the last ones, MUST be returned: ${historyLength ?? 'unset'}`,
      async check() {
        const { handler } = a2aBench({
          steps: [{ text: 'One.', toolCalls: [{ name: 'count' }] }, { text: 'Two.' }],
          agent: { toolProviders: [plainTools({ count: () => 1 })] },
        });
        const sent = message('Hi');
        const options = historyLength === undefined ? {} : { historyLength };
        const answered = await send(handler, sent, options);
        const got = await handler.getTask({ tenant: '', id: answered.id, ...options }, call());
        const whole = await handler.getTask({ tenant: '', id: answered.id }, call());
        assert.equal(whole.history.length, 3);
        for (const task of [answered, got]) assert.deepEqual(task.history, whole.history.slice(3 - Math.min(count, 3)));
      },
    }),
  ),
  {
    where: '1.0 §3.2.4',
    must: 'a historyLength below 0 MUST be refused',
    async check() {
      const { handler, task } = await made({ steps: [says] });
      const work = handler.getTask({ tenant: '', id: task.id, historyLength: -1 }, call());
      assert.match(await refusal(work), /^RequestMalformedError: historyLength/);
      assert.match(await refusal(send(handler, 'Hi', { historyLength: -1 })), /^RequestMalformedError: historyLength/);
    },
  },
  {
    where: '1.0 §3.1.4',
    must: 'tasks MUST be listed with the last updated first, and the last page MUST say so with an empty token',
    async check() {
      const { handler } = a2aBench({ steps: [says, says, says] });
      const ids: string[] = [];
      for (const _ of [1, 2, 3]) ids.unshift((await send(handler, 'Hi')).id);
      const seen: string[] = [];
      let pageToken = '';
      do {
        const page = await handler.listTasks({ ...list, pageSize: 1, pageToken }, call());
        seen.push(...page.tasks.map(({ id }) => id));
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      const times = (await handler.listTasks(list, call())).tasks.map(({ status }) => status?.timestamp ?? '');
      assert.deepEqual(times, times.toSorted().reverse());
      assert.deepEqual(seen.toSorted(), ids.toSorted());
    },
  },
  {
    where: '1.0 §3.1.4',
    must: 'artifacts MUST be left out of a list that does not ask for them',
    async check() {
      const { handler } = await made({ steps: [says] });
      assert.deepEqual((await handler.listTasks(list, call())).tasks[0]?.artifacts, []);
    },
  },
  {
    where: '1.0 §13.1',
    must: 'a list MUST show only what the caller may see, before any filter',
    async check() {
      const { handler } = a2aBench({ steps: [says] });
      const { contextId } = await send(handler, 'Hi', { user: 'ann' });
      const page = await handler.listTasks({ ...list, contextId }, call({ user: 'bob' }));
      assert.deepEqual([page.tasks, page.totalSize, page.nextPageToken], [[], 0, '']);
    },
  },
  {
    where: '1.0 §3.3.2',
    must: 'what the caller may not see MUST be told in the same words as what is not there',
    async check() {
      const { handler, task } = await made({ steps: [says] });
      const bob = call({ user: 'bob' });
      const there = await refusal(handler.getTask({ tenant: '', id: task.id }, bob));
      assert.equal(there, await refusal(handler.getTask(missing, bob)));
    },
  },
  {
    where: '1.0 §3.1.2',
    must: 'a stream MUST begin with the task and go on with updates, in order, until it is over',
    async check() {
      const { handler } = a2aBench({ steps: [{ text: ['a', 'b'] }] });
      const seen = (await collect(handler.sendMessageStream(request(message('Hi')), call()))).map(shortOf);
      assert.deepEqual(seen, ['task:1', 'status:2', 'answer-1:a', 'answer-1+:b', 'answer-1+.:', 'status:3']);
    },
  },
  {
    where: '1.0 §3.5.2',
    must: 'the turn MUST go on whoever closes its stream',
    async check() {
      const model = gate();
      const { handler } = a2aBench({ steps: [() => ({ gate: model.pass(), text: 'Hi.' })] });
      const stream = handler.sendMessageStream(request(message('Hi')), call());
      const first = await stream.next();
      await stream.return();
      const id = first.value?.payload?.$case === 'task' ? first.value.payload.value.id : '';
      await model.reached;
      const other = handler.resubscribe({ tenant: '', id }, call());
      await other.next();
      model.open();
      assert.equal((await collect(other)).map(shortOf).at(-1), 'status:3');
    },
  },
];
