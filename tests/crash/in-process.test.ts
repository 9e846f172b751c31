import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { JournalRecord } from 'millrace';
import { interruptedTurn } from './in-process.ts';
import { violationsOf } from './invariants.ts';
import { mutations } from './mutations.ts';
import { patched } from './parent/child-bundle.ts';
import { seedOf } from './random.ts';
import type { Deed } from './workload/world.ts';

const seed = Number(process.env['MILLRACE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const turns = 250;
const atATime = 40;

describe('turns whose process dies, within this one', () => {
  it(`S1-70 S1-76 S1-79 keep every promise over hundreds of deaths (MILLRACE_SEED=${seed})`, async () => {
    let next = 0;
    let died = 0;
    const violations: string[] = [];
    const lane = async () => {
      while (next < turns && violations.length === 0) {
        const outcome = await interruptedTurn(seedOf(seed, next++), 4);
        died += outcome.died;
        violations.push(...outcome.violations);
      }
    };
    await Promise.all(Array.from({ length: atATime }, lane));
    expect(violations).toEqual([]);
    expect(died).toBeGreaterThan(600);
  });
});

describe('the invariants', () => {
  const started = { type: 'turn.started', schema: 1, taskId: 't', contextId: 'c', agentId: 'a', settings: {} } as const;
  const user = { role: 'user', content: '1' } as const;
  const call = { id: 'x', type: 'function', function: { name: 'pay', arguments: '{"ms":0}' } } as const;
  const plan = [[{ tool: 'pay', arguments: '{"ms":0}' }]] as const;
  const text = '1 results: ';
  const records: readonly JournalRecord[] = [
    { ...started, messages: [user], seq: 1, epoch: 0, at: 1 },
    { type: 'llm.start', iteration: 1, attempt: 1, seq: 2, epoch: 1, at: 2 },
    {
      type: 'llm.done',
      iteration: 1,
      attempt: 1,
      message: { role: 'assistant', content: null, toolCalls: [call] },
      calls: [{ callId: '1:0', call }],
      finishReason: 'tool_calls',
      seq: 3,
      epoch: 1,
      at: 3,
    },
    { type: 'tool.intent', callId: '1:0', attempt: 1, arguments: { ms: 0 }, seq: 4, epoch: 1, at: 4 },
    {
      type: 'tool.result',
      callId: '1:0',
      content: 'pay by 7.1',
      success: true,
      durationMs: 0,
      seq: 5,
      epoch: 1,
      at: 6,
    },
    { type: 'llm.start', iteration: 2, attempt: 1, seq: 6, epoch: 1, at: 7 },
    {
      type: 'llm.done',
      iteration: 2,
      attempt: 1,
      message: { role: 'assistant', content: text },
      calls: [],
      finishReason: 'stop',
      seq: 7,
      epoch: 1,
      at: 8,
    },
    { type: 'turn.done', text, reason: 'stop', seq: 8, epoch: 1, at: 8 },
  ];
  const start = {
    type: 'start',
    id: '7.1',
    task: 't',
    callId: '1:0',
    key: 't:1:0',
    tool: 'pay',
    attempt: 1,
    pid: 7,
    at: 5,
  } as const;
  const end = { type: 'end', id: '7.1', task: 't', key: 't:1:0', content: 'pay by 7.1' } as const;
  const told = (changes: { readonly records?: readonly JournalRecord[]; readonly deeds?: readonly Deed[] }) =>
    violationsOf({ taskId: 't', plan, records, deeds: [start, end], paused: new Set(), ...changes })
      .map((violation) => violation.split(': ')[1])
      .filter((invariant) => invariant !== 'the turn ends as its script says');

  it('hold for a journal and a ledger that agree', () => {
    expect(told({})).toEqual([]);
  });

  it.each<[string, readonly Deed[]]>([
    ['a fail tool runs at most once', [start, end, { ...start, id: '8.1', pid: 8 }]],
    ['an intent starts one execution', [start, end, { ...start, id: '8.1', pid: 8 }]],
    ['no execution without its intent', [start, end, { ...start, id: '8.1', attempt: 2 }]],
    ['no execution after its result was recorded', [{ ...start, at: 9 }, end]],
    ['no invented result', [start, { ...end, content: 'nothing' }]],
    ['the idempotency key is stable', [{ ...start, key: 'other' }, end]],
    ['what was shown is recorded', [start, end, { type: 'shown', task: 't', record: '9-1', pid: 7 }]],
    [
      'who has lost or ended a turn has stopped its work',
      [start, end, { type: 'unstopped', task: 't', work: 'call 1:0', pid: 7 }],
    ],
    [
      'no model call after its answer was recorded',
      [start, end, { type: 'model', task: 't', iteration: 1, pid: 7, at: 9 }],
    ],
  ])('tell: %s', (invariant, deeds) => {
    expect(told({ deeds })).toContain(invariant);
  });

  it('count a call that the model repeats as one, and tell where it ran', () => {
    const other = { tool: 'look', arguments: '{"ms":0}' } as const;
    const [paid] = plan[0];
    // The model gives the first call and the fourth the same id.
    const repeating = [[paid, other, other, paid]];
    const verdict = (deeds: readonly Deed[], given: readonly JournalRecord[] = records) =>
      violationsOf({ taskId: 't', plan: repeating, records: given, deeds, paused: new Set() });
    const looks = ['1:1', '1:2'].map((callId) => ({ callId, call: { ...call, id: callId } }));
    const before = records.map((record) =>
      record.type === 'llm.done' && record.iteration === 1 ? { ...record, calls: [...record.calls, ...looks] } : record,
    );
    expect(verdict([start, end], before).filter((each) => /1:0|1:3|said/.test(each))).toEqual([]);
    const again = verdict([start, end, { ...start, id: '8.1', callId: '1:3', pid: 8 }], before);
    expect(again).toContain('t: no execution without its intent: call 1:3');
  });

  it('tell that a result is lost', () => {
    expect(told({ records: records.slice(0, 4) })).toContain('one result a call');
  });

  it('tell that a journal does not fold', () => {
    expect(told({ records: records.filter(({ seq }) => seq !== 4) })).toEqual(['the journal folds']);
  });
});

describe('the planted bugs', () => {
  it.each(mutations.map((mutation) => [`${mutation.store}: ${mutation.name}`, mutation] as const))(
    'can be planted: %s',
    (_, { patches }) => {
      for (const patch of patches) expect(patched(patch, readFileSync(patch.file, 'utf8'))).toContain(patch.to);
    },
  );
});
