import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { apiKeyAuth } from '../../src/a2a/index.ts';
import { KeptBytes } from '../../src/a2a/kept-bytes.ts';
import { defaultLimits, resolveLimits } from '../../src/a2a/received-message.ts';
import { Scope } from '../../src/a2a/scope.ts';
import type { Clock } from '../../src/core/clock.ts';
import { AgentLoopError } from '../../src/core/errors.ts';
import type { TaskQuery, TaskStateStore } from '../../src/stores/interfaces.ts';
import { LmdbStateStore } from '../../src/stores/lmdb/index.ts';
import { InMemoryStateStore } from '../../src/stores/memory/in-memory-state-store.ts';
import { fakeClock } from '../../src/testing/fake-clock.ts';
import { failureOf, reach, wires } from '../security/reach.ts';
import { a2aBench } from './bench.ts';
import { answerOf, message, rpc, serverBench, wireMessage } from './server/test-server.ts';

const on = serverBench();
const keys = [
  { id: 'alice', key: 'the-key-of-alice-is-long' },
  { id: 'bob', key: 'the-key-of-bob-is-longer' },
];
const [alice = {}, bob = {}] = keys.map(({ key }) => ({ 'x-api-key': key }));
const provider = { call: async () => ({ message: { role: 'assistant' as const, content: 'Done.' } }) };
const long = 'x'.repeat(4_000);

interface Keeping {
  readonly clock?: Clock;
  readonly grpc?: boolean;
}

async function keeping(store: TaskStateStore, maxKeptBytes: number, { clock, grpc }: Keeping = {}) {
  const agent = on.echo([], { provider, taskStateStore: store, clock });
  const limits = { maxKeptBytes };
  return on.serve({ agent, auth: apiKeyAuth({ keys }), limits, ...(grpc && { grpc: { port: 0 } }) });
}

function lmdb(): { readonly open: () => LmdbStateStore } {
  const path = mkdtempSync(join(tmpdir(), 'millrace-kept-'));
  on.after(() => rmSync(path, { recursive: true }));
  const open = () => {
    const store = new LmdbStateStore({ path });
    on.after(() => store.close());
    return store;
  };
  return { open };
}

const send = async (url: string, headers: Readonly<Record<string, string>>) => {
  const { error } = await answerOf(rpc(url, 'SendMessage', wireMessage(long), headers));
  return error === undefined ? 'kept' : error.message;
};

describe('what is kept for one caller', () => {
  it.each([
    ['a store that counts bytes', () => lmdb().open()],
    ['one that does not', () => new InMemoryStateStore()],
  ])('H-17 is limited over all tasks, also of earlier processes, and not for others: %s', async (_, open) => {
    const store = open();
    const first = await keeping(store, 2 ** 30);
    for (let count = 0; count < 3; count++) expect(await send(first.url, alice)).toBe('kept');
    const { url } = await keeping(store, 15_000);
    expect(await send(url, alice)).toMatch(/take as much space as they may/);
    expect(await send(url, bob)).toBe('kept');
    // What there is can be read, and what came before is answered as before.
    const { result } = await answerOf(rpc(url, 'ListTasks', {}, alice));
    expect(result.tasks).toHaveLength(3);
  });

  it.each(wires)('H-17 is told as a fault of the client over %s of A2A %s', async (...way) => {
    const { url } = await keeping(new InMemoryStateStore(), 5_000, { grpc: true });
    const { client, options } = await reach(url, way, alice);
    await client.sendMessage(message(long), options);
    expect(await failureOf(client.sendMessage(message(long), options))).toMatch(/UnsupportedOperation.*space/s);
  });

  const name = 'x'.repeat(20_000);
  it.each<readonly [string, object, object]>([
    ['filename', { filename: name }, {}],
    ['mediaType', { mediaType: `text/${name}` }, {}],
    ['extensions', {}, { extensions: [name] }],
    ['referenceTaskIds', {}, { referenceTaskIds: Array.from(name) }],
  ])('H-17 counts all members of a message: %s', async (_, ofPart, ofMessage) => {
    const agent = on.echo([], { provider, taskStateStore: new InMemoryStateStore() });
    const message = { messageId: 'large', role: 'ROLE_USER', parts: [{ text: 'Hi', ...ofPart }], ...ofMessage };
    const limited = await on.serve({ agent, limits: { maxMessageBytes: 10_000 } });
    const { error } = await answerOf(rpc(limited.url, 'SendMessage', { message }));
    expect(error.message).toMatch(/larger than 10000 bytes/);
    const kept = await on.serve({ agent, limits: { maxKeptBytes: 10_000 } });
    expect((await answerOf(rpc(kept.url, 'SendMessage', { message }))).error.message).toMatch(/space/);
  });

  it('H-17 lets a message through that comes again, and new ones once tasks were deleted', async () => {
    const store = new InMemoryStateStore();
    const clock = fakeClock();
    const { url } = await keeping(store, 6_000, { clock });
    const twice = wireMessage(long, 'twice');
    const one = await answerOf(rpc(url, 'SendMessage', twice, alice));
    expect(await send(url, alice)).toMatch(/space/);
    expect((await answerOf(rpc(url, 'SendMessage', twice, alice))).result.task.id).toBe(one.result.task.id);
    store.delete(one.result.task.id);
    expect(await send(url, alice)).toMatch(/space/);
    clock.advance(2_000);
    expect(await send(url, alice)).toBe('kept');
  });
});

describe('the limits of what callers send', () => {
  it.each([
    [{ maxKeptByte: 5 }, /^limits\.maxKeptByte is not a limit; the limits are: maxParts, .*maxKeptBytes\.$/],
    [{ maxHistory: 0 }, /^limits\.maxHistory must be a number above 0/],
    [{ maxParts: '5' }, /^limits\.maxParts must be a number above 0/],
    [null, /^limits must be an object/],
    [5, /^limits must be an object/],
  ])('are refused where they are %j, for nothing would be limited', (limits, message) => {
    const refused = () => a2aBench({ handler: { limits: JSON.parse(JSON.stringify(limits)) } });
    expect(refused).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) }),
    );
  });

  it('have their defaults where they are undefined', () => {
    expect(resolveLimits({ maxParts: undefined, maxHistory: 3 })).toEqual({ ...defaultLimits, maxHistory: 3 });
    expect(resolveLimits({ maxKeptBytes: Number.POSITIVE_INFINITY }).maxKeptBytes).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('the history of one task', () => {
  it('H-17 is limited: a task that has as many messages as it may takes no more', async () => {
    const asks = { kind: 'input' as const };
    const agent = on.echo([{ toolCalls: [{ name: 'ask' }] }, { text: 'Done.' }], {
      taskStateStore: new InMemoryStateStore(),
      toolProviders: [
        {
          getTools: () => [
            { type: 'function', function: { name: 'ask', description: 'Asks.', parameters: { type: 'object' } } },
          ],
          executeTool: (call, { ask }) => ({ toolCallId: call.id, content: String(ask(asks)), success: true }),
        },
      ],
    });
    const { url } = await on.serve({ agent, limits: { maxHistory: 2 } });
    const { result } = await answerOf(rpc(url, 'SendMessage', wireMessage('Hi')));
    const { id } = result.task;
    const more = { message: { messageId: 'more', taskId: id, role: 'ROLE_USER', parts: [{ text: 'Yes.' }] } };
    const refused = await answerOf(rpc(url, 'SendMessage', more));
    expect(refused.error).toMatchObject({ message: expect.stringContaining('has 2 messages and takes no more') });
    const canceled = await answerOf(rpc(url, 'CancelTask', { id }));
    expect(canceled.result.status.state).toBe('TASK_STATE_CANCELED');
  });
});

describe('the count of what is kept', () => {
  const group = new Scope('echo', 'alice').group;
  const ready = async <T>(ask: () => T | Promise<T>) => ask();

  /** Counts in a store whose methods are these. */
  function countingIn(methods: object, max = 1_000) {
    const clock = fakeClock();
    const store: TaskStateStore = Object.assign(Object.create(new InMemoryStateStore()), methods);
    return { kept: new KeptBytes({ store, clock, max, ready }), clock };
  }

  function counting(bytes: () => number) {
    let lists = 0;
    const list = () => {
      lists++;
      return [{ taskId: 't', seq: 1, bytes: bytes() }];
    };
    return { ...countingIn({ list }), lists: () => lists };
  }

  it('H-17 is made anew every 30 seconds, and sooner beyond the limit', async () => {
    let bytes = 0;
    const { kept, clock, lists } = counting(() => bytes);
    expect(await Promise.all([kept.admit(group, 400), kept.admit(group, 400), kept.admit(group, 400)])).toEqual([
      true,
      true,
      false,
    ]);
    expect(lists()).toBe(1);
    clock.advance(2_000);
    expect(await kept.admit(group, 900)).toBe(true);
    expect(lists()).toBe(2);
    bytes = 2_000;
    expect(await kept.admit(group, 50)).toBe(true);
    clock.advance(30_000);
    expect(await kept.admit(group, 50)).toBe(false);
    expect(lists()).toBe(3);
  });

  it('H-17 is made once for messages that come together, and counts each of them', async () => {
    const { kept, clock, lists } = counting(() => 0);
    expect(await kept.admit(group, 1)).toBe(true);
    clock.advance(30_000);
    const admitted = await Promise.all(Array.from({ length: 150 }, () => kept.admit(group, 10)));
    expect(admitted.filter(Boolean)).toHaveLength(100);
    expect(lists()).toBe(2);
  });

  it('H-17 goes through all pages of tasks', async () => {
    const tasks = Array.from({ length: 401 }, (_, index) => ({ taskId: `t${index}`, seq: 1, bytes: 10 }));
    const list = ({ behind, limit }: TaskQuery = {}) => {
      const from = tasks.findIndex(({ taskId }) => taskId === behind?.taskId) + 1;
      return tasks.slice(from, from + (limit ?? 50));
    };
    expect(await countingIn({ list }, 4_010).kept.admit(group, 1)).toBe(false);
    expect(await countingIn({ list }, 4_011).kept.admit(group, 1)).toBe(true);
  });

  it('H-17 reads of a journal that has grown what is new, and adds it to what there was', async () => {
    const journal = [{ seq: 1 }, { seq: 2 }, { seq: 3 }];
    const reads: number[] = [];
    const { kept, clock } = countingIn(
      {
        list: () => [{ taskId: 't', seq: journal.length }],
        read: (_taskId: string, { from }: { readonly from: number }) => {
          reads.push(from);
          return journal.slice(from - 1);
        },
      },
      5 * '{"seq":1}'.length,
    );
    expect(await kept.admit(group, 1)).toBe(true);
    journal.push({ seq: 4 }, { seq: 5 });
    clock.advance(30_000);
    expect(await kept.admit(group, 1)).toBe(false);
    expect(reads).toEqual([1, 4]);
  });

  it('H-17 counts nothing for a task that is deleted meanwhile', async () => {
    const { kept } = countingIn({
      list: () => [{ taskId: 't', seq: 1 }],
      read: () => Promise.reject(new AgentLoopError('NOT_FOUND', 'There is no task "t".')),
    });
    expect(await kept.admit(group, 1_000)).toBe(true);
  });

  it('H-17 takes a twentieth of the time at most, also beyond the limit', async () => {
    const { kept, clock, lists } = counting(() => {
      clock.advance(1_000);
      return 2_000;
    });
    expect(await kept.admit(group, 1)).toBe(false);
    clock.advance(19_000);
    expect(await kept.admit(group, 1)).toBe(false);
    expect(lists()).toBe(1);
    clock.advance(1_000);
    expect(await kept.admit(group, 1)).toBe(false);
    expect(lists()).toBe(2);
  });

  it('H-17 is tried again after a store that did not answer', async () => {
    let away = true;
    const { kept } = counting(() => {
      if (away) throw new Error('away');
      return 1;
    });
    await expect(kept.admit(group, 1)).rejects.toThrow('away');
    away = false;
    expect(await kept.admit(group, 1)).toBe(true);
  });
});
