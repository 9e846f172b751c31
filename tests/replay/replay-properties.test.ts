import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Extension, foldRecords, type JournalRecord, replay, type Stamped } from 'millrace';
import { AgentLoop, isTerminal, taskState } from 'millrace/internals';
import type { TurnStarted } from 'millrace/types';
import { question } from '../core/dead-turn.ts';
import { configOf, type RandomScript, randomScript } from '../core/random-turns.ts';
import { turnBench } from '../core/turn-bench.ts';
import { ofRecords, watch } from '../core/watch-events.ts';
import { testLimitMs } from '../eventually.ts';
import { extensionsOf, randomExtensions } from './random-extensions.ts';

const bench = turnBench();
const quickly = { patienceMs: testLimitMs };
let count = 0;

async function runTurn(script: RandomScript, extensions: readonly Extension[] = []) {
  const taskId = `t${count++}`;
  const config = { ...configOf(script, bench), extensions };
  const live = watch(new AgentLoop(config).startTurn(question, { taskId, contextId: 'c' }));
  await live.ended;
  const { toolProviders = [], toolConcurrency = 1 } = config;
  return { taskId, live, config, records: bench.store.read(taskId), given: { toolProviders, toolConcurrency } };
}

/** Writes the first records of a journal as those of a process that died behind them, and lets another go on. */
interface Death {
  readonly length: number;
  readonly script: RandomScript;
  readonly extensions?: readonly Extension[];
}

async function dieAndResume(records: readonly JournalRecord[], { length, script, extensions = [] }: Death) {
  const taskId = `t${count++}`;
  const [started, ...rest] = records.slice(0, length) as [Stamped<TurnStarted>, ...JournalRecord[]];
  const first = { ...started, taskId };
  bench.store.create(taskId, first);
  const lease = bench.store.acquire(taskId, 'the dead', 1_000);
  const own = rest.map((record) => ({ ...record, epoch: lease.epoch }));
  bench.store.append(lease, own, { status: taskState(foldRecords([first, ...rest])), barrier: true });
  bench.store.release(lease);
  const live = watch(AgentLoop.resume(taskId, { ...configOf(script, bench), extensions, taskStateStore: bench.store }));
  await live.ended;
  return { taskId, live, records: bench.store.read(taskId) };
}

function observed(taskId: string) {
  return watch(AgentLoop.observe(taskId, { store: bench.store })).events;
}

/** An observer of a turn that has ended gets what replaced the answer; a replay emits what the model said, as the live turn did. */
function expectObserved(
  events: ReturnType<typeof observed>,
  { taskId, records }: { readonly taskId: string; readonly records: readonly JournalRecord[] },
) {
  if (!foldRecords(records).changes.replaced) return expect(events).toEqual(observed(taskId));
  const place = ({ kind, cursor }: (typeof events)[number]) => [kind, cursor];
  expect(events.map(place)).toEqual(observed(taskId).map(place));
}

/** Of turns with extensions; `REPLAY_SEED` looks at others. */
const seed = Number(process.env['REPLAY_SEED'] ?? 20_261_122);

describe('the replay of any turn', () => {
  it('gives the events of records that it gave live, and that who observes it gets', async () => {
    const property = fc.asyncProperty(randomScript, async (script) => {
      const { taskId, live, records, given } = await runTurn(script);
      for (const config of [{}, given]) {
        const replayed = watch(replay(records, config, quickly));
        await replayed.ended;
        expect(replayed.end).toEqual('complete');
        expect(ofRecords(replayed.events)).toEqual(ofRecords(live.events));
        expect(replayed.events).toEqual(observed(taskId));
      }
    });
    await fc.assert(property, { numRuns: 30, endOnFailure: true });
  });

  it('does so where a process died behind any record, and another went on', async () => {
    const property = fc.asyncProperty(randomScript, fc.nat(), async (script, place) => {
      const turn = await runTurn(script);
      const cut = 1 + (place % (turn.records.length - 1));
      const { taskId, live, records } = await dieAndResume(turn.records, { length: cut, script });
      for (const config of [{}, turn.given]) {
        const replayed = watch(replay(records, config, quickly));
        await replayed.ended;
        expect(replayed.end).toEqual('complete');
        expect(ofRecords(replayed.events)).toEqual(ofRecords(live.events));
        expect(replayed.events).toEqual(observed(taskId));
      }
    });
    await fc.assert(property, { numRuns: 30, endOnFailure: true });
  });

  it('plays the part of the extensions too, without their code', async () => {
    const property = fc.asyncProperty(randomScript, randomExtensions, async (script, extensions) => {
      const { taskId, live, records } = await runTurn(script, extensionsOf(extensions));
      const replayed = watch(replay(records, {}, quickly));
      await replayed.ended;
      expect(replayed.end).toEqual('complete');
      expect(ofRecords(replayed.events)).toEqual(ofRecords(live.events).filter(isRecorded));
      expectObserved(replayed.events, { taskId, records });
    });
    await fc.assert(property, { numRuns: 100, seed, endOnFailure: true });
  });

  it('does so where a process died between two appends of extensions, and another went on', async () => {
    const random = fc.tuple(randomScript, randomExtensions, fc.nat());
    const property = fc.asyncProperty(random, async ([script, extensions, place]) => {
      const turn = await runTurn(script, extensionsOf(extensions));
      const cuts = turn.records.flatMap((record, index) => (isCut(turn.records, index) ? [record.seq] : []));
      const length = cuts[place % cuts.length] ?? 1;
      const { taskId, records } = await dieAndResume(turn.records, {
        length,
        script,
        extensions: extensionsOf(extensions),
      });
      const replayed = watch(replay(records, {}, quickly));
      await replayed.ended;
      expect(replayed.end).toEqual('complete');
      expectObserved(replayed.events, { taskId, records });
    });
    await fc.assert(property, { numRuns: 100, seed, endOnFailure: true });
  });

  it.each([false, true])(
    'H-46 plays a call that was refused before one with which an extension failed the turn (a promise: %s)',
    async (later) => {
      const calls = [
        { name: 'instant', arguments: '{"of":', id: 'a' },
        { name: 'instant', arguments: '{}', id: 'b' },
      ];
      const steps = [{ text: [], toolCalls: calls }, { text: ['Done.'] }];
      const script: RandomScript = { steps, toolConcurrency: 3, synchronous: true, store: 'microtask' };
      const answer = { fail: { code: 'LIMIT', message: 'Enough.' } } as const;
      const limit: Extension = { name: 'limit', beforeToolCall: () => (later ? Promise.resolve(answer) : answer) };
      const turn = await runTurn(script, [limit]);
      const length = turn.records.findIndex(({ type }) => type === 'llm.done') + 1;
      const resumed = await dieAndResume(turn.records, { length, script, extensions: [limit] });
      const isRefused = (record: JournalRecord) =>
        record.type === 'tool.result' && record.error?.code === 'TOOL_ARGUMENTS';
      expect(resumed.records.filter(isRefused)).toHaveLength(1);
      for (const records of [turn.records, resumed.records]) {
        const replayed = watch(replay(records, {}, quickly));
        await replayed.ended;
        expect(replayed.end).toEqual('complete');
      }
    },
  );

  it('plays a call that was in doubt where the turn failed by another call before the process died', async () => {
    const calls = ['fails', 'instant', 'instant'].map((name, index) => ({ name, arguments: '{}', id: `${index}` }));
    const script: RandomScript = {
      steps: [{ text: [], toolCalls: calls }, { text: ['Done.'] }],
      toolConcurrency: 2,
      synchronous: true,
      store: 'at once',
    };
    const fail = { code: 'LIMIT', message: 'Enough.' } as const;
    const limit: Extension = {
      name: 'limit',
      afterToolCall: ({ result }) => (result.success ? undefined : { fail }),
    };
    const turn = await runTurn(script, [limit]);
    const length = turn.records.findIndex((record) => record.type === 'tool.result' && record.fails) + 1;
    const { records } = await dieAndResume(turn.records, { length, script, extensions: [limit] });
    expect(records.slice(length).map(({ type }) => type)).toEqual(['turn.resumed', 'turn.failed']);
    const replayed = watch(replay(records, {}, quickly));
    await replayed.ended;
    expect(replayed.end).toEqual('complete');
  });

  it('is the same in forgiving mode, without a deviation, also of a journal that stops anywhere', async () => {
    const property = fc.asyncProperty(randomScript, fc.nat(), async (script, place) => {
      const { records } = await runTurn(script);
      const some = records.slice(0, 1 + (place % records.length));
      const result = await replay(some, {}, { mode: 'forgiving', ...quickly }).result();
      expect(result).toMatchObject({ deviations: [], records: some });
    });
    await fc.assert(property, { numRuns: 30, endOnFailure: true });
  });

  it('is refused where the arguments of an intent are not those of its call', async () => {
    const toolCalls = [{ name: 'soon', arguments: '{"of":"apples"}', id: 'a' }];
    const script: RandomScript = {
      steps: [{ text: [], toolCalls }, { text: ['Done.'] }],
      toolConcurrency: 2,
      synchronous: true,
      store: 'at once',
    };
    const { records, given } = await runTurn(script);
    const edited = records.map((record) =>
      record.type === 'tool.intent' ? { ...record, arguments: { of: 'pears' } } : record,
    );
    await expect(replay(edited, given, quickly).result()).rejects.toMatchObject({ code: 'DEVIATION' });
  });

  it('is refused where one member of a record was changed that the loop makes itself', async () => {
    const property = fc.asyncProperty(randomScript, fc.nat(), async (script, place) => {
      const { records, given } = await runTurn(script);
      const members = records.flatMap((record, index) => leavesOf(record).map((path) => ({ index, path })));
      const made = members.filter(({ index, path }) => isMade(records, index, path));
      const { index, path } = made[place % made.length] ?? { index: 0, path: ['schema'] };
      const edited = records.map((record, each) =>
        each === index ? changed(record, path) : record,
      ) as JournalRecord[];
      const attempt = async () => replay(edited, given, { patienceMs: 100 }).result();
      await expect(attempt()).rejects.toMatchObject({ code: expect.stringMatching(/^(DEVIATION|POISON|SCHEMA)$/) });
    });
    await fc.assert(property, { numRuns: 60, endOnFailure: true });
  });
});

/** Failures of hooks are shown live alone. */
function isRecorded({ kind }: { readonly kind: string }): boolean {
  return kind !== 'internal:extension-error';
}

/** Whether a process can have died behind a record: what an extension changes stands in one append with what it is about. */
function isCut(records: readonly JournalRecord[], index: number): boolean {
  const next = records[index + 1];
  return next !== undefined && !('hook' in next && next.hook !== undefined) && !isTerminal(next);
}

type Path = readonly string[];

/** The paths to all members of a record that hold no others. */
function leavesOf(value: unknown, path: Path = []): readonly Path[] {
  if (typeof value !== 'object' || value === null) return [path];
  return Object.entries(value).flatMap(([name, member]) => leavesOf(member, [...path, name]));
}

/** Not what the loop is given: stamps, the start, the model's words, errors and usage, what tools gave. */
function isMade(records: readonly JournalRecord[], index: number, [name = '', next]: Path): boolean {
  const record = records[index];
  if (!record || record.type === 'turn.started' || ['epoch', 'at', 'durationMs'].includes(name)) return false;
  if (record.type === 'llm.done') {
    return !['usage', 'model'].includes(name) && !(name === 'message' && ['content', 'reasoning'].includes(next ?? ''));
  }
  if (isTerminal(record) && name === 'usage') return false;
  if (record.type === 'turn.failed') return name !== 'message';
  if (record.type !== 'tool.result') return true;
  const ran = records.some((each) => each.type === 'tool.intent' && each.callId === record.callId);
  return !ran || name === 'callId' || name === 'success' || name === 'seq';
}

function changed(value: unknown, [name, ...rest]: Path): unknown {
  if (name === undefined) {
    if (typeof value === 'string') return `${value}x`;
    return typeof value === 'number' ? value + 1 : !value;
  }
  if (Array.isArray(value)) return value.map((each, index) => (String(index) === name ? changed(each, rest) : each));
  return { ...Object(value), [name]: changed(Reflect.get(Object(value), name), rest) };
}
