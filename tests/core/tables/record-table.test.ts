import { describe, expect, it } from '@jest/globals';
import { applyRecord, eventsOf, type LoopState, type Stamped } from 'millrace';
import { isKnownType, kindOf } from 'millrace/internals';
import { journalSchema } from 'millrace/stores';
import type { TurnRecord } from 'millrace/types';
import { outlineOf } from '../watch-events.ts';

import { call, question, type Row, said, started, usage } from './record-row.ts';
import { rows } from './record-rows.ts';

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

it.each<[record: TurnRecord, callId: string | undefined, subject: string | undefined, takesOver: boolean]>([
  [started, undefined, undefined, false],
  [{ type: 'turn.resumed' }, undefined, undefined, true],
  [call, undefined, '1.1', false],
  [said, undefined, '1.1', false],
  [{ type: 'tool.intent', callId: '1:0', attempt: 2, arguments: {} }, '1:0', '1:0#2', false],
  [{ type: 'tool.result', callId: '1:0', content: 'fine', success: true, durationMs: 20 }, '1:0', '1:0', false],
  [{ type: 'turn.asked', question }, question.callId, question.callId, false],
  [{ type: 'turn.answered', callId: '1:0', questionId: '1:0', answer: true }, '1:0', '1:0', true],
  [{ type: 'turn.canceled', reason: 'x' }, undefined, undefined, true],
  [{ type: 'x.note' }, undefined, undefined, false],
])('says of $type what a replay finds it by, and who may write it', (record, callId, subject, takesOver) => {
  const kind = kindOf(record.type);
  expect([kind?.callOf(record), kind?.subject(record), kind?.takesOver]).toEqual([callId, subject, takesOver]);
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
