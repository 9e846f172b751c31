import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { type AgentEvent, AgentLoop, AgentLoopError, agent, InMemoryStateStore, team, tool } from 'millrace';
import { fakeClock, gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';

interface Made {
  readonly store: InMemoryStateStore;
  readonly steps: readonly ScriptedLLMStep[];
  readonly shutdown?: AbortSignal;
  readonly id?: string;
}

const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  parameters: { type: 'object' },
  needsApproval: true,
  execute: () => 'refunded',
});

function made({ store, steps, shutdown, id = 'bo' }: Made) {
  return agent({
    id,
    provider: scriptedLLM(steps),
    taskStateStore: store,
    tools: [refund],
    busy: 'queue',
    ...(shutdown && { shutdown }),
  });
}

/** A turn in the middle of its text, whose process drains: nobody runs it then. */
async function abandoned(store: InMemoryStateStore, { taskId = 't', id = 'bo', contextId = 'c' } = {}) {
  const shutdown = new AbortController();
  const held = gate();
  const first = made({
    store,
    id,
    shutdown: shutdown.signal,
    steps: [() => ({ text: ['Half a ', held.pass(), 'text.'] })],
  });
  const turn = first.startTurn('Hi.', { taskId, contextId, detached: true });
  await held.reached;
  shutdown.abort();
  await turn.settled.catch(() => {});
}

async function read(events: AsyncIterable<AgentEvent>): Promise<readonly AgentEvent[]> {
  const all: AgentEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

const lastState = (events: readonly AgentEvent[]) => {
  const last = events.at(-1);
  return last?.kind === 'status-update' ? last.status.state : undefined;
};

describe('agent.observe', () => {
  it('R-04 tries a turn whose tool is missing less and less often, however many follow it', async () => {
    const clock = fakeClock();
    const store = new InMemoryStateStore({ clock });
    const asks = made({ store, steps: [{ toolCalls: [{ name: 'refund' }] }] });
    const { taskId, questions } = await asks.run('Refund.', { contextId: 'c' });
    await AgentLoop.answer(taskId, { store, answers: { [questions[0]?.id ?? '']: { approved: true } } });
    const logged: unknown[] = [];
    const log = () => {};
    const warn = (message: string, fields: unknown) => void logged.push([message, fields]);
    const logger = { debug: log, info: log, warn, error: log };
    const without = agent({ id: 'bo', provider: scriptedLLM([]), taskStateStore: store, clock, logger });
    const followers = [1, 2, 3].map(() => without.observe(taskId, { recover: {} }).subscribe());
    for (let time = 0; time < 120; time++) {
      clock.advance(500);
      await new Promise((resolve) => setImmediate(resolve));
    }
    for (const follower of followers) follower.unsubscribe();
    expect(logged.length).toBeGreaterThan(3);
    expect(logged.length).toBeLessThan(9);
    const since = store.read(taskId).slice(-2);
    expect(since.map(({ type }) => type)).toEqual(['turn.resumed', 'turn.suspended']);
    expect(since[1]).toMatchObject({ reason: 'missing_tool', hold: { error: { code: 'MISSING_TOOL' } } });
    expect(logged).toContainEqual(['turn not taken over', expect.objectContaining({ taskId, code: 'MISSING_TOOL' })]);
    expect(await store.describe(taskId)).toMatchObject({ state: 'working' });
  });

  it('shows a turn that another agent of the store runs, from a cursor on', async () => {
    const store = new InMemoryStateStore();
    await made({ store, steps: [{ text: 'Done.' }] }).run('Hi.', { taskId: 't' });
    const other = made({ store, steps: [] });
    const all = await read(other.observe('t'));
    expect(all[0]?.kind).toBe('task');
    expect(lastState(all)).toBe('completed');
    const from = all.find(({ kind }) => kind === 'internal:llm-response')?.cursor;
    expect(await read(other.observe('t', { from }))).toEqual(
      all.slice(all.findIndex(({ cursor }) => cursor === from) + 1),
    );
  });

  it('merges the pieces of one text that wait for a slow reader', async () => {
    const store = new InMemoryStateStore();
    const held = gate();
    const texts = Array.from({ length: 1_000 }, () => 'x');
    const bo = made({ store, steps: [() => ({ text: ['a', held.pass(), ...texts] })] });
    const turn = bo.startTurn('Hi.', { taskId: 't', detached: true });
    const reader = bo.observe('t')[Symbol.asyncIterator]();
    const first = await reader.next();
    await held.reached;
    held.open();
    await turn.settled;
    let count = 1;
    let text = '';
    for (let next = first; !next.done; next = await reader.next(), count++)
      if (next.value.kind === 'artifact-update')
        for (const part of next.value.artifact.parts) text += part.kind === 'text' ? part.text : '';
    expect(text).toBe(`a${texts.join('')}`);
    expect(count).toBeLessThan(25);
  });

  it('leaves an abandoned turn alone, and continues it with recover, also for a reader that leaves then', async () => {
    const store = new InMemoryStateStore();
    await abandoned(store);
    const held = gate();
    const next = made({ store, steps: [() => ({ gate: held.pass(), text: 'Whole.' })] });
    const watched = next.observe('t').subscribe();
    expect(next.isBusy('c')).toBe(false);
    watched.unsubscribe();
    const reader = next.observe('t', { recover: {} })[Symbol.asyncIterator]();
    await reader.next();
    await held.reached;
    await reader.return?.();
    held.open();
    expect(lastState(await read(next.observe('t')))).toBe('completed');
  });

  it('R-43 leaves those who follow a turn of another process to that one once this process shuts down, with one listener', async () => {
    const store = new InMemoryStateStore();
    const held = gate();
    const owner = made({ store, steps: [() => ({ text: ['a', held.pass()] })] });
    const turn = owner.startTurn('Hi.', { taskId: 't', detached: true });
    await held.reached;
    const stopping = new AbortController();
    const other = made({ store, steps: [], shutdown: stopping.signal });
    const codes: unknown[] = [];
    const error = (reason: unknown) => void codes.push(AgentLoopError.isInstance(reason) && reason.code);
    const follow = () => other.observe('t', { recover: {} }).subscribe({ error });
    for (let followers = 0; followers < 3; followers++) follow();
    expect(getEventListeners(stopping.signal, 'abort')).toHaveLength(1);
    stopping.abort();
    expect(codes).toEqual(['SHUTDOWN', 'SHUTDOWN', 'SHUTDOWN']);
    expect(getEventListeners(stopping.signal, 'abort')).toEqual([]);
    follow();
    expect(codes).toHaveLength(4);
    held.open();
    await turn.settled;
    expect(lastState(await read(other.observe('t')))).toBe('completed');
  });

  it('has one process continue a turn that two of them follow', async () => {
    const store = new InMemoryStateStore();
    await abandoned(store);
    const steps = [{ text: 'Whole.' }];
    const [one, two] = [made({ store, steps }), made({ store, steps })];
    const seen = await Promise.all([
      read(one.observe('t', { recover: {} })),
      read(one.observe('t', { recover: {} })),
      read(two.observe('t', { recover: {} })),
    ]);
    expect(seen.map(lastState)).toEqual(['completed', 'completed', 'completed']);
    const resumes = (await store.read('t')).filter(({ type }) => type === 'turn.resumed');
    expect(resumes).toHaveLength(1);
  });

  it('completes where the turn waits for an answer', async () => {
    const store = new InMemoryStateStore();
    const bo = made({ store, steps: [{ toolCalls: [{ name: 'refund' }] }] });
    await bo.run('Refund.', { taskId: 't' });
    expect(lastState(await read(bo.observe('t', { recover: {} })))).toBe('input-required');
  });

  it('needs a store, and says so', () => {
    const bo = agent({ id: 'bo', provider: scriptedLLM([]) });
    expect(() => bo.observe('t')).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });
});

describe('agent.tasks', () => {
  it('gives the turns of a context that the agent started, the newest first, also after a hand-off', async () => {
    const store = new InMemoryStateStore();
    const common = { taskStateStore: store };
    const first = agent({
      ...common,
      id: 'ann',
      provider: scriptedLLM([{ toolCalls: [{ name: 'hand_off', arguments: { agentId: 'cy', note: 'Yours.' } }] }]),
    });
    const second = agent({ ...common, id: 'cy', provider: scriptedLLM([{ text: 'Mine.' }, { text: 'Again.' }]) });
    const both = team({ agents: [first, second], handOff: true, taskStateStore: store });
    const served = both.asAgent();
    await served.run('Hi.', { taskId: 't-1', contextId: 'c' });
    await served.run('And?', { taskId: 't-2', contextId: 'c' });
    await served.run('Else?', { taskId: 't-3', contextId: 'd' }).catch(() => {});
    expect((await served.tasks('c')).map(({ taskId, state }) => [taskId, state])).toEqual([
      ['t-2', 'completed'],
      ['t-1', 'completed'],
    ]);
    expect(await served.tasks('c', { limit: 1 })).toHaveLength(1);
  });
});

describe('agent.recover', () => {
  it('continues its own turns that nobody runs, and of those only the accepted ones', async () => {
    const store = new InMemoryStateStore();
    await abandoned(store, { taskId: 'mine' });
    await abandoned(store, { taskId: 'other', id: 'eve', contextId: 'd' });
    const next = made({ store, steps: [{ text: 'Whole.' }] });
    expect(await next.recover({ accepts: ({ taskId }) => taskId !== 'mine' })).toBe(0);
    expect(await next.recover()).toBe(1);
    expect(lastState(await read(next.observe('mine')))).toBe('completed');
    expect((await store.describe('other'))?.state).toBe('working');
    expect(await next.recover()).toBe(0);
  });
});
