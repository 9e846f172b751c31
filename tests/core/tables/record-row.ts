import type { LlmDone } from 'millrace/internals';
import { journalSchema } from 'millrace/stores';
import type { TurnRecord } from 'millrace/types';

export const calls = ['look', 'count'].map((name, index) => ({
  callId: `1:${index}`,
  call: { id: `id-${index}`, type: 'function' as const, function: { name, arguments: '{}' } },
}));
export const started = {
  type: 'turn.started',
  schema: journalSchema,
  taskId: 't',
  contextId: 'c',
  agentId: 'a',
  messages: [{ role: 'user', content: 'How many?' }],
  settings: {},
} satisfies TurnRecord;
export const call = { type: 'llm.start', iteration: 1, attempt: 1 } satisfies TurnRecord;
export const usage = { promptTokens: 3, completionTokens: 2, totalTokens: 5 };
export const said = {
  type: 'llm.done',
  iteration: 1,
  attempt: 1,
  message: { role: 'assistant', content: 'Two.' },
  calls: [],
  finishReason: 'stop',
  usage,
} satisfies LlmDone;
export const asks = {
  ...said,
  message: { role: 'assistant', content: null, toolCalls: calls.map((each) => each.call) },
  calls,
  finishReason: 'tool_calls',
} satisfies LlmDone;
export const intent = (index: number): TurnRecord => ({
  type: 'tool.intent',
  callId: `1:${index}`,
  attempt: 1,
  arguments: {},
});
export const result = (index: number): TurnRecord => ({
  type: 'tool.result',
  callId: `1:${index}`,
  content: 'fine',
  success: true,
  durationMs: 20,
});
export const question = { id: '1:0', callId: '1:0', kind: 'approval', toolName: 'look' } as const;
export const asked = { type: 'turn.asked', question } satisfies TurnRecord;
export const answered = {
  type: 'turn.answered',
  callId: '1:0',
  questionId: '1:0',
  answer: { approved: true },
} satisfies TurnRecord;
export const suspended = {
  type: 'turn.suspended',
  state: 'input-required',
  reason: 'waits',
  questions: [question],
} satisfies TurnRecord;
export const told = {
  type: 'x.steer',
  effects: { messages: [{ role: 'user', content: 'And pears?' }] },
} satisfies TurnRecord;

export interface Row {
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
export type TypeOf = Exclude<TurnRecord['type'], `x.${string}`> | 'x.';
