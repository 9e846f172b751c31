import type { Delta, Lease, MaybePromise, TaskState, TaskStateStore, Under } from '../../core/contracts/index.ts';
import {
  type JournalRecord,
  journalSchema,
  type ParentLink,
  type Stamped,
  type TurnRecord,
  type TurnStarted,
} from '../../core/journal/index.ts';
import type { PromiseGroup } from '../contract/define-contract.ts';

/** The store that a case runs on, and what the case may ask of its surroundings. */
export interface StoreUnderTest {
  readonly store: TaskStateStore;
  /** A second instance over the same data, as another process has it; `store` itself where there is no such thing. */
  readonly peer: TaskStateStore;
  /** Another instance over the same data whose clock is ahead; `store` itself where there is no such thing. */
  peerAhead(ms: number): Promise<TaskStateStore>;
  /** Milliseconds that a lease lasts in these cases. */
  readonly leaseMs: number;
  /** Milliseconds that a case waits for what has to come. */
  readonly deadlineMs: number;
  /** Lets time pass for leases. */
  advance(ms: number): Promise<void>;
  newTaskId(): string;
  /** Writes a record of an unknown type directly, bypassing the store's interface. */
  plantUnknownRecord?(taskId: string): Promise<void>;
}

/** Cases of one subject, in the order they run. */
export type ContractGroup = PromiseGroup<StoreUnderTest>;

/** When the turns of these cases started, in milliseconds since 1970. */
export const startedAt = 1_700_000_000_000;

interface StartFields {
  readonly contextId?: string;
  readonly agentId?: string;
  readonly at?: number;
  readonly schema?: number;
  readonly text?: string;
  /** The task id of the parent turn. */
  readonly parent?: string;
}

export function startRecord(taskId: string, fields: StartFields = {}): Stamped<TurnStarted> {
  return {
    type: 'turn.started',
    schema: fields.schema ?? journalSchema,
    taskId,
    contextId: fields.contextId ?? `context-of-${taskId}`,
    agentId: fields.agentId ?? 'contract-agent',
    ...(fields.parent !== undefined && { parent: parentLink(fields.parent) }),
    messages: [{ role: 'user', content: fields.text ?? 'How many?' }],
    settings: { maxIterations: 7 },
    seq: 1,
    epoch: 0,
    at: fields.at ?? startedAt,
  };
}

function parentLink(taskId: string): ParentLink {
  return { taskId, callId: '1:0', agentId: 'contract-agent', rootTaskId: taskId };
}

/** Creates a task and answers with its id. */
export async function begin(subject: StoreUnderTest, fields: StartFields = {}): Promise<string> {
  const taskId = subject.newTaskId();
  await subject.store.create(taskId, startRecord(taskId, fields));
  return taskId;
}

/** A record that may stand anywhere in a journal. */
export function note(data: unknown): TurnRecord {
  return { type: 'x.note', data };
}

export const done: TurnRecord = { type: 'turn.done', text: 'Two.', reason: 'stop' };

export const suspended: TurnRecord = {
  type: 'turn.suspended',
  state: 'input-required',
  reason: 'for lunch',
  questions: [],
};

/** A failed model call that is made again then. */
export function backoff(until: number): TurnRecord {
  return { type: 'turn.suspended', state: 'working', reason: 'backoff', questions: [], hold: { until, attempt: 1 } };
}

export function llmStart(iteration: number, attempt = 1): TurnRecord {
  return { type: 'llm.start', iteration, attempt };
}

export function llmAnswer(iteration: number, text: string): TurnRecord {
  return {
    type: 'llm.done',
    iteration,
    attempt: 1,
    message: { role: 'assistant', content: text },
    calls: [],
    finishReason: 'stop',
    usage: { promptTokens: 5, completionTokens: 3, totalTokens: 8 },
  };
}

const countCall = {
  id: 'call_1',
  type: 'function',
  function: { name: 'count', arguments: '{"of":"apples"}' },
} as const;

/** The appends of a turn of two iterations with one tool call, after its `turn.started`. */
export const wholeTurn: readonly (readonly TurnRecord[])[] = [
  [llmStart(1)],
  [
    {
      type: 'llm.done',
      iteration: 1,
      attempt: 1,
      message: { role: 'assistant', content: null, toolCalls: [countCall] },
      calls: [{ callId: '1:0', call: countCall }],
      finishReason: 'tool_calls',
      usage: { promptTokens: 4, completionTokens: 2, totalTokens: 6 },
    },
    { type: 'tool.intent', callId: '1:0', attempt: 1, arguments: { of: 'apples' } },
  ],
  [{ type: 'tool.result', callId: '1:0', content: '2', success: true, durationMs: 12 }],
  [llmStart(2)],
  [llmAnswer(2, 'Two.'), done],
];

/** A model call that calls an agent for each of the task ids, and the intents that link to those child turns. */
export function callsOfChildren(taskIds: readonly string[]): readonly TurnRecord[] {
  const calls = taskIds.map((_, index) => ({ callId: `1:${index}`, call: { ...countCall, id: `call_${index}` } }));
  return [
    llmStart(1),
    {
      type: 'llm.done',
      iteration: 1,
      attempt: 1,
      message: { role: 'assistant', content: null, toolCalls: calls.map(({ call }) => call) },
      calls,
      finishReason: 'tool_calls',
      usage: { promptTokens: 4, completionTokens: 2, totalTokens: 6 },
    },
    ...taskIds.map((taskId, index) => ({
      type: 'tool.intent' as const,
      callId: `1:${index}`,
      attempt: 1,
      arguments: { of: 'apples' },
      child: { taskId, agentId: 'contract-helper' },
    })),
  ];
}

export function textDelta(epoch: number, text: string, attempt = 1): Delta {
  return { type: 'llm', epoch, iteration: 1, attempt, chunk: { type: 'text', text } };
}

const statusOf: Partial<Record<TurnRecord['type'], TaskState>> = {
  'turn.done': 'completed',
  'turn.failed': 'failed',
  'turn.canceled': 'canceled',
};

/** Somebody with a lease, who stamps records as the engine does. */
export class Owner {
  readonly store: TaskStateStore;
  readonly lease: Lease;
  #next: number;

  constructor(store: TaskStateStore, lease: Lease) {
    this.store = store;
    this.lease = lease;
    this.#next = lease.seq + 1;
  }

  static async take(subject: StoreUnderTest, taskId: string, options: TakeOptions = {}): Promise<Owner> {
    const { store = subject.store, owner = 'owner-a', leaseMs = subject.leaseMs, under } = options;
    return new Owner(store, await store.acquire(taskId, owner, leaseMs, under));
  }

  /** Gives records the next places in the journal. */
  stamp(...records: readonly TurnRecord[]): readonly JournalRecord[] {
    return records.map((record) => this.stampAt(this.#next++, record));
  }

  stampAt(seq: number, record: TurnRecord): JournalRecord {
    return { ...record, seq, epoch: this.lease.epoch, at: startedAt + seq };
  }

  /** Sends stamped records, also again. */
  async send(records: readonly JournalRecord[], barrier = true): Promise<void> {
    const last = records.at(-1);
    const suspended = last?.type === 'turn.suspended' ? last.state : last && statusOf[last.type];
    const status = suspended ?? 'working';
    await this.store.append(this.lease, records, { status, barrier });
  }

  append(...records: readonly TurnRecord[]): Promise<void> {
    return this.send(this.stamp(...records));
  }
}

interface TakeOptions {
  readonly store?: TaskStateStore;
  readonly owner?: string;
  readonly leaseMs?: number;
  /** The lease of the parent turn. */
  readonly under?: Under;
}

/** A task that somebody holds. */
export async function beginHeld(subject: StoreUnderTest): Promise<{ readonly taskId: string; readonly owner: Owner }> {
  const taskId = await begin(subject);
  return { taskId, owner: await Owner.take(subject, taskId) };
}

/** The other owner, from the other instance. */
export function takeOver(subject: StoreUnderTest, taskId: string): Promise<Owner> {
  return Owner.take(subject, taskId, { store: subject.peer, owner: 'owner-b' });
}

/** Lets the lease run out. */
export function expire(subject: StoreUnderTest): Promise<void> {
  return subject.advance(subject.leaseMs + 1);
}

export async function seqsOf(read: MaybePromise<readonly JournalRecord[]>): Promise<readonly number[]> {
  return (await read).map((record) => record.seq);
}

/** 1, 2, … `count`. */
export function upTo(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}
