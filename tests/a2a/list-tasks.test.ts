import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ListTasksRequest, Task } from '@a2a-js/sdk';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { LmdbStateStore } from 'millrace/lmdb';
import { gate } from 'millrace/testing';
import { plainTools } from '../core/plain-tools.ts';
import { a2aBench, call, refusal, send } from './bench.ts';
import { data, message } from './messages.ts';

const all: ListTasksRequest = { tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined };

let path: string;
let store: LmdbStateStore;
beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), 'a2a-list-'));
  store = new LmdbStateStore({ path });
});
afterEach(async () => {
  await store.close();
  await rm(path, { recursive: true });
});

const says = () => ({ text: 'Hi.' });
const bench = (count: number) => a2aBench({ steps: Array.from({ length: count }, () => says), store });

async function made(count: number) {
  const { handler } = bench(count);
  const tasks: Task[] = [];
  for (let index = 0; index < count; index++)
    tasks.push(await send(handler, message('Hi', { contextId: `c${index % 2}` }), { user: 'ann' }));
  const list = (params: Partial<ListTasksRequest> = {}) =>
    handler.listTasks({ ...all, ...params }, call({ user: 'ann' }));
  return { handler, ids: tasks.map(({ id }) => id).reverse(), tasks, list };
}

describe('a list of tasks', () => {
  it('has the one whose status changed last first, in pages that go on where the one before ended', async () => {
    const { ids, list } = await made(5);
    const first = await list({ pageSize: 2 });
    expect(first).toMatchObject({ pageSize: 2, totalSize: 5, nextPageToken: expect.stringMatching(/^[\w-]+$/) });
    const second = await list({ pageSize: 2, pageToken: first.nextPageToken });
    const third = await list({ pageSize: 2, pageToken: second.nextPageToken });
    expect([first, second, third].flatMap(({ tasks }) => tasks.map(({ id }) => id))).toEqual(ids);
    expect(third).toMatchObject({ nextPageToken: '', totalSize: 5 });
    expect(await list()).toMatchObject({ pageSize: 50, totalSize: 5, nextPageToken: '' });
  });

  it('is counted with its first page; later pages, and tokens of older servers, know how many there are', async () => {
    const { ids, list, tasks } = await made(5);
    const limits: (number | undefined)[] = [];
    const listed = store.list.bind(store);
    store.list = (query) => {
      limits.push(query?.limit);
      return listed(query);
    };
    const first = await list({ pageSize: 2 });
    expect(limits.splice(0)).toEqual([3, 1_000]);
    const second = await list({ pageSize: 2, pageToken: first.nextPageToken });
    expect([second.totalSize, limits.splice(0)]).toEqual([5, [3]]);
    const older = Buffer.from(`${tasks[3]?.status?.timestamp} ${ids[1]}`).toString('base64url');
    const same = await list({ pageSize: 2, pageToken: older });
    expect([same.tasks, same.totalSize, limits.splice(0)]).toEqual([second.tasks, 5, [3, 1_000]]);
    const olderOfLast = Buffer.from(`${tasks[1]?.status?.timestamp} ${ids[3]}`).toString('base64url');
    const last = await list({ pageSize: 2, pageToken: olderOfLast });
    expect([last.tasks.map(({ id }) => id), last.totalSize, last.nextPageToken]).toEqual([[ids[4]], 5, '']);
  });

  it('moves a task to the front that goes on', async () => {
    const refund = { needsApproval: true, execute: () => 'refunded' };
    const { handler } = a2aBench({
      steps: [{ toolCalls: [{ name: 'refund' }] }, says, { text: 'Done.' }],
      store,
      agent: { toolProviders: [plainTools({ refund })] },
    });
    const waits = await send(handler, 'Refund');
    const later = await send(handler, 'Hi');
    const ids = async () => (await handler.listTasks(all, call())).tasks.map(({ id }) => id);
    expect(await ids()).toEqual([later.id, waits.id]);
    await send(handler, message([data({ approved: true })], { taskId: waits.id }));
    expect(await ids()).toEqual([waits.id, later.id]);
  });

  it('is filtered by context, by state and by the time of the status', async () => {
    const { ids, tasks, list } = await made(4);
    const idsOf = async (params: Partial<ListTasksRequest>) => (await list(params)).tasks.map(({ id }) => id);
    expect(await idsOf({ contextId: 'c1' })).toEqual([ids[0], ids[2]]);
    expect(await idsOf({ contextId: 'c9' })).toEqual([]);
    expect(await idsOf({ status: 3 })).toEqual(ids);
    expect(await idsOf({ status: 4 })).toEqual([]);
    expect(await idsOf({ statusTimestampAfter: tasks[2]?.status?.timestamp })).toEqual(ids.slice(0, 2));
    expect(await idsOf({ statusTimestampAfter: '2099-01-01T00:00:00Z' })).toEqual([]);
  });

  it('shows a task that waits for an answer while its other calls run as the task itself does, under every filter', async () => {
    const slow = gate();
    const { handler } = a2aBench({
      steps: [{ toolCalls: [{ name: 'refund' }, { name: 'slow' }] }, { toolCalls: [{ name: 'slow' }] }, says, says],
      store,
      agent: {
        toolProviders: [plainTools({ refund: { needsApproval: true, execute: () => '' }, slow: () => slow.pass() })],
      },
    });
    const asks = await send(handler, 'Both');
    await slow.reached;
    const runs = await send(handler, 'Slow', { returnImmediately: true });
    const stateOf = async ({ id }: Task) => (await handler.getTask({ tenant: '', id }, call())).status?.state;
    while ((await stateOf(runs)) !== 2) await new Promise((resolve) => setImmediate(resolve));
    expect(await stateOf(asks)).toBe(6);
    const idsOf = async (status: number) => {
      const { tasks, totalSize } = await handler.listTasks({ ...all, status }, call());
      return [tasks.map(({ id, status }) => [id, status?.state]), totalSize];
    };
    expect(await idsOf(6)).toEqual([[[asks.id, 6]], 1]);
    expect(await idsOf(2)).toEqual([[[runs.id, 2]], 1]);
    expect((await idsOf(0))[0]).toContainEqual([asks.id, 6]);
    expect((await handler.listTasks({ ...all, status: 6, pageSize: 1 }, call())).nextPageToken).not.toBe('');
    slow.open();
    await handler.cancelTask({ tenant: '', id: asks.id, metadata: undefined }, call());
    while ((await stateOf(runs)) !== 3) await new Promise((resolve) => setImmediate(resolve));
  });

  it('has neither history nor artifacts unless they are asked for', async () => {
    const { list } = await made(1);
    expect((await list()).tasks[0]).toMatchObject({
      history: [],
      artifacts: [],
      status: { state: 3, timestamp: expect.any(String) },
    });
    expect((await list({ historyLength: 1 })).tasks[0]?.history).toHaveLength(1);
    expect((await list({ includeArtifacts: true })).tasks[0]).toMatchObject({
      history: [],
      artifacts: [{ artifactId: 'answer-1' }],
    });
  });

  it('is cut where it would be larger than 3 MiB, and goes on behind the cut', async () => {
    const { handler } = a2aBench({ steps: Array.from({ length: 6 }, () => says), store });
    const mebibyte = 1024 * 1024;
    const ids: string[] = [];
    for (const size of [1, 1, 1, 4, 1, 0])
      ids.unshift((await send(handler, size === 0 ? 'Hi' : 'x'.repeat(size * mebibyte))).id);
    const pages: string[][] = [];
    let pageToken = '';
    do {
      const page = await handler.listTasks({ ...all, historyLength: 9, pageToken }, call());
      expect(page).toMatchObject({ pageSize: 50, totalSize: 6 });
      for (const { history } of page.tasks) expect(history).toHaveLength(2);
      pages.push(page.tasks.map(({ id }) => id));
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
    expect(pages).toEqual([ids.slice(0, 2), ids.slice(2, 3), ids.slice(3, 5), ids.slice(5)]);
    expect((await handler.listTasks(all, call())).tasks).toHaveLength(6);
  });

  it('reads no journal for a page without history, and no task of others', async () => {
    const { handler } = bench(30);
    for (let index = 0; index < 30; index++) await send(handler, 'Hi', { user: index === 7 ? 'ann' : 'bob' });
    let reads = 0;
    const read = store.read.bind(store);
    store.read = (...args) => {
      reads++;
      return read(...args);
    };
    expect((await handler.listTasks(all, call({ user: 'ann' }))).tasks).toHaveLength(1);
    expect(reads).toBe(0);
  });

  it.each<readonly [string, Partial<ListTasksRequest>]>([
    ['pageSize', { pageSize: 0 }],
    ['pageSize', { pageSize: 101 }],
    ['pageSize', { pageSize: 1.5 }],
    ['pageToken', { pageToken: 'nonsense' }],
    ['pageToken', { pageToken: Buffer.from('a b c').toString('base64url') }],
    ['pageToken', { pageToken: Buffer.from('2026-01-01T00:00:00.000Z t 1001').toString('base64url') }],
    ['pageToken', { pageToken: Buffer.from('2026-01-01T00:00:00.000Z t -1').toString('base64url') }],
    ['status', { status: -1 }],
    ['statusTimestampAfter', { statusTimestampAfter: 'yesterday' }],
    ['historyLength', { historyLength: -1 }],
  ])('refuses a wrong %s, also where there is no task', async (name, params) => {
    const { list } = await made(0);
    expect(await refusal(list(params))).toMatch(new RegExp(`^RequestMalformedError: ${name} must be`));
  });
});
