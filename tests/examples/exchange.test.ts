import { describe, expect, it } from '@jest/globals';
import {
  answered,
  type Exchange,
  failed,
  isAtRest,
  isOver,
  newExchange,
  updated,
} from '../../examples/chat/src/exchange.ts';
import {
  type StreamResponse,
  type ToolEvent,
  toolEventsExtension,
  turnExtension,
} from '../../examples/chat/src/wire.ts';

const behind = (...responses: readonly StreamResponse[]): Exchange => responses.reduce(updated, newExchange('Hello'));

const status = (state: string, more: object = {}): StreamResponse => ({
  statusUpdate: { status: { state: `TASK_STATE_${state}` }, ...more },
});
const piece = (text: string, append = true, artifactId = 'answer-1'): StreamResponse => ({
  artifactUpdate: { artifact: { artifactId, parts: [{ text }] }, append },
});
const call = (event: Partial<ToolEvent>): StreamResponse =>
  status('WORKING', {
    metadata: { [toolEventsExtension]: { phase: 'start', callId: '1:0', toolName: 'pay', ...event } },
  });
const ends = (event: Partial<ToolEvent>) => call({ phase: 'complete', ...event });
const asks = (state: string): StreamResponse => ({
  statusUpdate: {
    status: {
      state: `TASK_STATE_${state}`,
      message: {
        parts: [
          { text: 'May it run?' },
          { data: { question: { id: '1:0', callId: '1:0', kind: 'approval', toolName: 'pay' } } },
        ],
      },
    },
  },
});
const texts = ({ pieces }: Exchange) => pieces.flatMap((each) => (each.type === 'text' ? each.text : []));
const calls = ({ pieces }: Exchange) => pieces.flatMap((each) => (each.type === 'tool' ? each.state : []));

describe('an exchange of the chat page', () => {
  it('grows by pieces, and begins a text anew where it is not appended', () => {
    expect(texts(behind(piece('Hel', false), piece('lo'), piece(''), piece('Bye', false, 'answer-2')))).toEqual([
      'Hello',
      'Bye',
    ]);
    expect(texts(behind(piece('Hel', false), piece('Good', false), piece(' day')))).toEqual(['Good day']);
    expect(texts(behind(piece('the rest')))).toEqual(['the rest']);
    expect(behind(piece('', false)).pieces).toEqual([]);
  });

  it('puts the calls of sub-agents below the call that they work for', () => {
    const toBo = { agentId: 'bo', callId: '1:0' };
    const toCy = { agentId: 'cy', callId: '1:1' };
    const seen = behind(
      call({ callId: '1:0', toolName: 'bo' }),
      call({ callId: '1:1', toolName: 'pay' }),
      call({ callId: '1:0', toolName: 'search', path: [toBo] }),
      call({ callId: '1:1', toolName: 'cy', path: [toBo] }),
      call({ callId: '1:0', toolName: 'count', path: [toBo, toCy] }),
      call({ callId: '2:0', toolName: 'search', path: [toBo] }),
      ends({ callId: '1:0', toolName: 'count', path: [toBo, toCy], success: true }),
    );
    const shown = seen.pieces.map((each) => each.type === 'tool' && [each.agents?.join('/'), each.name, each.state]);
    expect(shown).toEqual([
      [undefined, 'bo', 'running'],
      ['bo', 'search', 'running'],
      ['bo', 'cy', 'running'],
      ['bo/cy', 'count', 'done'],
      ['bo', 'search', 'running'],
      [undefined, 'pay', 'running'],
    ]);
  });

  it('shows the task as it stands, artifacts by their names, and keeps the cursor of the last update', () => {
    const artifacts = [
      { artifactId: 'answer-1', parts: [{ text: 'Done.' }] },
      { artifactId: 'a1', name: 'report.md', parts: [{ data: { n: 1 } }] },
    ];
    const metadata = { [turnExtension]: { cursor: '3-1.1' } };
    const seen = behind(
      { task: { id: 't', status: { state: 'TASK_STATE_WORKING' }, artifacts, metadata } },
      piece(' More.'),
    );
    expect(seen).toMatchObject({ taskId: 't', state: 'working', cursor: '3-1.1' });
    expect(seen.pieces).toEqual([
      { type: 'text', artifactId: 'answer-1', text: 'Done. More.' },
      { type: 'artifact', artifactId: 'a1', name: 'report.md', text: '{\n  "n": 1\n}' },
    ]);
  });

  it.each<[string, Partial<ToolEvent>]>([
    ['done', { success: true }],
    ['failed', { success: false, code: 'TOOL_FAILED' }],
    ['failed', { success: false }],
    ['stopped', { success: false, code: 'CANCELED' }],
    ['stopped', { success: false, code: 'TOOL_ABANDONED' }],
    ['stopped', { success: false, code: 'TOOL_SKIPPED' }],
    ['rejected', { success: false, code: 'TOOL_REJECTED' }],
    ['unknown', { success: false, code: 'OUTCOME_UNKNOWN' }],
  ])('shows as %s a call that ended with %j', (state, event) => {
    expect(calls(behind(call({}), ends(event)))).toEqual([state]);
  });

  it('has one piece a call, which runs, waits for its answer, and runs again', () => {
    const asked = behind(call({}), asks('INPUT_REQUIRED'));
    expect(calls(asked)).toEqual(['waiting']);
    expect(asked.questions.map(({ id }) => id)).toEqual(['1:0']);
    const told = answered(asked, '1:0');
    expect([told.questions, answered(asked, '1:1').questions.length]).toEqual([[], 1]);
    expect(calls(updated(told, call({})))).toEqual(['running']);
    expect(calls(behind(call({}), asks('INPUT_REQUIRED'), call({ callId: '1:1' })))).toEqual(['waiting', 'running']);
  });

  it('is at rest while it waits for an answer, and not before it has questions', () => {
    expect(isAtRest(behind(asks('INPUT_REQUIRED')))).toBe(true);
    expect(isAtRest(behind(asks('AUTH_REQUIRED')))).toBe(true);
    expect(isAtRest(behind(status('INPUT_REQUIRED')))).toBe(false);
    expect(isAtRest(answered(behind(asks('INPUT_REQUIRED')), '1:0'))).toBe(false);
    expect(isOver(behind(asks('INPUT_REQUIRED')))).toBe(false);
  });

  it.each([
    ['COMPLETED', 'completed', 'done'],
    ['CANCELED', 'canceled', 'stopped'],
    ['FAILED', 'failed', 'failed'],
    ['REJECTED', 'failed', 'failed'],
  ])('ends with %s, and calls whose end nobody told with it', (wire, state, ending) => {
    const over = behind(call({}), status(wire));
    expect([over.state, calls(over), isOver(over), isAtRest(over)]).toEqual([state, [ending], true, true]);
    expect(calls(behind(call({}), ends({ success: true }), status(wire)))).toEqual(['done']);
    expect(calls(behind(call({}), asks('INPUT_REQUIRED'), status(wire)))).toEqual([ending]);
  });

  it('says why it failed, with the code', () => {
    const message = { parts: [{ text: 'The model is away.' }] };
    const metadata = { [turnExtension]: { code: 'PROVIDER_UNREACHABLE' } };
    const over = behind({ statusUpdate: { status: { state: 'TASK_STATE_FAILED', message }, metadata } });
    expect(over.failure).toBe('The model is away. (PROVIDER_UNREACHABLE)');
    expect(behind(status('FAILED')).failure).toBe('The agent failed.');
    expect(behind(status('REJECTED')).failure).toBe('The agent refused.');
    expect(failed(behind(asks('INPUT_REQUIRED')), 'No.')).toMatchObject({
      state: 'failed',
      questions: [],
      failure: 'No.',
    });
  });
});
