import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { AgentLoop, agent, agentTools, InMemoryStateStore, type TaskSummary, tool } from 'millrace';
import {
  type Comparison,
  inspectHandler,
  type ReplayReport,
  type TaskDetail,
  type TaskNote,
  type TaskPage,
} from 'millrace/inspect';
import { parseJournal } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import type { TaskQuery } from 'millrace/types';
import { InspectClient } from './inspect-client.ts';

const look = tool({
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
  execute: ({ city }) => `sun in ${String(city)}`,
});
const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  parameters: { type: 'object' },
  needsApproval: true,
  execute: () => 'refunded',
});

function made(steps: readonly ScriptedLLMStep[], store = new InMemoryStateStore(), more: object = {}) {
  const bo = agent({
    id: 'bo',
    provider: scriptedLLM(steps),
    tools: [look, refund],
    taskStateStore: store,
    retry: null,
    ...more,
  });
  return { bo, store };
}

const call = (name: string, given: object = {}) => ({ toolCalls: [{ name, arguments: given }] });
const rowsOf = ({ tasks }: TaskPage) => tasks.map(({ taskId }) => taskId);

describe('inspectHandler', () => {
  it('shows a turn: where it stands, its rows with their records, its messages, its journal as a file', async () => {
    const { bo, store } = made([call('look', { city: 'Oslo' }), { text: 'Sun.' }]);
    await bo.run('Weather?', { taskId: 't', metadata: { from: 'test' } });
    const client = new InspectClient({ store });
    const detail = await client.get<TaskDetail>('tasks/t');
    expect(detail).toMatchObject({ prompt: 'Weather?', answer: 'Sun.', iteration: 2, toolCalls: 1, reason: 'stop' });
    expect(detail.summary).toMatchObject({ taskId: 't', agentId: 'bo', state: 'completed' });
    const rows = await client.allRows('t');
    expect(rows.map(({ kind, state, title }) => [kind, state, title])).toEqual([
      ['model', 'done', 'model'],
      ['tool', 'done', 'look'],
      ['model', 'done', 'model'],
    ]);
    expect(rows[1]).toMatchObject({ text: '{"city":"Oslo"}', result: 'sun in Oslo', callId: '1:0' });
    const record = await client.get<object>(`tasks/t/records/${rows[1]?.end}`);
    expect(record).toMatchObject({ type: 'tool.result', content: 'sun in Oslo', seq: rows[1]?.end });
    const { messages } = await client.get<{ messages: readonly { role: string }[] }>('tasks/t/messages');
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
    const exported = await client.send('api/tasks/t/export');
    expect(exported.headers.get('content-disposition')).toContain('t.jsonl');
    expect(parseJournal(await exported.text())).toEqual(await store.read('t'));
  });

  it('pages over all tasks, by state and by text', async () => {
    const { bo, store } = made(Array.from({ length: 12 }, (_, index) => ({ text: `answer ${index}` })));
    for (let index = 0; index < 12; index++) await bo.run(`Question ${index % 3}`, { taskId: `t${index}` });
    const client = new InspectClient({ store });
    const found: string[] = [];
    for (let after = '' as string | undefined, pages = 0; after !== undefined; pages++) {
      const page: TaskPage = await client.get(`tasks?limit=5${after === '' ? '' : `&after=${after}`}`);
      found.push(...rowsOf(page));
      after = page.next;
      // A task that comes between two pages moves the others.
      if (pages === 0) await made([{ text: 'late' }], store).bo.run('Late', { taskId: 'late' });
      expect(pages).toBeLessThan(4);
    }
    expect(found).toEqual(Array.from({ length: 12 }, (_, index) => `t${11 - index}`));
    expect(rowsOf(await client.get('tasks?q=question%202'))).toEqual(['t11', 't8', 't5', 't2']);
    expect(rowsOf(await client.get('tasks?q=t1&limit=2'))).toEqual(['t11', 't10']);
    expect(rowsOf(await client.get('tasks?state=failed'))).toEqual([]);
    expect(rowsOf(await client.get('tasks?state=completed&limit=1'))).toEqual(['late']);
    const [note] = await client.get<readonly TaskNote[]>('notes?ids=t4,nobody');
    expect(note).toMatchObject({ taskId: 't4', prompt: 'Question 1' });
  });

  it('V-21 reads for a page the heads of its own tasks, wherever it is, and continues where the last task was deleted', async () => {
    const listed: number[] = [];
    class Counted extends InMemoryStateStore {
      override list(query: TaskQuery = {}) {
        const found = super.list(query);
        listed.push(found.length);
        return found;
      }
    }
    const store = new Counted();
    const { bo } = made([], store);
    for (let index = 0; index < 300; index++) await bo.submit('Hi', { taskId: `t${index}`, contextId: `c${index}` });
    const client = new InspectClient({ store });
    const found: string[] = [];
    for (let after = '' as string | undefined; after !== undefined; ) {
      listed.length = 0;
      const page: TaskPage = await client.get(`tasks?limit=20&state=submitted${after === '' ? '' : `&after=${after}`}`);
      expect([listed.length, (listed[0] ?? 0) <= 21]).toEqual([1, true]);
      found.push(...rowsOf(page));
      after = page.next;
    }
    expect(found).toEqual(Array.from({ length: 300 }, (_, index) => `t${299 - index}`));
    const { next } = await client.get<TaskPage>('tasks?limit=20');
    await store.delete('t280');
    const after = rowsOf(await client.get(`tasks?limit=400&after=${next}`));
    expect(found.slice(20).filter((taskId) => !after.includes(taskId))).toEqual([]);
  });

  it('V-24 finds a fork however many turns of its conversation are newer', async () => {
    const { bo, store } = made([{ text: 'First.' }], undefined, { busy: 'queue' });
    await bo.run('Hi', { taskId: 'first', contextId: 'c' });
    const { taskId } = await AgentLoop.fork('first', { store, at: 0 });
    for (let index = 0; index < 300; index++) await bo.submit('Hi', { taskId: `t${index}`, contextId: 'c' });
    const client = new InspectClient({ store });
    let detail = await client.get<TaskDetail>('tasks/first');
    while (detail.forksCut) detail = await client.get<TaskDetail>('tasks/first');
    expect(detail.below).toMatchObject([{ kind: 'fork', taskId }]);
  });

  it('V-22 sends a new record of a running turn as it is written', async () => {
    const held = gate();
    const { bo, store } = made([call('look', { city: 'Rome' }), () => ({ text: ['Half', held.pass(), ' done.'] })]);
    const turn = bo.startTurn('Weather?', { taskId: 't', detached: true });
    await held.reached;
    const client = new InspectClient({ store });
    const seen: string[] = [];
    for await (const event of client.rows('t')) {
      if (event.type === 'text') seen.push(event.text);
      if (event.type === 'rows') seen.push(event.rows.map(({ state }) => state).join());
      if (event.type === 'text' && event.text === 'Half') held.open();
      if (event.type === 'end') seen.push('end');
    }
    await turn.result();
    expect(seen[0]).toBe('done,done,running');
    expect(seen).toContain('Half');
    expect(seen.at(-1)).toBe('end');
    expect(seen).toContain('done');
  });

  it('leaves the turn and the store when its reader disconnects', async () => {
    const { bo, store } = made([call('refund')]);
    await bo.run('Refund.', { taskId: 't' });
    const client = new InspectClient({ store });
    const rows = await client.allRows('t', ({ type }) => type === 'rows');
    expect(rows.map(({ state }) => state)).toEqual(['done', 'done', 'done']);
    expect((await store.describe('t'))?.state).toBe('input-required');
  });

  it('V-23 refuses every POST without write, and a walk over everything leaves the bytes of the store as they are', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-inspect-'));
    const store = new LmdbStateStore({ path: folder });
    try {
      const steps = [call('refund'), call('look', { city: 'Oslo' }), { text: 'Sun.' }];
      const bo = agent({ id: 'bo', provider: scriptedLLM(steps), tools: [look, refund], taskStateStore: store });
      await bo.run('Refund.', { taskId: 'asks', contextId: 'c1' });
      await bo.run('Weather?', { taskId: 'done', contextId: 'c2' });
      const client = new InspectClient({ store, agent: bo });
      const all = async () => [
        await store.list({ limit: 100 }),
        await Promise.all(['asks', 'done'].map((id) => store.read(id))),
      ];
      const before = JSON.stringify(await all());
      for (const action of ['cancel', 'answer', 'steer', 'fork', 'retry', 'resume', 'nothing'])
        expect((await client.post(`asks/${action}`, { text: 'x', at: 1, answers: {} }))[0]).toBe(405);
      for (const path of ['tasks', 'info', 'tasks/asks/rows']) {
        const init = { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } };
        expect((await client.send(`api/${path}`, init)).status).toBe(405);
      }
      expect((await client.send('api/tasks/asks/cancel')).status).toBe(405);
      expect((await client.send('api/tasks/asks', { method: 'DELETE' })).status).toBe(405);
      await client.get('info');
      await client.get('tasks?q=weather&children');
      for (const id of ['asks', 'done']) {
        await client.allRows(id, ({ type }) => type === 'rows');
        for (const path of ['', '/records', '/records/1', '/messages', '/compare?with=done'])
          await client.get(`tasks/${id}${path}`);
        await client.send(`api/tasks/${id}/export`);
      }
      await client.get('tasks/done/replay');
      expect(JSON.stringify(await all())).toBe(before);
    } finally {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('V-24 forks from an iteration with an edit, runs the fork, and shows the first record that differs', async () => {
    const steps = [call('look', { city: 'Oslo' }), { text: 'Sun.' }, { text: 'Rain.' }];
    const { bo, store } = made(steps);
    await bo.run('Weather?', { taskId: 't' });
    const client = new InspectClient({ store, write: true, agent: bo });
    const edits = { results: { '1:0': { content: 'rain in Oslo' } } };
    const [status, { taskId, runs }] = await client.post('t/fork', { at: 1, edits });
    expect([status, runs]).toEqual([200, true]);
    await client.allRows(String(taskId));
    const detail = await client.get<TaskDetail>('tasks/t');
    expect(detail.below).toEqual([
      { taskId, agentId: 'bo', kind: 'fork', state: 'completed', held: false, at: 1, below: [] },
    ]);
    const fork = await client.get<TaskDetail>(`tasks/${taskId}`);
    expect(fork).toMatchObject({ forkedFrom: { taskId: 't', at: 1, isRetry: false }, answer: 'Rain.' });
    const compared = await client.get<Comparison>(`tasks/t/compare?with=${taskId}`);
    const records = await store.read('t');
    const differs = records.find(({ type }) => type === 'tool.result');
    expect(compared).toMatchObject({ seq: differs?.seq, same: (differs?.seq ?? 0) - 1, path: 'content' });
    expect(compared.left).toMatchObject({ content: 'sun in Oslo' });
    expect(compared.right).toMatchObject({ content: 'rain in Oslo' });
    expect(await client.get('tasks/t/compare?with=t')).toEqual({ same: records.length });
    const [refused, { error }] = await client.post('t/fork', { at: 9 });
    expect(refused).toBe(400);
    expect(error).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining('9') });
  });

  it('V-25 replays a turn with the tools of the agent, and names the record where they make a difference', async () => {
    const { bo, store } = made([call('look', { city: 'Oslo' }), { text: 'Sun.' }]);
    await bo.run('Weather?', { taskId: 't' });
    const same = new InspectClient({ store, agent: bo });
    expect(await same.get<ReplayReport>('tasks/t/replay')).toEqual({
      records: (await store.read('t')).length,
      deviations: [],
    });
    const without = agent({ id: 'bo', provider: scriptedLLM([]), tools: [refund], taskStateStore: store });
    const client = new InspectClient({ store, agent: without });
    const { deviations } = await client.get<ReplayReport>('tasks/t/replay');
    const records = await store.read('t');
    expect(deviations.length).toBeGreaterThan(0);
    expect(records[(deviations[0]?.seq ?? 0) - 1]?.type).toBe('llm.start');
    const nobody = new InspectClient({ store });
    expect((await nobody.send('api/tasks/t/replay')).status).toBe(409);
  });

  it('V-26 reaches three levels of sub-agents and a fork, and shows a child turn that is gone as missing', async () => {
    const store = new InMemoryStateStore();
    const step = (name: string) => [
      { toolCalls: [{ name, arguments: { message: 'Go on.' } }] },
      { text: `${name} is done.` },
    ];
    const below = { description: 'Works.', taskStateStore: store };
    const third = agent({ id: 'third', provider: scriptedLLM([{ text: 'Deep.' }]), ...below });
    const second = agent({
      id: 'second',
      provider: scriptedLLM(step('third')),
      toolProviders: [agentTools([third])],
      ...below,
    });
    const first = agent({
      id: 'first',
      provider: scriptedLLM(step('second')),
      toolProviders: [agentTools([second])],
      ...below,
    });
    const top = agent({
      id: 'top',
      provider: scriptedLLM(step('first')),
      toolProviders: [agentTools([first])],
      ...below,
    });
    await top.run('Go.', { taskId: 't' });
    const client = new InspectClient({ store, write: true });
    const [, { taskId: fork }] = await client.post('t/fork', { at: 0 });
    const { below: nodes } = await client.get<TaskDetail>('tasks/t');
    const levels: (readonly [string, string, string])[] = [];
    for (let node = nodes[0]; node; node = node.below[0]) levels.push([node.kind, node.agentId, node.state]);
    expect(levels).toEqual(['first', 'second', 'third'].map((name) => ['child', name, 'completed']));
    expect(nodes[1]).toMatchObject({ kind: 'fork', taskId: fork });
    const inner = nodes[0]?.below[0]?.below[0];
    expect(await client.get<TaskDetail>(`tasks/${inner?.taskId}`)).toMatchObject({
      answer: 'Deep.',
      parent: { taskId: nodes[0]?.below[0]?.taskId, rootTaskId: 't' },
    });
    await store.delete(inner?.taskId ?? '');
    const again = await client.get<TaskDetail>('tasks/t');
    expect(again.below[0]?.below[0]?.below[0]).toMatchObject({ agentId: 'third', state: 'missing', below: [] });
    expect((await client.send(`api/tasks/${inner?.taskId}`)).status).toBe(404);
  });

  it('answers, steers, cancels and retries turns that nobody runs, and says who gave an answer', async () => {
    const { bo, store } = made([call('refund'), { text: 'Refunded.' }, call('refund')]);
    await bo.run('Refund.', { taskId: 'a', contextId: 'c1' });
    const client = new InspectClient({ store, write: true, agent: bo });
    expect((await client.get<TaskDetail>('tasks/a')).questions).toMatchObject([
      { isOpen: true, asking: { kind: 'approval', toolName: 'refund' } },
    ]);
    expect((await client.post('a/answer', { answers: { '1:0': { approved: 'yes' } } }))[0]).toBe(400);
    expect(await client.post('a/answer', { answers: { '1:0': { approved: true } } })).toEqual([
      200,
      { taskId: 'a', runs: true },
    ]);
    await client.allRows('a');
    const { questions, answer } = await client.get<TaskDetail>('tasks/a');
    expect(answer).toBe('Refunded.');
    expect(questions).toMatchObject([
      { isOpen: false, answered: { answer: { approved: true }, command: expect.any(String) } },
    ]);
    await bo.run('Again.', { taskId: 'b', contextId: 'c2' });
    const plain = new InspectClient({ store, write: true });
    expect((await plain.post('b/steer', { text: 'Hurry.' }))[0]).toBe(200);
    expect((await plain.post('b/steer', { text: '' }))[0]).toBe(400);
    expect((await plain.post('b/cancel', { reason: 'enough' }))[0]).toBe(200);
    expect(await plain.get<TaskDetail>('tasks/b')).toMatchObject({
      reason: 'enough',
      summary: { state: 'canceled' } as TaskSummary,
    });
    const [status, { taskId, runs }] = await plain.post('b/retry');
    expect([status, runs]).toEqual([200, false]);
    expect((await plain.get<TaskDetail>(`tasks/${taskId}`)).forkedFrom).toMatchObject({ taskId: 'b', isRetry: true });
    expect((await plain.post('a/resume'))[0]).toBe(409);
    expect((await plain.post('nobody/cancel'))[0]).toBe(404);
  });

  it('has no secret in what leaves it, unless it is raw', async () => {
    const secret = 'sk-0123456789abcdef';
    const { bo, store } = made([call('look', { city: `key ${secret}` }), { text: `Bearer ${secret}-more` }]);
    await bo.run(`Use ${secret} ${'x'.repeat(150)} ${secret}`, { taskId: 't', metadata: { apiKey: 'hunter2hunter2' } });
    const walk = async (client: InspectClient) => {
      const texts = [JSON.stringify(await client.allRows('t'))];
      const all = ['tasks/t', 'notes?ids=t', 'tasks/t/records/1', 'tasks/t/records/4?whole', 'tasks/t/messages'];
      for (const path of [...all, 'tasks/t/export', `tasks?q=${secret}`])
        texts.push(await (await client.send(`api/${path}`)).text());
      return texts.join('\n');
    };
    const text = await walk(new InspectClient({ store }));
    expect(text).toContain('[redacted]');
    expect(text).not.toMatch(/0123456789abcdef|hunter2/);
    expect(await walk(new InspectClient({ store, raw: true }))).toMatch(/0123456789abcdef.*hunter2/s);
  });

  it('V-27 refuses other sites with 403, and whoever is not authorized with 401, before anything is read', async () => {
    const { store } = made([]);
    const authorize = ({ headers }: Request) => headers.get('authorization') === 'Bearer right';
    const client = new InspectClient({ store, authorize });
    const status = async (headers: Record<string, string>) => (await client.send('api/tasks', { headers })).status;
    const right = { authorization: 'Bearer right' };
    expect(await status(right)).toBe(200);
    expect(await status({ ...right, origin: 'http://127.0.0.1:4100', 'sec-fetch-site': 'same-origin' })).toBe(200);
    for (const site of ['cross-site', 'same-site'])
      expect(await status({ ...right, 'sec-fetch-site': site })).toBe(403);
    for (const origin of ['http://evil.example', 'null', 'http://127.0.0.1:4101'])
      expect(await status({ ...right, origin })).toBe(403);
    expect(await status({})).toBe(401);
    expect(await status({ authorization: 'Bearer wrong' })).toBe(401);
    const form = { method: 'POST', body: 'a=1', headers: { ...right, 'content-type': 'text/plain' } };
    expect((await new InspectClient({ store, authorize, write: true }).send('api/tasks/t/cancel', form)).status).toBe(
      415,
    );
    const good = await client.send('api/tasks', { headers: right });
    expect(good.headers.get('cache-control')).toBe('no-store');
    expect([...good.headers.keys()].filter((name) => /^(set-cookie|access-control)/.test(name))).toEqual([]);
  });

  it('is mounted at a path, and answers wrong requests with what is wrong', async () => {
    const { bo, store } = made([{ text: 'Hi.' }]);
    await bo.run('Hi.', { taskId: 't' });
    const client = new InspectClient({ store, basePath: '/inspect' });
    expect((await client.send('inspect/api/tasks/t')).status).toBe(200);
    for (const [path, status] of [
      ['api/tasks/t', 404],
      ['inspect/api/nothing', 404],
      ['inspect/api/tasks/t/constructor', 404],
      ['inspect/api/tasks/t/records/99', 404],
      ['inspect/api/tasks/%20', 400],
      ['inspect/api/tasks?state=wild', 400],
      ['inspect/api/tasks?limit=many', 400],
    ] as const)
      expect([path, (await client.send(path)).status]).toEqual([path, status]);
  });

  it('refuses options that it does not have, naming the cure', () => {
    const { bo, store } = made([]);
    const other = new InMemoryStateStore();
    for (const [options, message] of [
      [{ store }, /authorize must be a function/],
      [{ store, authorize: () => true, port: 1 }, /inspectHandler has no option "port"/],
      [{ store, authorize: () => true, write: 'yes' }, /write must be true or false/],
      [{ store: other, authorize: () => true, agent: bo }, /another taskStateStore/],
      [{ store, authorize: () => true, basePath: 'x' }, /basePath must begin with/],
    ] as const)
      expect(() => inspectHandler(options as never)).toThrow(message);
  });
});
