import { describe, expect, it } from '@jest/globals';
import { type Extension, type JournalRecord, LocalToolProvider, replay, tool } from 'millrace';
import { withReason } from 'millrace/internals';
import { question } from '../core/dead-turn.ts';
import { obedient, plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';

const bench = turnBench();

/** A journal as a version wrote it that tells people the same in other words. */
function reworded(records: readonly JournalRecord[]): readonly JournalRecord[] {
  return records.map((record) => {
    if (record.type === 'turn.failed') return { ...record, message: 'It ended.' };
    if (record.type !== 'tool.result' || record.error?.reason === undefined) return record;
    return { ...record, content: 'Tool error: it did not run', error: { ...record.error, message: 'it did not run' } };
  });
}

describe('errors are data', () => {
  it('a turn with every kind of refused call replays in other words', async () => {
    const tools = plainTools({
      fine: () => 'fine',
      slow: obedient,
      denied: () => 1,
      alike: () => 2,
      rejected: () => 3,
    });
    const strict = tool({
      name: 'strict',
      description: 'Counts.',
      parameters: { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] },
      execute: () => 'counted',
    });
    const guard: Extension = {
      name: 'guard',
      beforeToolCall({ call }) {
        if (call.function.name === 'denied') return { deny: 'not today' };
        return call.function.name === 'alike' ? { deny: 'the call was rejected: by nobody' } : undefined;
      },
      approveToolCall: ({ call }) =>
        call.function.name === 'rejected' ? { decision: 'reject', reason: 'too much' } : undefined,
    };
    const names = ['fine', 'slow', 'denied', 'alike', 'rejected', 'unknown', 'strict'];
    const toolCalls = [...names.map((name) => ({ name })), { name: 'fine', arguments: '{' }];
    const options = {
      toolProviders: [tools, new LocalToolProvider([strict])],
      extensions: [guard],
      toolTimeoutMs: 20,
      maxIterations: 1,
    };
    const loop = bench.loop([{ toolCalls }], options);
    const turn = loop.startTurn(question, { taskId: 't' });
    await watch(turn).until('internal:tool-complete', ({ callId }) => callId === '1:6');
    bench.clock.advance(20);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'MAX_ITERATIONS',
      details: { maxIterations: 1 },
    });
    const records = bench.store.read('t');
    const errors = records.flatMap((record) => (record.type === 'tool.result' && record.error ? [record.error] : []));
    expect(new Set(errors.map(({ reason }) => reason))).toEqual(
      new Set(['tool_late', 'denied', 'rejected', 'unknown_tool', 'invalid_arguments', 'not_json']),
    );
    for (const config of [{}, { extensions: [guard] }]) {
      const end = await replay(reworded(records), config).result();
      expect(end.deviations).toEqual([]);
    }
  });

  it('a replay still sees another case, another limit and another reason of a denial', async () => {
    const deny = (says: string): Extension => ({ name: 'guard', beforeToolCall: () => ({ deny: says }) });
    const toolProviders = [plainTools({ pay: () => 'paid' })];
    const steps = [{ toolCalls: [{ name: 'pay' }] }, { text: 'Not paid.' }];
    const loop = bench.loop(steps, { toolProviders, extensions: [deny('too late')] });
    await loop.startTurn(question, { taskId: 't' }).result();
    const records = bench.store.read('t');
    await expect(replay(records, { extensions: [deny('too late')] }).result()).resolves.toMatchObject({
      deviations: [],
    });
    await expect(replay(records, { extensions: [deny('too dear')] }).result()).rejects.toMatchObject({
      code: 'DEVIATION',
      message: expect.stringContaining('error.details.says: expected "too late", got "too dear"'),
    });
  });

  it.each([
    ['TOOL_TIMEOUT', 'nobody decided within 20 ms whether the call may run', 'undecided', { limitMs: 20 }],
    ['TOOL_TIMEOUT', 'the check of the arguments did not answer within 5 ms', 'check_late', { limitMs: 5 }],
    ['TOOL_TIMEOUT', 'the tool did not answer within 30000 ms', 'tool_late', { limitMs: 30_000 }],
    ['TOOL_REJECTED', 'the call was rejected', 'rejected', {}],
    ['TOOL_REJECTED', 'the call was rejected: no\nnever', 'rejected', { says: 'no\nnever' }],
    ['TOOL_REJECTED', 'only on Mondays', 'denied', { says: 'only on Mondays' }],
    ['TOOL_ABANDONED', 'the tool did not stop within 5000 ms of the cancel', 'abandoned', { limitMs: 5_000 }],
    ['TOOL_SKIPPED', 'skipped: the turn finished', 'skipped', undefined],
    ['CANCELED', 'the turn was stopped before this call started', 'never_started', undefined],
    ['CANCELED', 'The turn was cancelled.', undefined, undefined],
    ['TOOL_FAILED', 'Error: no money', undefined, undefined],
    ['TOOL_NOT_FOUND', 'tool "x" is not known; known tools: a, b', 'unknown_tool', { name: 'x', known: ['a', 'b'] }],
    ['TOOL_NOT_FOUND', 'the call names no tool; there are no tools', 'unknown_tool', { name: '', known: [] }],
    ['TOOL_ARGUMENTS', 'the arguments of "x" are not JSON (Oh); send one JSON object', 'not_json', { name: 'x' }],
    ['TOOL_ARGUMENTS', 'count must be an integer', 'invalid_arguments', undefined],
    [
      'OUTCOME_UNKNOWN',
      'OUTCOME_UNKNOWN: the process stopped while this call ran, so it may or may not have taken effect; check before you repeat it',
      'in_doubt',
      undefined,
    ],
    [
      'OUTCOME_UNKNOWN',
      'OUTCOME_UNKNOWN: the process stopped while this call ran, so it may or may not have taken effect; asking the tool failed: gone; check before you repeat it',
      'in_doubt_failed',
      { why: 'gone' },
    ],
    [
      'OUTCOME_UNKNOWN',
      'OUTCOME_UNKNOWN: the process stopped while this call ran, so it may or may not have taken effect; asking the tool gave no usable answer; check before you repeat it',
      'in_doubt_no_answer',
      undefined,
    ],
    [
      'TOOL_TOO_LARGE',
      'the result has 9000000 bytes, more than the 8388608 that a turn keeps; return a part of it, or where it can be found',
      'too_large',
      { bytes: 9_000_000, maxBytes: 8_388_608 },
    ],
  ] as const)('what 0.1 wrote is read: %s, %s', (code, message, reason, details) => {
    const data = { ...(reason && { reason }), ...(details && { details }) };
    expect(withReason({ code, message })).toEqual({ code, message, ...data });
  });
});
