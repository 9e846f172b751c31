import { describe, expect, it } from '@jest/globals';
import {
  type AgentEvent,
  type AgentLoopConfig,
  LocalToolProvider,
  type Snapshot,
  snapshotStateStore,
  type TaskStateStore,
  type ToolPolicy,
  tool,
} from 'millrace';
import { AgentLoop, callsOfChildren, noteRecord as note, Owner, refuses, startRecord, watch } from 'millrace/internals';
import { journalSchema } from 'millrace/stores';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { PlainMap } from './plain-map.ts';

const question = [{ role: 'user', content: 'How many?' }] as const;
const twoCalls = { text: 'Let me look.', toolCalls: [{ name: 'first' }, { name: 'second' }] };
const answer = { text: 'Two.' };

type Runs = (options: { readonly signal: AbortSignal }) => unknown;

/** The tools `first` and `second`, and who ran. */
function tools(
  first: Runs,
  second: Runs,
  policy: Omit<ToolPolicy, 'needsApproval'> & { readonly needsApproval?: boolean } = {},
) {
  const ran: string[] = [];
  const made = (name: string, run: Runs) =>
    tool({
      ...policy,
      name,
      description: name,
      parameters: { type: 'object' },
      execute: (_, context) => {
        ran.push(name);
        return run(context);
      },
    });
  const toolProviders = [new LocalToolProvider([made('first', first), made('second', second)])];
  return { ran, given: { toolProviders } };
}

function config(
  store: TaskStateStore,
  steps: readonly ScriptedLLMStep[],
  options: Partial<AgentLoopConfig> = {},
): AgentLoopConfig {
  return { agentId: 'a', llmProvider: scriptedLLM(steps), taskStateStore: store, ...options };
}

/** What another process finds: the snapshot that was saved last, and nothing else. */
function copyOf(plain: PlainMap, snapshot: Snapshot | undefined = plain.saves.at(-1)): PlainMap {
  const copy = new PlainMap();
  if (snapshot) copy.texts.set(snapshot.taskId, JSON.stringify(snapshot));
  return copy;
}

describe('S1-106 snapshotStateStore', () => {
  it('S1-106 saves before each iteration, after each model call and at the end, each time the whole state', async () => {
    const plain = new PlainMap();
    const { given } = tools(
      () => 1,
      () => 2,
    );
    const loop = new AgentLoop(config(snapshotStateStore(plain), [twoCalls, answer], given));
    const turn = loop.startTurn(question, { taskId: 't' });
    const checkpoints: (readonly [string, number, number])[] = [];
    turn.subscribe((event: AgentEvent) => {
      if (event.kind !== 'internal:checkpoint') return;
      const saved = plain.saves.at(-1);
      checkpoints.push([event.phase, event.iteration, saved?.messages.length ?? 0]);
    });
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    await turn.settled;
    // What was saved when each checkpoint was shown.
    expect(checkpoints).toEqual([
      ['before-iteration', 0, 1],
      ['after-llm', 1, 2],
      ['before-iteration', 1, 4],
      ['after-llm', 2, 5],
      ['end', 2, 5],
    ]);
    const saved = plain.saves.map(({ iteration, messages, pendingToolCalls, status }) => [
      iteration,
      messages.length,
      pendingToolCalls.length,
      status,
    ]);
    expect(saved).toEqual([
      [0, 1, 0, 'submitted'],
      // The lease is taken.
      [0, 1, 0, 'submitted'],
      [1, 2, 2, 'working'],
      // The last result and the start of the next call are one append.
      [2, 4, 0, 'working'],
      [2, 5, 0, 'completed'],
    ]);
    expect(plain.saves.at(-1)).toMatchObject({ finalMessage: 'Two.', isComplete: true, taskId: 't', agentId: 'a' });
  });

  it('S1-106 goes on in another process from any of its snapshots alone; what a snapshot has is not done again', async () => {
    const plain = new PlainMap();
    const before = tools(
      () => 1,
      () => 2,
    );
    const loop = new AgentLoop(config(snapshotStateStore(plain), [twoCalls, answer], before.given));
    await loop.startTurn(question, { taskId: 't', detached: true }).result();
    const left: readonly (readonly ScriptedLLMStep[])[] = [
      [twoCalls, answer],
      [twoCalls, answer],
      [answer],
      [answer],
      [],
    ];
    expect(plain.saves).toHaveLength(left.length);
    for (const [index, steps] of left.entries()) {
      const { ran, given } = tools(
        () => 1,
        () => 2,
      );
      const llmProvider = scriptedLLM(steps);
      const store = snapshotStateStore(copyOf(plain, plain.saves[index]));
      const resumed = AgentLoop.resume('t', { agentId: 'a', llmProvider, taskStateStore: store, ...given });
      resumed.subscribe();
      expect(await resumed.result()).toMatchObject({ status: 'completed', text: 'Two.' });
      await resumed.settled;
      llmProvider.assertDone();
      expect(ran).toEqual(index < 2 ? ['first', 'second'] : []);
    }
  });

  it.each([
    { policy: {}, runs: [], told: /OUTCOME_UNKNOWN/ },
    { policy: { idempotent: true, onInDoubt: 'retry' as const }, runs: ['first', 'second'], told: /^done again$/ },
  ])('S1-106 has every call of a batch in doubt that the process died in: $policy', async ({ policy, runs, told }) => {
    const plain = new PlainMap();
    const finished = gate();
    const old = tools(
      () => finished.open(),
      ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', resolve)),
      policy,
    );
    // One at a time: the intent of `second` comes behind the snapshot.
    const options = { ...old.given, toolConcurrency: 1, abortGraceMs: 0 };
    const turn = new AgentLoop(config(snapshotStateStore(plain), [twoCalls], options)).startTurn(question, {
      taskId: 't',
    });
    const secondRuns = new Promise<void>((resolve) => {
      turn.subscribe((event) => event.kind === 'internal:tool-start' && event.toolName === 'second' && resolve());
    });
    await finished.pass();
    await secondRuns;
    const store = snapshotStateStore(copyOf(plain));
    const again = tools(
      () => 'done again',
      () => 'done again',
      policy,
    );
    const resumed = AgentLoop.resume('t', config(store, [answer], again.given));
    resumed.subscribe();
    expect(await resumed.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    const results = (await store.load('t'))?.messages.filter(({ role }) => role === 'tool') ?? [];
    expect(results.map(({ content }) => content)).toEqual([expect.stringMatching(told), expect.stringMatching(told)]);
    expect(again.ran).toEqual(runs);
    await turn.cancel('over').catch(() => undefined);
  });

  it('S1-106 has no doubt where the turn was given back: calls that did not begin simply run', async () => {
    const plain = new PlainMap();
    const shutdown = new AbortController();
    const old = tools(
      () => {
        shutdown.abort();
        return 'finished in time';
      },
      () => 'never',
    );
    const options = { ...old.given, toolConcurrency: 1, shutdown: shutdown.signal };
    const turn = new AgentLoop(config(snapshotStateStore(plain), [twoCalls], options)).startTurn(question, {
      taskId: 't',
    });
    turn.subscribe({ error: () => {} });
    await expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
    await turn.settled.catch(() => undefined);
    const again = tools(
      () => 'again',
      () => 'at last',
    );
    const store = snapshotStateStore(copyOf(plain));
    const resumed = AgentLoop.resume('t', config(store, [answer], again.given));
    resumed.subscribe();
    await resumed.result();
    const results = (await store.load('t'))?.messages.filter(({ role }) => role === 'tool') ?? [];
    expect(results.map(({ content }) => content)).toEqual(['finished in time', 'at last']);
    expect(again.ran).toEqual(['second']);
  });

  it('S1-106 keeps a question, takes its answer in another process, and goes on in a third', async () => {
    const plain = new PlainMap();
    const policy = { needsApproval: true };
    const asking = tools(
      () => 1,
      () => 2,
      policy,
    );
    const store = snapshotStateStore(plain);
    const turn = new AgentLoop(config(store, [twoCalls], asking.given)).startTurn(question, { taskId: 't' });
    turn.subscribe();
    expect(await turn.result()).toMatchObject({ status: 'input-required' });
    await turn.settled;
    expect(await store.list()).toEqual([]);
    const answering = copyOf(plain);
    const answers = { '1:0': { approved: true }, '1:1': { approved: false, reason: 'no' } };
    await AgentLoop.answer('t', { store: snapshotStateStore(answering), answers });
    const running = tools(
      () => 'approved',
      () => 'never',
      policy,
    );
    const last = snapshotStateStore(copyOf(answering));
    const resumed = AgentLoop.resume('t', config(last, [answer], running.given));
    resumed.subscribe();
    expect(await resumed.result()).toMatchObject({ status: 'completed' });
    expect(running.ran).toEqual(['first']);
  });

  it('shows nothing that is not saved: a save that fails is tried again, then the turn goes on', async () => {
    const plain = new PlainMap();
    const loop = new AgentLoop(config(snapshotStateStore(plain), [answer]));
    const turn = loop.startTurn(question, { taskId: 't' });
    const savedAtEnd = new Promise<string | undefined>((resolve) => {
      turn.subscribe((event) => {
        if (event.kind === 'internal:iteration-start') plain.failures.push(new Error('disk'), new Error('disk again'));
        if (event.kind === 'internal:llm-response') resolve(plain.saves.at(-1)?.status);
      });
    });
    expect(await savedAtEnd).toBe('completed');
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(plain.failures).toEqual([]);
  });

  it('is UNAVAILABLE with the reason where the user’s store fails, and names what a store lacks', async () => {
    const plain = new PlainMap();
    plain.failures.push(new Error('connection refused'));
    const error = await refuses('UNAVAILABLE', () => snapshotStateStore(plain).create('t', startRecord('t')));
    expect(error).toMatchObject({ retryable: true, message: 'The snapshot store failed at save: connection refused.' });
    const { save, load } = plain;
    expect(() => snapshotStateStore(Object.assign({ save, load }, { delete: undefined as never }))).toThrow(
      'The store given to snapshotStateStore has no delete; it needs the methods save, load and delete.',
    );
    expect(() => snapshotStateStore(plain, { pollMs: 0 })).toThrow(/pollMs must .*, not 0/);
    expect(() => Reflect.apply(snapshotStateStore, undefined, [plain, { poll: 5 }])).toThrow(
      'snapshotStateStore has no option "poll"; the options are: pollMs, clock.',
    );
  });

  it('S1-106 fences off the process whose task another one took: it loses the turn and overwrites nothing', async () => {
    const plain = new PlainMap();
    const [asked, release] = [gate(), gate()];
    const slow = tools(
      async () => {
        asked.open();
        await release.pass();
      },
      () => 2,
    );
    const turn = new AgentLoop(config(snapshotStateStore(plain), [twoCalls, answer], slow.given)).startTurn(question, {
      taskId: 't',
    });
    turn.subscribe({ error: () => {} });
    await asked.pass();
    const idle = tools(
      () => 1,
      () => 2,
    );
    const resumed = AgentLoop.resume('t', config(snapshotStateStore(plain), [{ text: 'Mine.' }], idle.given));
    resumed.subscribe();
    await resumed.result();
    release.open();
    await expect(turn.result()).rejects.toMatchObject({ code: 'FENCED' });
    await turn.settled.catch(() => undefined);
    expect(JSON.parse(plain.texts.get('t') ?? '')).toMatchObject({ status: 'completed', finalMessage: 'Mine.' });
  });

  it('shows a reader of another process each record once, as snapshots bring them, and the end', async () => {
    const plain = new PlainMap();
    const { given } = tools(
      () => 1,
      () => 2,
    );
    const store = snapshotStateStore(plain);
    await store.create('t', startRecord('t'));
    const reader = watch(snapshotStateStore(plain, { pollMs: 5 }).follow('t'));
    await reader.until('the first record', ({ values }) => values.length === 1);
    const resumed = AgentLoop.resume('t', config(store, [twoCalls, answer], given));
    await resumed.result();
    await resumed.settled;
    await reader.until('the end', ({ completed }) => completed);
    const records = await store.read('t');
    expect(reader.values).toEqual(records.map((record) => ({ type: 'record', record })));
  });

  it('T-02 keeps the lease of the parent turn in the snapshot, for other processes too', async () => {
    const plain = new PlainMap();
    const parent = { taskId: 'parent', epoch: 5 };
    const store = snapshotStateStore(plain);
    await store.create('t', startRecord('t', { parent: 'parent' }));
    await store.release(await store.acquire('t', 'o', 1_000, parent));
    expect(plain.saves.at(-1)).toMatchObject({ released: true, under: parent });
    const other = snapshotStateStore(copyOf(plain));
    const error = await refuses('FENCED', () => other.acquire('t', 'p', 1_000, { ...parent, epoch: 4 }));
    expect(error.message).toContain('A newer owner of the parent turn "parent" (epoch 5, yours is 4)');
    const owner = new Owner(other, await other.acquire('t', 'p', 60_000, parent));
    await owner.append(note('not lost to the next owner'), { type: 'llm.start', iteration: 1, attempt: 1 });
    const next = await other.acquire('t', 'q', 1_000, { ...parent, epoch: 6 });
    expect(next.seq).toBe(3);
    await refuses('FENCED', () => owner.append(note('too late')));
  });

  it('saves an intent that links to a child turn at once, so that a later delete finds the child turn', async () => {
    const plain = new PlainMap();
    const store = snapshotStateStore(plain);
    await store.create('t', startRecord('t'));
    await store.create('child', startRecord('child', { parent: 't' }));
    const owner = new Owner(store, await store.acquire('t', 'o', 60_000));
    const [start, asked, intent] = callsOfChildren(['child']);
    if (!start || !asked || !intent) throw new Error('no call of a child turn');
    await owner.append(start, asked);
    await owner.append(intent);
    await snapshotStateStore(plain).delete('t');
    expect([...plain.texts.keys()]).toEqual([]);
  });

  it('deletes a value that is damaged, and passes on what else the user’s store throws', async () => {
    const plain = new PlainMap();
    const store = snapshotStateStore(plain);
    for (const text of [
      '{"journal":',
      'null',
      '7',
      '{"journal":{}}',
      '{"journal":[null,{"child":{"taskId":"gone"}}]}',
    ]) {
      plain.texts.set('t', text);
      await store.delete('t');
      expect(plain.texts.has('t')).toBe(false);
    }
    await store.create('t', startRecord('t'));
    const away = snapshotStateStore({
      save: () => undefined,
      load: () => Promise.reject(new Error('connection lost')),
      delete: (taskId) => plain.delete(taskId),
    });
    expect(await refuses('UNAVAILABLE', () => away.delete('t'))).toMatchObject({ retryable: true });
    expect(plain.texts.has('t')).toBe(true);
  });

  it('refuses a snapshot that is cut, edited, another task’s or newer, and leaves it as it is', async () => {
    const plain = new PlainMap();
    const store = snapshotStateStore(plain);
    await store.create('t', startRecord('t'));
    const owner = new Owner(store, await store.acquire('t', 'o', 1_000));
    await owner.append(note('one'), note('two'));
    await store.release(owner.lease);
    const whole: Snapshot = JSON.parse(plain.texts.get('t') ?? '');
    const [first, ...rest] = whole.journal;
    const { journal: _, ...withoutJournal } = whole;
    const broken = [
      ['POISON', withoutJournal, 'it has no "journal"'],
      ['POISON', { ...whole, journal: rest }, 'does not start with turn.started'],
      ['POISON', { ...whole, journal: [first, ...rest.slice(1)] }, 'cannot be read'],
      ['POISON', { ...whole, journal: [first, null] }, 'cannot be read'],
      ['POISON', { ...whole, journal: [{ ...first, taskId: 'other' }, ...rest] }, 'it belongs to task "other"'],
      ['SCHEMA', { ...whole, journal: [{ ...first, schema: journalSchema + 1 }, ...rest] }, 'update millrace'],
    ] as const;
    for (const [code, snapshot, said] of broken) {
      const text = JSON.stringify(snapshot);
      plain.texts.set('t', text);
      const resumed = AgentLoop.resume('t', config(store, []));
      await expect(resumed.result()).rejects.toMatchObject({ code, message: expect.stringContaining(said) });
      await refuses(code, () => store.acquire('t', 'o', 1_000));
      expect(plain.texts.get('t')).toBe(text);
    }
  });
});
