import { type Clock, foldRecords, type Stamped, type ToolCall } from 'millrace';
import { commitOf, type LlmDone, taskState } from 'millrace/internals';
import { journalSchema } from 'millrace/stores';
import type { TurnRecord, TurnStarted } from 'millrace/types';
import type { TurnBench } from './turn-bench.ts';

export const question = [{ role: 'user', content: 'How many?' }] as const;

/** The first record of task `t` in context `c`. */
export function startedRecord(clock: Clock, changes: Partial<TurnStarted> = {}): Stamped<TurnStarted> {
  return {
    type: 'turn.started',
    schema: journalSchema,
    taskId: 't',
    contextId: 'c',
    agentId: 'tester',
    messages: question,
    settings: {},
    ...changes,
    seq: 1,
    epoch: 0,
    at: clock.now(),
  };
}

/** Writes the journal of a task, `t` by default, as a process left it that died behind these records. Its lease has run out. */
export function deadTurn(
  { store, clock, leases }: Pick<TurnBench, 'store' | 'clock' | 'leases'>,
  records: readonly TurnRecord[],
  started: Partial<TurnStarted> = {},
): void {
  const first = startedRecord(clock, started);
  store.create(first.taskId, first);
  const lease = store.acquire(first.taskId, 'the dead', 1_000);
  const { steps, after } = commitOf({ epoch: lease.epoch, now: () => clock.now() }, foldRecords([first]), records);
  store.append(
    lease,
    steps.map(({ record }) => record),
    { status: taskState(after), barrier: true },
  );
  leases.advance(1_000);
}

/** A call of the first iteration without arguments. */
export function callOf(name: string, index = 0): ToolCall {
  return { id: `id-${index}`, type: 'function', function: { name, arguments: '{}' } };
}

/** The answer of the first iteration: a text, or calls of these tools. */
export function answerOf(answer: string | readonly string[]): LlmDone {
  const calls = typeof answer === 'string' ? [] : answer.map(callOf);
  return {
    type: 'llm.done',
    iteration: 1,
    attempt: 1,
    message: {
      role: 'assistant',
      content: typeof answer === 'string' ? answer : null,
      ...(calls.length > 0 ? { toolCalls: calls } : {}),
    },
    calls: calls.map((call, index) => ({ callId: `1:${index}`, call })),
    finishReason: calls.length > 0 ? 'tool_calls' : 'stop',
  };
}

export const firstCall = { type: 'llm.start', iteration: 1, attempt: 1 } as const satisfies TurnRecord;

export function intentOf(index: number): TurnRecord {
  return { type: 'tool.intent', callId: `1:${index}`, attempt: 1, arguments: {} };
}

export function resultOf(index: number, content: string): TurnRecord {
  return { type: 'tool.result', callId: `1:${index}`, content, success: true, durationMs: 5 };
}
