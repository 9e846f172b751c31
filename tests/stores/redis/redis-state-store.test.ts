import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  AgentLoop,
  callsOfChildren,
  done,
  failsWith,
  llmAnswer,
  llmStart,
  noteRecord as note,
  Owner,
  refuses,
  seqsOf,
  startRecord,
  textDelta,
  upTo,
  watch,
  wholeTurn,
} from 'millrace/internals';
import { RedisStateStore, type RedisStateStoreOptions } from 'millrace/redis';
import { openResources, scriptedLLM } from 'millrace/testing';
import type { TaskQuery } from 'millrace/types';
import { lastValueFrom } from 'rxjs';
import { describeRedis } from './describe-redis.ts';
import { beginHeld, RedisBench } from './redis-bench.ts';

describeRedis('RedisStateStore', () => {
  const bench = new RedisBench();

  it('keeps payloads over 256 KB beside the journal, each once, and every reader gets them whole', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    const follower = watch(bench.open().follow(taskId));
    const [small, large] = ['x'.repeat(200 * 1024), 'ä'.repeat(200 * 1024)];
    const records = owner.stamp(note(small), note(large), note('after'), done);
    await owner.send(records);
    await follower.until('the end', ({ completed }) => completed);
    const read = await store.read(taskId);
    expect(read.slice(1)).toEqual(records);
    expect(follower.values.slice(1)).toEqual(records.map((record) => ({ type: 'record', record })));
    expect(bench.server.cli('HLEN', bench.key(taskId, 'b'))).toBe('1');
    expect(Number(bench.server.cli('MEMORY', 'USAGE', bench.key(taskId, 'j')))).toBeLessThan(300 * 1024);
  });

  it('sends what is appended in one go as one append, and answers each', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    bench.server.cli('CONFIG', 'RESETSTAT');
    const batches = upTo(5).map((number) => owner.stamp(note(number)));
    await Promise.all(batches.map((records) => owner.send(records, false)));
    expect(bench.server.cli('INFO', 'commandstats')).toContain('cmdstat_evalsha:calls=1,');
    await owner.append(note('later'));
    expect(await seqsOf(store.read(taskId))).toEqual(upTo(7));
  });

  it('an append sent again together with a new one is written once, and the new one behind it', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    const [first, second] = [owner.stamp(note('one'), note('two')), owner.stamp(note('three'))];
    await owner.send(first);
    await Promise.all([owner.send(first), owner.send(second)]);
    await owner.append(note('four'));
    const read = await store.read(taskId);
    expect(read.slice(1).map((record) => 'data' in record && record.data)).toEqual(['one', 'two', 'three', 'four']);
  });

  it('appends of one go are refused together where the lease is gone, and nothing of them stands', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    await store.release(owner.lease);
    const sent = [owner.send(owner.stamp(note('one'))), owner.send(owner.stamp(note('two')))];
    for (const answer of sent) await refuses('FENCED', () => answer);
    expect(await seqsOf(store.read(taskId))).toEqual([1]);
  });

  it('shows a delta between the records that it came between, also where all came in one go', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    const follower = watch(store.follow(taskId));
    await follower.until('the first record', ({ values }) => values.length === 1);
    const sent = [owner.append(llmStart(1))];
    store.publish(taskId, textDelta(owner.lease.epoch, 'in between'));
    sent.push(owner.append(llmAnswer(1, 'in between'), done));
    await Promise.all(sent);
    await follower.until('the end', ({ completed }) => completed);
    const seen = follower.values.map((signal) => (signal.type === 'delta' ? 'delta' : signal.record.type));
    expect(seen).toEqual(['turn.started', 'llm.start', 'delta', 'llm.done', 'turn.done']);
  });

  it('holds the calls of an answer once, and gives the message back whole', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    const written = wholeTurn.flatMap((records) => owner.stamp(...records));
    await owner.send(written);
    expect(await store.read(taskId)).toEqual([expect.objectContaining({ type: 'turn.started' }), ...written]);
    const answers = bench.server.cli('XRANGE', bench.key(taskId, 'j'), '-', '+').match(/call_1/g);
    expect(answers).toHaveLength(1);
  });

  it('a first record over 256 KB is created, and answered with, whole', async () => {
    const store = bench.open();
    const started = startRecord('large', { text: 'y'.repeat(300_000) });
    expect(await store.create('large', started)).toEqual({ created: true, started });
    expect(await store.create('large', startRecord('large'))).toEqual({ created: false, started });
    expect(await store.read('large')).toEqual([started]);
  });

  it.each([
    ['the journal is gone', (taskId: string) => ['DEL', bench.key(taskId, 'j')]],
    ['its start is cut', (taskId: string) => ['XTRIM', bench.key(taskId, 'j'), 'MINID', '3']],
    ['its tail is cut', (taskId: string, epoch: number) => ['XDEL', bench.key(taskId, 'j'), `3-${epoch}`]],
    ['it holds more than the head knows', (taskId: string) => ['XADD', bench.key(taskId, 'j'), '9-9', 'r', '{"at":1}']],
  ])('where %s, everything but delete is POISON', async (_, damage) => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    await owner.append(note('two'), note('three'));
    bench.server.cli(...damage(taskId, owner.lease.epoch));
    await refuses('POISON', () => store.read(taskId));
    await refuses('POISON', () => store.load(taskId));
    await refuses('POISON', () => owner.append(note('on top')));
    await failsWith('POISON', watch(store.follow(taskId)));
    await store.release(owner.lease);
    await refuses('POISON', () => store.acquire(taskId, 'owner-b', 1_000));
    await store.delete(taskId);
    expect((await store.create(taskId, startRecord(taskId))).created).toBe(true);
  });

  it('a journal whose head is gone is never taken for a new task', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    bench.server.cli('DEL', bench.key(taskId, 'h'));
    await refuses('NOT_FOUND', () => owner.append(note('nowhere')));
    await refuses('POISON', () => store.create(taskId, startRecord(taskId)));
  });

  it.each([
    ['is not JSON', '{'],
    ['is no record', '7'],
    ['belongs to another task', JSON.stringify({ ...startRecord('another'), seq: undefined, epoch: undefined })],
  ])('an entry that %s is POISON, and named', async (_, entry) => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    bench.server.cli('XADD', bench.key(taskId, 'j'), `2-${owner.lease.epoch}`, 'r', entry);
    bench.server.cli('HSET', bench.key(taskId, 'h'), 'seq', '2');
    const error = await refuses('POISON', () => store.read(taskId));
    expect(error.message).toContain(`Entry 2-${owner.lease.epoch} of the journal of task "${taskId}"`);
    expect(bench.server.cli('XLEN', bench.key(taskId, 'j'))).toBe('2');
  });

  it('a payload that is gone from beside the journal is POISON', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    await owner.append(note('x'.repeat(300_000)));
    bench.server.cli('DEL', bench.key(taskId, 'b'));
    expect((await refuses('POISON', () => store.read(taskId))).message).toContain('its payload is gone');
  });

  it('a reader whose records were lost by the store is told REWOUND', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    const follower = watch(store.follow(taskId));
    await owner.append(note('lost in a fail-over'));
    await follower.until('two records', ({ values }) => values.length === 2);
    bench.server.cli('XDEL', bench.key(taskId, 'j'), `2-${owner.lease.epoch}`);
    bench.server.cli('HSET', bench.key(taskId, 'h'), 'seq', '1');
    await failsWith('REWOUND', follower);
    await refuses('REWOUND', () => owner.append(note('does not follow')));
  });

  it('a list leaves out, and forgets, tasks whose time ran out', async () => {
    const store = bench.open({ prefix: 'swept' });
    const ids = upTo(40).map((number) => `t${number}`);
    for (const id of ids) await store.create(id, startRecord(id, { contextId: 'one context' }));
    bench.server.cli('DEL', ...ids.slice(0, 39).flatMap((id) => [`swept:{${id}}:h`, `swept:{${id}}:j`]));
    expect((await store.list({ contextId: 'one context' })).map(({ taskId }) => taskId)).toEqual(['t40']);
    expect(bench.server.cli('ZCARD', 'swept:tasks')).toBe('1');
    expect(bench.server.cli('ZCARD', 'swept:context:one context')).toBe('1');
  });

  it('creating tasks alone keeps the index from filling with those whose time ran out', async () => {
    const store = bench.open({ prefix: 'unlisted' });
    const redis = new Redis(bench.server.url);
    try {
      for (const number of upTo(320)) {
        await store.create(`t${number}`, startRecord(`t${number}`));
        await redis.del(`unlisted:{t${number}}:h`, `unlisted:{t${number}}:j`);
      }
      expect(await redis.zcard('unlisted:tasks')).toBeLessThan(150);
    } finally {
      redis.disconnect();
    }
  });

  it('caps the side stream of deltas, but never what belongs to the open model call', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    const { epoch } = owner.lease;
    await owner.append(llmStart(1));
    const words = upTo(1_200).map((number) => `${number} `);
    for (const word of words) {
      store.publish(taskId, textDelta(epoch, word));
      // An append sends what waits, so each word is a batch.
      await store.append(owner.lease, [], { status: 'working', barrier: false });
    }
    expect(bench.server.cli('XLEN', bench.key(taskId, 'd'))).toBe('1200');
    const late = watch(bench.open().follow(taskId));
    await late.until('the text', ({ values }) => values.length === 3);
    expect(late.values[2]).toEqual({ type: 'delta', delta: textDelta(epoch, words.join('')) });
    late.stop();
    await owner.append(note('nothing is open'), { type: 'turn.resumed' });
    for (const percent of upTo(1_100)) {
      store.publish(taskId, { type: 'tool-progress', epoch, callId: '1:0', update: { percent } });
      await store.append(owner.lease, [], { status: 'working', barrier: false });
    }
    expect(bench.server.cli('XLEN', bench.key(taskId, 'd'))).toBe('1000');
  });

  it('collects deltas, so that a fast model costs a batch every 20 ms', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    await owner.append(llmStart(1));
    for (const number of upTo(500)) store.publish(taskId, textDelta(owner.lease.epoch, `${number} `));
    await owner.append(note('sends what waits'));
    expect(bench.server.cli('XLEN', bench.key(taskId, 'd'))).toBe('1');
  });

  it('a turn that ran here is observed by another client', async () => {
    const loop = new AgentLoop({
      agentId: 'a',
      llmProvider: scriptedLLM([{ text: 'All of it.' }]),
      taskStateStore: bench.open(),
    });
    const turn = loop.startTurn([{ role: 'user', content: 'Go' }]);
    expect(await turn.result()).toMatchObject({ text: 'All of it.' });
    await turn.settled;
    const last = await lastValueFrom(AgentLoop.observe(turn.taskId, { store: bench.open() }));
    expect(last).toMatchObject({ kind: 'status-update', status: { state: 'completed' }, final: true });
  });

  it('uses one connection for all blocking reads, and keeps nothing open once it is closed', async () => {
    const before = Number(bench.server.cli('INFO', 'clients').match(/connected_clients:(\d+)/)?.[1]);
    const ledger = openResources();
    const store = bench.open();
    const held = await Promise.all(upTo(20).map(() => beginHeld(store)));
    const readings = held.flatMap(({ taskId }) => [watch(store.follow(taskId)), watch(store.commands(taskId))]);
    await Promise.all(held.map(({ taskId }) => store.post(taskId, { id: 'c', type: 'pause' })));
    await Promise.all(readings.map((reading) => reading.until('a value', ({ values }) => values.length === 1)));
    expect(Number(bench.server.cli('INFO', 'clients').match(/connected_clients:(\d+)/)?.[1])).toBe(before + 2);
    for (const reading of readings) reading.stop();
    await store.close();
    await store.close();
    await refuses('UNAVAILABLE', () => store.create('t', startRecord('t')));
    await ledger.assertNone();
  });

  it('a client that was given is not ended, and its readers are', async () => {
    const client = new Redis(bench.server.url);
    try {
      const store = bench.open({ redis: client });
      const { taskId } = await beginHeld(store);
      const follower = watch(store.follow(taskId));
      await follower.until('the first record', ({ values }) => values.length === 1);
      await store.close();
      expect(await client.ping()).toBe('PONG');
    } finally {
      client.disconnect();
    }
  });

  it('works with a client of RESP2, of numbers as strings, and of automatic pipelines', async () => {
    for (const options of [{ protocol: 2 }, { stringNumbers: true }, { enableAutoPipelining: true }] as const) {
      const store = bench.open({ redis: { port: bench.server.port, ...options } });
      const { taskId, owner } = await beginHeld(store);
      await Promise.all(upTo(10).map((number) => owner.append(note(number))));
      expect(await seqsOf(store.read(taskId))).toEqual(upTo(11));
      const follower = watch(store.follow(taskId));
      await owner.append(done);
      await follower.until('the end', ({ completed }) => completed);
      expect(await store.list({ contextId: `context-of-${taskId}` })).toMatchObject([{ seq: 12, state: 'completed' }]);
      expect((await store.check()).ok).toBe(true);
    }
  });

  it('T-02 refuses an older owner of the parent turn as FENCED and says who took the child turn', async () => {
    const store = bench.open();
    await store.create('taken', startRecord('taken', { parent: 'parent' }));
    // Above what a string of a number in Lua keeps exact without care.
    const epoch = 2 ** 52 + 1;
    const lease = await store.acquire('taken', 'owner-a', 60_000, { taskId: 'parent', epoch });
    const older = () => bench.open().acquire('taken', 'owner-b', 60_000, { taskId: 'parent', epoch: epoch - 1 });
    const message = `A newer owner of the parent turn "parent" (epoch ${epoch}, yours is ${epoch - 1}) took the child turn "taken"; stop the parent turn, its results are not recorded.`;
    expect(await refuses('FENCED', older)).toMatchObject({ message, taskId: 'taken' });
    await store.release(lease);
    expect(await refuses('FENCED', older)).toMatchObject({ message, taskId: 'taken' });
    expect((await store.acquire('taken', 'owner-c', 1_000, { taskId: 'parent', epoch: epoch + 1 })).seq).toBe(1);
  });

  it('deletes child turns that are linked after a thousand records, and in records outside of the stream', async () => {
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    const [inline, beside] = ['inline', 'beside'].map((name) => `${name}-of-${taskId}`);
    if (!inline || !beside) throw new Error('two ids');
    for (const child of [inline, beside]) await store.create(child, startRecord(child, { parent: taskId }));
    await owner.append(...upTo(1_200).map((number) => note(`"child" ${number}`)));
    const [start, answer, ...intents] = callsOfChildren([inline, beside]);
    if (!start || !answer) throw new Error('no call');
    const large = { arguments: 'ä'.repeat(200 * 1024) };
    await owner.append(start, answer, ...intents.map((intent, index) => ({ ...intent, ...(index === 1 && large) })));
    expect(bench.server.cli('HLEN', bench.key(taskId, 'b'))).toBe('1');
    await store.delete(taskId);
    for (const gone of [taskId, inline, beside]) expect(await store.load(gone)).toBeNull();
    const listed = (await store.list({ limit: 10_000 })).map((task) => task.taskId);
    expect(listed.filter((id) => id.includes(taskId))).toEqual([]);
    expect(bench.server.cli('KEYS', `*${taskId}*:[hjbci]`)).toBe('');
  });

  it('deletes a task and its child turns where their heads or records are lost or are no JSON', async () => {
    const store = bench.open();
    const cli = (...args: readonly string[]): string => bench.server.cli(...args);
    const { taskId, owner } = await beginHeld(store);
    const [lost, poisoned, foreign] = ['lost', 'poisoned', 'foreign'].map((name) => `${name}-of-${taskId}`);
    if (!lost || !poisoned || !foreign) throw new Error('three ids');
    for (const child of [lost, poisoned]) await store.create(child, startRecord(child, { parent: taskId }));
    await store.create(foreign, startRecord(foreign));
    await owner.append(...callsOfChildren([lost, poisoned, foreign]));
    cli('DEL', bench.key(lost, 'h'), bench.key(foreign, 'h'));
    cli('DEL', bench.key(poisoned, 'j'));
    cli('XADD', bench.key(poisoned, 'j'), '7-1', 'r', '{"child":');
    cli('XADD', bench.key(poisoned, 'j'), '8-1', 'b', 'gone');
    cli('XADD', bench.key(poisoned, 'j'), '9-1', 'r', '{"child":[1],"x":{"child":null}}');
    cli('DEL', bench.key(taskId, 'h'));
    await store.delete(taskId);
    expect(cli('KEYS', `*${taskId}*:[hjbci]`)).toBe(bench.key(foreign, 'j'));
    await store.delete(foreign);
    expect(cli('KEYS', `*${taskId}*:[hjbci]`)).toBe('');
  });

  it('T-08 reads no head of a child turn to list roots', async () => {
    const store = bench.open();
    const contextId = 'mostly-children';
    await store.create('the-root', startRecord('the-root', { contextId, at: 1 }));
    const children = upTo(150).map((number) => `its-child-${number}`);
    for (const child of children)
      await store.create(child, startRecord(child, { contextId, parent: 'the-root', at: 2 }));
    bench.server.cli('CONFIG', 'RESETSTAT');
    expect((await store.list({ contextId, roots: true, limit: 1 })).map(({ taskId }) => taskId)).toEqual(['the-root']);
    const stats = bench.server.cli('INFO', 'commandstats');
    expect(stats).toContain('cmdstat_evalsha:calls=1,');
    expect(stats).toContain('cmdstat_zrevrange:calls=2,');
  });

  it('lists tasks of a state in a group by the index that has fewer, in the order of the group', async () => {
    const store = bench.open();
    const begin = (taskId: string, group: string, at: number) =>
      store.create(taskId, startRecord(taskId, { contextId: `${group}:c`, at }));
    const ended = upTo(450).map((number) => `ended-${number}`);
    for (const taskId of ended) {
      await begin(taskId, 'grp', 1_000);
      const owner = new Owner(store, await store.acquire(taskId, 'owner-a', 30_000));
      await owner.append(done);
    }
    for (const [taskId, at] of [
      ['b', 2_000],
      ['c', 3_000],
      ['a', 2_000],
    ] as const)
      await begin(taskId, 'grp', at);
    await begin('of-another', 'other', 2_500);
    const byStatus = { group: 'grp' };
    const idsOf = async (query: TaskQuery) => (await store.list(query)).map(({ taskId }) => taskId);
    expect(await idsOf({ byStatus, state: 'submitted', roots: true })).toEqual(['c', 'b', 'a']);
    bench.server.cli('CONFIG', 'RESETSTAT');
    expect(await idsOf({ byStatus, state: 'failed', roots: true })).toEqual([]);
    const scripts = /cmdstat_evalsha:calls=(\d+)/.exec(bench.server.cli('INFO', 'commandstats'))?.[1];
    expect(Number(scripts)).toBeLessThanOrEqual(200);
    const after = { statusAt: new Date(2_000).toISOString(), taskId: 'b' };
    expect(await idsOf({ byStatus: { ...byStatus, after }, state: 'submitted' })).toEqual(['a']);
    expect(await idsOf({ byStatus, state: 'submitted', limit: 2 })).toEqual(['c', 'b']);
    expect(await idsOf({ byStatus, state: 'completed', limit: 10 })).toHaveLength(10);
  });

  it.each<[Partial<RedisStateStoreOptions>, RegExp]>([
    [{ prefix: 'a{b' }, /prefix must .*, not "a\{b"/],
    [{ ttl: 1.5 }, /ttl must be a whole number of seconds from 1, or null to keep what is stored, not 1\.5/],
    [{ ttlAfterEndSeconds: -1 }, /ttlAfterEndSeconds must .*, not -1/],
    [{ replicas: 1 }, /replicas needs durability "strict"/],
    [{ durability: 'strict', replicas: -1 }, /replicas must .*, not -1/],
    [{ durability: 'strict', replicaTimeoutMs: 0 }, /replicaTimeoutMs must .*, not 0/],
    [{ redis: { keyPrefix: 'app:' } }, /keyPrefix "app:"/],
  ])('refuses the options %j', (options, sentence) => {
    const make = (): unknown => new RedisStateStore({ redis: 'redis://127.0.0.1:1', ...options });
    expect(make).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(sentence) }));
  });
});
