import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { applyRecord, foldRecords, type JournalRecord, type LoopState, type Stamped, toPersisted } from 'millrace';
import { AgentLoop, isTerminal, taskState } from 'millrace/internals';
import type { TurnStarted } from 'millrace/types';
import { question } from './dead-turn.ts';
import { configOf, type RandomScript, randomScript } from './random-turns.ts';
import { turnBench } from './turn-bench.ts';
import { ofKind, ofRecords, textsOf, type Watcher, watch } from './watch-events.ts';

const bench = turnBench();
const runs = { numRuns: 40 };
let count = 0;

/** Runs a random turn to its end, with a subscriber from the start and one that joins somewhere. */
async function runTurn(script: RandomScript) {
  const taskId = `t${count++}`;
  const turn = new AgentLoop(configOf(script, bench)).startTurn(question, { taskId, contextId: 'c' });
  const late: Watcher[] = [];
  const live = watch(turn, ({ kind }) => {
    if (kind === 'internal:tool-complete' && late.length === 0) late.push(watch(turn));
  });
  await live.ended;
  await turn.settled;
  return { taskId, turn, live, late, records: bench.store.read(taskId) };
}

/** Writes the first records of a journal as a new task, as a process left them that died behind them. */
function cutAt(records: readonly JournalRecord[], length: number): string {
  const taskId = `t${count++}`;
  const [started, ...rest] = records.slice(0, length) as [Stamped<TurnStarted>, ...JournalRecord[]];
  const first = { ...started, taskId };
  bench.store.create(taskId, first);
  const lease = bench.store.acquire(taskId, 'the dead', 1_000);
  const status = taskState(foldRecords([first, ...rest]));
  bench.store.append(
    lease,
    rest.map((record) => ({ ...record, epoch: lease.epoch })),
    { status, barrier: true },
  );
  bench.leases.advance(1_000);
  return taskId;
}

function expectSameTurn(one: Watcher, other: Watcher | undefined) {
  expect(ofRecords(other?.events ?? [])).toEqual(ofRecords(one.events));
  expect(other?.end).toEqual(one.end);
}

/** What the artifacts hold, but for texts of calls that were never answered: those are in no journal. */
function recordedTexts({ events }: Watcher) {
  const answered = new Set(ofKind(events, 'internal:llm-response').map(({ iteration }) => `answer-${iteration}`));
  return Object.fromEntries(Object.entries(textsOf(events)).filter(([id, text]) => answered.has(id) && text !== ''));
}

function expectSoundJournal(records: readonly JournalRecord[]) {
  expect(records.map(({ seq }) => seq)).toEqual(records.map((_, index) => index + 1));
  expect(records.filter(isTerminal)).toEqual(records.slice(-1));
  const answers = records
    .filter(({ type }) => type === 'llm.done')
    .map((record) => 'iteration' in record && record.iteration);
  expect(answers).toEqual(answers.map((_, index) => index + 1));
  const results = records.flatMap((record) => (record.type === 'tool.result' ? [record.callId] : []));
  expect(new Set(results).size).toBe(results.length);
}

describe('any turn', () => {
  it('gives the same events of records live, to who joins later, observed afterwards, and replayed by a resume', async () => {
    const property = fc.asyncProperty(randomScript, async (script) => {
      const { taskId, turn, live, late } = await runTurn(script);
      const others = [
        ...late,
        watch(turn),
        watch(AgentLoop.observe(taskId, { store: bench.store })),
        watch(AgentLoop.resume(taskId, { ...configOf(script, bench), taskStateStore: bench.store })),
      ];
      for (const other of others) {
        await other.ended;
        expectSameTurn(live, other);
        expect(recordedTexts(other)).toEqual(recordedTexts(live));
      }
    });
    await fc.assert(property, runs);
  });

  it('S0-46 has a sound journal, one result a start, one end, and nothing behind it', async () => {
    const property = fc.asyncProperty(randomScript, async (script) => {
      const { live, records } = await runTurn(script);
      expectSoundJournal(records);
      const ids = (kind: 'internal:tool-start' | 'internal:tool-complete') =>
        ofKind<typeof kind>(live.events, kind).map(({ callId }) => callId);
      const completed = ids('internal:tool-complete');
      expect(new Set(completed).size).toBe(completed.length);
      for (const id of ids('internal:tool-start')) expect(completed.filter((each) => each === id)).toHaveLength(1);
      const finals = live.of('status-update').filter(({ final }) => final);
      expect(finals).toEqual([live.events.at(-1)]);
      expect(bench.store.list({ limit: 1 })).toMatchObject([{ held: false }]);
    });
    await fc.assert(property, runs);
  });

  it('S1-76 that dies behind any record and is resumed comes to the same end, and is shown alike to all', async () => {
    const property = fc.asyncProperty(randomScript, fc.nat(), async (script, place) => {
      const { turn, records } = await runTurn(script);
      const length = 1 + (place % (records.length - 1));
      const taskId = cutAt(records, length);
      const again = AgentLoop.resume(taskId, { ...configOf(script, bench), taskStateStore: bench.store });
      const live = watch(again);
      const late = watch(again);
      const [before, after] = await Promise.allSettled([turn.result(), again.result()]);
      await again.settled;
      expect(outcomeOf(after)).toEqual(outcomeOf(before));
      const all = bench.store.read(taskId);
      expectSoundJournal(all);
      expect(all.slice(1, length).map(typeAndCall)).toEqual(records.slice(1, length).map(typeAndCall));
      expectSameTurn(live, late);
      expectSameTurn(live, watch(AgentLoop.observe(taskId, { store: bench.store })));
    });
    await fc.assert(property, runs);
  });
});

function typeAndCall(record: JournalRecord) {
  return [record.type, 'callId' in record ? record.callId : undefined];
}

/** What a caller gets in the end, whatever became of it on the way. */
function outcomeOf(
  settled: PromiseSettledResult<{ text: string; allText: string; messages: unknown; toolCalls: number }>,
) {
  const told = settled.status === 'fulfilled' ? settled.value : settled.reason.result;
  const { text, allText, messages, toolCalls, status, reason } = told;
  return { text, allText, messages, toolCalls, status, reason };
}

describe('folding records', () => {
  it('S1-81 of any prefix and then of the rest comes to the fold of all, and leaves the state between untouched', async () => {
    const property = fc.asyncProperty(randomScript, async (script) => {
      const { records } = await runTurn(script);
      const whole = toPersisted(foldRecords(records));
      for (let length = 1; length <= records.length; length++) {
        const between = foldRecords(records.slice(0, length));
        const before = JSON.stringify(toPersisted(between));
        for (const _ of ['once', 'again']) {
          const folded = records.slice(length).reduce<LoopState>(applyRecord, between);
          expect(toPersisted(folded)).toEqual(whole);
        }
        expect(JSON.stringify(toPersisted(between))).toBe(before);
      }
    });
    await fc.assert(property, { numRuns: 20 });
  });
});
