import { describe, expect, it } from '@jest/globals';
import { type AgentEvent, InMemoryStateStore, type ObserveOptions, type TaskStateStore } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { faultyStore, gate } from 'millrace/testing';
import { answerOf, deadTurn, firstCall, question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { ofRecords, outlineOf, textsOf, watch } from './watch-events.ts';

const bench = turnBench();

function observe(options: Partial<ObserveOptions> = {}, onEvent?: (event: AgentEvent) => void) {
  return watch(AgentLoop.observe('t', { store: bench.store, clock: bench.clock, ...options }), onEvent);
}

/** A store whose readers get no deltas any more once it fades, as where a process ends before they have crossed over. */
class Fading extends InMemoryStateStore {
  fades = false;

  override publish(...args: Parameters<InMemoryStateStore['publish']>): void {
    if (!this.fades) super.publish(...args);
  }
}

/** A turn of two iterations whose second answer goes on when `rest` opens; it waits in the middle of it. */
async function streamingTurn(taskStateStore: TaskStateStore = bench.store) {
  const rest = gate();
  const steps = [{ text: 'Let me count.', toolCalls: [{ name: 'count' }] }, { text: ['One', rest.pass(), ', two.'] }];
  const tools = plainTools({
    count: ({ progress }) => {
      progress('halfway');
      return 2;
    },
  });
  const turn = bench
    .loop(steps, { toolProviders: [tools], taskStateStore })
    .startTurn(question, { taskId: 't', contextId: 'c' });
  const live = watch(turn);
  const inSecond = ({ artifact }: { artifact: { artifactId: string } }) => artifact.artifactId === 'answer-2';
  await live.until('artifact-update', inSecond);
  return { turn, live, rest };
}

/** What is left when it is over: all events of records, in one list. */
async function endedTurn() {
  const { turn, live, rest } = await streamingTurn();
  rest.open();
  await turn.settled;
  return live;
}

describe('AgentLoop.observe', () => {
  it('S0-60 gives the events of a turn that has ended, as its subscribers saw them, and completes', async () => {
    const live = await endedTurn();
    const observer = observe();
    expect(observer.end).toBe('complete');
    expect(ofRecords(observer.events)).toEqual(ofRecords(live.events));
    expect(textsOf(observer.events)).toEqual(textsOf(live.events));
  });

  it('follows a turn that is under way: records, deltas and signs of life, until its end', async () => {
    let observer: ReturnType<typeof observe> | undefined;
    const toolProviders = [
      plainTools({
        count: async ({ progress }) => {
          observer = observe();
          progress('halfway');
          return 2;
        },
      }),
    ];
    const loop = bench.loop([{ toolCalls: [{ name: 'count' }] }, { text: ['One', ', two.'] }], { toolProviders });
    const turn = loop.startTurn(question, { taskId: 't' });
    const live = watch(turn);
    await turn.settled;
    await observer?.ended;
    const lines = outlineOf(observer?.events ?? []);
    expect(lines).toEqual(outlineOf(live.events).filter((line) => !line.startsWith('tool-call-delta')));
    expect(lines).toContain('tool-progress 1:0 "halfway"');
    expect(lines).toContain('answer-2 appends: ", two."');
  });

  it('gives one who comes in the middle of a streaming answer its text so far with append: false', async () => {
    const { turn, live, rest } = await streamingTurn();
    const observer = observe();
    expect(observer.events.at(-1)).toMatchObject({
      kind: 'artifact-update',
      artifact: { artifactId: 'answer-2', parts: [{ text: 'One' }] },
      append: false,
      lastChunk: false,
    });
    rest.open();
    await turn.settled;
    await observer.ended;
    expect(ofRecords(observer.events)).toEqual(ofRecords(live.events));
    expect(textsOf(observer.events)).toEqual({ 'answer-1': 'Let me count.', 'answer-2': 'One, two.' });
  });

  it('gets with the record what it missed of a text that it was shown the beginning of', async () => {
    const store = new Fading({ clock: bench.clock });
    const { turn, live, rest } = await streamingTurn(store);
    const observer = observe({ store });
    store.fades = true;
    rest.open();
    await turn.settled;
    await observer.ended;
    expect(outlineOf(live.events)).toContain('answer-2 appends: ", two."');
    expect(observer.of('artifact-update').slice(-2)).toMatchObject([
      { artifact: { artifactId: 'answer-2', parts: [{ text: 'One' }] }, append: false, lastChunk: false },
      { artifact: { artifactId: 'answer-2', parts: [{ text: ', two.' }] }, append: true, lastChunk: true },
    ]);
  });

  it('leaves the turn alone when it is left', async () => {
    const { turn, rest } = await streamingTurn();
    observe().leave();
    rest.open();
    expect(await turn.result()).toMatchObject({ status: 'completed' });
  });

  it('reads anew for each subscription', async () => {
    await endedTurn();
    const observed = AgentLoop.observe('t', { store: bench.store });
    expect(watch(observed).events).toEqual(watch(observed).events);
  });
});

describe('AgentLoop.observe from a cursor', () => {
  it('gives exactly the events behind any cursor of any event', async () => {
    await endedTurn();
    const { events } = observe();
    expect(events.length).toBeGreaterThanOrEqual(20);
    for (const [index, { cursor }] of events.entries()) {
      if (cursor === undefined) throw new Error('an event of a record has no cursor');
      expect(observe({ from: cursor }).events).toEqual(events.slice(index + 1));
    }
  });

  it('takes cursors of the live turn', async () => {
    const live = await endedTurn();
    const all = observe().events;
    for (const event of ofRecords(live.events)) {
      const behind = observe(event.cursor === undefined ? {} : { from: event.cursor }).events;
      expect(behind).toEqual(all.slice(all.findIndex(({ cursor }) => cursor === event.cursor) + 1));
    }
  });

  it('goes on in the middle of a streaming answer, with its text so far', async () => {
    const { turn, live, rest } = await streamingTurn();
    const lastSeen = live.events.findLast(({ cursor }) => cursor !== undefined)?.cursor ?? '';
    const observer = observe({ from: lastSeen });
    expect(outlineOf(observer.events)).toEqual(['answer-2 is: "One"']);
    rest.open();
    await turn.settled;
    await observer.ended;
    expect(outlineOf(observer.events)).toEqual([
      'answer-2 is: "One"',
      'answer-2 appends: ", two."',
      'answer-2 appends, last: ""',
      'llm-response 2 stop',
      'checkpoint after-llm 2',
      'checkpoint end 2',
      'iteration-complete 2',
      'status completed final (stop)',
    ]);
  });

  it('refuses what is no cursor', async () => {
    deadTurn(bench, []);
    expect(() => observe({ from: 'yesterday' })).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining('"yesterday"') }),
    );
  });
});

describe('AgentLoop.observe of a turn that changes hands', () => {
  it('goes on across the take-over: the text of the old attempt is void, the new owner’s follows', async () => {
    const first = bench.model([{ text: ['Wrong'], never: true }]);
    const lost = new AgentLoop(bench.config(first)).startTurn(question, { taskId: 't' });
    await watch(lost).until('artifact-update');
    const observer = observe();
    bench.leases.advance(30_000);
    const second = AgentLoop.resume('t', bench.config(bench.model([{ text: ['Right', '.'] }])));
    await second.result();
    bench.clock.advance(10_000);
    await expect(lost.settled).rejects.toMatchObject({ code: 'FENCED' });
    expect(outlineOf(observer.events).slice(5)).toEqual([
      'answer-1 is: "Wrong"',
      'resumed',
      'status working',
      'llm-attempt-discarded 1.1',
      'llm-call 1.2',
      'answer-1 is: "Right"',
      'answer-1 appends: "."',
      'answer-1 appends, last: ""',
      'llm-response 1 stop',
      'checkpoint after-llm 1',
      'checkpoint end 1',
      'iteration-complete 1',
      'status completed final (stop)',
    ]);
    expect(observer.end).toBe('complete');
  });

  it('completes at a suspension, with final: true; later the same record is no end', async () => {
    const toolProviders = [
      plainTools({
        count: () => {
          turn.pause('lunch');
          return 2;
        },
      }),
    ];
    const turn = bench
      .loop([{ toolCalls: [{ name: 'count' }] }], { toolProviders })
      .startTurn(question, { taskId: 't' });
    const live = watch(turn);
    const observer = observe();
    await turn.settled;
    await observer.ended;
    expect(observer.events.at(-1)).toMatchObject({ status: { state: 'input-required' }, final: true });
    expect(ofRecords(observe().events)).toEqual(ofRecords(live.events));
    const again = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }]), { toolProviders }));
    await again.result();
    const statuses = observe()
      .of('status-update')
      .map(({ status, final }) => `${status.state} ${final}`);
    expect(statuses).toEqual(['working false', 'input-required false', 'working false', 'completed true']);
  });
});

describe('AgentLoop.observe errors', () => {
  it('with NOT_FOUND where nobody started the turn', () => {
    expect(observe().end).toMatchObject({ error: { code: 'NOT_FOUND' } });
  });

  it('with NOT_FOUND where the task is deleted meanwhile', async () => {
    deadTurn(bench, [firstCall]);
    const observer = observe();
    bench.store.delete('t');
    expect(observer.end).toMatchObject({ error: { code: 'NOT_FOUND' } });
  });

  it('with UNAVAILABLE where the store does not answer in time', async () => {
    deadTurn(bench, [firstCall]);
    const silent = gate();
    const store = faultyStore(bench.store, [{ method: 'read', call: 1, fault: 'hold-before', gate: silent }]);
    const observer = observe({ store, storeDeadlineMs: 2_000 });
    bench.clock.advance(2_000);
    expect(observer.end).toMatchObject({ error: { code: 'UNAVAILABLE' } });
  });

  it('with POISON where the journal cannot be read', async () => {
    deadTurn(bench, [firstCall, answerOf(['count'])]);
    const lease = bench.store.acquire('t', 'the careless', 1_000);
    const stray = { type: 'tool.result' as const, callId: '9:9', content: '', success: true, durationMs: 0 };
    bench.store.append(lease, [{ ...stray, seq: 4, epoch: lease.epoch, at: 0 }], { status: 'working', barrier: true });
    expect(observe().end).toMatchObject({ error: { code: 'POISON', message: expect.stringContaining('"9:9"') } });
  });

  it('at once for an impossible id', () => {
    expect(() => AgentLoop.observe('}', { store: bench.store })).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT' }),
    );
  });
});
