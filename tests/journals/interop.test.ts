import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { foldRecords, InMemoryStateStore, type JournalRecord, replay, type Turn, toPersisted } from 'millrace';
import type { TaskDetail } from 'millrace/inspect';
import { AgentLoop, formatJournal, innermostQuestion, parseJournal } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { fakeClock } from 'millrace/testing';
import type { TaskStateStore } from 'millrace/types';
import { firstValueFrom, toArray } from 'rxjs';
import { ofRecords, watch } from '../core/watch-events.ts';
import { InspectClient } from '../inspect/inspect-client.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { endOf, foldsOf, played, type RecordedTurn, recorded } from './played.ts';
import { recordsAfter, restore, type Step } from './recorded-steps.ts';
import { knownTurns, type Process, resumedBy, taskId, unrepeatable } from './turns.ts';

const fixtures = join(import.meta.dirname, '../fixtures/journals-0.1');
const names = readdirSync(fixtures, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.json'));

const stores = new TemporaryStores();
afterAll(() => stores.clear());

function recordedTurn(name: string) {
  const known = knownTurns[/(?<name>[^/]+)\.json$/.exec(name)?.groups?.['name'] ?? ''];
  if (known === undefined) throw new Error(`${name} is the fixture of no turn`);
  const { end, folds, steps }: RecordedTurn = JSON.parse(readFileSync(join(fixtures, name), 'utf8'));
  if (end.text === '' || end.messages.at(-1)?.role === 'assistant') return { known, steps, folds, end };
  // Recorded before the final text of a turn became its last message.
  const messages = [...end.messages, { role: 'assistant' as const, content: end.text }];
  const last = folds.map((fold, index) =>
    index === folds.length - 1 ? { ...fold, messages: `${fold.messages} assistant` } : fold,
  );
  return { known, steps, folds: last, end: { ...end, messages } };
}

/** The lengths of the prefixes that end with records, from the one that has the turn: a fork has it once all copied records are there. */
function cutsOf(steps: readonly Step[]): readonly number[] {
  return steps.flatMap((step, index) => {
    if (step.do !== 'create' && step.do !== 'append') return [];
    const records = recordsAfter(steps.slice(0, index + 1)).get(taskId) ?? [];
    const [first] = records;
    const copied = first?.type === 'turn.started' ? (first.forkedFrom?.records ?? 1) : Number.POSITIVE_INFINITY;
    return records.length < copied ? [] : [index + 1];
  });
}

/** What is known of the tool calls of a prefix, by `<taskId>:<callId>`. */
function callsIn(steps: readonly Step[]) {
  const finished = new Set<string>();
  const inDoubt = new Map<string, string>();
  for (const [task, records] of recordsAfter(steps)) {
    const tools = new Map<string, string>();
    for (const record of records) {
      if (record.type === 'llm.done')
        for (const { callId, call } of record.calls) tools.set(callId, call.function.name);
      if (record.type === 'tool.intent') inDoubt.set(`${task}:${record.callId}`, tools.get(record.callId) ?? '');
      if (record.type === 'turn.asked') inDoubt.delete(`${task}:${record.question.callId}`);
      if (record.type !== 'tool.result') continue;
      inDoubt.delete(`${task}:${record.callId}`);
      finished.add(`${task}:${record.callId}`);
    }
  }
  return { finished, unknown: [...inDoubt].filter(([, tool]) => tool === unrepeatable).map(([key]) => key) };
}

function processOf(store: TaskStateStore) {
  const ran: string[] = [];
  const clock = fakeClock({ startAt: Date.UTC(2030, 0, 1) });
  const process: Process = { store, clock, ran: (key) => ran.push(key), failures: 0 };
  return { process, ran };
}

/** Puts the prefix into the store and resumes the turn. */
async function resumed(name: string, cut: number, store: TaskStateStore) {
  const { known, steps, end } = recordedTurn(name);
  const prefix = steps.slice(0, cut);
  await restore(store, prefix);
  // The right to a child turn follows from its parent; before schema 2 its lease had to end.
  for (const step of prefix) if (step.do === 'acquire' && !step.under) await store.breakLease(step.taskId);
  const { process, ran } = processOf(store);
  const result = await played(known, () => process, 'resume');
  return { known, process, prefix, whole: end, end: endOf(result), ran, calls: callsIn(prefix) };
}

type Ended = Awaited<ReturnType<typeof resumed>>;

/** Before schema 2, the result of a call did not count what its child turn used. */
function countsAll(steps: readonly Step[]): boolean {
  return [...recordsAfter(steps).values()].every(([first]) => !(first?.type === 'turn.started' && first.schema < 2));
}

/** All that a journal says was used. */
function tokensIn(records: readonly JournalRecord[]): number {
  const used = records.map((record) => {
    const of = 'effects' in record ? record.effects : record;
    return of && 'usage' in of ? (of.usage?.totalTokens ?? 0) : 0;
  });
  return used.reduce((sum, tokens) => sum + tokens, 0);
}

/** The end of the whole turn, where the result of the call in doubt is that its outcome is unknown. */
function expectSameEnd({ prefix, end, whole, calls }: Ended): void {
  const messages = whole.messages.map((message) => {
    const isUnknown = calls.unknown.length > 0 && message.role === 'tool' && message.content === 'paid';
    return isUnknown ? { ...message, status: 'error', content: expect.stringContaining('OUTCOME_UNKNOWN') } : message;
  });
  const usage = countsAll(prefix) ? whole.usage : end.usage;
  expect({ cut: prefix.length, ...end }).toEqual({ cut: prefix.length, ...whole, usage, messages });
}

/** Finished calls are not run again, those in doubt as their tools allow, all others once. */
function expectRuns({ ran, calls }: Ended): void {
  expect(ran.filter((key) => calls.finished.has(key) || calls.unknown.includes(key))).toEqual([]);
  expect(new Set(ran).size).toBe(ran.length);
}

/** The records of before, of all turns, are there unchanged but for their epochs, and follow one another. */
async function expectJournals(store: TaskStateStore, { prefix, end }: Ended): Promise<void> {
  expect(tokensIn(await store.read(taskId))).toBe(end.usage.totalTokens);
  for (const [task, before] of recordsAfter(prefix)) {
    const records = await store.read(task);
    expect(records.slice(0, before.length).map(withoutEpoch)).toEqual(before.map(withoutEpoch));
    expect(records.map(({ seq }) => seq)).toEqual(records.map((_, index) => index + 1));
    expect(await store.describe(task)).toMatchObject({ state: 'completed' });
  }
}

describe.each(names)('K-02 the journal %s', (name) => {
  const { known, steps, folds, end: whole } = recordedTurn(name);
  const cuts = cutsOf(steps);

  it('is folded, record by record, into the states that it had', () => {
    expect(foldsOf(steps)).toEqual(folds);
  });

  it('is replayed as it was recorded', async () => {
    for (const records of recordsAfter(steps).values()) {
      const { status, deviations } = await replay(records).result();
      expect([status, deviations]).toEqual(['completed', []]);
    }
  });

  it('asks what it asked', async () => {
    const asks = cuts.flatMap((cut) => (isSuspended(steps[cut - 1]) ? [cut] : []));
    const asked: string[] = [];
    for (const cut of asks) {
      const store = new InMemoryStateStore();
      await restore(store, steps.slice(0, cut));
      const turn = await resumedBy(known.runner(processOf(store).process));
      const { questions } = await turn.result();
      asked.push(
        questions
          .map(innermostQuestion)
          .map(({ kind, toolName }) => `${kind} of ${toolName}`)
          .join(', '),
      );
    }
    expect(asked).toEqual(known.asks ?? []);
  });

  it('is resumed from each append to the same end', async () => {
    for (const cut of cuts) {
      const store = new InMemoryStateStore();
      const ended = await resumed(name, cut, store);
      expectSameEnd(ended);
      expectRuns(ended);
      await expectJournals(store, ended);
    }
  });

  it('is resumed from LMDB', async () => {
    const store = new LmdbStateStore({ path: stores.path() });
    for (const cut of cuts.filter((_, index) => index % 4 === 1)) {
      const ended = await resumed(name, cut, store);
      expectSameEnd(ended);
      expectRuns(ended);
      await expectJournals(store, ended);
      for (const task of recordsAfter(steps).keys()) await store.delete(task);
    }
    await store.close();
  });

  it('is read by every reader, whole and where it was resumed', async () => {
    for (const cut of [steps.length, cuts[Math.floor(cuts.length / 2)] ?? 1]) {
      const store = new InMemoryStateStore();
      const { process } = await resumed(name, cut, store);
      const events = watch(AgentLoop.observe(taskId, { store }));
      await events.ended;
      expect([events.end, events.events.at(-1)]).toMatchObject([
        'complete',
        { kind: 'status-update', final: true, status: { state: 'completed' } },
      ]);
      const turn = await resumedBy(known.runner(process));
      const again = watch(turn);
      await again.ended;
      expect(ofRecords(again.events)).toEqual(ofRecords(events.events));
      expect(await textOf(turn)).toBe((await turn.result()).allText);
      const client = new InspectClient({ store });
      const detail = await client.get<TaskDetail>(`tasks/${taskId}`);
      expect(detail).toMatchObject({ summary: { state: 'completed' }, toolCalls: whole.toolCalls });
      expect((await client.allRows(taskId)).filter(({ state }) => state === 'running')).toEqual([]);
    }
  });
});

describe.each(Object.entries(knownTurns))('K-02 the journal that this version writes of the turn %s', (_, known) => {
  it.each([
    ['the memory store', () => new InMemoryStateStore()],
    ['LMDB', () => new LmdbStateStore({ path: stores.path() })],
  ] as const)('passes the check of records, and %s reads, follows, folds and describes it', async (__, open) => {
    const { steps } = await recorded(known);
    const store: TaskStateStore & { readonly close?: () => unknown } = open();
    await restore(store, steps);
    for (const [task, written] of recordsAfter(steps)) {
      expect(parseJournal(formatJournal(written))).toEqual(written);
      const records = await store.read(task);
      expect(records.map(withoutEpoch)).toEqual(written.map(withoutEpoch));
      const followed = await firstValueFrom(store.follow(task).pipe(toArray()));
      expect(followed.flatMap((signal) => (signal.type === 'delta' ? [] : [signal.record]))).toEqual(records);
      expect(await store.load(task)).toEqual(toPersisted(foldRecords(records)));
      expect(await store.describe(task)).toMatchObject({ state: 'completed', seq: records.length });
    }
    await store.close?.();
  });
});

const withoutEpoch = ({ epoch: _, ...record }: JournalRecord) => record;

/** Whether the turn, and not a child turn, waits for answers after it. */
function isSuspended(step: Step | undefined): boolean {
  return step?.do === 'append' && step.taskId === taskId && step.status === 'input-required';
}

async function textOf(turn: Turn): Promise<string> {
  let all = '';
  for await (const text of turn.text()) all += text;
  return all;
}
