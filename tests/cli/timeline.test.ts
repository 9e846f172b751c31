import { describe, expect, it } from '@jest/globals';
import { agent, agentTools, InMemoryStateStore, type JournalRecord, LocalToolProvider, tool } from 'millrace';
import {
  AgentLoop,
  createStyle,
  extendTimeline,
  headLines,
  standingLines,
  storeSettings,
  type Timeline,
  type TimelineTree,
  timelineLines,
  timelineOf,
  withChildren,
} from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import type { EmittedEvent, TurnRecord } from 'millrace/types';
import { fakeScreen } from './screen.ts';

const options = { style: createStyle({ color: false, unicode: true }), columns: 80, now: 100_000 };
const call = (name: string, id: string) => ({
  id,
  type: 'function' as const,
  function: { name, arguments: '{"x":1}' },
});
const records: readonly TurnRecord[] = [
  {
    type: 'turn.started',
    schema: 1,
    taskId: 't',
    contextId: 'c',
    agentId: 'a',
    messages: [{ role: 'user', content: 'Do\nit' }],
    settings: {},
  },
  { type: 'llm.start', iteration: 1, attempt: 1 },
  { type: 'turn.resumed' },
  { type: 'llm.start', iteration: 1, attempt: 2 },
  {
    type: 'llm.done',
    iteration: 1,
    attempt: 2,
    message: { role: 'assistant', content: '', toolCalls: [call('one', 'p'), call('two', 'q')] },
    calls: [
      { callId: '1:0', call: call('one', 'p') },
      { callId: '1:1', call: call('two', 'q') },
    ],
    finishReason: 'tool_calls',
    usage: { promptTokens: 1200, completionTokens: 7, totalTokens: 1207 },
  },
  { type: 'tool.intent', callId: '1:0', attempt: 1, arguments: { x: 1 } },
  { type: 'tool.intent', callId: '1:1', attempt: 1, arguments: { x: 1 } },
  { type: 'tool.result', callId: '1:1', content: 'fine', success: true, durationMs: 20 },
  { type: 'turn.resumed' },
  { type: 'tool.intent', callId: '1:0', attempt: 2, arguments: { x: 1 } },
];

/** The first records of the journal, one a second. */
function timeline(count: number = records.length): Timeline {
  const stamped = records.slice(0, count).map((record, index): JournalRecord => {
    return { ...record, seq: index + 1, epoch: index === 0 ? 0 : 1, at: 90_000 + index * 1_000 };
  });
  const made = timelineOf(stamped);
  if (made === undefined) throw new Error('no records');
  return made;
}

const alone = (timeline: Timeline): TimelineTree => ({ timeline, below: new Map() });

describe('the lines of a timeline', () => {
  it('tell each attempt, what was cut off, times and tokens', () => {
    expect(timelineLines(alone(timeline()), options).lines).toEqual([
      'iteration 1',
      '    1.0 s  · model         cut off',
      '    2.0 s  · resumed',
      '    3.0 s  ✓ model         asks for 2 calls  1.0 s, attempt 2  1,200→7 tok',
      '    5.0 s  ✗ one           1 → cut off',
      '    6.0 s  ✓ two           1 → fine  20 ms',
      '    8.0 s  · resumed',
      '    9.0 s  ⠋ one           1  1.0 s, attempt 2',
    ]);
  });

  it('say which agent a turn was handed to', () => {
    const stamp = { seq: 2, epoch: 1, at: 91_000 };
    const changed = extendTimeline(timeline(1), {
      type: 'agent.changed',
      from: 'a',
      to: 'billing',
      reason: 'hand_off',
      ...stamp,
    });
    expect(timelineLines(alone(changed), options).lines).toEqual(['    1.0 s  · agent billing (hand_off)']);
  });

  it('show what an extension recorded, with the labels of its events and nothing else of them', () => {
    const recorded = (events: readonly EmittedEvent[]) => {
      const record: JournalRecord = { type: 'x.guide', events, seq: 2, epoch: 1, at: 91_000 };
      return timelineLines(alone(extendTimeline(timeline(1), record)), options).lines;
    };
    expect(recorded([{ name: 'kept', payload: 'private' }])).toEqual(['    1.0 s  · x.guide']);
    const labelled = [{ label: 'found 2\nplaces', payload: 'private' }, {}, { label: 'chose one' }];
    expect(recorded(labelled)).toEqual(['    1.0 s  · x.guide: found 2 places; chose one']);
  });

  it('up to the first that goes on they change no more', () => {
    for (let count = 1; count < records.length; count++) {
      const { lines, settled } = timelineLines(alone(timeline(count)), options);
      const after = timelineLines(alone(timeline(count + 1)), { ...options, now: options.now + 800 });
      expect(after.lines.slice(0, settled)).toEqual(lines.slice(0, settled));
      expect(after.settled).toBeGreaterThanOrEqual(settled);
    }
  });

  it('fit the terminal', () => {
    for (const columns of [60, 80, 120]) {
      const { lines } = timelineLines(alone(timeline()), { ...options, columns });
      const all = [...headLines(timeline(), { ...options, columns }), ...lines];
      expect(Math.max(...all.map((line) => line.length))).toBeLessThan(columns);
    }
  });
});

describe('the lines of a turn with child turns', () => {
  const message = { message: 'Go on.' };
  const made = async () => {
    const store = new InMemoryStateStore();
    const cy = agent({ id: 'cy', provider: scriptedLLM([{ text: 'Deep.' }]) });
    const steps = [{ toolCalls: [{ name: 'cy', arguments: message }] }, { text: 'Cy says deep.' }];
    const bo = agent({ id: 'bo', provider: scriptedLLM(steps), toolProviders: [agentTools([cy])] });
    const ada = agent({
      id: 'ada',
      provider: scriptedLLM([{ toolCalls: [{ name: 'bo', arguments: message }] }, { text: 'So.' }]),
      toolProviders: [agentTools([bo])],
      taskStateStore: store,
    });
    await ada.run('Ask.', { taskId: 't' });
    return store;
  };
  const shape = (lines: readonly string[]) =>
    lines.map((line) => line.replace(/^ *[\d.]+ m?s/, '').replace(/ {2,}\d.*$/, ''));

  it('have what the agents below did indented under the calls, by name', async () => {
    const store = await made();
    const root = timelineOf(store.read('t'));
    if (!root) throw new Error('no records');
    const { lines, settled } = timelineLines(await withChildren(store, root), options);
    expect(shape(lines)).toEqual([
      'iteration 1',
      '  ✓ model         asks for 1 call',
      '  ✓ bo            Go on. → Cy says deep.',
      '    ✓ bo            asks for 1 call',
      '    ✓ cy            Go on. → Deep.',
      '      ✓ cy            Deep.',
      '    ✓ bo            Cy says deep.',
      'iteration 2',
      '  ✓ model         So.',
    ]);
    expect(settled).toBe(lines.length);
  });

  it('read of child turns that are known only what is new, and nothing of those that have ended', async () => {
    const store = await made();
    const root = timelineOf(store.read('t'));
    if (!root) throw new Error('no records');
    const { below } = await withChildren(store, root);
    const asked: string[] = [];
    const read = (taskId: string, { from = 1 } = {}) => {
      asked.push(`${taskId} from ${from}`);
      return store.read(taskId, { from });
    };
    expect((await withChildren({ read }, root, below)).below).toEqual(below);
    expect(asked).toEqual([]);
    const before = timelineOf(store.read('t:1:0').slice(0, 3));
    if (!before) throw new Error('no records');
    await withChildren({ read }, root, new Map([['t:1:0', { timeline: before, below: new Map() }]]));
    expect(asked).toEqual(['t:1:0 from 4', 't:1:0:1:0 from 1']);
  });

  it('a child turn that is open names its parent turn, not a command to resume it', async () => {
    const store = await made();
    const child = timelineOf(store.read('t:1:0').slice(0, 3));
    if (!child) throw new Error('no records');
    const { terminal } = fakeScreen();
    const place = { taskId: 't:1:0', flags: {}, store: storeSettings({}, {}) };
    const lines = standingLines(child, { held: false, place, terminal });
    expect(lines.at(-1)).toBe('  millrace show t');
    expect(headLines(child, options)[0]).toContain('child turn of t');
  });
});

describe('where a turn stands', () => {
  const { terminal } = fakeScreen();
  const place = { taskId: 't', flags: {}, store: storeSettings({}, {}) };

  it('nobody runs it: how to go on; somebody does: how to follow', () => {
    const sum = ' · 1 iteration · 1 tool call · 1,207 tokens · 9.0 s';
    expect(standingLines(timeline(), { held: false, place, terminal })).toEqual([
      '',
      `resumable${sum}`,
      'no process runs it; resume with:',
      '  millrace resume t',
    ]);
    expect(standingLines(timeline(), { held: true, place, terminal })).toEqual([
      '',
      `working${sum}`,
      'a process runs it; follow it with:',
      '  millrace show t --watch',
    ]);
  });

  it('a question is shown with the command that answers it', async () => {
    const store = new InMemoryStateStore();
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      parameters: { type: 'object' },
      needsApproval: true,
      execute: () => 'paid',
    });
    const llmProvider = scriptedLLM([{ toolCalls: [{ name: 'pay', arguments: {} }] }]);
    const toolProviders = [new LocalToolProvider([pay])];
    const loop = new AgentLoop({ agentId: 'a', llmProvider, toolProviders, taskStateStore: store });
    await loop.startTurn([{ role: 'user', content: 'Pay' }], { taskId: 't' }).result();
    const asked = timelineOf(await store.read('t'));
    if (asked === undefined) throw new Error('no records');
    const lines = standingLines(asked, { held: false, place, terminal });
    expect(lines[1]).toMatch(/^input-required · /);
    expect(lines).toContain('  ? 1:0  pay needs approval');
    expect(lines.at(-1)).toBe(`  millrace resume t --answer '1:0={"approved":true}'`);
    expect(timelineLines(alone(asked), options).lines.at(-1)).toMatch(/· suspended: /);
  });
});
