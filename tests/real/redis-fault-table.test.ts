import { once } from 'node:events';
import { readdirSync, statSync, truncateSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { AgentLoopError, type TaskStateStore } from 'millrace';
import { AgentLoop, noteRecord as note, refuses, startRecord, upTo } from 'millrace/internals';
import { RedisStateStore } from 'millrace/redis';
import { journalSchema } from 'millrace/stores';
import { scriptedLLM } from 'millrace/testing';
import { eventually, testLimitMs } from '../eventually.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { faultedTurn, resumedTurn } from '../stores/redis/faulted-turn.ts';
import { beginHeld, RedisBench, untilReplicas } from '../stores/redis/redis-bench.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';
import { TcpProxy } from '../stores/redis/tcp-proxy.ts';

const whole = ['turn.started', 'llm.start', 'llm.done', 'tool.intent', 'tool.result'];

/** Waits until the store refuses with a code, then does, with `still`, what has to hold meanwhile. */
async function whileItRefuses(code: string, ask: () => Promise<unknown>, still: () => void): Promise<void> {
  await eventually(() =>
    ask().then(
      () => false,
      (error: unknown) => AgentLoopError.isInstance(error) && error.code === code,
    ),
  );
  still();
}

async function endsNormally({ turn, ran }: ReturnType<typeof faultedTurn>, store: TaskStateStore): Promise<void> {
  expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Done.' });
  await turn.settled;
  expect(ran).toEqual(['first', 'second']);
  const records = await store.read(turn.taskId);
  expect(records.map(({ seq }) => seq)).toEqual(upTo(records.length));
  const types = records.map(({ type }) => type);
  expect(types).toEqual([...whole, ...whole.slice(1), 'llm.start', 'llm.done', 'turn.done']);
}

/** A turn of our own server, which is removed behind it. */
async function onServer(redis: RedisProcess, use: (store: RedisStateStore) => Promise<void>): Promise<void> {
  const store = new RedisStateStore({ redis: redis.url });
  try {
    await use(store);
  } finally {
    await store.close();
    await redis.remove();
  }
}

describeRedis('a turn when Redis cannot be reached', () => {
  const bench = new RedisBench();

  it('down at start: UNAVAILABLE before the deadline', async () => {
    const store = bench.open({ redis: 'redis://127.0.0.1:1' });
    const { lost, ran } = faultedTurn(store, { storeDeadlineMs: 2 * testLimitMs });
    expect(await lost).toMatchObject({ code: 'UNAVAILABLE', retryable: true });
    expect(ran).toEqual([]);
  });

  it('a server that takes connections and says nothing: UNAVAILABLE at the deadline, not for ever', async () => {
    const silent = createServer(() => {});
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const address = silent.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const store = bench.open({ redis: `redis://127.0.0.1:${port}` });
    expect(await faultedTurn(store, { storeDeadlineMs: 200 }).lost).toMatchObject({ code: 'UNAVAILABLE' });
    silent.close();
  });

  it('gone 3 s in mid-turn, longer than its lease: no tool starts while it is gone, the turn ends normally', async () => {
    const redis = await startRedis({ config: ['appendonly yes', 'appendfsync always', 'save ""'] });
    await onServer(redis, async (store) => {
      const faulted = faultedTurn(store, {
        fault: () => redis.end('SIGKILL'),
        leaseMs: 1_000,
        storeDeadlineMs: testLimitMs,
      });
      const { turn, ran, second } = faulted;
      await second.reached;
      const back = new Promise((resolve) => setTimeout(resolve, 3_000));
      second.open();
      await whileItRefuses(
        'UNAVAILABLE',
        () => store.read(turn.taskId),
        () => expect(ran).toEqual(['first']),
      );
      await back;
      expect(ran).toEqual(['first']);
      await redis.start();
      await endsNormally(faulted, store);
    });
  });

  it('a reply lost after the write: one record each, no tool runs twice', async () => {
    const proxy = await TcpProxy.start(bench.server.port);
    try {
      const store = bench.open({ redis: proxy.url });
      let lost: Promise<void> | undefined;
      const faulted = faultedTurn(store, {
        fault: () => {
          lost = proxy.loseReplyTo('"llm.done"');
        },
      });
      faulted.second.open();
      await endsNormally(faulted, store);
      await lost;
    } finally {
      await proxy.close();
    }
  });
});

describeRedis('a turn when Redis comes back without its records', () => {
  it('restarted without persistence: NOT_FOUND for the worker and for who resumes, never a silent fresh start', async () => {
    const redis = await startRedis({ config: ['appendonly no', 'save ""'] });
    await onServer(redis, async (store) => {
      const { turn, ran, second, lost } = faultedTurn(store);
      await second.reached;
      await redis.end('SIGKILL');
      await redis.start();
      second.open();
      expect(await lost).toMatchObject({ code: 'NOT_FOUND' });
      expect(ran).toEqual(['first']);
      const resumed = resumedTurn(store, turn.taskId, []);
      expect(await resumed.lost).toMatchObject({ code: 'NOT_FOUND' });
      expect(resumed.ran).toEqual([]);
      expect(redis.cli('DBSIZE')).toBe('0');
    });
  });

  it('the tail of its file cut: REWOUND, the worker starts no tool any more, and the task goes on from what is left', async () => {
    const redis = await startRedis({ config: ['appendonly yes', 'appendfsync always', 'save ""'] });
    await onServer(redis, async (store) => {
      let intact = 0;
      const { turn, ran, second, lost } = faultedTurn(store, {
        fault: () => {
          intact = statSync(journalFile(redis)).size;
        },
        leaseMs: 500,
      });
      await second.reached;
      // The result of the first tool is durable, then lost with half of what was written behind it.
      await untilRecords(store, turn.taskId, 6);
      await redis.end('SIGKILL');
      truncateSync(journalFile(redis), intact + 20);
      await redis.start();
      second.open();
      expect(await lost).toMatchObject({ code: 'REWOUND' });
      await turn.settled.catch(() => {});
      expect(ran).toEqual(['first']);
      expect((await store.read(turn.taskId)).map(({ type }) => type)).toEqual(whole.slice(0, 4));
      const resumed = resumedTurn(store, turn.taskId, [{ text: 'Done.' }]);
      expect(await resumed.turn.result()).toMatchObject({ status: 'completed' });
      expect(resumed.ran).toEqual([]);
    });
  });

  it('failed over to a replica that lagged: REWOUND, the worker stops', async () => {
    const [primary, replica] = await pair();
    const proxy = await TcpProxy.start(primary.port);
    const store = new RedisStateStore({ redis: proxy.url });
    try {
      const fault = async () => {
        await untilReplicated(replica, 'lagged', 4);
        cutOff(replica);
      };
      const { turn, ran, second, lost } = faultedTurn(store, { fault, taskId: 'lagged' });
      await second.reached;
      await untilRecords(store, turn.taskId, 6);
      await failOver(primary, replica, proxy);
      second.open();
      expect(await lost).toMatchObject({ code: 'REWOUND' });
      expect(ran).toEqual(['first']);
    } finally {
      await store.close();
      await proxy.close();
      await Promise.all([primary, replica].map((server) => server.remove()));
    }
  });

  it('failed over with strict durability: no tool started whose intent the replica had not confirmed', async () => {
    const [primary, replica] = await pair();
    const proxy = await TcpProxy.start(primary.port);
    const store = new RedisStateStore({ redis: proxy.url, durability: 'strict' });
    try {
      const { turn, ran, second, lost } = faultedTurn(store, { storeDeadlineMs: 2_000 });
      await second.reached;
      cutOff(replica);
      second.open();
      expect(await lost).toMatchObject({ code: 'UNAVAILABLE', message: expect.stringContaining('0 of 1 replicas') });
      expect(ran).toEqual(['first']);
      await failOver(primary, replica, proxy);
      // What was confirmed is there: the first tool's result, and nothing that a tool has not done.
      const left = new RedisStateStore({ redis: replica.url });
      expect((await left.read(turn.taskId)).map(({ type }) => type).slice(0, 4)).toEqual(whole.slice(0, 4));
      await left.close();
    } finally {
      await store.close();
      await proxy.close();
      await Promise.all([primary, replica].map((server) => server.remove()));
    }
  });
});

describeRedis('a turn when Redis takes no records', () => {
  const bench = new RedisBench();
  const outOfMemory = () => bench.server.cli('CONFIG', 'SET', 'maxmemory', '1');
  const roomAgain = () => bench.server.cli('CONFIG', 'SET', 'maxmemory', '0');

  it('out of memory (noeviction): no tool starts, nothing partial, and with room again the turn ends normally', async () => {
    const store = bench.open();
    const faulted = faultedTurn(store);
    const { turn, ran, second } = faulted;
    await second.reached;
    await untilRecords(store, turn.taskId, 6);
    outOfMemory();
    try {
      second.open();
      const probe = () => store.create('probe', startRecord('probe'));
      await whileItRefuses('FULL', probe, () => expect(ran).toEqual(['first']));
      expect(bench.server.cli('XLEN', bench.key(turn.taskId, 'j'))).toBe('6');
    } finally {
      roomAgain();
    }
    await endsNormally(faulted, store);
  });

  it('out of memory for longer than the deadline: lost with FULL, retryable, the lease given back; resumed, it ends', async () => {
    const store = bench.open();
    const { turn, ran, second, lost } = faultedTurn(store, { storeDeadlineMs: 3_000 });
    await second.reached;
    await untilRecords(store, turn.taskId, 6);
    outOfMemory();
    try {
      second.open();
      expect(await lost).toMatchObject({ code: 'FULL', retryable: true });
      await turn.settled.catch(() => {});
    } finally {
      roomAgain();
    }
    expect(ran).toEqual(['first']);
    const resumed = resumedTurn(store, turn.taskId, [{ toolCalls: [{ name: 'second' }] }, { text: 'Done.' }]);
    expect(await resumed.turn.result()).toMatchObject({ status: 'completed', text: 'Done.' });
    expect(resumed.ran).toEqual(['second']);
  });

  it('out of memory a turn can still be canceled: its end goes through', async () => {
    const store = bench.open();
    const { turn, second } = faultedTurn(store);
    await second.reached;
    await untilRecords(store, turn.taskId, 6);
    outOfMemory();
    try {
      await turn.cancel('no more');
      await turn.settled;
      expect((await store.read(turn.taskId)).at(-1)).toMatchObject({ type: 'turn.canceled', reason: 'no more' });
    } finally {
      roomAgain();
    }
    await refuses('TERMINAL', () => store.acquire(turn.taskId, 'o', 1_000));
  });

  it('disk full: no tool starts, and with room again the turn ends normally; the file is whole', async () => {
    const redis = await startRedis({ fileLimitKiB: 64, config: ['appendonly yes', 'appendfsync everysec', 'save ""'] });
    await onServer(redis, async (store) => {
      const faulted = faultedTurn(store, { fault: () => 'x'.repeat(100_000), leaseMs: 60_000 });
      const { turn, ran, second } = faulted;
      await second.reached;
      const probe = () => store.create('probe', startRecord('probe'));
      await whileItRefuses('FULL', probe, () => expect(ran).toEqual(['first']));
      second.open();
      await whileItRefuses('FULL', probe, () => expect(ran).toEqual(['first']));
      redis.liftFileLimit();
      await endsNormally(faulted, store);
      const before = await store.read(turn.taskId);
      await redis.end('SIGTERM');
      await redis.start();
      expect(await store.read(turn.taskId)).toEqual(before);
    });
  });

  it('a primary that became a read-only replica: no tool starts; once a primary takes writes the turn ends normally', async () => {
    const stopped = await startRedis();
    const store = bench.open();
    const faulted = faultedTurn(store);
    const { turn, ran, second } = faulted;
    await second.reached;
    await untilRecords(store, turn.taskId, 6);
    try {
      stopped.signal('SIGSTOP');
      bench.server.cli('REPLICAOF', '127.0.0.1', String(stopped.port));
      second.open();
      const probe = () => store.create('probe', startRecord('probe'));
      await whileItRefuses('UNAVAILABLE', probe, () => expect(ran).toEqual(['first']));
    } finally {
      bench.server.cli('REPLICAOF', 'NO', 'ONE');
      await stopped.remove();
    }
    await endsNormally(faulted, store);
  });
});

describeRedis('a journal that cannot be read', () => {
  const bench = new RedisBench();

  it.each([
    ['POISON', 'a poison record', '{"type":"tool.result","callId":"9:9","at":1}'],
    ['POISON', 'a record of an unknown type', '{"type":"later.thing","at":1}'],
    ['SCHEMA', 'a newer schema', undefined],
  ] as const)(
    '%s: %s is refused once to who resumes, starts, observes; it is kept, nothing is tried again',
    async (code, _, entry) => {
      const store = bench.open();
      const { taskId, owner } = await beginHeld(store);
      await owner.append(note('fine'));
      await store.release(owner.lease);
      if (entry === undefined) bench.server.cli('HSET', bench.key(taskId, 'h'), 'schema', String(journalSchema + 1));
      else {
        bench.server.cli('XADD', bench.key(taskId, 'j'), `3-${owner.lease.epoch}`, 'r', entry);
        bench.server.cli('HSET', bench.key(taskId, 'h'), 'seq', '3');
      }
      const before = bench.server.cli('XRANGE', bench.key(taskId, 'j'), '-', '+');
      const model = scriptedLLM([]);
      const resumed = AgentLoop.resume(taskId, { agentId: 'a', llmProvider: model, taskStateStore: store });
      await expect(resumed.result()).rejects.toMatchObject({ code, retryable: false });
      await resumed.settled.catch(() => {});
      const observed = new Promise((resolve) => {
        AgentLoop.observe(taskId, { store }).subscribe({ error: resolve, complete: () => resolve(undefined) });
      });
      expect(await observed).toMatchObject({ code });
      const calls = callsOfScripts(bench.server);
      // Whatever tries again would do so within its longest pause.
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(callsOfScripts(bench.server)).toBe(calls);
      expect(bench.server.cli('XRANGE', bench.key(taskId, 'j'), '-', '+')).toBe(before);
      expect(bench.server.cli('HGET', bench.key(taskId, 'h'), 'owner')).toBe('');
      expect(model.calls).toEqual([]);
    },
  );
});

function callsOfScripts(redis: RedisProcess): string {
  return /cmdstat_evalsha:calls=(\d+)/.exec(redis.cli('INFO', 'commandstats'))?.[1] ?? '0';
}

/** Where the server writes each command. */
function journalFile(redis: RedisProcess): string {
  const folder = join(redis.folder, 'appendonlydir');
  const file = readdirSync(folder).find((name) => name.endsWith('.incr.aof'));
  if (file === undefined) throw new Error('The server writes no append-only file.');
  return join(folder, file);
}

async function untilRecords(store: TaskStateStore, taskId: string, count: number): Promise<void> {
  await eventually(async () => (await store.read(taskId)).length >= count);
}

async function pair(): Promise<readonly [primary: RedisProcess, replica: RedisProcess]> {
  const primary = await startRedis();
  const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${primary.port}`, 'appendonly yes'] });
  await untilReplicas(primary, 1);
  return [primary, replica];
}

async function untilReplicated(replica: RedisProcess, taskId: string, count: number): Promise<void> {
  await eventually(async () => (await replica.cliLater('XLEN', `millrace:{${taskId}}:j`)) === String(count));
}

/** It keeps what it has, and gets nothing more. */
function cutOff(replica: RedisProcess): void {
  replica.cli('REPLICAOF', '127.0.0.1', '1');
}

async function failOver(primary: RedisProcess, replica: RedisProcess, proxy: TcpProxy): Promise<void> {
  await primary.end('SIGKILL');
  replica.cli('REPLICAOF', 'NO', 'ONE');
  proxy.moveTo(replica.port);
}
