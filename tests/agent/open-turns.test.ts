import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { AgentLoopError, agent, type InMemoryMessageStore, TurnError } from 'millrace';
import { conversationName, settleTurnsAhead } from 'millrace/internals';
import { LmdbMessageStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';
import type { TurnRecord } from 'millrace/types';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf, startedRecord } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { watch } from '../core/watch-events.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { agentBench, passing, says, user } from './agent-bench.ts';

const on = agentBench();
const begun: TurnRecord = {
  type: `x.${conversationName}`,
  hook: 'beforeTurn',
  effects: { given: [user('Before.'), says('Yes.'), ...question] },
  data: { history: 2 },
};
const ended: readonly TurnRecord[] = [
  begun,
  firstCall,
  answerOf(['count', 'count']),
  intentOf(0),
  resultOf(0, '2'),
  { type: 'turn.canceled', reason: 'enough' },
];

function remembered() {
  const messageStore = on.messages();
  messageStore.append('c', 'before', [user('Before.'), says('Yes.')]);
  messageStore.begin('c', 't');
  return messageStore;
}

describe('a context with a turn that was not saved', () => {
  it('gets the messages of a turn that died after its end, before its next turn, once and with a result for each call', async () => {
    const messageStore = remembered();
    deadTurn(on.bench, ended);
    const provider = on.bench.model([{ text: 'Next.' }]);
    await on.agent([], { provider, messageStore }).run('And now?');
    const saved = [
      user('Before.'),
      says('Yes.'),
      ...question,
      { role: 'assistant', content: null, toolCalls: answerOf(['count', 'count']).message.toolCalls },
      { role: 'tool', toolCallId: 'id-0', content: '2' },
      expect.objectContaining({ role: 'tool', toolCallId: 'id-1', status: 'error' }),
    ];
    expect(provider.calls[0]?.messages).toEqual([...saved, user('And now?')]);
    expect(messageStore.load('c')).toMatchObject({
      messages: [...saved, user('And now?'), says('Next.')],
      openTurns: [],
    });
  });

  it.each([
    [
      'was left by its process',
      [begun, firstCall],
      /turn "t" was abandoned \(its process exited\); continue it with resume\("t"\)/,
    ],
    [
      'waits for an answer',
      [begun, firstCall, { type: 'turn.suspended', state: 'input-required', reason: 'r', questions: [] }],
      /turn "t" waits for an answer or was paused/,
    ],
  ] satisfies readonly (readonly [string, readonly TurnRecord[], RegExp])[])(
    'H-33 refuses a turn while one of it %s, records nothing of it, and takes it under its id once that one was ended',
    async (_, records, message) => {
      for (const busy of ['reject', 'steer'] as const) {
        const messageStore = remembered();
        deadTurn(on.bench, records);
        const ada = on.agent([{ text: 'Next.' }], { messageStore, busy });
        await expect(ada.run('And now?', { taskId: 'next' })).rejects.toMatchObject({
          code: 'AGENT_BUSY',
          retryable: true,
          message: expect.stringMatching(message),
        });
        expect(messageStore.load('c')).toMatchObject({ total: 2, openTurns: ['t'] });
        expect(on.bench.store.load('next')).toBeNull();
        await ada.cancel('t');
        await ada.run('And now?', { taskId: 'next' });
        expect(messageStore.load('c').messages.slice(2)).toEqual([...question, user('And now?'), says('Next.')]);
        for (const taskId of ['t', 'next']) on.bench.store.delete(taskId);
      }
    },
  );

  it('has the course of a turn whose process was killed, once that was resumed', async () => {
    const messageStore = remembered();
    deadTurn(on.bench, [begun, firstCall, answerOf(['count']), intentOf(0), resultOf(0, '2')]);
    const provider = on.bench.model([{ text: 'Two.' }]);
    const ada = on.agent([], { provider, messageStore, toolProviders: [plainTools({ count: () => 2 })] });
    await expect(ada.resume('t').result()).resolves.toMatchObject({ text: 'Two.' });
    expect(provider.calls[0]?.messages.slice(0, 3)).toEqual([user('Before.'), says('Yes.'), ...question]);
    const roles = messageStore.load('c').messages.map(({ role }) => role);
    expect(roles).toEqual(['user', 'assistant', 'user', 'assistant', 'tool', 'assistant']);
  });

  it('has what a turn was told last, where its process died before its end was recorded', async () => {
    const messageStore = on.messages();
    const append = on.bench.store.append.bind(on.bench.store);
    on.bench.store.append = (lease, records, options) => {
      if (records.some(({ type }) => type === 'turn.done')) {
        on.bench.store.post('t', { id: 's', type: 'steer', message: user('And three?') });
        throw new AgentLoopError('UNAVAILABLE', 'The disk is gone.');
      }
      return append(lease, records, options);
    };
    const first = on.agent([{ text: 'Two.' }], { messageStore });
    await expect(first.run('Two?', { taskId: 't' })).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    on.bench.store.append = append;
    on.bench.leases.advance(60_000);
    await on
      .agent([{ text: 'Three.' }], { messageStore })
      .resume('t')
      .result();
    expect(messageStore.load('c').messages).toEqual([user('Two?'), says('Two.'), user('And three?'), says('Three.')]);
  });

  it('settles a turn whose journal is gone', async () => {
    const messageStore = remembered();
    await on.agent([{ text: 'Next.' }], { messageStore }).run('And now?');
    expect(messageStore.load('c')).toMatchObject({ total: 4, openTurns: [] });
  });

  it('knows a turn that runs from a dead one behind thousands of newer tasks of its context', async () => {
    const { store, clock } = on.bench;
    const messageStore = remembered();
    store.create('t', startedRecord(clock));
    store.acquire('t', 'another process', 60_000);
    for (let n = 0; n < 2_000; n++) store.create(`t-${n}`, startedRecord(clock, { taskId: `t-${n}` }));
    expect(await settleTurnsAhead({ messageStore, journal: store }, 'c', 'next')).toMatchObject({ status: 'running' });
    for (const taskId of ['t', ...Array.from({ length: 2_000 }, (_, n) => `t-${n}`)]) store.delete(taskId);
  });

  it('waits with queue for a turn of another agent of the same stores', async () => {
    const messageStore = on.messages();
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const one = on.agent([{ gate, text: 'One.' }], { messageStore });
    const first = one.startTurn('1');
    await watch(first).until('internal:llm-call');
    const provider = on.bench.model([{ text: 'Two.' }]);
    const two = on.agent([], { provider, messageStore, busy: 'queue' });
    await expect(on.agent([], { messageStore }).run('0')).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    const second = two.startTurn('2');
    await watch(second).until('status-update');
    open();
    await second.result();
    expect(provider.calls[0]?.messages).toEqual([user('1'), says('One.'), user('2')]);
  });
});

describe('a message store that fails', () => {
  it('does not fail a turn that is complete, and is logged; what it lacks is saved before the next turn', async () => {
    const messageStore = on.messages();
    const warned: unknown[] = [];
    const silent = () => {};
    const warn = (...given: unknown[]) => void warned.push(given);
    const logger = { debug: silent, info: silent, error: silent, warn };
    const append = messageStore.append.bind(messageStore);
    for (const journaled of [true, false]) {
      const contextId = `c-${journaled}`;
      const provider = on.bench.model([{ text: 'One.' }, { text: 'Two.' }]);
      const options = { id: 'ada', provider, messageStore, contextId, clock: on.bench.clock, logger };
      const ada = agent(journaled ? { ...options, taskStateStore: on.bench.store } : options);
      messageStore.append = () => {
        throw new Error('disk is gone');
      };
      await expect(ada.run('1', { taskId: contextId })).resolves.toMatchObject({ status: 'completed' });
      const failure = {
        taskId: contextId,
        extension: 'conversation',
        hook: 'afterEnd',
        error: expect.objectContaining({ message: expect.stringContaining('disk is gone') }),
      };
      expect(warned.splice(0)).toEqual([['extension failed', failure]]);
      messageStore.append = append;
      await ada.run('2');
      expect(provider.calls[1]?.messages).toEqual([user('1'), says('One.'), user('2')]);
    }
  });

  it('fails a turn whose history cannot be had, with its code', async () => {
    const messageStore = on.messages();
    messageStore.load = () => {
      throw new Error('disk is gone');
    };
    await expect(on.agent([], { messageStore }).run('1')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  });
});

describe('a message store that is away for longer than the deadline when a turn begins', () => {
  const away = (messageStore: InMemoryMessageStore, member: 'begin' | 'load') => {
    const own = messageStore[member];
    messageStore[member] = () => {
      throw new AgentLoopError('UNAVAILABLE', 'It does not answer.', { retryable: true });
    };
    return () => Object.assign(messageStore, { [member]: own });
  };

  it.each(['begin', 'load'] as const)(
    'loses a turn with a journal, and whoever resumes it has the history: %s',
    async (member) => {
      const messageStore = on.messages();
      messageStore.append('c', 'earlier', [user('Hello.'), says('Yes?')]);
      const back = away(messageStore, member);
      const run = on.agent([], { messageStore }).run('And now?', { taskId: 't' });
      await expect(passing(on.bench.clock, run)).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true });
      expect(on.bench.store.read('t').map(({ type }) => type)).toEqual(['turn.started']);
      back();
      const provider = on.bench.model([{ text: 'Go on.' }]);
      await expect(on.agent([], { provider, messageStore }).resume('t').result()).resolves.toMatchObject({
        text: 'Go on.',
      });
      expect(provider.calls[0]?.messages).toEqual([user('Hello.'), says('Yes?'), user('And now?')]);
      expect(messageStore.load('c')).toMatchObject({ total: 4, openTurns: [] });
    },
  );

  it('fails a turn without a journal: nobody can resume it', async () => {
    const messageStore = on.messages();
    away(messageStore, 'load');
    const { clock } = on.bench;
    const ada = agent({ id: 'ada', contextId: 'c', provider: on.bench.model([]), messageStore, clock });
    const turn = ada.startTurn('And now?');
    await expect(passing(clock, turn.result())).rejects.toBeInstanceOf(TurnError);
    expect(turn.state?.error).toMatchObject({ code: 'UNAVAILABLE' });
  });
});

describe('a context of two processes', () => {
  const programs = new ChildPrograms('tests/agent/children');
  const stores = new TemporaryStores();
  const opened: LmdbMessageStore[] = [];
  afterEach(() => Promise.all(opened.splice(0).map((store) => store.close())));
  afterAll(() => Promise.all([programs.clear(), stores.clear()]));

  function here(path: string) {
    const messageStore = new LmdbMessageStore({ path });
    opened.push(messageStore);
    const provider = scriptedLLM([{ text: 'Mine.' }]);
    const taskStateStore = stores.open({ path: `${path}/journal` });
    return {
      provider,
      ada: agent({ id: 'ada', contextId: 'c', provider, messageStore, taskStateStore, leaseMs: 100 }),
    };
  }

  it('has the turn that another process finished in its history', async () => {
    const path = stores.path();
    await nextMessage(programs.start('turn', path, 'theirs', 'whole'));
    const { provider, ada } = here(path);
    await ada.run('Go on.');
    const theirs = [user('Question of theirs.'), says('Answer of theirs.')];
    expect(provider.calls[0]?.messages).toEqual([...theirs, user('Go on.')]);
  });

  it.each([
    ['completed', 'unsaved', [says('Answer of theirs.')]],
    ['failed', 'failing', []],
  ])('has the %s turn of a process that was killed behind its end, before it saved it', async (_, mode, answers) => {
    const path = stores.path();
    const child = programs.start('turn', path, 'theirs', mode);
    await nextMessage(child);
    await kill(child);
    const { provider, ada } = here(path);
    await ada.run('Go on.');
    expect(provider.calls[0]?.messages).toEqual([user('Question of theirs.'), ...answers, user('Go on.')]);
  });

  it('tells of the turn of a process that was killed in its middle, and keeps it once it is ended', async () => {
    const path = stores.path();
    const child = programs.start('turn', path, 'theirs', 'held');
    await nextMessage(child);
    await kill(child);
    const { provider, ada } = here(path);
    await expect(ada.run('Go on.')).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    await ada.cancel('theirs');
    await ada.run('Go on.');
    expect(provider.calls[0]?.messages).toEqual([user('Question of theirs.'), user('Go on.')]);
  });
});
