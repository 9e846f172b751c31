import { describe, expect, it } from '@jest/globals';
import type { AgentEvent, ToolContext, ToolListContext } from 'millrace';
import { AgentLoop, Turn } from 'millrace/internals';
import { gate, type ScriptedLLMStep } from 'millrace/testing';
import { filter, firstValueFrom, isObservable, lastValueFrom, Subscriber, take } from 'rxjs';
import { question } from './dead-turn.ts';
import { obedient, plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { type EventOf, ofRecords, outlineOf, textOfParts, textsOf, watch } from './watch-events.ts';

const bench = turnBench();

/** A turn whose model has said half of its answer, and says the rest when `rest` opens. */
async function halfAnswered(options: { readonly detached?: boolean } = {}) {
  const rest = gate();
  const model = bench.model([{ text: ['One', rest.pass(), ', two.'] }]);
  const turn = new AgentLoop(bench.config(model)).startTurn(question, { taskId: 't', ...options });
  const first = watch(turn);
  await first.until('artifact-update');
  return { turn, first, rest, model };
}

/** Hears whatever it is told, also behind its unsubscription: RxJS lets nothing of that through to an observer. */
class UnguardedSubscriber extends Subscriber<AgentEvent> {
  readonly told: unknown[] = [];

  override next(event: AgentEvent): void {
    this.told.push(event);
  }

  override error(error: unknown): void {
    this.told.push(error);
  }

  override complete(): void {
    this.told.push('complete');
  }
}

function lastRecord() {
  return bench.store.read('t').at(-1);
}

describe('what startTurn returns', () => {
  it('S1-08 is an Observable and an AsyncIterable, with taskId, result, settled, cancel, pause and steer', async () => {
    const turn = bench.loop([]).startTurn(question, { taskId: 't' });
    expect(isObservable(turn)).toBe(true);
    expect(turn).toBeInstanceOf(Turn);
    expect(turn).toMatchObject({
      taskId: 't',
      result: expect.any(Function),
      settled: expect.any(Promise),
      cancel: expect.any(Function),
      pause: expect.any(Function),
      steer: expect.any(Function),
      [Symbol.asyncIterator]: expect.any(Function),
    });
  });

  it('has no then: an async function that returns a turn gives the turn, not its result', async () => {
    const loop = bench.loop([]);
    const start = async () => loop.startTurn(question);
    expect('then' in (await start())).toBe(false);
    expect(await start()).toBeInstanceOf(Turn);
    expect(bench.store.list()).toEqual([]);
  });

  it('S4-09 has its taskId in every event, for subscribers and for await alike', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question);
    const watcher = watch(turn);
    for await (const { taskId } of turn) expect(taskId).toBe(turn.taskId);
    expect(new Set(watcher.events.map(({ taskId }) => taskId))).toEqual(new Set([turn.taskId]));
  });

  it('works with the operators of RxJS', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question);
    expect(await lastValueFrom(turn)).toMatchObject({ status: { state: 'completed' }, final: true });
    await turn.settled;
  });
});

describe('a Turn starts', () => {
  /** A turn whose parts count how often they are called. */
  function countedTurn(steps: readonly ScriptedLLMStep[] = [{ text: 'Two.' }]) {
    const lists: ToolListContext[] = [];
    const tools = plainTools({ count: () => 2 });
    const getTools = (context: ToolListContext) => {
      lists.push(context);
      return tools.getTools(context);
    };
    const toolProviders = [{ ...tools, getTools }];
    const model = bench.model(steps);
    const turn = new AgentLoop(bench.config(model, { toolProviders })).startTurn(question, { taskId: 't' });
    const calls = () => ({ model: model.calls.length, tools: lists.length, journals: bench.store.list().length });
    return { turn, calls };
  }

  it('S1-08 not before the first subscription: no call of model, tools or store, no span, no timer', () => {
    const { calls } = countedTurn([]);
    expect(calls()).toEqual({ model: 0, tools: 0, journals: 0 });
    expect([bench.spans.started, bench.clock.pending]).toEqual([0, 0]);
  });

  it('S1-08 with the first subscription', async () => {
    const { turn, calls } = countedTurn();
    const watcher = watch(turn);
    await watcher.ended;
    expect(calls()).toEqual({ model: 1, tools: 1, journals: 1 });
  });

  it('S1-08 S0-48 with result(), once, and without any subscriber', async () => {
    const usage = { promptTokens: 5, completionTokens: 2, totalTokens: 7 };
    const { turn, calls } = countedTurn([{ text: 'Two.', usage }]);
    const results = await Promise.all([turn.result(), turn.result()]);
    expect(results).toMatchObject([{ status: 'completed', text: 'Two.', allText: 'Two.', usage }, { text: 'Two.' }]);
    expect(calls()).toEqual({ model: 1, tools: 1, journals: 1 });
  });

  it('never twice: not for many subscribers, nor for those who come after the end or after a cancel', async () => {
    const { turn, calls } = countedTurn();
    const watchers = [watch(turn), watch(turn), watch(turn)];
    await Promise.all(watchers.map(({ ended }) => ended));
    await turn.result();
    await turn.cancel('too late');
    const after = watch(turn);
    expect(outlineOf(ofRecords(after.events))).toEqual(outlineOf(ofRecords(watchers[0]?.events ?? [])));
    expect(calls()).toEqual({ model: 1, tools: 1, journals: 1 });
  });

  it('not again for who subscribes after it was cancelled: that one sees how it ended', async () => {
    const { turn, calls } = countedTurn([{ never: true }]);
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    await turn.cancel('enough');
    const after = watch(turn);
    expect(after.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, reason: 'enough', final: true });
    expect(after.end).toBe('complete');
    expect(calls()).toEqual({ model: 1, tools: 1, journals: 1 });
  });
});

describe('several subscribers of a Turn', () => {
  it('S1-10 share one execution; a late one gets the events of the records and the text so far, then the live events', async () => {
    const { turn, first, rest, model } = await halfAnswered();
    const late = watch(turn);
    expect(outlineOf(late.events)).toEqual(outlineOf(first.events));
    rest.open();
    await turn.settled;
    expect(model.calls).toHaveLength(1);
    expect(outlineOf(late.events)).toEqual(outlineOf(first.events));
    expect(textsOf(late.events)).toEqual({ 'answer-1': 'One, two.' });
  });

  it('S1-10 get one event for each artifact of the past, however many deltas it came in', async () => {
    const pieces = Array.from({ length: 200 }, (_, n) => `${n} `);
    const rest = gate();
    const steps = [{ text: pieces, toolCalls: [{ name: 'count' }] }, { text: [...pieces, rest.pass(), 'end'] }];
    const isLastPiece = (event: EventOf<'artifact-update'>) =>
      event.artifact.artifactId === 'answer-2' && textOfParts(event) === '199 ';
    const loop = bench.loop(steps, { toolProviders: [plainTools({ count: () => 2 })] });
    const turn = loop.startTurn(question);
    const first = watch(turn);
    await first.until('artifact-update', isLastPiece);
    const late = watch(turn);
    expect(first.of('artifact-update')).toHaveLength(401);
    expect(late.of('artifact-update')).toMatchObject([
      { artifact: { artifactId: 'answer-1', parts: [{ text: pieces.join('') }] }, append: false, lastChunk: true },
      { artifact: { artifactId: 'answer-2', parts: [{ text: pieces.join('') }] }, append: false, lastChunk: false },
    ]);
    rest.open();
    await turn.settled;
    expect(textsOf(late.events)).toEqual(textsOf(first.events));
  });
});

describe('the last subscriber of a Turn', () => {
  it('S1-11 S1-36 cancels it by leaving: the model call stops, nothing more is seen, the journal ends with turn.canceled', async () => {
    const { turn, first, model } = await halfAnswered();
    const unguarded = new UnguardedSubscriber();
    turn.subscribe(unguarded);
    const seen = unguarded.told.length;
    expect(seen).toBe(first.events.length);
    first.leave();
    unguarded.unsubscribe();
    expect(model.unsubscribed).toBe(1);
    await turn.settled;
    expect(lastRecord()).toMatchObject({ type: 'turn.canceled', reason: 'every subscriber left' });
    expect(unguarded.told.slice(seen)).toEqual([]);
    const [execute] = bench.spans.spans().filter(({ name }) => name === 'agent.execute');
    expect(execute?.attributes['millrace.outcome']).toBe('canceled');
  });

  it('S1-11 S1-65 cancels it also while tools run: they are aborted, no other starts, the model is not called again', async () => {
    const runs: string[] = [];
    const tool = (context: ToolContext) => {
      runs.push(context.call.function.name);
      return obedient(context);
    };
    const toolProviders = [plainTools({ first: tool, second: tool })];
    const steps = [{ toolCalls: [{ name: 'first' }, { name: 'second' }] }];
    const turn = bench.loop(steps, { toolProviders, toolConcurrency: 1 }).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    await watcher.until('internal:tool-start');
    watcher.leave();
    await turn.settled;
    expect(runs).toEqual(['first']);
    expect(bench.store.read('t').slice(-2)).toMatchObject([
      { type: 'tool.result', error: { code: 'CANCELED' } },
      { type: 'turn.canceled' },
    ]);
    expect([bench.clock.pending, bench.spans.open()]).toEqual([0, []]);
  });

  it('does not cancel a turn by leaving with its last event', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question, { taskId: 't' });
    const isLast = (event: AgentEvent) => event.kind === 'status-update' && event.final;
    expect(await firstValueFrom(turn.pipe(filter(isLast)))).toMatchObject({ status: { state: 'completed' } });
    expect(await turn.result()).toMatchObject({ status: 'completed' });
    expect(lastRecord()).toMatchObject({ type: 'turn.done' });
  });

  it('is the last one only: while another stays, the turn goes on', async () => {
    const { turn, first, rest } = await halfAnswered();
    const second = watch(turn);
    first.leave();
    rest.open();
    await second.ended;
    expect(second.events.at(-1)).toMatchObject({ status: { state: 'completed' } });
    expect(await turn.result()).toMatchObject({ text: 'One, two.' });
  });

  it('may hand over to the next within that one’s first event', async () => {
    const { turn, first, rest } = await halfAnswered();
    const second = watch(turn, () => first.leave());
    rest.open();
    await second.ended;
    expect(second.events.at(-1)).toMatchObject({ status: { state: 'completed' } });
  });

  it('cancels it also where it takes only the first event of a turn that answers at once', async () => {
    const llmProvider = bench.model([], { synchronous: true });
    const turn = bench.loop([], { llmProvider }).startTurn(question, { taskId: 't' });
    const first = await lastValueFrom(turn.pipe(take(1)));
    expect(first.kind).toBe('task');
    await turn.settled;
    expect(bench.store.read('t').map(({ type }) => type)).toEqual(['turn.started', 'turn.canceled']);
  });

  it('may be followed by one who comes while the cancel is under way: that one sees the end, and nothing behind it', async () => {
    const { turn, first } = await halfAnswered();
    first.leave();
    const late = watch(turn);
    await late.ended;
    expect(late.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, final: true });
    expect(late.of('artifact-update')).toEqual([]);
  });
});

describe('result()', () => {
  it('is no reader: it rejects with CANCELED where the last subscriber leaves', async () => {
    const { turn, first } = await halfAnswered();
    const result = turn.result();
    first.leave();
    await expect(result).rejects.toMatchObject({
      code: 'CANCELED',
      reason: 'every subscriber left',
      result: { status: 'canceled', iterations: 1 },
    });
    await turn.settled;
  });

  it('keeps a turn alive that nobody ever subscribed to: only cancel() stops that one', async () => {
    const model = bench.model([{ never: true }]);
    const turn = bench.loop([], { llmProvider: model }).startTurn(question, { taskId: 't' });
    const result = turn.result();
    for (let round = 0; round < 5; round++) await new Promise((resolve) => setImmediate(resolve));
    expect(model.active).toBe(1);
    expect(bench.store.list()).toMatchObject([{ state: 'working', held: true }]);
    await turn.cancel('enough');
    await expect(result).rejects.toMatchObject({ code: 'CANCELED', reason: 'enough' });
  });

  it('S4-37 S0-51 S2-21 holds the text of the last response, and that of all', async () => {
    const steps = [{ text: 'Let me count.', toolCalls: [{ name: 'count' }] }, { text: ['There ', 'are two.'] }];
    const loop = bench.loop(steps, { toolProviders: [plainTools({ count: () => 2 })] });
    const turn = loop.startTurn(question);
    const watcher = watch(turn);
    const { text, allText } = await turn.result();
    expect({ text, allText }).toEqual({ text: 'There are two.', allText: 'Let me count.\nThere are two.' });
    expect(textsOf(watcher.events)).toEqual({ 'answer-1': 'Let me count.', 'answer-2': text });
  });

  it('S4-08 holds the final assistant message and, apart, all that the turn added', async () => {
    const loop = bench.loop([{ toolCalls: [{ name: 'count' }] }, { text: 'Two.' }], {
      toolProviders: [plainTools({ count: () => 2 })],
    });
    const { message, messages } = await loop.startTurn(question).result();
    expect(message).toEqual({ role: 'assistant', content: 'Two.' });
    const call = { id: 'call_1_0', type: 'function', function: { name: 'count', arguments: '{}' } };
    expect(messages).toEqual([
      { role: 'assistant', content: null, toolCalls: [call] },
      { role: 'tool', toolCallId: 'call_1_0', content: '2' },
      message,
    ]);
  });

  it('S2-27 gives what the last event of the stream says', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question);
    const watcher = watch(turn);
    const { text, status, reason } = await turn.result();
    expect(watcher.events.at(-1)).toMatchObject({
      status: { state: status, message: { parts: [{ kind: 'text', text }] } },
      reason,
    });
  });

  it('rejects with a TurnError that has the code, the reason, and what there was', async () => {
    const loop = bench.loop([{ text: 'So far', toolCalls: [{ name: 'count' }] }, { error: new Error('cable cut') }], {
      toolProviders: [plainTools({ count: () => 2 })],
    });
    await expect(loop.startTurn(question).result()).rejects.toMatchObject({
      name: 'AgentLoopError',
      code: 'PROVIDER_FAILED',
      reason: 'provider_failed',
      cause: expect.objectContaining({ message: 'cable cut' }),
      result: { status: 'failed', allText: 'So far', toolCalls: 1, iterations: 2 },
    });
  });
});

describe('a detached Turn', () => {
  it('starts at once, without a subscriber', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question, { taskId: 't', detached: true });
    expect(bench.store.list()).toHaveLength(1);
    await turn.settled;
    expect(lastRecord()).toMatchObject({ type: 'turn.done', text: 'Two.' });
  });

  it('belongs to its task: readers come and go', async () => {
    const { turn, first, rest } = await halfAnswered({ detached: true });
    first.leave();
    const second = watch(turn);
    second.leave();
    rest.open();
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'One, two.' });
  });

  it('is stopped by cancel', async () => {
    const { turn } = await halfAnswered({ detached: true });
    await turn.cancel('enough');
    expect(lastRecord()).toMatchObject({ type: 'turn.canceled', reason: 'enough' });
  });
});
