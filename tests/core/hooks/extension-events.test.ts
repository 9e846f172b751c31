import { describe, expect, it } from '@jest/globals';
import {
  type AgentEvent,
  agent,
  agentTools,
  type Extension,
  type ExtensionEvent,
  InMemoryStateStore,
  type JournalRecord,
  replay,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type ScriptedLLMStep } from 'millrace/testing';
import type { EmittedEvent } from 'millrace/types';
import { question } from '../dead-turn.ts';
import { plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { watch } from '../watch-events.ts';

const bench = turnBench();
const look: ScriptedLLMStep = { toolCalls: [{ name: 'look' }] };
const done: ScriptedLLMStep = { text: 'Done.' };
const toolProviders = [plainTools({ look: () => 'a tree' })];

const isExtensionEvent = (event: AgentEvent): event is ExtensionEvent => event.kind.startsWith('internal:x.');
/** The events of extensions, in order. */
const shownIn = (events: readonly AgentEvent[]) => events.filter(isExtensionEvent);
const shortOf = ({ kind, iteration, payload }: ExtensionEvent) => [kind, iteration, payload];

/** Shows one event at each hook that may. */
const everywhere: Extension = {
  name: 'every',
  beforeTurn: () => ({ events: [{ payload: 'beforeTurn' }] }),
  prepareIteration: () => ({ events: [{ payload: 'prepareIteration' }] }),
  afterLLMCall: () => ({ events: [{ payload: 'afterLLMCall' }] }),
  afterToolCall: () => ({ events: [{ payload: 'afterToolCall' }] }),
  afterIteration: () => ({ events: [{ payload: 'afterIteration' }] }),
  beforeFinish: () => ({ events: [{ payload: 'beforeFinish' }] }),
};

/** Counts in its data, and shows two events each time. */
const counting: Extension = {
  name: 'count.er',
  afterIteration({ data }) {
    const count = typeof data === 'number' ? data + 1 : 1;
    return { data: count, events: [{ name: 'first', payload: { count } }, { label: `counted to ${count}` }] };
  },
};

describe('events of an extension', () => {
  it('have a kind of their own, whose they are, and what the extension gave, at their place in the stream', async () => {
    const loop = bench.loop([look, done], { toolProviders, extensions: [counting] });
    const watcher = watch(loop.startTurn(question, { taskId: 't', contextId: 'c' }));
    await watcher.ended;
    const base = { taskId: 't', contextId: 'c', agentId: 'tester', extension: 'count.er', cursor: expect.any(String) };
    expect(shownIn(watcher.events)).toEqual(
      [
        { kind: 'internal:x.count.er.first', iteration: 1, payload: { count: 1 } },
        { kind: 'internal:x.count.er', iteration: 1, label: 'counted to 1' },
        { kind: 'internal:x.count.er.first', iteration: 2, payload: { count: 2 } },
        { kind: 'internal:x.count.er', iteration: 2, label: 'counted to 2' },
      ].map((event) => ({ ...base, timestamp: '2030-01-01T00:00:00.000Z', ...event })),
    );
    const kinds = watcher.events.map(({ kind }) => kind);
    expect(kinds.indexOf('internal:x.count.er.first')).toBe(kinds.indexOf('internal:iteration-complete') + 1);
    expect(kinds.at(-1)).toBe('status-update');
  });

  it('may come from every hook whose changes are recorded', async () => {
    const loop = bench.loop([look, done], { toolProviders, extensions: [everywhere] });
    const watcher = watch(loop.startTurn(question));
    await watcher.ended;
    expect(shownIn(watcher.events).map(shortOf)).toEqual(
      [
        ['beforeTurn', 0],
        ['prepareIteration', 0],
        ['afterLLMCall', 1],
        ['afterToolCall', 1],
        ['afterIteration', 1],
        ['prepareIteration', 1],
        ['afterLLMCall', 2],
        ['beforeFinish', 2],
        ['afterIteration', 2],
      ].map(([hook, iteration]) => ['internal:x.every', iteration, hook]),
    );
  });

  it('are refused at a hook whose answers are not recorded', async () => {
    const events = [{ payload: 1 }];
    const answer = JSON.parse(JSON.stringify({ events }));
    for (const [hook, steps] of [
      ['beforeLLMCall', []],
      ['beforeToolCall', [look]],
      ['afterTurn', [done]],
    ] as const) {
      const loop = bench.loop(steps, { toolProviders, extensions: [{ name: 'wrong', [hook]: () => answer }] });
      await expect(loop.startTurn(question).result()).rejects.toMatchObject({
        code: 'EXTENSION_FAILED',
        message: expect.stringContaining(`failed in ${hook}: unknown property "events"`),
      });
    }
  });

  it('are told to late subscribers, to readers of the journal and behind a cursor, the same in the same order', async () => {
    const rest = gate();
    const steps = [look, look, { text: ['Do', rest.pass(), 'ne.'] }];
    const turn = bench
      .loop(steps, { toolProviders, extensions: [counting, everywhere] })
      .startTurn(question, { taskId: 't' });
    const first = watch(turn);
    await first.until('artifact-update');
    const late = watch(turn);
    expect(shownIn(late.events).length).toBeGreaterThan(8);
    rest.open();
    await late.ended;
    const shown = shownIn(first.events);
    expect(shownIn(late.events)).toEqual(shown);
    const store = { store: bench.store, clock: bench.clock };
    const read = watch(AgentLoop.observe('t', store));
    await read.ended;
    expect(shownIn(read.events)).toEqual(shown);
    const behind = watch(AgentLoop.observe('t', { ...store, from: shown[4]?.cursor ?? '' }));
    await behind.ended;
    expect(shownIn(behind.events)).toEqual(shown.slice(5));
  });

  it('come once each where the turn is resumed by another process, those of the first process before its own', async () => {
    const stop = new AbortController();
    const stopping: Extension = { name: 'stop', afterIteration: () => stop.abort() };
    const config = bench.config(bench.model([look]), {
      toolProviders,
      extensions: [counting, stopping],
      shutdown: stop.signal,
    });
    const first = watch(new AgentLoop(config).startTurn(question, { taskId: 't' }));
    await first.ended;
    expect(first.end).toMatchObject({ error: { code: 'SHUTDOWN' } });
    const again = bench.config(bench.model([look, done]), { toolProviders, extensions: [counting] });
    const second = watch(AgentLoop.resume('t', again));
    await second.ended;
    const counts = shownIn(second.events).flatMap(({ payload }) => payload ?? []);
    expect(counts).toEqual([{ count: 1 }, { count: 2 }, { count: 3 }]);
    const read = watch(AgentLoop.observe('t', { store: bench.store, clock: bench.clock }));
    await read.ended;
    expect(shownIn(read.events)).toEqual(shownIn(second.events));
  });

  it('come about again in a replay, without the extension', async () => {
    const loop = bench.loop([look, done], { toolProviders, extensions: [counting, everywhere] });
    const watcher = watch(loop.startTurn(question, { taskId: 't' }));
    await watcher.ended;
    const records = bench.store.read('t');
    const replayed = watch(replay(records));
    await replayed.ended;
    expect([replayed.end, shownIn(replayed.events)]).toEqual(['complete', shownIn(watcher.events)]);
  });

  it('of a child turn come wrapped, as its other events do', async () => {
    const store = new InMemoryStateStore();
    const child = agent({ id: 'child', provider: bench.model([done]), extensions: [counting] });
    const loop = bench.loop([{ toolCalls: [{ name: 'child', arguments: { message: 'Go.' } }] }, done], {
      toolProviders: [agentTools([child])],
      taskStateStore: store,
    });
    const watcher = watch(loop.startTurn(question));
    await watcher.ended;
    expect(shownIn(watcher.events)).toEqual([]);
    const below = watcher.of('internal:sub-agent').map(({ event }) => event);
    expect(shownIn(below).map(shortOf)).toEqual([
      ['internal:x.count.er.first', 1, { count: 1 }],
      ['internal:x.count.er', 1, undefined],
    ]);
    await child.close();
  });

  it('reach the listeners of an agent by their kind', async () => {
    const told: unknown[] = [];
    const ada = agent({ id: 'ada', provider: bench.model([done]), extensions: [counting] });
    ada.on('internal:x.count.er.first', ({ kind, payload }) => told.push([kind, payload]));
    await ada.run('Go.');
    expect(told).toEqual([['internal:x.count.er.first', { count: 1 }]]);
    const unknown: string = 'internal:y.count';
    expect(() => Reflect.apply(ada.on, ada, [unknown, () => {}])).toThrow(/internal:x\.<extension>/);
    await ada.close();
  });
});

describe('what an extension may show', () => {
  const cyclic: { self?: unknown } = {};
  cyclic.self = cyclic;
  const wrong: readonly (readonly [string, unknown, RegExp])[] = [
    ['an object in place of the list', { payload: 1 }, /its events must be an array/],
    ['a string as an event', ['done'], /events\[0\] must be \{ name, payload, label \}, not/],
    ['null as an event', [{}, null], /events\[1\] must be/],
    ['a kind', [{ kind: 'status-update' }], /events\[0\] has "kind", which is unknown; give name, payload, label/],
    ['an empty name', [{ name: '' }], /events\[0\]\.name must be 1-100 letters/],
    ['a name with a space', [{ name: 'a b' }], /events\[0\]\.name must be 1-100 letters/],
    ['a long name', [{ name: 'n'.repeat(101) }], /events\[0\]\.name must be 1-100 letters/],
    ['a label of blanks', [{ label: ' ' }], /events\[0\]\.label must be a line of 1-200 characters/],
    ['a label that is no string', [{ label: 7 }], /events\[0\]\.label must be/],
    ['a long label', [{ label: 'l'.repeat(201) }], /events\[0\]\.label must be/],
    ['a function as payload', [{ payload: () => 1 }], /events\[0\]\.payload is not JSON/],
    ['a payload that contains itself', [{ payload: cyclic }], /events\[0\]\.payload is not JSON/],
    ['101 events', Array.from({ length: 101 }, () => ({})), /gives 101 events at once, at most 100/],
    ['too much', [{ payload: 'x'.repeat(262_144) }], /its events take 262\d{3} bytes as JSON, at most 262144/],
    ['too much in UTF-8', [{ payload: '€'.repeat(90_000) }], /its events take 270\d{3} bytes as JSON/],
    ['too much in all', Array(3).fill({ payload: 'x'.repeat(90_000) }), /its events take 270\d{3} bytes/],
  ];

  it.each(wrong)('is not %s', async (_, given, message) => {
    const events = given as readonly EmittedEvent[];
    const loop = bench.loop([], { extensions: [{ name: 'wrong', beforeTurn: () => ({ events }) }] });
    await expect(loop.startTurn(question, { taskId: 't' }).result()).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: expect.stringMatching(message),
    });
    expect(JSON.stringify(bench.store.read('t'))).not.toContain('x.wrong');
  });

  it('is up to 100 events and 262,144 bytes', async () => {
    const many = Array.from({ length: 100 }, (_, n) => ({ name: `n-${n}`, label: 'l'.repeat(200) }));
    const large = [{ payload: 'x'.repeat(262_144 - '[{"payload":""}]'.length) }];
    const shows = { name: 'shows', beforeTurn: () => ({ events: many }), afterIteration: () => ({ events: large }) };
    const watcher = watch(bench.loop([done], { extensions: [shows] }).startTurn(question));
    await watcher.ended;
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'completed' } });
    expect(shownIn(watcher.events)).toHaveLength(101);
  });

  it('is kept as JSON keeps it, and not changed by who gave it', async () => {
    const payload = { at: new Date(0), nested: { n: 1 } };
    const shows: Extension = {
      name: 'shows',
      beforeTurn: () => ({ events: [{ payload }] }),
      prepareIteration: () => {
        payload.nested.n = 2;
      },
    };
    const watcher = watch(bench.loop([done], { extensions: [shows] }).startTurn(question));
    await watcher.ended;
    expect(shownIn(watcher.events)[0]?.payload).toEqual({ at: '1970-01-01T00:00:00.000Z', nested: { n: 1 } });
  });

  it('leaves no record where there is none', async () => {
    const shows = { name: 'shows', beforeTurn: () => ({ events: [] }) };
    await bench
      .loop([done], { extensions: [shows] })
      .startTurn(question, { taskId: 't' })
      .result();
    expect(bench.store.read('t').map(({ type }) => type)).not.toContain('x.shows');
  });
});

describe('a journal with events of extensions that are none', () => {
  it.each([
    ['is no list', { name: 'a' }, /x\.shows needs events, a list/],
    ['holds null', [null], /x\.shows: an event is an object/],
    ['holds a name that is a number', [{ name: 7 }], /needs name, a string/],
    ['holds a label that is an object', [{ label: {} }], /needs label, a string/],
  ])('is POISON where it %s', async (_, events, message) => {
    await bench.loop([done]).startTurn(question, { taskId: 't' }).result();
    const [started, ...rest] = bench.store.read('t');
    const shown = JSON.parse(JSON.stringify({ type: 'x.shows', events, seq: 2, epoch: 1, at: 0 }));
    const records = [started, shown, ...rest].flatMap((record) => record ?? []);
    expect(() => replay(records)).toThrow(
      expect.objectContaining({ code: 'POISON', message: expect.stringMatching(message) }),
    );
  });
});

describe('a journal of version 0.1', () => {
  const shown = { replaced: 4, summary: 'Looked.', tokensBefore: 900, tokensAfter: 100 };

  /** The journal of a turn, its event written as version 0.1 did. */
  async function written(): Promise<readonly JournalRecord[]> {
    const shows: Extension = {
      name: 'compaction',
      afterIteration: ({ finished }) => (finished ? undefined : { data: 1, events: [{ payload: shown }] }),
    };
    const loop = bench.loop([look, done], { toolProviders, extensions: [shows] });
    await loop.startTurn(question, { taskId: 't' }).result();
    return bench.store.read('t').map((record): JournalRecord => {
      if (!('events' in record)) return record;
      const { events: _, ...rest } = record;
      return { ...rest, event: { kind: 'internal:compaction', ...shown } };
    });
  }

  it('shows its event under the name of the extension, and is replayed', async () => {
    const records = await written();
    expect(JSON.stringify(records)).toContain('"event":{"kind":"internal:compaction"');
    const replayed = watch(replay(records));
    await replayed.ended;
    expect(replayed.end).toBe('complete');
    expect(shownIn(replayed.events).map(shortOf)).toEqual([['internal:x.compaction', 1, shown]]);
  });
});
