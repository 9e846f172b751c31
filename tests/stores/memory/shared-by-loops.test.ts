import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  type AgentEvent,
  type AgentLoopConfig,
  InMemoryStateStore,
  type TaskStateStore,
  type ToolProvider,
} from 'millrace';
import { AgentLoop, isTerminal } from 'millrace/internals';
import {
  asyncStore,
  type FakeClock,
  fakeClock,
  faultyStore,
  openResources,
  type ScriptedLLM,
  type ScriptedLLMStep,
  type StoreFault,
  scriptedLLM,
} from 'millrace/testing';

const asksForCount: ScriptedLLMStep = {
  text: 'Let me count.',
  toolCalls: [{ name: 'count', arguments: { of: 'apples' } }],
};
const answers: ScriptedLLMStep = { text: ['There are ', 'two.'] };
const question = [{ role: 'user', content: 'How many apples?' }] as const;

interface Counting extends ToolProvider {
  readonly runs: number;
}

function countTool(onRun: () => unknown = () => undefined): Counting {
  let runs = 0;
  return {
    getTools: () => [
      { type: 'function', function: { name: 'count', description: 'Counts.', parameters: { type: 'object' } } },
    ],
    executeTool: async (call) => {
      runs++;
      await onRun();
      return { toolCallId: call.id, content: '2', success: true };
    },
    get runs() {
      return runs;
    },
  };
}

function config(store: TaskStateStore, llmProvider: ScriptedLLM, tools: ToolProvider): AgentLoopConfig {
  return { agentId: 'counter', llmProvider, toolProviders: [tools], taskStateStore: store, enableTracing: false };
}

/** A turn that was paused while its tool ran, in the loop that started it. */
async function suspendedTurn(store: TaskStateStore) {
  const model = scriptedLLM([asksForCount]);
  const tool = countTool(() => turn.pause('lunch'));
  const turn = new AgentLoop(config(store, model, tool)).startTurn(question, { taskId: 't' });
  expect(await turn.result()).toMatchObject({ status: 'input-required', reason: 'lunch' });
  await turn.settled;
  model.assertDone();
  return { tool };
}

const variants: readonly [string, (store: InMemoryStateStore) => TaskStateStore][] = [
  ['answers at once', (store) => store],
  ['answers in a later microtask', (store) => asyncStore(store, { task: 'microtask' })],
  ['answers in a later macrotask', (store) => asyncStore(store)],
];

describe.each(variants)('loops that share a memory store that %s', (_, wrap) => {
  let ledger = openResources();
  beforeEach(() => {
    ledger = openResources();
  });
  afterEach(() => ledger.assertNone());

  it('S1-73 resume in one what was suspended in another, without repeating a call', async () => {
    const memory = new InMemoryStateStore();
    const store = wrap(memory);
    const { tool } = await suspendedTurn(store);
    expect(memory.list()).toMatchObject([{ taskId: 't', state: 'input-required', held: false }]);
    const model = scriptedLLM([answers]);
    const again = countTool();
    const result = await AgentLoop.resume('t', config(store, model, again)).result();
    expect(result).toMatchObject({ status: 'completed', text: 'There are two.' });
    model.assertDone();
    expect([tool.runs, again.runs]).toEqual([1, 0]);
    const epochs = memory.read('t').map((record) => record.epoch);
    expect(epochs).toEqual(epochs.toSorted((a, b) => a - b));
    expect(memory.list()).toMatchObject([{ state: 'completed', held: false }]);
  });

  it('S1-80 let only one proceed where two resume the same task', async () => {
    const memory = new InMemoryStateStore();
    const store = wrap(memory);
    await suspendedTurn(store);
    const models = [scriptedLLM([answers]), scriptedLLM([answers])];
    const outcomes = await Promise.allSettled(
      models.map((model) => AgentLoop.resume('t', config(store, model, countTool())).result()),
    );
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 'BUSY' } });
    expect(models.map(({ calls }) => calls.length).toSorted()).toEqual([0, 1]);
    expect(memory.read('t').filter(isTerminal)).toHaveLength(1);
  });

  it('show a reader the same records, whenever it comes', async () => {
    const store = wrap(new InMemoryStateStore());
    const model = scriptedLLM([asksForCount, answers]);
    const early: AgentEvent[] = [];
    const observed = countTool(() => {
      AgentLoop.observe('t', { store }).subscribe((event) => early.push(event));
    });
    const live: AgentEvent[] = [];
    const turn = new AgentLoop(config(store, model, observed)).startTurn(question, { taskId: 't' });
    await new Promise<void>((complete) => turn.subscribe({ next: (event) => live.push(event), complete }));
    await turn.settled;
    const late: AgentEvent[] = [];
    await new Promise<void>((complete) =>
      AgentLoop.observe('t', { store }).subscribe({ next: (event) => late.push(event), complete }),
    );
    for (const other of [late, early]) {
      expect(ofRecords(other)).toEqual(ofRecords(live));
      expect(textsOf(other)).toEqual(textsOf(live));
    }
    expect(textsOf(live)).toEqual({ 'answer-1': 'Let me count.', 'answer-2': 'There are two.' });
    expect(live.at(-1)).toMatchObject({ kind: 'status-update', final: true });
  });
});

describe('a turn on a memory store whose appends fail', () => {
  const losses: readonly (readonly [string, readonly StoreFault[]])[] = [
    ['before the write, each once', [1, 3, 5, 7, 9].map((call) => ({ method: 'append', call, fault: 'fail-before' }))],
    ['after the write, each once', [1, 3, 5, 7, 9].map((call) => ({ method: 'append', call, fault: 'fail-after' }))],
    ['three times in a row', [{ method: 'append', call: 2, calls: 3, fault: 'fail-after' }]],
  ];

  it.each(losses)('%s, has the journal of one where none fails', async (_, plan) => {
    const healthy = await journalOf([]);
    expect(healthy.map(({ type }) => type)).toContain('tool.result');
    expect(await journalOf(plan)).toEqual(healthy);
  });

  it('for good, is lost with UNAVAILABLE and can be resumed', async () => {
    const clock = fakeClock();
    const memory = new InMemoryStateStore({ clock });
    const broken = faultyStore(memory, [
      { method: 'append', call: 2, calls: Number.POSITIVE_INFINITY, fault: 'fail-before' },
    ]);
    const tool = countTool();
    const first = new AgentLoop({ ...config(broken, scriptedLLM([asksForCount]), tool), clock });
    await expect(passing(clock, first.startTurn(question, { taskId: 't' }).result())).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    });
    expect(tool.runs).toBe(0);
    expect(memory.read('t').some(isTerminal)).toBe(false);
    const model = scriptedLLM([asksForCount, answers]);
    const second = AgentLoop.resume('t', { ...config(memory, model, tool), clock });
    expect(await second.result()).toMatchObject({ status: 'completed', text: 'There are two.' });
    expect(tool.runs).toBe(1);
  });
});

/** The text of an open model call may come in other pieces to each reader. */
function ofRecords(events: readonly AgentEvent[]): readonly AgentEvent[] {
  return events.filter(({ kind, cursor }) => cursor !== undefined && kind !== 'artifact-update');
}

/** What the artifacts hold in the end. */
function textsOf(events: readonly AgentEvent[]): Readonly<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const event of events) {
    if (event.kind !== 'artifact-update') continue;
    const { artifactId, parts } = event.artifact;
    const text = parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
    texts[artifactId] = event.append ? `${texts[artifactId] ?? ''}${text}` : text;
  }
  return texts;
}

/** The records of one turn on a store that fails by plan, without their times. */
async function journalOf(plan: readonly StoreFault[]) {
  const clock = fakeClock();
  const memory = new InMemoryStateStore({ clock });
  const tool = countTool();
  const loop = new AgentLoop({
    ...config(faultyStore(memory, plan), scriptedLLM([asksForCount, answers]), tool),
    clock,
  });
  const turn = loop.startTurn(question, { taskId: 't', contextId: 'c' });
  expect(await passing(clock, turn.result())).toMatchObject({ status: 'completed' });
  expect(tool.runs).toBe(1);
  return memory.read('t').map(({ at: _, ...record }) => withoutDuration(record));
}

function withoutDuration<R extends object>(record: R): R {
  return 'durationMs' in record ? { ...record, durationMs: 0 } : record;
}

/** Lets time pass until `outcome` settles. */
async function passing<T>(clock: FakeClock, outcome: Promise<T>): Promise<T> {
  let settled = false;
  const watched = outcome.finally(() => {
    settled = true;
  });
  watched.catch(() => undefined);
  while (!settled) {
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(50);
  }
  return watched;
}
