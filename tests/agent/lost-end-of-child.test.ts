import { describe, expect, it } from '@jest/globals';
import {
  type Agent,
  AgentLoop,
  type AgentLoopError,
  agentTools,
  branch,
  type Extension,
  type JournalRecord,
  type TaskStateStore,
  tool,
} from 'millrace';
import type { ToolResultRecord } from 'millrace/internals';
import { gate, type ScriptedLLMStep } from 'millrace/testing';
import type { TurnRecord } from 'millrace/types';
import { answerOf, deadTurn, firstCall } from '../core/dead-turn.ts';
import { agentBench, passing, seenBy, user } from './agent-bench.ts';

const on = agentBench();
const child = 't:1:0';
const usage = { promptTokens: 100, completionTokens: 10, totalTokens: 110 };
const asksKid: ScriptedLLMStep = { toolCalls: [{ name: 'kid', arguments: { message: 'go' } }], usage };
const saysEnd: ScriptedLLMStep = { text: 'END', usage };
const answers: ScriptedLLMStep = { text: 'the kid answers', usage };

const recordsOf = (taskId: string): readonly JournalRecord[] => on.bench.store.read(taskId);
const last = (taskId: string) => recordsOf(taskId).at(-1);
const isEnd = ({ type }: JournalRecord) => type === 'turn.done' || type === 'turn.failed' || type === 'turn.canceled';

interface Loss {
  /** How many ends of child turns the store acknowledges and loses. */
  readonly times: number;
  /** When it loses them: at once, or after the parent turn has looked. */
  readonly when: 'at once' | 'later';
  /** Also the record before the end. */
  readonly alsoAnswer?: boolean;
}

/** The store of one process, before the server restarts without its last records. */
function losing({ times, when, alsoAnswer = false }: Loss) {
  const { store } = on.bench;
  let lost = 0;
  const append: TaskStateStore['append'] = (lease, records, options) => {
    const loses = (record: JournalRecord) => isEnd(record) || (alsoAnswer && record.type === 'llm.done');
    if (lease.taskId === 't' || !records.some(loses) || lost >= times) return store.append(lease, records, options);
    if (records.some(isEnd)) lost++;
    return undefined;
  };
  const describeTask: TaskStateStore['describe'] = (taskId) => {
    const summary = store.describe(taskId);
    return when === 'later' && taskId !== 't' && summary ? { ...summary, state: 'completed' } : summary;
  };
  const lossy: TaskStateStore = new Proxy<TaskStateStore>(store, {
    get(target, name) {
      if (name === 'append') return append;
      if (name === 'describe') return describeTask;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
  return { store: lossy, lost: () => lost };
}

interface Made {
  readonly store: TaskStateStore;
  readonly steps?: readonly ScriptedLLMStep[];
  readonly kid?: readonly ScriptedLLMStep[];
}

function boss({ store, steps = [asksKid, saysEnd], kid = [answers] }: Made): Agent {
  const below = on.agent(kid, { id: 'kid', name: 'kid', retry: null });
  return on.agent(steps, { taskStateStore: store, toolProviders: [agentTools([below])], storeDeadlineMs: 1_000 });
}

/** Another process, after the restart. */
const recover = () => boss({ store: on.bench.store, steps: [], kid: [] }).recover();
const cancel = (taskId: string) => AgentLoop.cancel(taskId, { store: on.bench.store, clock: on.bench.clock });

describe('the end of a child turn that the store loses', () => {
  it('R-09 is noticed before the parent turn records what follows from it, and is written again', async () => {
    const { store, lost } = losing({ times: 1, when: 'at once' });
    const result = await passing(on.bench.clock, boss({ store }).run('Go.', { taskId: 't' }));
    expect([lost(), result.text, result.usage.totalTokens]).toEqual([1, 'END', 330]);
    expect(last(child)).toMatchObject({ type: 'turn.done', text: 'the kid answers' });
    expect(recordsOf('t').filter(({ type }) => type === 'tool.result')).toHaveLength(1);
  });

  it('R-09 is noticed if the child turn failed: it is resumed, and its answer is the result of the call', async () => {
    const { store, lost } = losing({ times: 1, when: 'at once' });
    const kid = [{ error: new Error('no such model') }, answers];
    const result = await passing(on.bench.clock, boss({ store, kid }).run('Go.', { taskId: 't' }));
    expect([lost(), result.text]).toEqual([1, 'END']);
    expect(last(child)).toMatchObject({ type: 'turn.done', text: 'the kid answers' });
    expect(recordsOf('t').find(({ type }) => type === 'tool.result')).toMatchObject({ success: true });
  });

  it('R-09 loses the parent turn with REWOUND if the store never keeps it: nothing is recorded for the call', async () => {
    const { store } = losing({ times: Number.POSITIVE_INFINITY, when: 'at once' });
    const failure = passing(on.bench.clock, boss({ store, steps: [asksKid] }).run('Go.', { taskId: 't' }));
    await expect(failure).rejects.toMatchObject({ code: 'REWOUND', retryable: true } satisfies Partial<AgentLoopError>);
    expect(recordsOf('t').map(({ type }) => type)).toEqual(expect.not.arrayContaining(['tool.result', 'turn.failed']));
    expect(on.bench.store.describe('t')).toMatchObject({ state: 'working', held: false });
  });

  const endings = [
    ['recover', recover],
    ['a cancel of the child turn', () => cancel(child)],
    ['a cancel of the parent turn', () => cancel('t')],
  ] as const;
  const losses = endings.flatMap(([name, end]) => [false, true].map((alsoAnswer) => [name, alsoAnswer, end] as const));
  it.each(losses)(
    'R-09 %s ends the child turn as its parent turn recorded, if it is lost later, its answer too: %s',
    async (_, alsoAnswer, end) => {
      const { store } = losing({ times: 1, when: 'later', alsoAnswer });
      const result = await boss({ store }).run('Go.', { taskId: 't' });
      expect([result.text, on.bench.store.describe(child)?.state]).toEqual(['END', 'working']);
      await end();
      expect(last(child)).toMatchObject({ type: 'turn.done', text: 'the kid answers', ...(alsoAnswer && { usage }) });
      expect(on.bench.store.load(child)?.usage).toEqual(usage);
      await end();
      expect(recordsOf(child).filter(isEnd)).toHaveLength(1);
    },
  );

  it('R-09 a failed child turn fails, as its parent turn recorded', async () => {
    const { store } = losing({ times: 1, when: 'later' });
    await boss({ store, kid: [{ error: new Error('no such model') }] }).run('Go.', { taskId: 't' });
    const recorded = recordsOf('t').find((record) => record.type === 'tool.result');
    await recover();
    expect(last(child)).toMatchObject({
      type: 'turn.failed',
      code: recorded?.error?.code,
      message: recorded?.error?.message,
    });
  });

  it('R-09 a child turn of a hook whose end is lost is not cancelled: its end is unknown', async () => {
    const { store } = losing({ times: 1, when: 'later' });
    const reader = on.bench.config(on.bench.model([answers]), { agentId: 'reader' });
    const asks: Extension = {
      name: 'asks',
      beforeLLMCall: async (_, context) =>
        void (await branch(context, { config: reader, messages: [user('Is it safe?')], name: 'review' })),
    };
    const ada = on.agent([saysEnd], { taskStateStore: store, extensions: [asks] });
    expect((await ada.run('Go.', { taskId: 't' })).usage.totalTokens).toBe(220);
    await recover();
    const [review] = on.bench.store.list({ parentTaskId: 't' });
    expect(last(review?.taskId ?? '')).toMatchObject({ type: 'turn.failed', code: 'REWOUND', reason: 'rewound' });
  });

  it('R-09 a child turn that its parent turn left open is cancelled, as before', async () => {
    const { store } = losing({ times: 0, when: 'at once' });
    await boss({ store, steps: [asksKid, saysEnd] }).run('Go.', { taskId: 't' });
    const [started] = recordsOf(child);
    if (started?.type !== 'turn.started' || !started.parent) throw new TypeError('The child turn has no parent.');
    const { seq: _, epoch: __, at: ___, ...rest } = started;
    const orphan = { ...rest, taskId: 't:9:0', contextId: 't:9:0', parent: { ...started.parent, callId: '9:0' } };
    on.bench.store.create('t:9:0', { ...orphan, seq: 1, epoch: 0, at: 0 });
    await recover();
    expect(last('t:9:0')).toMatchObject({ type: 'turn.canceled' });
  });
});

describe('a child turn that has lost its end, beside the journal of its parent turn', () => {
  const intent = (attempt: number): TurnRecord => ({
    type: 'tool.intent',
    callId: '1:0',
    attempt,
    arguments: {},
    child: { taskId: child, agentId: 'kid' },
  });
  const resultOf = (content: string, members: Partial<ToolResultRecord>): TurnRecord => ({
    type: 'tool.result',
    callId: '1:0',
    content,
    success: true,
    durationMs: 5,
    ...members,
  });
  const parent = { taskId: 't', callId: '1:0', agentId: 'tester', rootTaskId: 't' };

  /** Writes both journals; `records`: of the parent turn, from the intent of the call on. */
  function recorded(...records: readonly TurnRecord[]): void {
    deadTurn(on.bench, [firstCall, answerOf(['kid']), ...records]);
    deadTurn(on.bench, [firstCall], { taskId: child, contextId: child, agentId: 'kid', parent });
  }

  it.each(['CANCELED', 'TOOL_TIMEOUT', 'TOOL_ABANDONED'] as const)(
    'R-09 ends as cancelled where the call was stopped: %s',
    async (code) => {
      const error = { code, message: 'too late' };
      recorded(intent(1), resultOf('Tool error: too late', { success: false, error }));
      await cancel(child);
      expect(last(child)).toMatchObject({ type: 'turn.canceled', reason: 'too late' });
    },
  );

  it('R-09 ends with the usage that the parent turn recorded, with a question and with the result', async () => {
    const question = { id: '1:0', callId: '1:0', kind: 'input', toolName: 'kid' } as const;
    recorded(
      intent(1),
      { type: 'turn.asked', question, usage },
      { type: 'turn.answered', callId: '1:0', questionId: '1:0', answer: 'Rome' },
      intent(2),
      resultOf('in Rome', { usage }),
    );
    await cancel(child);
    expect(last(child)).toMatchObject({ type: 'turn.done', text: 'in Rome', usage: { totalTokens: 220 } });
  });
});

describe('a turn that is retried', () => {
  it('R-09 keeps its sub-agent, which a retry writes before the turn, from a sweep in between', async () => {
    const { bench } = on;
    const started = gate();
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: { type: 'object' },
      readOnly: true,
      execute: (_, { attempt, signal }) =>
        attempt > 1
          ? 'seen'
          : new Promise((_resolve, reject) => {
              signal.addEventListener('abort', () => reject(signal.reason));
              void started.pass();
            }),
    });
    const boss = (store: TaskStateStore, steps: readonly ScriptedLLMStep[], kid: readonly ScriptedLLMStep[]) => {
      const below = on.agent(kid, { id: 'kid', tools: [look] });
      return on.agent(steps, { taskStateStore: store, toolProviders: [agentTools([below])] });
    };
    const asks = { toolCalls: [{ name: 'kid', arguments: { message: 'go' } }] };
    const turn = boss(bench.store, [asks], [{ toolCalls: [{ name: 'look' }] }]).startTurn('Go.', { taskId: 't' });
    const ended = turn.result().catch(({ code }: AgentLoopError) => code);
    await started.reached;
    void turn.cancel();
    expect(await ended).toBe('CANCELED');
    const other = boss(bench.store, [], []);
    const swept: number[] = [];
    const store = seenBy(bench.store, (method, taskId) =>
      method === 'create' && taskId === 'again' ? other.recover().then((count) => void swept.push(count)) : undefined,
    );
    const again = boss(store, [{ text: 'Heard.' }], [{ text: 'The kid saw it.' }]).retry('t', { taskId: 'again' });
    const { messages } = await again.result();
    expect(swept).toEqual([0]);
    expect(messages).toContainEqual(expect.objectContaining({ role: 'tool', content: 'The kid saw it.' }));
  });
});
