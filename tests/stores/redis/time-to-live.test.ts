import { expect, it } from '@jest/globals';
import { AgentLoop, done, llmStart, noteRecord as note, textDelta } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import { plainTools } from '../../core/plain-tools.ts';
import { describeRedis } from './describe-redis.ts';
import { beginHeld, RedisBench } from './redis-bench.ts';

describeRedis('the time that RedisStateStore keeps a task', () => {
  const bench = new RedisBench();
  const letters = ['h', 'j', 'b', 'c', 'd', 'i'] as const;

  const open500 = { submitted: 500, working: 500 };
  const question = [{ role: 'user', content: 'Shall I?' }] as const;

  /** Seconds to live of the keys there are, but for the few that the test has taken; -1 for one that does not expire. */
  function lives(taskId: string): Record<string, number> {
    const all = letters.map((letter) => [letter, Number(bench.server.cli('TTL', bench.key(taskId, letter)))] as const);
    const given = [7, 60, 90, 500, 86_400];
    const nearest = (seconds: number) => given.find((whole) => seconds <= whole && seconds > whole - 6) ?? seconds;
    return Object.fromEntries(all.flatMap(([letter, seconds]) => (seconds === -2 ? [] : [[letter, nearest(seconds)]])));
  }

  /** As if nobody had touched the task for long. */
  function age(taskId: string): void {
    for (const letter of letters) bench.server.cli('EXPIRE', bench.key(taskId, letter), '7');
  }

  it('S1-72 S1-75 is `retention` of its state from each append on, for every key of the task, and `ttl` from the terminal one', async () => {
    const store = bench.open({ ttl: 90, retention: open500 });
    const { taskId, owner } = await beginHeld(store);
    expect(lives(taskId)).toEqual({ h: 500, j: 500 });
    age(taskId);
    await store.post(taskId, { id: 'c', type: 'pause' });
    expect(lives(taskId)).toEqual({ h: 7, j: 7, c: 7, i: 7 });
    await owner.append(note('x'.repeat(300_000)));
    expect(lives(taskId)).toEqual({ h: 500, j: 500, b: 500, c: 500, i: 500 });
    age(taskId);
    await owner.append(llmStart(1));
    store.publish(taskId, textDelta(owner.lease.epoch, 'streamed'));
    await owner.append(note('behind the delta'));
    expect(lives(taskId)).toEqual({ h: 500, j: 500, b: 500, c: 500, d: 500, i: 500 });
    age(taskId);
    await owner.append(done);
    // The records hold what was streamed.
    expect(lives(taskId)).toEqual({ h: 90, j: 90, b: 90, c: 90, d: 60, i: 90 });
  });

  it('S1-72 H-20 has no end by default while the turn is open, and is a day after its end', async () => {
    const { taskId, owner } = await beginHeld(bench.open());
    expect(lives(taskId)).toEqual({ h: -1, j: -1 });
    await owner.append(done);
    expect(lives(taskId)).toEqual({ h: 86_400, j: 86_400 });
  });

  it('S1-72 S1-75 has no end while the turn is suspended, and starts anew when it goes on', async () => {
    const store = bench.open({ retention: open500 });
    const { taskId, owner } = await beginHeld(store);
    const suspension = owner.stamp({ type: 'turn.suspended', state: 'input-required', reason: 'lunch', questions: [] });
    await store.append(owner.lease, suspension, { status: 'input-required', barrier: true });
    await store.release(owner.lease);
    await store.post(taskId, { id: 'c', type: 'pause' });
    const lease = await store.acquire(taskId, 'owner-b', 30_000);
    await store.renew(lease);
    expect(lives(taskId)).toEqual({ h: -1, j: -1, c: -1, i: -1 });
    const resumed = { type: 'turn.resumed', seq: 3, epoch: lease.epoch, at: 1 } as const;
    await store.append(lease, [resumed], { status: 'working', barrier: true });
    expect(lives(taskId)).toEqual({ h: 500, j: 500, c: 500, i: 500 });
  });

  it('S1-72 a turn that somebody works on does not expire: renewing the lease is a sign of life', async () => {
    const store = bench.open({ retention: open500 });
    const { taskId, owner } = await beginHeld(store);
    age(taskId);
    await store.renew(owner.lease);
    expect(lives(taskId)).toEqual({ h: 500, j: 500 });
  });

  it('is without end where `ttl` is null, but for the states that `retention` names', async () => {
    const store = bench.open({ ttl: null, retention: { failed: 90 } });
    const first = await beginHeld(store);
    await first.owner.append(done);
    expect(lives(first.taskId)).toEqual({ h: -1, j: -1 });
    const second = await beginHeld(store);
    await second.owner.append({ type: 'turn.failed', code: 'INTERNAL', message: 'lost', reason: 'internal' });
    expect(lives(second.taskId)).toEqual({ h: 90, j: 90 });
  });

  it('`ttlAfterEndSeconds` counts in place of `ttl`', async () => {
    const { taskId, owner } = await beginHeld(bench.open({ ttl: 500, ttlAfterEndSeconds: 90 }));
    await owner.append(done);
    expect(lives(taskId)).toEqual({ h: 90, j: 90 });
  });

  it('refuses a retention of no state, and one that is no time', () => {
    const open = (retention: object) => () => bench.open({ retention });
    expect(open({ finished: 1 })).toThrow(
      'retention of RedisStateStore has no option "finished"; the options are: submitted, working,',
    );
    expect(open({ failed: 0.5 })).toThrow('retention of failed must be a whole number of seconds from 1');
  });

  it('F-15 H-20 an answered turn that nobody runs has no end, also one that an older version let expire', async () => {
    const store = bench.open({ ttl: 1 });
    const toolProviders = [plainTools({ ask: { needsApproval: true, execute: () => 'asked' } })];
    const llmProvider = scriptedLLM([{ toolCalls: [{ name: 'ask' }] }, { text: 'Good.' }]);
    const turn = new AgentLoop({ agentId: 'a', llmProvider, toolProviders, taskStateStore: store }).startTurn(question);
    expect(await turn.result()).toMatchObject({ status: 'input-required' });
    await turn.settled;
    const { taskId } = turn;
    age(taskId);
    await AgentLoop.answer(taskId, { store, answers: { '1:0': { approved: true } } });
    expect(Object.values(lives(taskId)).every((seconds) => seconds === -1)).toBe(true);
    const resumed = AgentLoop.resume(taskId, { agentId: 'a', llmProvider, toolProviders, taskStateStore: store });
    expect(await resumed.result()).toMatchObject({ status: 'completed', text: 'Good.' });
  });

  it('S1-72 of a paused turn of AgentLoop has no end; it resumes, ends, and then expires', async () => {
    const store = bench.open({ ttl: 500, retention: open500 });
    const config = { agentId: 'a', taskStateStore: store };
    const first = new AgentLoop({ ...config, llmProvider: scriptedLLM([{ text: 'not read' }]) });
    const turn = first.startTurn([{ role: 'user', content: 'Hello' }]);
    turn.subscribe();
    turn.pause('lunch');
    expect(await turn.result()).toMatchObject({ status: 'input-required' });
    await turn.settled;
    const { taskId } = turn;
    expect(lives(taskId)).toEqual({ h: -1, j: -1 });
    const resumed = AgentLoop.resume(taskId, { ...config, llmProvider: scriptedLLM([{ text: 'Hi!' }]) });
    expect(await resumed.result()).toMatchObject({ status: 'completed', text: 'Hi!' });
    await resumed.settled;
    expect(lives(taskId)).toEqual({ h: 500, j: 500 });
  });
});
