import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { AgentLoopError, agent, foldRecords, type Logger, limits, tool } from 'millrace';
import { commitOf, conversationName, taskState } from 'millrace/internals';
import { LmdbMessageStore } from 'millrace/lmdb';
import { fakeClock, gate, scriptedLLM } from 'millrace/testing';
import type { AgentSettings, TurnRecord } from 'millrace/types';
import { deadTurn, firstCall, question } from '../core/dead-turn.ts';
import { watch } from '../core/watch-events.ts';
import { eventually } from '../eventually.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { agentBench, passing, says, seenBy, user } from './agent-bench.ts';

const on = agentBench();

/** A logger, and what tells that a turn has been queued. */
function queueWatch() {
  const queued = gate();
  const lines: unknown[] = [];
  const note = (level: string) => (message: string, fields?: object) => {
    if (message !== 'turn queued') return;
    lines.push([level, fields]);
    void queued.pass();
  };
  const logger: Logger = { debug() {}, error() {}, info: note('info'), warn: note('warn') };
  return { logger, lines, queued: queued.reached };
}

const begun: TurnRecord = {
  type: `x.${conversationName}`,
  hook: 'beforeTurn',
  effects: { given: question },
  data: { history: 0 },
};

/** A context whose turn `t` was left by its process behind these records. */
function leftBehind(records: readonly TurnRecord[]) {
  const messageStore = on.messages();
  messageStore.begin('c', 't');
  deadTurn(on.bench, records);
  return messageStore;
}

const pay = tool({
  name: 'pay',
  description: 'Pays.',
  parameters: { type: 'object' },
  needsApproval: true,
  execute: () => 'paid',
});
const asks = { toolCalls: [{ name: 'pay' }] };

it('a queued turn that is cancelled leaves no timer and no listener of its wait, while the turn ahead still runs', async () => {
  const clock = fakeClock();
  const held = gate();
  const { logger, queued } = queueWatch();
  const slow = tool({
    name: 'slow',
    description: 'Waits.',
    parameters: { type: 'object' },
    execute: () => held.pass(),
  });
  const provider = on.bench.model([{ toolCalls: [{ name: 'slow' }] }, { text: 'Done.' }]);
  const ada = on.agent([], { provider, tools: [slow], busy: 'queue', clock, logger });
  const first = ada.startTurn('One.', { detached: true });
  await held.reached;
  const { pending } = clock;
  const waiting = ada.startTurn('Two.', { detached: true });
  await queued;
  await eventually(() => clock.pending > pending);
  await waiting.cancel();
  await eventually(() => clock.pending === pending);
  held.open();
  expect(await first.result()).toMatchObject({ text: 'Done.' });
});

describe("a queue behind a turn that does not run ('queue')", () => {
  it('H-33 waits for a suspended turn, and runs behind what that says once it is answered', async () => {
    const { logger, lines, queued } = queueWatch();
    const provider = on.bench.model([asks, { text: 'Paid.' }, { text: 'Two.' }]);
    const ada = on.agent([], { provider, tools: [pay], busy: 'queue', logger });
    const { questions } = await ada.run('Pay.', { taskId: 't' });
    expect(questions).toMatchObject([{ id: '1:0' }]);
    const next = ada.startTurn('And now?', { taskId: 'next', detached: true });
    await queued;
    expect(lines).toEqual([['info', { taskId: 'next', contextId: 'c', behind: 't', status: 'suspended' }]]);
    expect(provider.calls).toHaveLength(1);
    await ada.resume('t', { answers: { '1:0': { approved: true } } }).result();
    await expect(next.result()).resolves.toMatchObject({ status: 'completed', text: 'Two.' });
    const roles = provider.calls[2]?.messages.map(({ role }) => role);
    expect(roles).toEqual(['user', 'assistant', 'tool', 'assistant', 'user']);
  });

  it.each(['create', 'acquire'] as const)(
    'H-33 gives a later turn no journal before the one before it has its place: the store is slow with its %s',
    async (late) => {
      const held = gate();
      const taskStateStore = seenBy(on.bench.store, (method, taskId) =>
        method === late && taskId === 'first' ? held.pass() : undefined,
      );
      const provider = on.bench.model([{ text: 'One.' }, { text: 'Two.' }]);
      const ada = on.agent([], { provider, taskStateStore, busy: 'queue' });
      const turns = ['first', 'second'].map((taskId) => ada.startTurn(taskId, { taskId, detached: true }));
      await held.reached;
      await new Promise(setImmediate);
      expect(on.bench.store.load('second')).toBeNull();
      held.open();
      const results = await Promise.all(turns.map((turn) => turn.result()));
      expect(results.map(({ text }) => text)).toEqual(['One.', 'Two.']);
      expect(provider.calls[1]?.messages).toEqual([user('first'), says('One.'), user('second')]);
    },
  );

  it('H-33 does not wait for the place of a turn that the store refused', async () => {
    const taskStateStore = seenBy(on.bench.store, (method, taskId) => {
      if (method === 'create' && taskId === 'first') throw new AgentLoopError('FULL', 'full');
      return undefined;
    });
    const ada = on.agent([{ text: 'Two.' }], { taskStateStore, busy: 'queue' });
    const [first, second] = ['first', 'second'].map((taskId) => ada.startTurn(taskId, { taskId, detached: true }));
    await expect(first?.result()).rejects.toMatchObject({ code: 'FULL' });
    await expect(second?.result()).resolves.toMatchObject({ text: 'Two.' });
  });

  it.each([
    ['that had its history', [begun, firstCall]],
    ['that had not begun', []],
  ] as const)('H-33 waits for a turn of a dead process %s, which the same agent then resumes', async (_, records) => {
    const { logger, lines, queued } = queueWatch();
    const messageStore = leftBehind(records);
    const provider = on.bench.model([{ text: 'One.' }, { text: 'Two.' }]);
    const ada = on.agent([], { provider, messageStore, busy: 'queue', logger });
    const next = ada.startTurn('And now?', { taskId: 'next', detached: true });
    await queued;
    expect(lines).toEqual([['warn', { taskId: 'next', contextId: 'c', behind: 't', status: 'dead' }]]);
    await expect(ada.resume('t').result()).resolves.toMatchObject({ text: 'One.' });
    await expect(next.result()).resolves.toMatchObject({ text: 'Two.' });
    expect(provider.calls[1]?.messages).toEqual([...question, says('One.'), user('And now?')]);
  });

  it('H-33 waits on where that turn is suspended again, and runs once it is cancelled', async () => {
    const { logger, lines, queued } = queueWatch();
    const messageStore = leftBehind([begun, firstCall]);
    const provider = on.bench.model([asks, { text: 'Two.' }]);
    const options = { provider, tools: [pay], messageStore };
    const waiting = on.agent([], { ...options, busy: 'queue', logger });
    const next = waiting.startTurn('And now?', { detached: true });
    await queued;
    const other = on.agent([], options);
    await expect(other.resume('t').result()).resolves.toMatchObject({ status: 'input-required' });
    await eventually(() => lines.length === 2);
    expect(lines).toMatchObject([
      ['warn', { status: 'dead' }],
      ['info', { status: 'suspended' }],
    ]);
    await other.cancel('t');
    await expect(next.result()).resolves.toMatchObject({ text: 'Two.' });
    expect(provider.calls[1]?.messages[0]).toEqual(question[0]);
    expect(provider.calls[1]?.messages.at(-1)).toEqual(user('And now?'));
  });

  it('H-33 keeps the order in which messages came, also where the process that queued them shuts down', async () => {
    const first = queueWatch();
    const messageStore = leftBehind([begun, firstCall]);
    const down = new AbortController();
    const old = on.agent([], { messageStore, busy: 'queue', logger: first.logger, shutdown: down.signal });
    const second = old.startTurn('2', { taskId: 'second', detached: true });
    await first.queued;
    down.abort();
    await expect(second.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
    const provider = on.bench.model([{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }]);
    const { logger, queued } = queueWatch();
    const ada = on.agent([], { provider, messageStore, busy: 'queue', logger });
    const third = ada.startTurn('3', { taskId: 'third', detached: true });
    await queued;
    const again = ada.resume('second');
    const reader = watch(again);
    await reader.until('internal:resumed');
    await ada.resume('t').result();
    await Promise.all([again.result(), third.result()]);
    const asked = provider.calls.map(({ messages }) => messages.at(-1)?.content);
    expect(asked).toEqual(['How many?', '2', '3']);
    expect(messageStore.load('c')).toMatchObject({ total: 6, openTurns: [] });
  });

  it('H-33 looks again after leaseMs, and runs where the journal of the other turn is gone', async () => {
    const { logger, queued } = queueWatch();
    const messageStore = leftBehind([begun, firstCall]);
    const ada = on.agent([{ text: 'Two.' }], { messageStore, busy: 'queue', logger });
    const next = ada.startTurn('And now?', { detached: true });
    await queued;
    on.bench.store.delete('t');
    on.bench.clock.advance(30_000);
    await expect(next.result()).resolves.toMatchObject({ text: 'Two.' });
    expect(messageStore.load('c')).toMatchObject({ total: 2, openTurns: [] });
  });

  it('H-33 H-13 fails after queueTimeoutMs, leaves the queue, and can be tried again', async () => {
    const { logger, queued } = queueWatch();
    const messageStore = leftBehind([begun, firstCall]);
    const provider = on.bench.model([{ text: 'One.' }, { text: 'Two.' }]);
    const ada = on.agent([], { provider, messageStore, busy: 'queue', logger, queueTimeoutMs: 5_000 });
    const next = ada.startTurn('And now?', { taskId: 'next', detached: true });
    await queued;
    await passing(on.bench.clock, next.settled);
    await expect(next.result()).rejects.toMatchObject({
      code: 'AGENT_BUSY',
      retryable: true,
      message:
        'Turn "next" waited 5000 ms (queueTimeoutMs) in context "c" for turn "t", which was abandoned (its process exited); continue it with resume("t"), or end it with cancel("t"); its messages are saved either way. Then continue this one with retry("next").',
    });
    expect(messageStore.load('c')).toMatchObject({ total: 0, openTurns: ['t'] });
    await ada.resume('t').result();
    await expect(ada.retry('next').result()).resolves.toMatchObject({ text: 'Two.' });
    expect(provider.calls[1]?.messages).toEqual([...question, says('One.'), user('And now?')]);
    expect(messageStore.load('c')).toMatchObject({ total: 4, openTurns: [] });
  });

  it('H-33 H-13 ends the wait for a turn of this process, without a journal too', async () => {
    const provider = on.bench.model([{ never: true }]);
    const ada = on.agent([], { provider, taskStateStore: undefined, busy: 'queue', queueTimeoutMs: 1_000 });
    const first = ada.startTurn('1', { taskId: 'first' });
    const reader = watch(first);
    await reader.until('internal:llm-call');
    const second = passing(on.bench.clock, ada.run('2'));
    await expect(second).rejects.toMatchObject({
      code: 'AGENT_BUSY',
      message: expect.stringContaining('cancel("first")'),
    });
    await first.cancel();
  });

  it.each([true, false])('does not count the wait as time of the turn; with a journal: %s', async (journaled) => {
    const { clock, store } = on.bench;
    const [one, two] = [gate(), gate()];
    const steps = [{ gate: one.pass(), text: 'One.' }, { gate: two.pass(), text: 'Two.' }, { never: true }];
    const provider = on.bench.model(steps);
    const extensions = [limits({ maxWallTimeMs: 10_000 })];
    const taskStateStore = journaled ? store : undefined;
    const ada = on.agent([], { provider, taskStateStore, busy: 'queue', extensions });
    const turns = ['1', '2', '3'].map((taskId) => ada.startTurn(taskId, { taskId }));
    const [first, second, third] = turns.map((turn) => watch(turn));
    await first?.until('internal:llm-call');
    clock.advance(9_000);
    one.open();
    await second?.until('internal:llm-call');
    clock.advance(5_000);
    two.open();
    await third?.until('internal:llm-call');
    await expect(turns[1]?.result()).resolves.toMatchObject({ text: 'Two.', durationMs: 5_000 });
    clock.advance(9_999);
    expect(third?.end).toBeUndefined();
    clock.advance(1);
    await expect(turns[2]?.result()).rejects.toMatchObject({ reason: 'max_wall_time', result: { durationMs: 10_000 } });
  });

  it('H-33 leaves the queue where the waiting turn is cancelled', async () => {
    const { logger, queued } = queueWatch();
    const messageStore = leftBehind([begun, firstCall]);
    const ada = on.agent([], { messageStore, busy: 'queue', logger });
    const next = ada.startTurn('And now?', { taskId: 'next' });
    const reader = watch(next);
    await queued;
    await next.cancel('never mind');
    expect(reader.events.at(-1)).toMatchObject({ status: { state: 'canceled' } });
    expect(messageStore.load('c')).toMatchObject({ total: 0, openTurns: ['t'] });
  });
});

describe('a turn that is refused', () => {
  it('H-33 leaves nothing also where both started at the same time, and can be tried again under its id', async () => {
    const messageStore = on.messages();
    const both = gate();
    const held = gate();
    let looks = 0;
    const load = messageStore.load.bind(messageStore);
    // Both look before either of them is registered.
    const late: typeof messageStore.load = (contextId, options) => {
      const seen = load(contextId, options);
      if (options?.limit !== 0 || looks === 2) return seen;
      if (++looks === 2) both.open();
      return both.pass().then(() => seen) as never;
    };
    messageStore.load = late;
    const first = on.agent([{ gate: held.pass(), text: 'One.' }], { messageStore });
    const provider = on.bench.model([{ text: 'Two.' }]);
    const second = on.agent([], { provider, messageStore });
    const turn = first.startTurn('1', { detached: true });
    await expect(second.run('2', { taskId: 'second' })).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    expect(on.bench.store.load('second')).toBeNull();
    held.open();
    await turn.result();
    await expect(second.run('2', { taskId: 'second' })).resolves.toMatchObject({ text: 'Two.' });
    expect(provider.calls[0]?.messages).toEqual([user('1'), says('One.'), user('2')]);
    expect(messageStore.load('c')).toMatchObject({ total: 4, openTurns: [] });
  });

  it('H-33 shows nothing of itself before it is refused, where both started at the same time', async () => {
    const messageStore = on.messages();
    const held = gate();
    const taskStateStore = seenBy(on.bench.store, (method, taskId) =>
      method === 'acquire' && taskId === 'second' ? held.pass() : undefined,
    );
    const second = on.agent([], { messageStore, taskStateStore }).startTurn('2', { taskId: 'second' });
    const late = watch(second);
    await held.reached;
    const first = on.agent([asks], { messageStore, tools: [pay] });
    await first.run('1', { taskId: 'first' });
    held.open();
    await expect(second.result()).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    expect(late.events).toEqual([]);
    expect(on.bench.store.load('second')).toBeNull();
    await first.cancel('first');
  });

  it('H-33 is deleted only where no other process has taken it over by then', async () => {
    const messageStore = leftBehind([begun, firstCall]);
    const looked = gate();
    let isRefused = false;
    const taskStateStore = seenBy(on.bench.store, (method, taskId) => {
      if (method === 'release' && taskId === 'second') isRefused = true;
      return isRefused && taskId === 'second' && String(method) === 'delete' ? looked.pass() : undefined;
    });
    const load = messageStore.load.bind(messageStore);
    let looks = 0;
    // Registered by nobody when it is admitted.
    messageStore.load = (contextId, options) =>
      looks++ === 0 ? { ...load(contextId, options), openTurns: [] } : load(contextId, options);
    const refused = on.agent([], { messageStore, taskStateStore }).startTurn('2', { taskId: 'second' });
    const lost = expect(refused.result()).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    await looked.reached;
    const other = on.agent([{ text: 'Two.' }], { messageStore });
    await expect(other.resume('second').result()).rejects.toMatchObject({ code: 'BUSY' });
    looked.open();
    await lost;
    await other.cancel('t');
    await expect(other.run('2', { taskId: 'second' })).resolves.toMatchObject({ text: 'Two.' });
  });

  it('H-33 is kept where another process has continued it meanwhile', async () => {
    const messageStore = leftBehind([begun, firstCall]);
    const { store, clock } = on.bench;
    const taskStateStore = seenBy(store, (method, taskId, [, owner]) => {
      if (method !== 'acquire' || taskId !== 'second' || !String(owner).startsWith('refused-')) return undefined;
      const lease = store.acquire('second', 'another', 1_000);
      const { steps, after } = commitOf({ epoch: lease.epoch, now: clock.now }, foldRecords(store.read('second')), [
        { type: 'turn.resumed' },
      ]);
      const records = steps.map(({ record }) => record);
      store.append(lease, records, { status: taskState(after), barrier: true });
      store.release(lease);
      return undefined;
    });
    const load = messageStore.load.bind(messageStore);
    let looks = 0;
    messageStore.load = (contextId, options) =>
      looks++ === 0 ? { ...load(contextId, options), openTurns: [] } : load(contextId, options);
    const ada = on.agent([], { messageStore, taskStateStore });
    await expect(ada.run('2', { taskId: 'second' })).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    expect(store.read('second').map(({ type }) => type)).toEqual(['turn.started', 'turn.resumed']);
    await ada.cancel('second');
    await ada.cancel('t');
  });

  it('H-33 is kept where it was recorded by a process that died: who resumes it later runs it', async () => {
    const messageStore = leftBehind([begun, firstCall]);
    deadTurn(on.bench, [], { taskId: 'next', messages: [user('And now?')] });
    const ada = on.agent([{ text: 'Two.' }], { messageStore });
    await expect(ada.resume('next').result()).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    expect(on.bench.store.load('next')).toMatchObject({ status: 'working', isComplete: false });
    await ada.cancel('t');
    await expect(ada.resume('next').result()).resolves.toMatchObject({ text: 'Two.' });
  });

  it('H-33 shows the turn that there is where its id is known', async () => {
    const messageStore = on.messages();
    const ada = on.agent([{ text: 'One.' }], { messageStore });
    await ada.run('1', { taskId: 'done' });
    messageStore.begin('c', 't');
    deadTurn(on.bench, [begun, firstCall]);
    await expect(ada.run('1', { taskId: 'done' })).resolves.toMatchObject({ text: 'One.' });
  });
});

describe('a queue behind a turn of another process', () => {
  const programs = new ChildPrograms('tests/agent/children');
  const stores = new TemporaryStores();
  const opened: LmdbMessageStore[] = [];
  afterEach(() => Promise.all(opened.splice(0).map((store) => store.close())));
  afterAll(() => Promise.all([programs.clear(), stores.clear()]));

  function here(path: string, options: Partial<AgentSettings> = {}) {
    const messageStore = new LmdbMessageStore({ path });
    opened.push(messageStore);
    const provider = scriptedLLM([{ text: 'Theirs.' }, { text: 'Mine.' }]);
    const taskStateStore = stores.open({ path: `${path}/journal` });
    const own = { id: 'ada', contextId: 'c', provider, messageStore, taskStateStore, leaseMs: 100 };
    return { provider, messageStore, ada: agent({ ...own, busy: 'queue', ...options }) };
  }

  it('H-33 waits while it runs, after it was killed, and until somebody has resumed it', async () => {
    const path = stores.path();
    const child = programs.start('turn', path, 'theirs', 'held');
    await nextMessage(child);
    const killed = gate();
    const logger: Logger = {
      debug() {},
      error() {},
      info: () => {},
      warn: (message) => void (message === 'turn queued' && killed.pass()),
    };
    const { provider, messageStore, ada } = here(path, { logger });
    const next = ada.startTurn('Mine?', { detached: true });
    await kill(child);
    await killed.reached;
    expect(provider.calls).toHaveLength(0);
    await expect(ada.resume('theirs').result()).resolves.toMatchObject({ text: 'Theirs.' });
    await expect(next.result()).resolves.toMatchObject({ text: 'Mine.' });
    const said = [user('Question of theirs.'), says('Theirs.'), user('Mine?')];
    expect(provider.calls[1]?.messages).toEqual(said);
    expect((await messageStore.load('c')).openTurns).toEqual([]);
  });
});
