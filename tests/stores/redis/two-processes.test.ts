import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { type AgentEvent, LocalToolProvider, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import { eventually } from '../../eventually.ts';
import { ChildPrograms, kill, nextMessage } from '../lmdb/child-programs.ts';
import { describeRedis } from './describe-redis.ts';
import { RedisBench } from './redis-bench.ts';

describeRedis('two processes on one Redis', () => {
  const bench = new RedisBench();
  const programs = new ChildPrograms('tests/stores/redis/children');
  const folder = mkdtempSync(join(tmpdir(), 'millrace-world-'));
  afterAll(async () => {
    await programs.clear();
    rmSync(folder, { recursive: true });
  });

  it('S1-76 S1-79 one runs a turn and is killed, the other watches it and goes on: the finished tool is not repeated', async () => {
    const world = join(folder, 'world');
    const child = programs.start('turn', bench.server.url, world, 'shared');
    await nextMessage(child);
    const store = bench.open();
    const seen: AgentEvent[] = [];
    const ended = new Promise((resolve, reject) => {
      AgentLoop.observe('shared', { store }).subscribe({
        next: (event) => seen.push(event),
        error: reject,
        complete: () => resolve(undefined),
      });
    });
    // While its owner lives, nobody else gets the turn.
    const config = { agentId: 'worker', taskStateStore: store };
    const early = AgentLoop.resume('shared', { ...config, llmProvider: scriptedLLM([]) });
    await expect(early.result()).rejects.toMatchObject({ code: 'BUSY' });
    await early.settled.catch(() => {});
    await kill(child);
    const ran: string[] = [];
    const run = (name: string) =>
      tool({ name, description: name, parameters: { type: 'object' }, execute: () => void ran.push(name) });
    const options = {
      ...config,
      llmProvider: scriptedLLM([{ text: 'Done.' }]),
      toolProviders: [new LocalToolProvider([run('first'), run('second')])],
    };
    await freeLease(bench, 'shared');
    const resumed = AgentLoop.resume('shared', options);
    resumed.subscribe();
    expect(await resumed.result()).toMatchObject({ status: 'completed', text: 'Done.' });
    await resumed.settled;
    await ended;
    expect(ran).toEqual([]);
    expect(readFileSync(world, 'utf8').trim().split('\n').sort()).toEqual(['first', 'second']);
    const results = (await store.read('shared')).filter(({ type }) => type === 'tool.result');
    expect(results).toMatchObject([
      { callId: '1:0', content: 'one', success: true },
      { callId: '1:1', success: false, error: { code: 'OUTCOME_UNKNOWN' } },
    ]);
    const completed = seen.flatMap((event) => (event.kind === 'internal:tool-complete' ? [event.callId] : []));
    expect(completed).toEqual(['1:0', '1:1']);
    expect(seen.at(-1)).toMatchObject({ kind: 'status-update', final: true, status: { state: 'completed' } });
    expect(seen.some(({ kind }) => kind === 'internal:resumed')).toBe(true);
  });
});

/** Waits until the lease of the killed process has run out. */
async function freeLease(bench: RedisBench, taskId: string): Promise<void> {
  const store = bench.open();
  const held = async () => (await store.list()).find((task) => task.taskId === taskId)?.held;
  await eventually(async () => !(await held()));
}
