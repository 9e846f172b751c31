import { describe, expect, it } from '@jest/globals';
import { agentTools, type JournalRecord, LocalToolProvider, type TaskStateStore, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type ScriptedLLMStep } from 'millrace/testing';
import { plainTools } from '../core/plain-tools.ts';
import { textsOf, watch } from '../core/watch-events.ts';
import { eventually } from '../eventually.ts';
import { agentBench, passing, seenBy, stoppedProcess } from './agent-bench.ts';

const on = agentBench();
const askBo: ScriptedLLMStep = { toolCalls: [{ name: 'bo', arguments: { message: 'What is it?' } }] };
const askCy: ScriptedLLMStep = { toolCalls: [{ name: 'cy', arguments: { message: 'How deep?' } }] };

const types = (taskId: string) => on.bench.store.read(taskId).map(({ type }) => type);
const has = (taskId: string, type: JournalRecord['type']) => {
  const task = on.bench.store.load(taskId);
  return task !== null && types(taskId).includes(type);
};

describe('the right to a child turn', () => {
  it('T-01 follows from the right to its parent: who resumes that takes the child turn at once', async () => {
    const first = stoppedProcess(on.bench.store);
    const stopped = gate();
    const old = on.agent([() => ({ gate: stopped.pass(), text: 'Never.' })], { id: 'bo', taskStateStore: first.store });
    const dead = on.agent([askBo, { text: 'Stale.' }], {
      toolProviders: [agentTools([old.with({ leaseMs: 60_000 })])],
      taskStateStore: first.store,
      leaseMs: 1_000,
    });
    const lost = dead.startTurn('Ask Bo.', { taskId: 't', detached: true });
    await stopped.reached;
    first.freeze();
    on.bench.leases.advance(1_500);
    expect(on.bench.store.list().find(({ taskId }) => taskId === 't:1:0')).toMatchObject({ held: true });
    const bo = on.agent([{ text: 'It is.' }], { id: 'bo' });
    const ada = on.agent([{ text: 'So.' }], { toolProviders: [agentTools([bo])] });
    const { text, messages } = await ada.resume('t').result();
    expect(text).toBe('So.');
    expect(messages[1]).toMatchObject({ role: 'tool', content: 'It is.' });
    first.wake();
    stopped.open();
    await expect(passing(on.bench.clock, lost.settled)).rejects.toMatchObject({ code: 'FENCED' });
  });

  it('T-03 ends with the lease above: a tool of the child turn whose start is recorded does not start then', async () => {
    const paid: string[] = [];
    const pay = (who: string) =>
      new LocalToolProvider([
        tool({
          name: 'pay',
          description: 'Pays.',
          parameters: { type: 'object', properties: {} },
          onInDoubt: async () => ({ outcome: 'not-applied' as const }),
          execute: () => {
            paid.push(who);
            return 'paid';
          },
        }),
      ]);
    const acknowledged = gate();
    const renewed = gate();
    let isStopped = false;
    const isIntent = (record: JournalRecord) => record.type === 'tool.intent';
    const store: TaskStateStore = new Proxy(on.bench.store, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== 'function') return member;
        return (...args: readonly unknown[]) => {
          if (name === 'renew' && isStopped) return renewed.pass().then(() => Reflect.apply(member, target, args));
          const answer: unknown = Reflect.apply(member, target, args);
          const [lease, records] = args;
          const held =
            name === 'append' &&
            Reflect.get(Object(lease), 'taskId') === 't:1:0' &&
            Array.isArray(records) &&
            records.some(isIntent);
          return held ? acknowledged.pass() : answer;
        };
      },
    });
    const stopped = on.agent([{ toolCalls: [{ name: 'pay' }] }], { id: 'bo', toolProviders: [pay('first')] });
    const dead = on.agent([askBo], {
      toolProviders: [agentTools([stopped.with({ leaseMs: 20_000 })])],
      taskStateStore: store,
      leaseMs: 1_000,
    });
    const lost = dead.startTurn('Ask Bo.', { taskId: 't', detached: true });
    await acknowledged.reached;
    on.bench.leases.advance(1_500);
    const bo = on.agent([{ text: 'Done.' }], { id: 'bo', toolProviders: [pay('second')] });
    const ada = on.agent([{ text: 'So.' }], { toolProviders: [agentTools([bo])] });
    await ada.resume('t').result();
    expect(paid).toEqual(['second']);
    // The process wakes up: it hears that its intent is durable before it hears that its lease is gone.
    isStopped = true;
    on.bench.clock.advance(1_500);
    acknowledged.open();
    for (let turns = 0; turns < 20; turns++) await new Promise(setImmediate);
    expect(paid).toEqual(['second']);
    renewed.open();
    await expect(passing(on.bench.clock, lost.settled)).rejects.toMatchObject({ code: 'FENCED' });
    expect(paid).toEqual(['second']);
  });

  it('T-04 is given up by a parent that is FENCED: the child turn stays open, and its answer is not lost', async () => {
    const answers = gate();
    const old = on.agent([() => ({ gate: answers.pass(), text: 'Never.' })], { id: 'bo' });
    const dead = on.agent([askBo], { toolProviders: [agentTools([old])], leaseMs: 3_000 });
    const lost = dead.startTurn('Ask Bo.', { taskId: 't', detached: true });
    await answers.reached;
    on.bench.leases.advance(3_000);
    const thief = on.bench.store.acquire('t', 'thief', 1_000);
    on.bench.clock.advance(1_000);
    await expect(passing(on.bench.clock, lost.settled)).rejects.toMatchObject({ code: 'FENCED' });
    on.bench.store.release(thief);
    expect(types('t:1:0')).not.toContain('turn.canceled');
    expect(on.bench.store.list().map(({ held }) => held)).toEqual([false, false]);
    const bo = on.agent([{ text: 'It is.' }], { id: 'bo' });
    const ada = on.agent([{ text: 'So.' }], { toolProviders: [agentTools([bo])] });
    const { messages } = await ada.resume('t').result();
    expect(messages[1]).toMatchObject({ role: 'tool', content: 'It is.' });
    expect(on.bench.store.load('t:1:0')).toMatchObject({ status: 'completed' });
  });

  it('T-04 T-05 is given up in an outage longer than the deadline: nothing is cancelled, no result is made up', async () => {
    let down = false;
    const silent = gate();
    const store = seenBy(on.bench.store, (method) => (down && method !== 'release' ? silent.pass() : undefined));
    const answers = gate();
    const old = on.agent([() => ({ gate: answers.pass(), text: 'It is.' })], { id: 'bo', storeDeadlineMs: 2_000 });
    const dead = on.agent([askBo], {
      toolProviders: [agentTools([old])],
      taskStateStore: store,
      storeDeadlineMs: 2_000,
    });
    const lost = dead.startTurn('Ask Bo.', { taskId: 't', detached: true });
    await answers.reached;
    down = true;
    answers.open();
    await expect(passing(on.bench.clock, lost.settled)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    down = false;
    silent.open();
    await eventually(() => on.bench.store.list().every(({ held }) => !held));
    expect(types('t')).not.toContain('tool.result');
    expect(types('t:1:0')).not.toContain('turn.canceled');
    const bo = on.agent(has('t:1:0', 'turn.done') ? [] : [{ text: 'It is.' }], { id: 'bo' });
    const ada = on.agent([{ text: 'So.' }], { toolProviders: [agentTools([bo])] });
    const { messages } = await ada.resume('t').result();
    expect(messages[1]).toMatchObject({ role: 'tool', content: 'It is.' });
  });

  it('T-05 is taken back where another had the child turn for a while: the call has no result before that ends', async () => {
    const answers = gate();
    const bo = on.agent([() => ({ gate: answers.pass(), text: 'Never.' }), { text: 'It is.' }], {
      id: 'bo',
      leaseMs: 3_000,
    });
    const ada = on.agent([askBo, { text: 'So.' }], { toolProviders: [agentTools([bo])] });
    const turn = ada.startTurn('Ask Bo.', { taskId: 't', detached: true });
    await answers.reached;
    on.bench.leases.advance(3_000);
    const thief = on.bench.store.acquire('t:1:0', 'thief', 10_000);
    on.bench.clock.advance(1_000);
    expect(types('t')).not.toContain('tool.result');
    on.bench.store.release(thief);
    const { messages } = await passing(on.bench.clock, turn.result());
    expect(messages[1]).toMatchObject({ role: 'tool', content: 'It is.' });
    expect(on.bench.store.load('t:1:0')).toMatchObject({ status: 'completed', finalMessage: 'It is.' });
  });

  it('refuses to resume and to answer a child turn whose parent is open', async () => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const bo = on.agent([{ toolCalls: [{ name: 'pay' }] }], { id: 'bo', toolProviders: [pay] });
    const ada = on.agent([askBo], { toolProviders: [agentTools([bo])] });
    await ada.run('Pay.', { taskId: 't' });
    const answers = { '1:0': { approved: true } };
    const resumed = bo.resume('t:1:0', { answers });
    await expect(resumed.result()).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining('resume or answer task "t"'),
    });
    const { store } = on.bench;
    await expect(AgentLoop.answer('t:1:0', { store, answers })).rejects.toMatchObject({ code: 'CONFLICT' });
    await ada.cancel('t');
  });

  it('refuses an answer that does not fit the question of a child turn, before anything is recorded', async () => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const cy = on.agent([{ toolCalls: [{ name: 'pay' }] }, { text: 'Paid.' }], { id: 'cy', toolProviders: [pay] });
    const bo = on.agent([askCy, { text: 'Cy paid.' }], { id: 'bo', toolProviders: [agentTools([cy])] });
    const ada = on.agent([askBo, { text: 'So.' }], { toolProviders: [agentTools([bo])] });
    await ada.run('Pay.', { taskId: 't' });
    const before = types('t');
    const wrong = ada.resume('t', { answers: { '1:0': 'yes' } }).result();
    await expect(wrong).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect(types('t')).toEqual(before);
    const right = ada.resume('t', { answers: { '1:0': { approved: true } } }).result();
    await expect(right).resolves.toMatchObject({ text: 'So.' });
  });

  it('T-07 finds a child turn that a stopped owner created after the end of its parent', async () => {
    const { store } = on.bench;
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const bo = on.agent([{ toolCalls: [{ name: 'pay' }] }], { id: 'bo', toolProviders: [pay] });
    const ada = on.agent([askBo], { toolProviders: [agentTools([bo])] });
    await ada.run('Pay.', { taskId: 't' });
    const [started] = store.read('t:1:0');
    store.delete('t:1:0');
    await AgentLoop.cancel('t', { store, clock: on.bench.clock });
    if (started?.type === 'turn.started') store.create('t:1:0', started);
    await AgentLoop.cancel('t', { store, clock: on.bench.clock });
    expect(types('t:1:0').at(-1)).toBe('turn.canceled');
  });

  it('cancels a child turn that was left open by a parent that has ended, when somebody resumes it', async () => {
    const { store } = on.bench;
    const started = {
      type: 'turn.started' as const,
      schema: 3,
      taskId: 'child',
      contextId: 'child',
      agentId: 'bo',
      messages: [{ role: 'user' as const, content: 'Hi.' }],
      settings: {},
      parent: { taskId: 'gone', callId: '1:0', agentId: 'ada', rootTaskId: 'gone' },
      seq: 1,
      epoch: 0,
      at: 0,
    };
    store.create('child', started);
    const bo = on.agent([], { id: 'bo' });
    await expect(bo.resume('child').result()).rejects.toMatchObject({ code: 'CANCELED' });
    expect(types('child')).toEqual(['turn.started', 'turn.canceled']);
  });
});

describe('a turn that another owner runs', () => {
  const startFrozen = async () => {
    const first = stoppedProcess(on.bench.store);
    const stopped = gate();
    const dead = on.agent([() => ({ text: ['One ', 'two.'], gate: stopped.pass() })], {
      taskStateStore: first.store,
      leaseMs: 3_000,
    });
    const lost = dead.startTurn('Go.', { taskId: 't', detached: true });
    await stopped.reached;
    return { first, stopped, lost };
  };

  it('T-06 H-21 is taken over by a second startTurn when its lease ends, and each record is shown once', async () => {
    const { first, stopped, lost } = await startFrozen();
    const heir = on.agent([{ text: 'Three.' }]);
    const turn = heir.startTurn('Go.', { taskId: 't' });
    const reader = watch(turn);
    await reader.until('internal:llm-call');
    first.freeze();
    on.bench.leases.advance(3_000);
    await passing(on.bench.clock, reader.ended);
    expect(reader.end).toBe('complete');
    const cursors = reader.events.flatMap(({ cursor }) => (cursor === undefined ? [] : [cursor]));
    expect(new Set(cursors).size).toBe(cursors.length);
    expect(textsOf(reader.events)).toEqual({ 'answer-1': 'Three.' });
    expect((await turn.result()).text).toBe('Three.');
    first.wake();
    stopped.open();
    await expect(passing(on.bench.clock, lost.settled)).rejects.toMatchObject({ code: 'FENCED' });
  });

  it('H-21 H-36 is waited for by a resume with onBusy: "wait"; without it the resume is lost with BUSY', async () => {
    const { first, stopped, lost } = await startFrozen();
    const heir = on.agent([{ text: 'Three.' }]);
    await expect(heir.resume('t').result()).rejects.toMatchObject({ code: 'BUSY', retryable: true });
    const waiting = heir.resume('t', { onBusy: 'wait' });
    const reader = watch(waiting);
    await reader.until('internal:llm-call');
    first.freeze();
    on.bench.leases.advance(3_000);
    await passing(on.bench.clock, reader.ended);
    expect((await waiting.result()).text).toBe('Three.');
    first.wake();
    stopped.open();
    await expect(passing(on.bench.clock, lost.settled)).rejects.toMatchObject({ code: 'FENCED' });
  });

  it('H-21 that waits for an answer when it is read is taken over where the answer is written just then', async () => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const asking = on.agent([{ toolCalls: [{ name: 'pay' }] }], { toolProviders: [pay] });
    await asking.run('Pay.', { taskId: 't' });
    let reads = 0;
    const store = seenBy(on.bench.store, (method) => {
      if (method !== 'read' || ++reads !== 2) return undefined;
      const answers = { '1:0': { approved: true } };
      return AgentLoop.answer('t', { store: on.bench.store, answers, clock: on.bench.clock });
    });
    const heir = on.agent([{ text: 'Paid.' }], { toolProviders: [pay], taskStateStore: store });
    const { text } = await passing(on.bench.clock, heir.startTurn('Pay.', { taskId: 't' }).result());
    expect(text).toBe('Paid.');
  });

  it('H-21 is not taken over while its owner lives, nor when that pauses it', async () => {
    const answers = gate();
    const owner = on.agent([() => ({ gate: answers.pass(), toolCalls: [{ name: 'count' }] })], {
      toolProviders: [plainTools({ count: () => 2 })],
    });
    const turn = owner.startTurn('Go.', { taskId: 't', detached: true });
    await answers.reached;
    const second = on.agent([]).startTurn('Go.', { taskId: 't' });
    const reader = watch(second);
    await reader.until('internal:llm-call');
    for (let index = 0; index < 8; index++) on.bench.clock.advance(5_000);
    turn.pause('enough');
    answers.open();
    await reader.ended;
    expect(reader.events.at(-1)).toMatchObject({ kind: 'status-update', final: true, reason: 'enough' });
    expect(types('t')).not.toContain('turn.resumed');
    await second.result();
  });
});
