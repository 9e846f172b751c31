import { Readable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { type AgentEvent, AgentLoopError } from 'millrace';
import { iterateEvents } from 'millrace/internals';
import { faultyStore } from 'millrace/testing';
import { Subject } from 'rxjs';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { ofRecords, outlineOf, textsOf, watch } from './watch-events.ts';

const bench = turnBench();
const base = { taskId: 't', contextId: 'c', agentId: 'a', timestamp: '2030-01-01T00:00:00.000Z' };

function text(piece: string, changes: { append?: boolean; lastChunk?: boolean; of?: number } = {}): AgentEvent {
  const { append = true, lastChunk = false, of = 1 } = changes;
  const artifact = { artifactId: `answer-${of}`, parts: [{ kind: 'text' as const, text: piece }] };
  return { kind: 'artifact-update', ...base, artifact, append, lastChunk };
}

function reasoning(piece: string, iteration = 1): AgentEvent {
  return { kind: 'internal:reasoning-delta', ...base, iteration, text: piece };
}

function fragment(piece: string, index: number, toolName?: string): AgentEvent {
  return {
    kind: 'internal:tool-call-delta',
    ...base,
    iteration: 1,
    callId: `1:${index}`,
    index,
    arguments: piece,
    ...(toolName ? { toolName } : {}),
  };
}

/** What a reader gets of events that came before it asked. */
async function readLate(events: readonly AgentEvent[]): Promise<readonly string[]> {
  const source = new Subject<AgentEvent>();
  const iterator = iterateEvents(source);
  const first = iterator.next();
  source.next(reasoning('first', 0));
  for (const event of events) source.next(event);
  source.complete();
  const read: AgentEvent[] = [];
  await first;
  for await (const event of iterator) read.push(event);
  return outlineOf(read);
}

async function readAll(turn: AsyncIterable<AgentEvent>): Promise<AgentEvent[]> {
  const read: AgentEvent[] = [];
  for await (const event of turn) read.push(event);
  return read;
}

describe('for await over a Turn', () => {
  it('S1-08 starts the turn with the first event that is asked for, not before', async () => {
    const model = bench.model([{ text: 'Two.' }]);
    const turn = bench.loop([], { llmProvider: model }).startTurn(question, { taskId: 't' });
    const iterator = turn[Symbol.asyncIterator]();
    expect([model.calls.length, bench.store.list().length]).toEqual([0, 0]);
    expect(await iterator.next()).toMatchObject({ done: false, value: { kind: 'task' } });
    await turn.settled;
    await iterator.return?.();
  });

  it('gives every event of a record that a subscriber sees and the same text, and ends behind the last', async () => {
    const loop = bench.loop([{ text: 'Let me count.', toolCalls: [{ name: 'count' }] }, { text: ['Two', '.'] }], {
      toolProviders: [plainTools({ count: () => 2 })],
    });
    const turn = loop.startTurn(question);
    const watcher = watch(turn);
    for (const read of [await readAll(turn), await readAll(turn)]) {
      expect(ofRecords(read)).toEqual(ofRecords(watcher.events));
      expect(textsOf(read)).toEqual(textsOf(watcher.events));
      expect(read.at(-1)).toMatchObject({ status: { state: 'completed' }, final: true });
    }
  });

  it('S0-49 cancels the turn where a loop breaks off that was its only reader', async () => {
    const model = bench.model([{ text: ['One', ', two', ', three'], never: true }]);
    const turn = bench.loop([], { llmProvider: model }).startTurn(question, { taskId: 't' });
    for await (const event of turn) if (event.kind === 'artifact-update') break;
    await turn.settled;
    expect(model.unsubscribed).toBe(1);
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'turn.canceled' });
  });

  it('leaves the turn alone where a loop breaks off and another reader stays', async () => {
    const turn = bench.loop([{ text: ['One', ', two'] }]).startTurn(question);
    const watcher = watch(turn);
    for await (const event of turn) if (event.kind === 'artifact-update') break;
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'One, two' });
    expect(watcher.end).toBe('complete');
  });

  it('S0-56 yields the failure of the provider as its last event, and does not throw', async () => {
    const turn = bench.loop([{ error: new AgentLoopError('PROVIDER_SERVER', 'down') }]).startTurn(question);
    const events = await readAll(turn);
    expect(events.at(-1)).toMatchObject({
      status: { state: 'failed' },
      final: true,
      error: { code: 'PROVIDER_SERVER' },
    });
  });

  it('throws where the turn is lost, once', async () => {
    const taskStateStore = faultyStore(bench.store, [
      { method: 'append', call: 2, fault: 'fail-before', error: new AgentLoopError('REWOUND', 'cut') },
    ]);
    const turn = bench.loop([{ text: 'Two.' }], { taskStateStore }).startTurn(question);
    const iterator = turn[Symbol.asyncIterator]();
    const read = async () => {
      for (;;) if ((await iterator.next()).done) return;
    };
    await expect(read()).rejects.toMatchObject({ code: 'REWOUND' });
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    await expect(turn.settled).rejects.toMatchObject({ code: 'REWOUND' });
  });

  it('is left by return() also while it waits for an event: the wait ends, the turn is cancelled', async () => {
    const turn = bench.loop([{ never: true }]).startTurn(question, { taskId: 't' });
    const iterator = turn[Symbol.asyncIterator]();
    for (let event = await iterator.next(); event.value?.kind !== 'internal:llm-call'; ) event = await iterator.next();
    const waits = iterator.next();
    await iterator.return?.();
    expect(await waits).toEqual({ done: true, value: undefined });
    await turn.settled;
    expect(bench.store.list()).toMatchObject([{ state: 'canceled', held: false }]);
  });

  it('is left by a stream that was made of it and is destroyed, also while the model is silent', async () => {
    const turn = bench.loop([{ never: true }]).startTurn(question, { taskId: 't' });
    const stream = Readable.from(turn);
    await new Promise<void>((resolve) => {
      stream.on('data', (event: AgentEvent) => event.kind === 'internal:llm-call' && resolve());
    });
    stream.destroy();
    await turn.settled;
    expect(bench.store.list()).toMatchObject([{ state: 'canceled' }]);
  });

  it('does not start a turn that is left before the first event was asked for', async () => {
    const turn = bench.loop([]).startTurn(question, { taskId: 't' });
    const iterator = turn[Symbol.asyncIterator]();
    await iterator.return?.();
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    expect(bench.store.list()).toEqual([]);
  });

  it('answers several waiting next() in order', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question);
    const iterator = turn[Symbol.asyncIterator]();
    const kinds = await Promise.all([1, 2, 3, 4, 5, 6].map(async () => (await iterator.next()).value?.kind));
    expect(kinds).toEqual([
      'task',
      'status-update',
      'internal:checkpoint',
      'internal:iteration-start',
      'internal:llm-call',
      'artifact-update',
    ]);
    await iterator.return?.();
    await turn.settled;
  });
});

describe('a reader that is slower than the turn', () => {
  it('gets the pieces of a text that came meanwhile as one', async () => {
    const pieces = Array.from({ length: 1_000 }, () => text('x'));
    expect(await readLate([text('x', { append: false }), ...pieces])).toEqual([`answer-1 is: "${'x'.repeat(1_001)}"`]);
  });

  it('gets a text anew where it was replaced, and its last chunk and other texts on their own', async () => {
    const events = [
      text('a', { append: false }),
      text('b', { append: false }),
      text('c'),
      text('', { lastChunk: true }),
      text('d', { of: 2 }),
    ];
    expect(await readLate(events)).toEqual([
      'answer-1 is: "a"',
      'answer-1 is: "bc"',
      'answer-1 appends, last: ""',
      'answer-2 appends: "d"',
    ]);
  });

  it('gets reasoning of one iteration, and the arguments of one call, as one', async () => {
    const events = [reasoning('a'), reasoning('b'), reasoning('c', 2), fragment('{', 0, 'left'), fragment('}', 0)];
    expect(await readLate([...events, fragment('{', 1, 'right'), fragment('}', 1)])).toEqual([
      'reasoning-delta "ab"',
      'reasoning-delta "c"',
      'tool-call-delta 0 left{}',
      'tool-call-delta 1 right{}',
    ]);
  });

  it('gets what another event stands between in pieces, in order', async () => {
    expect(await readLate([text('a', { append: false }), reasoning('hm'), text('b')])).toEqual([
      'answer-1 is: "a"',
      'reasoning-delta "hm"',
      'answer-1 appends: "b"',
    ]);
  });
});
