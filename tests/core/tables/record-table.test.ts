import { describe, expect, it } from '@jest/globals';
import { applyRecord, eventsOf, type LoopState, type Stamped } from 'millrace';
import { isKnownType, kindOf, type LlmDone } from 'millrace/internals';
import { journalSchema } from 'millrace/stores';
import type { TurnRecord } from 'millrace/types';
import { outlineOf } from '../watch-events.ts';

const calls = ['look', 'count'].map((name, index) => ({
  callId: `1:${index}`,
  call: { id: `id-${index}`, type: 'function' as const, function: { name, arguments: '{}' } },
}));
const started: TurnRecord = {
  type: 'turn.started',
  schema: journalSchema,
  taskId: 't',
  contextId: 'c',
  agentId: 'a',
  messages: [{ role: 'user', content: 'How many?' }],
  settings: {},
};
const call: TurnRecord = { type: 'llm.start', iteration: 1, attempt: 1 };
const usage = { promptTokens: 3, completionTokens: 2, totalTokens: 5 };
const said: LlmDone = {
  type: 'llm.done',
  iteration: 1,
  attempt: 1,
  message: { role: 'assistant', content: 'Two.' },
  calls: [],
  finishReason: 'stop',
  usage,
};
const asks: LlmDone = {
  ...said,
  message: { role: 'assistant', content: null, toolCalls: calls.map((each) => each.call) },
  calls,
  finishReason: 'tool_calls',
};
const intent = (index: number): TurnRecord => ({
  type: 'tool.intent',
  callId: `1:${index}`,
  attempt: 1,
  arguments: {},
});
const result = (index: number): TurnRecord => ({
  type: 'tool.result',
  callId: `1:${index}`,
  content: 'fine',
  success: true,
  durationMs: 20,
});
const question = { id: '1:0', callId: '1:0', kind: 'approval', toolName: 'look' } as const;
const asked: TurnRecord = { type: 'turn.asked', question };
const answered: TurnRecord = { type: 'turn.answered', callId: '1:0', questionId: '1:0', answer: { approved: true } };
const suspended: TurnRecord = {
  type: 'turn.suspended',
  state: 'input-required',
  reason: 'waits',
  questions: [question],
};
const told: TurnRecord = { type: 'x.steer', effects: { messages: [{ role: 'user', content: 'And pears?' }] } };

interface Row {
  readonly title: string;
  /** The records before it, without `turn.started`. Default none. */
  readonly after?: readonly TurnRecord[];
  readonly record: TurnRecord;
  /** What the state has then; what is not named is in other rows. */
  readonly state?: object;
  /** The command that counts as followed then. */
  readonly followed?: string;
  /** The code with which it is refused there. */
  readonly refused?: string;
  /** Its events in short. */
  readonly events?: readonly string[];
}

/** A type of record without a row does not compile. */
type TypeOf = Exclude<TurnRecord['type'], `x.${string}`> | 'x.';

const rows: { readonly [Type in TypeOf]: readonly [Row, ...Row[]] } = {
  'turn.started': [
    {
      title: 'stands first only',
      record: started,
      refused: 'POISON',
    },
  ],
  'turn.resumed': [
    {
      title: 'counts',
      record: { type: 'turn.resumed' },
      state: { resumes: 1, phase: 'closed' },
      events: ['resumed', 'status working'],
    },
    {
      title: 'ends a suspension, and the time of it does not count',
      after: [call, asks, asked, suspended],
      record: { type: 'turn.resumed' },
      state: { outcome: undefined, suspendedAt: undefined, suspendedMs: 1_000 },
      events: ['resumed', 'status working'],
    },
    {
      title: 'takes over a pause until its end',
      after: [
        call,
        {
          type: 'turn.suspended',
          state: 'working',
          reason: 'backoff',
          questions: [],
          hold: { until: 9_000, attempt: 2 },
        },
      ],
      record: { type: 'turn.resumed' },
      state: { hold: { until: 9_000, attempt: 2 }, failedAttempts: 2, suspendedAt: 4_000, suspendedMs: 1_000 },
      events: ['resumed', 'status working'],
    },
    {
      title: 'ends a pause without an end',
      after: [{ type: 'turn.suspended', state: 'working', reason: 'paused', questions: [], hold: {} }],
      record: { type: 'turn.resumed' },
      state: { hold: undefined, suspendedMs: 1_000 },
      events: ['resumed', 'status working'],
    },
  ],
  'llm.start': [
    {
      title: 'begins an iteration',
      record: { ...call, tools: [{ name: 'look', description: 'Looks.', parameters: {} }] },
      state: {
        iteration: 1,
        attempt: 1,
        phase: 'llm',
        summary: false,
        availableTools: [{ name: 'look' }],
        call: { startedAt: 2_000, began: 2_000 },
      },
      events: ['iteration-start 1', 'llm-call 1.1'],
    },
    {
      title: 'voids the attempt before it',
      after: [call],
      record: { ...call, attempt: 2 },
      state: { iteration: 1, attempt: 2, call: { startedAt: 3_000, began: 2_000 } },
      events: ['llm-attempt-discarded 1.1', 'llm-call 1.2'],
    },
    {
      title: 'may be the closing one, and ends a pause',
      after: [{ type: 'turn.suspended', state: 'working', reason: 'backoff', questions: [], hold: { until: 3_000 } }],
      record: { ...call, summary: true },
      state: { summary: true, hold: undefined, suspendedMs: 1_000, suspendedAt: undefined },
      events: ['iteration-start 1', 'llm-call 1.1'],
    },
  ],
  'llm.done': [
    {
      title: 'answers',
      after: [call],
      record: said,
      state: { phase: 'answered', pendingToolCalls: [], messages: [{ role: 'user' }, { content: 'Two.' }], usage },
      events: ['answer-1 is, last: "Two."', 'llm-response 1 stop', 'checkpoint after-llm 1'],
    },
    {
      title: 'asks for tools',
      after: [call, { type: 'turn.resumed' }, { ...call, attempt: 2 }],
      record: { ...asks, attempt: 2 },
      state: {
        phase: 'tools',
        openCalls: 2,
        resumes: 0,
        pendingToolCalls: [{ callId: '1:0', attempts: 0 }, { callId: '1:1' }],
      },
      events: ['llm-response 1 tool_calls', 'checkpoint after-llm 1'],
    },
    {
      title: 'of the closing call stays out of the history',
      after: [{ ...call, summary: true }],
      record: said,
      state: { phase: 'answered', messages: [{ role: 'user' }], lastResponse: { message: said.message } },
      events: ['answer-1 is, last: "Two."', 'llm-response 1 stop', 'checkpoint after-llm 1'],
    },
  ],
  'tool.intent': [
    {
      title: 'starts a call',
      after: [call, asks],
      record: intent(0),
      state: {
        pendingToolCalls: [
          { attempts: 1, intent: { callId: '1:0' } },
          { attempts: 0, intent: undefined },
        ],
      },
      events: ['tool-start 1:0 look'],
    },
    {
      title: 'opens a child turn',
      after: [call, asks],
      record: { type: 'tool.intent', callId: '1:1', attempt: 1, arguments: {}, child: { taskId: 't.1', agentId: 'b' } },
      state: { openChildren: [{ taskId: 't.1', agentId: 'b' }] },
      events: ['tool-start 1:1 count'],
    },
    { title: 'of an unknown call is refused', after: [call, asks], record: intent(7), refused: 'POISON' },
    {
      title: 'of a call with a result is refused',
      after: [call, asks, result(0)],
      record: intent(0),
      refused: 'POISON',
    },
  ],
  'tool.result': [
    {
      title: 'leaves the batch open while others have none',
      after: [call, asks, intent(1)],
      record: result(1),
      state: { phase: 'tools', openCalls: 1, toolCalls: 1, closedCalls: [], messages: { length: 2 } },
      events: ['tool-complete 1:1 ok'],
    },
    {
      title: 'closes the batch: results enter the history in call order, what was told meanwhile behind them',
      after: [call, asks, result(1), told],
      record: result(0),
      state: {
        phase: 'closed',
        openCalls: 0,
        toolCalls: 2,
        told: [],
        pendingToolCalls: [],
        closedCalls: [{ callId: '1:0' }, { callId: '1:1' }],
        messages: [{}, {}, { toolCallId: 'id-0' }, { toolCallId: 'id-1' }, { content: 'And pears?' }],
      },
      events: ['tool-complete 1:0 ok', 'checkpoint before-iteration 1', 'iteration-complete 1'],
    },
    {
      title: 'closes a child turn',
      after: [
        call,
        asks,
        { type: 'tool.intent', callId: '1:0', attempt: 1, arguments: {}, child: { taskId: 't.1', agentId: 'b' } },
      ],
      record: result(0),
      state: { openChildren: [], openCalls: 1 },
      events: ['tool-complete 1:0 ok'],
    },
    { title: 'that comes twice is refused', after: [call, asks, result(0)], record: result(0), refused: 'POISON' },
  ],
  'turn.asked': [
    {
      title: 'opens a question, and its call runs no more',
      after: [call, asks, intent(0)],
      record: asked,
      state: { pendingToolCalls: [{ question, intent: undefined, attempts: 1 }, {}] },
      events: ['status input-required'],
    },
    {
      title: 'whether a call in doubt took effect keeps its intent',
      after: [call, asks, intent(0)],
      record: { type: 'turn.asked', question: { ...question, kind: 'in-doubt' } },
      state: { pendingToolCalls: [{ intent: { callId: '1:0' } }, {}] },
      events: ['status input-required'],
    },
    {
      title: 'for credentials alone says so',
      after: [call, asks],
      record: { type: 'turn.asked', question: { ...question, kind: 'auth' } },
      state: { pendingToolCalls: [{ question: { kind: 'auth' } }, {}] },
      events: ['status auth-required'],
    },
    { title: 'twice is refused', after: [call, asks, asked], record: asked, refused: 'POISON' },
  ],
  'turn.answered': [
    {
      title: 'closes its question',
      after: [call, asks, asked],
      record: { ...answered, command: 'yes' },
      state: {
        pendingToolCalls: [{ question: undefined, answers: [{ answer: { approved: true } }] }, {}],
        answers: { length: 1 },
      },
      followed: 'yes',
      events: ['status working'],
    },
    {
      title: 'leaves the turn suspended while another is open',
      after: [
        call,
        asks,
        asked,
        { type: 'turn.asked', question: { ...question, id: '1:1', callId: '1:1', kind: 'auth' } },
        suspended,
      ],
      record: answered,
      state: { outcome: { state: 'auth-required', questions: [{ id: '1:1' }] } },
      events: ['status auth-required final'],
    },
    {
      title: 'last of a suspended turn leaves it without an outcome',
      after: [call, asks, asked, suspended],
      record: answered,
      state: { outcome: undefined },
      events: ['status working'],
    },
    { title: 'where nothing was asked is refused', after: [call, asks], record: answered, refused: 'POISON' },
  ],
  'turn.suspended': [
    {
      title: 'waits for answers',
      after: [call, asks, asked],
      record: { ...suspended, commands: ['stop'], usage },
      state: {
        outcome: { state: 'input-required', reason: 'waits' },
        hold: undefined,
        suspendedAt: 5_000,
        usage: { totalTokens: 10 },
      },
      followed: 'stop',
      events: ['paused (waits)', 'status input-required final (waits)'],
    },
    {
      title: 'holds, with the attempts that failed',
      after: [call],
      record: {
        type: 'turn.suspended',
        state: 'working',
        reason: 'backoff',
        questions: [],
        hold: { until: 9_000, attempt: 3 },
      },
      state: { outcome: undefined, hold: { until: 9_000 }, failedAttempts: 3, suspendedAt: 3_000 },
      events: ['paused (backoff)', 'status working (backoff)'],
    },
    {
      title: 'of a process that left holds too',
      after: [call],
      record: { type: 'turn.suspended', state: 'working', reason: 'paused', questions: [] },
      state: { outcome: undefined, hold: {} },
      events: ['paused (paused)', 'status working final (paused)'],
    },
  ],
  'agent.changed': [
    {
      title: 'hands over with a note, behind the end of the iteration',
      after: [call, said],
      record: { type: 'agent.changed', from: 'a', to: 'b', reason: 'hand_off', note: 'Take it.' },
      state: {
        agentId: 'b',
        agentChanges: 1,
        phase: 'closed',
        stint: { after: 1, messages: 2, from: 'a', reason: 'hand_off', handOffs: 1 },
        messages: [{}, {}, { role: 'user', content: 'Take it.', name: 'a' }],
      },
      events: ['checkpoint before-iteration 1', 'iteration-complete 1'],
    },
    {
      title: 'undoes what extensions changed, but for what they recorded',
      after: [{ type: 'x.e', data: 7, hook: 'beforeTurn', effects: { settings: { temperature: 0 } } }],
      record: { type: 'agent.changed', from: 'a', to: 'b', reason: 'route' },
      state: {
        changes: { settings: {}, data: { e: 7 }, decided: {} },
        stint: { handOffs: 0 },
        messages: { length: 1 },
      },
      events: [],
    },
  ],
  'turn.done': [
    {
      title: 'completes with what was said',
      after: [call, said],
      record: { type: 'turn.done', text: 'Two.', reason: 'stop' },
      state: {
        isComplete: true,
        finalMessage: 'Two.',
        value: undefined,
        outcome: { state: 'completed', reason: 'stop' },
        phase: 'closed',
      },
      events: ['checkpoint end 1', 'iteration-complete 1', 'status completed final (stop)'],
    },
    {
      title: 'completes with another text',
      after: [call, said],
      record: { type: 'turn.done', text: 'Three.', reason: 'stop', usage },
      state: { finalMessage: 'Three.', usage: { totalTokens: 10 } },
      events: [
        'answer-1 is, last: "Three."',
        'checkpoint end 1',
        'iteration-complete 1',
        'status completed final (stop)',
      ],
    },
    {
      title: 'completes with a value',
      record: { type: 'turn.done', text: '', value: { n: 2 }, reason: 'stop' },
      state: { value: { n: 2 } },
      events: ['output is, last: ""', 'checkpoint end 0', 'status completed final (stop)'],
    },
  ],
  'turn.failed': [
    {
      title: 'fails',
      after: [call],
      record: { type: 'turn.failed', code: 'LIMIT', message: 'Enough.', reason: 'max_tokens', usage },
      state: {
        isComplete: true,
        error: { code: 'LIMIT', message: 'Enough.' },
        outcome: { state: 'failed', reason: 'max_tokens' },
        usage,
      },
      events: ['checkpoint end 1', 'status failed final (max_tokens)'],
    },
  ],
  'turn.canceled': [
    {
      title: 'is cancelled, also while it holds',
      after: [{ type: 'turn.suspended', state: 'working', reason: 'paused', questions: [], hold: {} }],
      record: { type: 'turn.canceled', reason: 'enough' },
      state: { isComplete: true, error: undefined, hold: undefined, outcome: { state: 'canceled', reason: 'enough' } },
      events: ['checkpoint end 0', 'status canceled final (enough)'],
    },
  ],
  'x.': [
    {
      title: 'keeps data and the iteration of a decision, and shows its events in order',
      after: [call],
      record: {
        type: 'x.e',
        hook: 'afterIteration',
        data: 7,
        events: [{ payload: 1 }, { name: 'n', payload: 2 }],
        command: 'c',
      },
      state: { changes: { data: { e: 7 }, decided: { afterIteration: 1 } } },
      followed: 'c',
      events: ['x.e 1', 'x.e.n 2'],
    },
    {
      title: 'of another hook is no decision',
      record: { type: 'x.e', hook: 'prepareIteration' },
      state: { changes: { data: {}, decided: {} } },
      events: [],
    },
    {
      title: 'with messages behind the last response ends its iteration',
      after: [call, said],
      record: told,
      state: { phase: 'closed', messages: [{}, {}, { content: 'And pears?' }] },
      events: ['checkpoint before-iteration 1', 'iteration-complete 1'],
    },
    {
      title: 'of a process that shut down makes no progress',
      after: [{ type: 'turn.resumed' }],
      record: { type: 'x.shutdown', effects: { usage } },
      state: { resumes: 1, usage },
      events: [],
    },
  ],
};

const all = Object.values(rows)
  .flat()
  .map((row): [string, Row] => [`${row.record.type} ${row.title}`, row]);

/** Each a second after the one before, from 1,000 on. */
function stamped(record: TurnRecord, seq: number): Stamped<TurnRecord> {
  return { ...record, seq, epoch: seq === 1 ? 0 : 1, at: seq * 1_000 };
}

function stateAfter(records: readonly TurnRecord[]): LoopState {
  let state = applyRecord(undefined, stamped(started, 1));
  for (const [index, record] of records.entries()) state = applyRecord(state, stamped(record, index + 2));
  return state;
}

describe('the state behind a record, and its events', () => {
  it.each(all)('%s', (_, { after = [], record, state = {}, followed, refused, events = [] }) => {
    const before = stateAfter(after);
    const next = stamped(record, after.length + 2);
    if (refused !== undefined) {
      expect(() => applyRecord(before, next)).toThrow(expect.objectContaining({ code: refused }));
      return;
    }
    const copy = { ...before };
    const following = applyRecord(before, next);
    if (followed !== undefined) expect(following.commands.has(followed)).toBe(true);
    expect(following).toMatchObject({ seq: next.seq, epoch: 1, updatedAt: next.at, ...state });
    expect({ ...before }).toEqual(copy);
    expect(outlineOf(eventsOf(before, next, { checkpoints: true, shown: '', last: true }))).toEqual(events);
  });

  it('of the first record begins the turn', () => {
    const first = stamped(started, 1);
    expect(applyRecord(undefined, first)).toMatchObject({
      turn: { taskId: 't', contextId: 'c', agentId: 'a', given: 1, earlier: 0, createdAt: 1_000 },
      phase: 'closed',
      iteration: 0,
      messages: [{ content: 'How many?' }],
    });
    const options = { checkpoints: true, shown: '', last: true };
    const opening = ['task submitted', 'status working', 'checkpoint before-iteration 0'];
    expect(outlineOf(eventsOf(undefined, first, options))).toEqual(opening);
    expect(outlineOf(eventsOf(undefined, first, { ...options, checkpoints: false }))).toEqual(opening.slice(0, 2));
  });

  it.each<[string, LoopState | undefined, object, string]>([
    ['a first record that is another', undefined, stamped(call, 1), 'POISON'],
    ['a journal that begins later', undefined, stamped(started, 2), 'POISON'],
    ['a newer schema', undefined, { ...stamped(started, 1), schema: journalSchema + 1 }, 'SCHEMA'],
    ['a gap', stateAfter([call]), stamped(said, 4), 'POISON'],
    ['a record behind the end', stateAfter([{ type: 'turn.canceled', reason: 'x' }]), stamped(call, 3), 'POISON'],
    ['a type that is not known', stateAfter([]), { ...stamped(call, 2), type: 'turn.paid' }, 'SCHEMA'],
  ])('refuses %s', (_, before, record, code) => {
    const given = JSON.parse(JSON.stringify(record));
    expect(() => applyRecord(before, given)).toThrow(expect.objectContaining({ code }));
  });

  it('has a row for each type that the table knows, under its own name', () => {
    for (const [type, ofType] of Object.entries(rows)) {
      expect(isKnownType(type)).toBe(true);
      for (const { record } of ofType) expect(record.type.startsWith(type)).toBe(true);
    }
  });
});

it.each<TurnRecord>([
  { ...said, usage },
  { type: 'tool.result', callId: '1:0', content: 'fine', success: true, durationMs: 20, usage, usageBy: [] },
  { type: 'turn.asked', question, usage, usageBy: [] },
  { type: 'turn.suspended', state: 'working', reason: 'waits', questions: [], usage },
  { type: 'turn.done', text: 'Two.', reason: 'stop', usage },
  { type: 'turn.failed', code: 'INTERNAL', message: 'm', reason: 'r', usage },
  { type: 'turn.canceled', reason: 'r', usage },
  { type: 'x.steer', effects: { usage, usageBy: [], waitedMs: 3, messages: [] } },
])('$type has nothing of its usage left in a retry', (record) => {
  const left = JSON.stringify(kindOf(record.type)?.withoutUsage(record));
  expect(left).toContain(record.type);
  expect(left).not.toMatch(/usage|waitedMs/);
});
