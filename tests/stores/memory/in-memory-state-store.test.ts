import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, foldRecords, InMemoryStateStore, type JournalRecord, toPersisted } from 'millrace';
import { done, llmAnswer, llmStart, noteRecord as note, startRecord, textDelta, wholeTurn } from 'millrace/internals';
import { fakeClock } from 'millrace/testing';
import type { FollowSignal, Lease, TaskQuery, TurnRecord } from 'millrace/types';

const options = { status: 'working', barrier: true } as const;

function held(taskId = 't', store = new InMemoryStateStore({ clock: fakeClock() })) {
  store.create(taskId, startRecord(taskId));
  const lease = store.acquire(taskId, 'a', 1_000);
  return { store, lease, taskId };
}

function stamp(lease: Lease, first: number, ...records: readonly TurnRecord[]): readonly JournalRecord[] {
  return records.map((record, index) => ({
    ...record,
    seq: first + index,
    epoch: lease.epoch,
    at: 10 + first + index,
  }));
}

function thrownBy(action: () => unknown): AgentLoopError {
  try {
    action();
  } catch (error) {
    if (AgentLoopError.isInstance(error)) return error;
    throw error;
  }
  throw new Error('Nothing was thrown.');
}

function labels(signals: readonly FollowSignal[]): readonly string[] {
  return signals.map((signal) => {
    if (signal.type === 'record') return `${signal.record.seq}`;
    if (signal.delta.type === 'tool-progress') return `progress ${signal.delta.callId}`;
    const { chunk } = signal.delta;
    return 'text' in chunk ? `${chunk.type} ${chunk.text}` : chunk.type;
  });
}

describe('InMemoryStateStore', () => {
  it('C-08 lists the tasks of a context without the others, also after a task of another one, and after deletions', () => {
    const store = new InMemoryStateStore({ clock: fakeClock() });
    const create = (taskId: string, contextId: string) =>
      store.create(taskId, { ...startRecord(taskId), taskId, contextId });
    for (const [n, contextId] of ['c', 'd', 'c', 'd', 'c'].entries()) create(`t${n}`, contextId);
    const listed = (query: TaskQuery) => store.list(query).map(({ taskId }) => taskId);
    expect(listed({ contextId: 'c' })).toEqual(['t4', 't2', 't0']);
    expect(listed({ contextId: 'c', afterTaskId: 't4' })).toEqual(['t2', 't0']);
    expect(listed({ contextId: 'c', afterTaskId: 't3' })).toEqual(['t2', 't0']);
    expect(() => listed({ contextId: 'c', afterTaskId: 'unknown' })).toThrow(AgentLoopError);
    store.delete('t0');
    store.delete('t2');
    create('t0', 'c');
    expect(listed({ contextId: 'c' })).toEqual(['t0', 't4']);
    store.delete('t1');
    store.delete('t3');
    expect(listed({ contextId: 'd' })).toEqual([]);
    expect(listed({})).toEqual(['t0', 't4']);
  });

  it('S1-73 answers every method at once, append with nothing at all', () => {
    const { store, lease } = held();
    expect(store.append(lease, stamp(lease, 2, note(1)), options)).toBeUndefined();
    const answers: unknown[] = [
      store.create('u', startRecord('u')),
      store.acquire('u', 'a', 1_000),
      store.renew(lease),
      store.post('t', { id: 'c', type: 'cancel' }),
      store.read('t'),
      store.load('t'),
      store.list(),
      store.check(),
      store.release(lease),
      store.delete('t'),
    ];
    for (const answer of answers) expect(answer).not.toBeInstanceOf(Promise);
    expect(() => store.read('t')).toThrow(AgentLoopError);
  });

  it('shares records by reference, and the one it was created with', () => {
    const store = new InMemoryStateStore();
    const started = startRecord('t');
    expect(store.create('t', started).started).toBe(started);
    const lease = store.acquire('t', 'a', 1_000);
    const records = stamp(lease, 2, note({ large: 'x' }));
    store.append(lease, records, options);
    expect(store.read('t')[0]).toBe(started);
    expect(store.read('t')[1]).toBe(records[0]);
  });

  it('S1-71 loads the folded state of a task, until it is deleted', () => {
    const { store, lease } = held();
    expect(store.load('t')).toMatchObject({ taskId: 't', status: 'submitted', iteration: 0, seq: 1 });
    store.append(lease, stamp(lease, 2, llmStart(1), llmAnswer(1, 'Two.'), done), {
      status: 'completed',
      barrier: true,
    });
    expect(store.load('t')).toMatchObject({ status: 'completed', finalMessage: 'Two.', iteration: 1, seq: 4 });
    store.delete('t');
    expect(store.load('t')).toBeNull();
  });

  it('S1-81 S0-60 reads every record of a turn that has ended, and any prefix folds into the state at that point', () => {
    const { store, lease } = held();
    const states = [store.load('t')];
    let next = 2;
    for (const record of wholeTurn.flat()) {
      store.append(lease, stamp(lease, next++, record), options);
      states.push(store.load('t'));
    }
    store.release(lease);
    const records = store.read('t');
    expect(records.map(({ seq }) => seq)).toEqual(records.map((_, index) => index + 1));
    expect(records.filter(({ type }) => type === 'llm.done')).toHaveLength(2);
    const folded = records.map((_, index) => toPersisted(foldRecords(records.slice(0, index + 1))));
    expect(folded).toEqual(states);
    expect(folded.map(({ iteration }) => iteration)).toEqual([0, 1, 1, 1, 1, 2, 2, 2]);
  });

  it('lets one of two owners that race for a task proceed, and the other only once the lease ran out', () => {
    const clock = fakeClock();
    const store = new InMemoryStateStore({ clock });
    store.create('t', startRecord('t'));
    const first = store.acquire('t', 'a', 1_000);
    clock.advance(400);
    const busy = thrownBy(() => store.acquire('t', 'b', 1_000));
    expect(busy).toMatchObject({ code: 'BUSY', retryable: true, retryAfterMs: 600, taskId: 't' });
    clock.advance(600);
    const second = store.acquire('t', 'b', 1_000);
    store.append(second, stamp(second, 2, note('b')), options);
    expect(thrownBy(() => store.append(first, stamp(first, 2, note('a')), options)).code).toBe('FENCED');
    expect(store.read('t').map((record) => ('data' in record ? record.data : record.type))).toEqual([
      'turn.started',
      'b',
    ]);
  });

  it('shortens a lease that ends too late because the clock was set back: busy for its length, then free', () => {
    let now = 100_000;
    const store = new InMemoryStateStore({ clock: { ...fakeClock(), now: () => now } });
    held('t', store);
    now = 0;
    expect(thrownBy(() => store.acquire('t', 'b', 1_000))).toMatchObject({ code: 'BUSY', retryAfterMs: 1_000 });
    now = 999;
    expect(thrownBy(() => store.acquire('t', 'b', 1_000))).toMatchObject({ code: 'BUSY', retryAfterMs: 1 });
    now = 1_000;
    expect(store.acquire('t', 'b', 1_000)).toMatchObject({ owner: 'b' });
  });

  it('says in one sentence what is wrong and what to do', () => {
    const { store, lease } = held();
    const later: JournalRecord = JSON.parse('{"type":"later.thing","seq":2,"epoch":1,"at":0}');
    const messages = [
      () => store.create('a b', startRecord('a b')),
      () => store.read('missing'),
      () => store.acquire('t', 'b', 1_000),
      () => store.append({ ...lease, epoch: 7 }, stamp(lease, 2, note(1)), options),
      () => store.append(lease, stamp(lease, 4, note(1)), options),
      () => store.append(lease, [later], options),
      () => store.append(lease, stamp(lease, 2, done, note(1)), options),
    ].map((action) => `${thrownBy(action).code}: ${thrownBy(action).message}`);
    expect(messages).toEqual([
      'INVALID_INPUT: taskId must be 1 to 128 of the characters A-Z a-z 0-9 _ . : -, got "a b".',
      'NOT_FOUND: The store has no task "missing"; check the id, or start the turn again if the task was deleted or has expired.',
      'BUSY: Task "t" is held by another owner for 1000 ms more; follow it, or try again later.',
      'FENCED: The lease of "a" on task "t" (epoch 7) was taken over or released; stop this turn, its results are not recorded.',
      'REWOUND: Record 4 does not follow the journal of task "t", which ends at 1; stop this turn and resume the task from its journal.',
      'POISON: Record 2 of task "t" has the type "later.thing", which this version does not know; name extension records "x.…", or update millrace.',
      'TERMINAL: The turn of task "t" has ended; start a new one with another id.',
    ]);
    expect(store.read('t')).toHaveLength(1);
  });

  it('refuses a batch that was applied only in part, and one that stood there before the lease', () => {
    const { store, lease } = held();
    store.append(lease, stamp(lease, 2, note('two'), note('three')), options);
    const overlap = stamp(lease, 3, note('three'), note('four'));
    expect(thrownBy(() => store.append(lease, overlap, options)).code).toBe('REWOUND');
    expect(thrownBy(() => store.append(lease, stamp(lease, 1, note('one')), options)).code).toBe('REWOUND');
    expect(store.read('t')).toHaveLength(3);
  });

  it('takes an append without records as a sign of life', () => {
    const clock = fakeClock();
    const { store, lease } = held('t', new InMemoryStateStore({ clock }));
    clock.advance(900);
    store.append(lease, [], options);
    clock.advance(900);
    expect(thrownBy(() => store.acquire('t', 'b', 1_000)).code).toBe('BUSY');
    expect(store.read('t')).toHaveLength(1);
  });

  it('does not repeat an epoch where a task is deleted and created again', () => {
    const { store, lease } = held();
    store.delete('t');
    store.create('t', startRecord('t'));
    expect(store.acquire('t', 'a', 1_000).epoch).toBeGreaterThan(lease.epoch);
  });

  describe('follow', () => {
    it('shows records and deltas in the order of the turn, also where a handler publishes and appends', () => {
      const { store, lease } = held();
      const [seen, other]: [FollowSignal[], FollowSignal[]] = [[], []];
      store.follow('t').subscribe((signal) => {
        seen.push(signal);
        if (signal.type !== 'record' || signal.record.seq !== 2) return;
        store.publish('t', textDelta(lease.epoch, 'nested'));
        store.append(lease, stamp(lease, 4, note('nested')), options);
      });
      store.follow('t').subscribe((signal) => other.push(signal));
      store.append(lease, stamp(lease, 2, llmStart(1), note('same append')), options);
      store.publish('t', textDelta(lease.epoch, 'after'));
      expect(labels(seen)).toEqual(['1', '2', '3', 'text nested', '4', 'text after']);
      expect(other).toEqual(seen);
    });

    it('gives a reader that joins from inside a handler everything once', () => {
      const { store, lease } = held();
      const late: FollowSignal[] = [];
      store.append(lease, stamp(lease, 2, llmStart(1)), options);
      let joined = false;
      store.follow('t', { from: 3 }).subscribe(() => {
        if (joined) return;
        joined = true;
        store.follow('t').subscribe((signal) => late.push(signal));
      });
      store.publish('t', textDelta(lease.epoch, 'one'));
      store.publish('t', textDelta(lease.epoch, ' two'));
      store.append(lease, stamp(lease, 3, note(3)), options);
      expect(labels(late)).toEqual(['1', '2', 'text one', 'text  two', '3']);
    });

    it('shows deltas of every kind while they happen, and keeps nothing but text', () => {
      const { store, lease } = held();
      const { epoch } = lease;
      const [seen, late]: [FollowSignal[], FollowSignal[]] = [[], []];
      store.follow('t').subscribe((signal) => seen.push(signal));
      store.append(lease, stamp(lease, 2, llmStart(1)), options);
      store.publish('t', { type: 'llm', epoch, iteration: 1, attempt: 1, chunk: { type: 'reasoning', text: 'hm' } });
      store.publish('t', textDelta(epoch, 'so'));
      store.publish('t', { type: 'tool-progress', epoch, callId: '1:0', update: { percent: 5 } });
      store.publish('t', { type: 'tool-progress', epoch: epoch - 1, callId: '1:1', update: 'stale' });
      store.follow('t').subscribe((signal) => late.push(signal));
      expect(labels(seen)).toEqual(['1', '2', 'reasoning hm', 'text so', 'progress 1:0']);
      expect(labels(late)).toEqual(['1', '2', 'text so']);
    });

    it('gives the text of 100,000 deltas as one', () => {
      const { store, lease } = held();
      store.append(lease, stamp(lease, 2, llmStart(1)), options);
      for (let index = 0; index < 100_000; index++) store.publish('t', textDelta(lease.epoch, 'word '));
      const seen: FollowSignal[] = [];
      store.follow('t', { from: 3 }).subscribe((signal) => seen.push(signal));
      expect(labels(seen)).toEqual([`text ${'word '.repeat(100_000)}`]);
    });

    it('takes a from below 1 as the start', () => {
      const { store } = held();
      const seen: FollowSignal[] = [];
      store.follow('t', { from: -3 }).subscribe((signal) => seen.push(signal));
      expect(labels(seen)).toEqual(['1']);
      expect(store.read('t', { from: 0 })).toHaveLength(1);
    });
  });

  describe('commands', () => {
    it('say NOT_FOUND where there is no task, and fall silent when it is deleted', () => {
      const { store } = held();
      const seen: string[] = [];
      const observer = {
        next: ({ id }: { readonly id: string }) => seen.push(id),
        error: (error: AgentLoopError) => seen.push(error.code),
        complete: () => seen.push('complete'),
      };
      store.commands('missing').subscribe(observer);
      store.commands('t').subscribe(observer);
      store.post('t', { id: 'c', type: 'pause' });
      store.delete('t');
      expect(seen).toEqual(['NOT_FOUND', 'c']);
    });
  });

  describe('maxEndedTasks', () => {
    const end = (store: InMemoryStateStore, taskId: string): Lease => {
      const { lease } = held(taskId, store);
      store.append(lease, stamp(lease, 2, done), { status: 'completed', barrier: true });
      return lease;
    };

    it('keeps that many ended turns and forgets the one that ended first; running ones do not count', () => {
      const store = new InMemoryStateStore({ maxEndedTasks: 2 });
      held('running', store);
      for (const taskId of ['a', 'b', 'c', 'd']) end(store, taskId);
      expect(store.list().map(({ taskId }) => taskId)).toEqual(['d', 'c', 'running']);
      expect(store.load('a')).toBeNull();
    });

    it('does not count child turns: they stay as long as their parent turn, whatever ends after them', () => {
      const store = new InMemoryStateStore({ maxEndedTasks: 1, clock: fakeClock() });
      held('parent', store);
      const parent = { taskId: 'parent', callId: '1:0', agentId: 'a', rootTaskId: 'parent' };
      store.create('child', { ...startRecord('child'), parent });
      const lease = store.acquire('child', 'a', 1_000);
      store.append(lease, stamp(lease, 2, done), { status: 'completed', barrier: true });
      end(store, 'other');
      expect(store.list().map(({ taskId }) => taskId)).toEqual(['other', 'child', 'parent']);
    });

    it('does not count what was deleted, nor an end that is sent again', () => {
      const store = new InMemoryStateStore({ maxEndedTasks: 2 });
      end(store, 'a');
      const lease = end(store, 'b');
      store.append(lease, stamp(lease, 2, done), { status: 'completed', barrier: true });
      store.delete('a');
      end(store, 'c');
      expect(store.list().map(({ taskId }) => taskId)).toEqual(['c', 'b']);
    });

    it('lets followers see the end of a turn that is forgotten with it', () => {
      const store = new InMemoryStateStore({ maxEndedTasks: 0 });
      const { lease } = held('t', store);
      const seen: string[] = [];
      store.follow('t').subscribe({
        next: (signal) => seen.push(...labels([signal])),
        error: () => seen.push('error'),
        complete: () => seen.push('complete'),
      });
      store.append(lease, stamp(lease, 2, done), { status: 'completed', barrier: true });
      expect(seen).toEqual(['1', '2', 'complete']);
      expect(store.list()).toEqual([]);
    });

    it('spares a task that a follower deletes and creates again while the old one ends', () => {
      const store = new InMemoryStateStore({ maxEndedTasks: 1 });
      const { lease } = held('t', store);
      store.follow('t').subscribe({
        complete: () => {
          store.delete('t');
          store.create('t', startRecord('t'));
        },
      });
      store.append(lease, stamp(lease, 2, done), { status: 'completed', barrier: true });
      end(store, 'kept');
      expect(store.list().map(({ taskId }) => taskId)).toEqual(['kept', 't']);
    });

    it.each([-1, Number.NaN])('refuses %s with INVALID_CONFIG', (maxEndedTasks) => {
      expect(thrownBy(() => new InMemoryStateStore({ maxEndedTasks })).code).toBe('INVALID_CONFIG');
    });
  });

  it('warns in check that journals end with the process', () => {
    expect(new InMemoryStateStore().check()).toEqual({
      ok: true,
      warnings: ['Journals in memory end with this process; use a durable store where a turn has to outlive it.'],
    });
  });
});
