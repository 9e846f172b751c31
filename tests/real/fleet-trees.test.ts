import type { ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from '@jest/globals';
import { context, propagation, trace } from '@opentelemetry/api';
import { agent, agentTools } from 'millrace';
import { recordSpans } from 'millrace/testing';
import { answering, fleetBench, modelOf, says, times, until, user } from '../fleet/fleet-bench.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';

describeRedis('turns of a fleet with sub-agents, tenants and traces', () => {
  const on = fleetBench();
  const programs = new ChildPrograms('tests/fleet/children');
  const folder = mkdtempSync(join(tmpdir(), 'millrace-fleet-'));
  const children: ChildProcess[] = [];
  let files = 0;
  afterEach(async () => {
    await Promise.all(children.splice(0).map(kill));
  });
  afterAll(async () => {
    await programs.clear();
    rmSync(folder, { recursive: true, force: true });
  });

  async function start(options: object): Promise<ChildProcess> {
    const given = { rounds: 2, modelMs: 5, toolMs: 20, worker: { ...times, concurrency: 10 }, ...options };
    const child = programs.start('worker', on.redis.server.url, on.nameOfTest, JSON.stringify(given));
    children.push(child);
    await nextMessage(child);
    return child;
  }

  it('F-22 a parent whose worker was killed while its sub-agent ran ends with the result of that same child turn', async () => {
    const queue = on.queue();
    const { store } = on;
    const log = join(folder, `log-${files++}`);
    const first = await start({ log, asTool: true, toolMs: 3_000 });
    await queue.start(user('Work'), { agentId: 'boss', taskId: 'parent' });
    await until(async () => {
      const [child] = await store.list({ parentTaskId: 'parent' });
      return child !== undefined && (await store.read(child.taskId)).some(({ type }) => type === 'tool.intent');
    });
    const [before] = await store.list({ parentTaskId: 'parent' });
    await kill(first);
    await start({ log, asTool: true, toolMs: 20 });
    expect(await on.ended('parent')).toBe('completed');
    const after = await store.list({ parentTaskId: 'parent' });
    expect(after).toMatchObject([{ taskId: before?.taskId, state: 'completed' }]);
    const results = (await store.read('parent')).filter(({ type }) => type === 'tool.result');
    expect(results).toHaveLength(1);
  });

  it('F-22 a worker runs a sub-agent in the turn of its parent, and the child turn is in no queue', async () => {
    const queue = on.queue();
    const child = agent({
      id: 'child',
      description: 'Helps.',
      provider: modelOf(() => says('Helped.')),
      enableTracing: false,
    });
    const provider = modelOf(({ messages, tools = [] }) => {
      if (messages.at(-1)?.role === 'tool') return says('Done.');
      const name = tools[0]?.function.name ?? '';
      const call = { id: 'c', type: 'function' as const, function: { name, arguments: '{"message":"help"}' } };
      return { message: { role: 'assistant', content: null, toolCalls: [call] }, finishReason: 'tool_calls' };
    });
    const boss = agent({ id: 'boss', provider, toolProviders: [agentTools([child])], enableTracing: false });
    on.work(queue, [boss]);
    const { taskId } = await queue.start(user('Work'), { agentId: 'boss' });
    expect(await on.ended(taskId)).toBe('completed');
    expect(await on.store.list({ parentTaskId: taskId })).toMatchObject([{ state: 'completed', agentId: 'child' }]);
    expect(Object.keys((await queue.health()).agents)).toEqual(['boss']);
  });

  it('F-12 tenantConcurrency is never exceeded by several processes, one of which is killed', async () => {
    const queue = on.queue();
    const log = join(folder, `log-${files++}`);
    for (let index = 0; index < 12; index++)
      await queue.start(user('A'), { agentId: 'ada', taskId: `t${index}`, tenant: 'a' });
    const options = { log, tenantMost: 2, toolMs: 150 };
    const [first] = [await start(options), await start(options), await start(options)];
    let most = 0;
    let killed = false;
    await until(async () => {
      const tasks = await on.store.list({ limit: 20 });
      most = Math.max(most, tasks.filter(({ held }) => held).length);
      if (!killed && tasks.some(({ state }) => state === 'completed')) {
        killed = true;
        await kill(first as ChildProcess);
      }
      return tasks.every(({ state }) => state === 'completed');
    });
    expect(killed).toBe(true);
    expect(most).toBeGreaterThan(0);
    // A worker that is refused holds the turn while it asks; of those that run there are two.
    const running = await mostAtOnce(['t0', 't1', 't2', 't3', 't4', 't5', 't6', 't7', 't8', 't9', 't10', 't11']);
    expect(running).toBeLessThanOrEqual(2);
  });

  it('F-12 tenantConcurrency holds after a worker stood still and lost its turn to another', async () => {
    const queue = on.queue();
    const log = join(folder, `log-${files++}`);
    const typesOf = async (taskId: string) => (await on.store.read(taskId)).map(({ type }) => type);
    const options = { log, tenantMost: 1, rounds: 1, modelMs: 8_000 };
    const first = await start(options);
    await queue.start(user('A'), { agentId: 'ada', taskId: 'taken', tenant: 'a' });
    await until(async () => (await typesOf('taken')).includes('llm.start'));
    await start(options);
    first.kill('SIGSTOP');
    await until(async () => (await typesOf('taken')).includes('turn.resumed'));
    first.kill('SIGCONT');
    await until(() => existsSync(log) && readFileSync(log, 'utf8').includes(`left ${first.pid}`));
    await queue.start(user('A'), { agentId: 'ada', taskId: 'next', tenant: 'a' });
    expect(await on.ended('taken')).toBe('completed');
    expect(await on.ended('next')).toBe('completed');
    expect(await mostAtOnce(['taken', 'next'])).toBe(1);
  });

  /** By the journals: from the first record of each run of a turn to its last. */
  async function mostAtOnce(ids: readonly string[]): Promise<number> {
    const runs: { from: number; to: number }[] = [];
    for (const id of ids) {
      for (const [index, { type, at }] of (await on.store.read(id)).entries()) {
        const last = runs.at(-1);
        if (index === 1 || type === 'turn.resumed') runs.push({ from: at, to: at });
        else if (index > 1 && last) last.to = at;
      }
    }
    return Math.max(...runs.map(({ from }) => runs.filter((other) => other.from <= from && from < other.to).length));
  }

  it('F-24 the spans of a turn belong to the trace of its producer', async () => {
    const spans = recordSpans();
    try {
      const queue = on.queue();
      on.work(queue, [answering({ enableTracing: true })]);
      const span = trace.getTracer('producer').startSpan('request');
      const parentContext = trace.setSpan(context.active(), span);
      const { taskId } = await queue.start(user('Hello'), { agentId: 'ada', parentContext });
      expect(await on.ended(taskId)).toBe('completed');
      span.end();
      await until(() => spans.open().length === 0);
      const { traceId, spanId } = span.spanContext();
      const turn = spans.spans().find(({ name }) => name === 'agent.turn');
      expect(turn?.parentSpanContext?.spanId).toBe(spanId);
      expect(new Set(spans.spans().map((each) => each.spanContext().traceId))).toEqual(new Set([traceId]));
      expect(spans.spans().map(({ name }) => name)).toContain('llm.call');
    } finally {
      propagation.disable();
      await spans.dispose();
    }
  });
});
