import { describe, expect, it } from '@jest/globals';
import { AgentLoopError } from 'millrace';
import { commitOf, EventProjector, replayOf, type SharedTurn, shareTurn } from 'millrace/internals';
import type { Commit, Signal } from 'millrace/operators';
import { journalSchema } from 'millrace/stores';
import type { TurnRecord } from 'millrace/types';
import { config, Observable, Subject, take } from 'rxjs';
import { outlineOf, watch } from './watch-events.ts';

const now = () => 0;

/** The first commit of any turn. */
const started: Commit = replayOf([
  {
    type: 'turn.started',
    schema: journalSchema,
    taskId: 't',
    contextId: 'c',
    agentId: 'a',
    messages: [],
    settings: {},
    seq: 1,
    epoch: 0,
    at: 0,
  },
]);

const callsModel = { type: 'llm.start', iteration: 1, attempt: 1 } as const;
const answers: TurnRecord = {
  type: 'llm.done',
  iteration: 1,
  attempt: 1,
  message: { role: 'assistant', content: 'Hello' },
  calls: [],
  finishReason: 'stop',
};
const ends: TurnRecord = { type: 'turn.done', text: 'Hello', reason: 'stop' };

const openingLines = ['task submitted', 'status working', 'iteration-start 1', 'llm-call 1.1'];
const closingLines = ['llm-response 1 stop', 'iteration-complete 1', 'status completed final (stop)'];

/** An execution that the test drives, and what the sharing tells of it. */
function sharedExecution(options: { readonly now?: () => number } = {}) {
  const source = new Subject<Signal>();
  const notes: unknown[] = [];
  let subscriptions = 0;
  let open = 0;
  let last = started;
  const execution$ = new Observable<Signal>((subscriber) => {
    subscriptions++;
    open++;
    subscriber.add(() => open--);
    return source.subscribe(subscriber);
  });
  const shared: SharedTurn = shareTurn(execution$, {
    projector: new EventProjector({ checkpoints: false, now, ...options }),
    onIdle: () => notes.push('idle'),
    onEnd: (error) => notes.push(error ?? 'end'),
  });
  const write = (...records: readonly TurnRecord[]) => {
    last = commitOf(
      { epoch: 1, now },
      last.after,
      records.map((record) => ({ ...record })),
    );
    source.next(last);
  };
  return {
    shared,
    notes,
    source,
    write,
    start: () => source.next(started),
    say: (text: string) => source.next({ type: 'text', text }),
    get subscriptions() {
      return subscriptions;
    },
    get open() {
      return open;
    },
  };
}

/** One that is in the middle of a model call. */
function callingExecution() {
  const execution = sharedExecution();
  const first = watch(execution.shared.events$);
  execution.start();
  execution.write(callsModel);
  return Object.assign(execution, { first });
}

describe('shareTurn', () => {
  it('subscribes to the execution with the first reader, and once for all', () => {
    const execution = sharedExecution();
    expect(execution.subscriptions).toBe(0);
    const readers = [watch(execution.shared.events$), watch(execution.shared.events$)];
    execution.shared.connect();
    expect(execution.subscriptions).toBe(1);
    execution.start();
    for (const { events } of readers) expect(outlineOf(events)).toEqual(openingLines.slice(0, 2));
  });

  it('starts without a reader on connect, and is not idle then', () => {
    const execution = sharedExecution();
    execution.shared.connect();
    execution.start();
    expect([execution.subscriptions, execution.notes]).toEqual([1, []]);
    expect(outlineOf(watch(execution.shared.events$).events)).toEqual(openingLines.slice(0, 2));
  });

  it('gives a late reader the events of the records, the text so far as one event, then the live events', () => {
    const { shared, say, write, source, first } = callingExecution();
    for (const text of ['He', 'l', 'l']) say(text);
    const late = watch(shared.events$);
    say('o');
    write(answers, ends);
    source.complete();
    expect(outlineOf(late.events)).toEqual([
      ...openingLines,
      'answer-1 is: "Hell"',
      'answer-1 appends: "o"',
      'answer-1 appends, last: ""',
      ...closingLines,
    ]);
    expect(outlineOf(first.events).slice(-closingLines.length)).toEqual(closingLines);
    expect([first.end, late.end]).toEqual(['complete', 'complete']);
  });

  it('gives one who comes after the end the same and the end', () => {
    const execution = callingExecution();
    const { shared, say, write, source } = execution;
    say('Hello');
    write(answers, ends);
    source.complete();
    const late = watch(shared.events$);
    expect(outlineOf(late.events)).toEqual([...openingLines, 'answer-1 is, last: "Hello"', ...closingLines]);
    expect([late.end, execution.subscriptions]).toEqual(['complete', 1]);
  });

  it('gives one who comes after the loss the records and the error', () => {
    const { shared, source, say, notes, first } = callingExecution();
    const error = new AgentLoopError('FENCED', 'gone');
    say('Hel');
    source.error(error);
    const late = watch(shared.events$);
    expect([first.end, late.end]).toEqual([{ error }, { error }]);
    expect(outlineOf(late.events)).toEqual(openingLines);
    expect(notes).toEqual([{ cause: error }]);
  });

  it('tells of idleness when the last reader leaves, each time, and never after the end', () => {
    const execution = callingExecution();
    const { shared, source, notes, first } = execution;
    const second = watch(shared.events$);
    first.leave();
    expect(notes).toEqual([]);
    second.leave();
    expect(notes).toEqual(['idle']);
    watch(shared.events$).leave();
    expect(notes).toEqual(['idle', 'idle']);
    const last = watch(shared.events$);
    source.complete();
    last.leave();
    watch(shared.events$).leave();
    expect(notes).toEqual(['idle', 'idle', 'end']);
    expect(execution.open).toBe(0);
  });

  it('is not idle while a late reader takes over from the one before, within its own first event', () => {
    const { shared, notes, say, first } = callingExecution();
    const second = watch(shared.events$, () => first.leave());
    say('Hello');
    expect(notes).toEqual([]);
    expect(outlineOf(second.events)).toEqual([...openingLines, 'answer-1 is: "Hello"']);
  });

  it('is idle when a late reader takes over and leaves within its own first events', () => {
    const { shared, notes, first } = callingExecution();
    shared.events$.pipe(take(2)).subscribe(() => first.leave());
    expect(notes).toEqual(['idle']);
  });

  it('stops telling a late reader of the past when it leaves', () => {
    const { shared, notes } = callingExecution();
    let seen = 0;
    shared.events$.pipe(take(2)).subscribe(() => seen++);
    expect([seen, notes]).toEqual([2, []]);
  });
});

describe('a reader of shareTurn that acts within its own handler', () => {
  it('lets another in: both see every event once, in order', () => {
    const execution = sharedExecution();
    const late: ReturnType<typeof watch>[] = [];
    const first = watch(execution.shared.events$, ({ kind }) => {
      if (kind === 'status-update') late.push(watch(execution.shared.events$));
    });
    execution.start();
    execution.write(callsModel);
    execution.say('Hello');
    expect(late).toHaveLength(1);
    expect(outlineOf(late[0]?.events ?? [])).toEqual(outlineOf(first.events));
  });

  it('leaves: the others see every event, in order', () => {
    const execution = sharedExecution();
    const before = watch(execution.shared.events$);
    const leaver = watch(execution.shared.events$, () => leaver.leave());
    const behind = watch(execution.shared.events$);
    execution.start();
    execution.write(callsModel);
    expect(leaver.events).toHaveLength(1);
    for (const { events } of [before, behind]) expect(outlineOf(events)).toEqual(openingLines);
    expect(execution.notes).toEqual([]);
  });

  it('throws another out: that one sees nothing more, not even the event at hand', () => {
    const execution = sharedExecution();
    watch(execution.shared.events$, () => other.leave());
    const other = watch(execution.shared.events$);
    execution.start();
    expect(other.events).toEqual([]);
  });

  it('makes the execution go on: every reader sees the event at hand before what follows from it', () => {
    const execution = sharedExecution();
    const eager = watch(execution.shared.events$, ({ kind }) => {
      if (kind === 'internal:llm-call') execution.write(answers, ends);
      if (kind === 'internal:llm-response') execution.source.complete();
    });
    const other = watch(execution.shared.events$);
    execution.start();
    execution.write(callsModel);
    const all = [...openingLines, 'answer-1 is, last: "Hello"', ...closingLines];
    for (const { events, end } of [eager, other]) {
      expect(outlineOf(events)).toEqual(all);
      expect(end).toBe('complete');
    }
  });

  it('throws: the others and the turn are not disturbed, and the error is reported', async () => {
    const reported = new Promise((resolve) => {
      config.onUnhandledError = resolve;
    });
    const execution = sharedExecution();
    const before = watch(execution.shared.events$);
    execution.shared.events$.subscribe(({ kind }) => {
      if (kind === 'task') throw new Error('clumsy');
    });
    const behind = watch(execution.shared.events$);
    execution.start();
    execution.write(callsModel);
    for (const { events } of [before, behind]) expect(outlineOf(events)).toEqual(openingLines);
    expect(await reported).toMatchObject({ message: 'clumsy' });
    config.onUnhandledError = null;
  });

  it('lets another in as its last event: that one gets all and the end', () => {
    const execution = sharedExecution();
    const late: ReturnType<typeof watch>[] = [];
    const first = watch(execution.shared.events$, (event) => {
      if (event.kind === 'status-update' && event.final) late.push(watch(execution.shared.events$));
    });
    execution.start();
    execution.write(callsModel);
    execution.write(answers, ends);
    execution.source.complete();
    expect(late).toMatchObject([{ end: 'complete' }]);
    expect(outlineOf(late[0]?.events ?? [])).toEqual(outlineOf(first.events));
  });
});

describe('what shareTurn holds', () => {
  it('is the text and not the deltas: after 50,000 of them a late reader gets one event', () => {
    const { shared, say, first } = callingExecution();
    for (let n = 0; n < 50_000; n++) say('0123456789');
    expect(first.events).toHaveLength(openingLines.length + 50_000);
    const { events } = watch(shared.events$);
    expect(events).toHaveLength(openingLines.length + 1);
    expect(events.at(-1)).toMatchObject({ artifact: { parts: [{ text: '0123456789'.repeat(50_000) }] } });
  });

  it('errors for every reader, once, where an event cannot be written', () => {
    const broken = new Error('no time');
    let works = true;
    const execution = sharedExecution({
      now: () => {
        if (works) return 0;
        throw broken;
      },
    });
    const readers = [watch(execution.shared.events$), watch(execution.shared.events$)];
    execution.start();
    execution.write(callsModel);
    works = false;
    execution.say('Hello');
    for (const { end } of readers) expect(end).toEqual({ error: broken });
    expect(execution.notes).toEqual([{ cause: broken }]);
    expect(outlineOf(watch(execution.shared.events$).events)).toEqual(openingLines);
  });
});
