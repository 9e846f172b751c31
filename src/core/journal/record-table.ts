import type { AgentEvent } from '../contracts/events.ts';
import { type ExtensionRecord, eventsIn, isLeftCall } from './extension-record.ts';
import {
  answer,
  ask,
  cancel,
  changeAgent,
  complete,
  endCall,
  endToolCall,
  extend,
  fail,
  poison,
  resume,
  startCall,
  startTool,
  suspend,
} from './fold.ts';
import type { Projection } from './projection.ts';
import type { Stamped, TurnRecord, TurnSuspended } from './records.ts';
import type { Draft, LoopState } from './state.ts';

/** The type of a record's member. */
export type MemberKind =
  | 'text'
  | 'number'
  | 'time'
  | 'list'
  | 'object'
  | 'flag'
  | 'nothing'
  | 'content'
  | 'any'
  | 'traceId'
  | 'spanId';

/** Names and types of members; `?` marks an optional one. */
export type Members = Readonly<Record<string, MemberKind | `${MemberKind}?`>>;

/** The nested members of members. */
export type Inner = Readonly<
  Record<string, { readonly members: Members; readonly inner?: Inner } | 'message' | 'messages' | 'calls' | 'events'>
>;

/** Exactly the members of a record type. */
type MembersOf<R> = {
  readonly [Name in Exclude<keyof R, 'type'>]-?: Record<never, never> extends Pick<R, Name>
    ? `${MemberKind}?`
    : MemberKind;
};

/** Everything that the engine needs to know about a record type. */
interface RecordKind<R extends TurnRecord = TurnRecord> {
  readonly members: MembersOf<R>;
  /** The nested members that the fold and the events read, if present. */
  readonly inner?: Inner;
  /** Folds the record into the state. Errors: `POISON` if it is invalid at this position. */
  apply(draft: Draft, record: Stamped<R>): void;
  /** The events for subscribers. */
  events(to: Projection, before: LoopState, record: R): readonly AgentEvent[];
  /** Its line in a timeline; `undefined` if it is part of a model or tool call, or the end, which have their own lines. */
  words(record: R): string | undefined;
  /** Whether the record begins the streaming of a model call, ends it, or changes neither. */
  readonly streams: 'begins' | 'ends' | 'as before';
  /** The call that it belongs to. Calls of one response run concurrently: records of two of them come in any order. */
  callOf(record: R): string | undefined;
  /** A key that is unique for its type in one run, e.g. `1:0#2`, by which a replay finds records. `undefined`: not needed. */
  subject(record: R): string | undefined;
  /** Whether the epoch may rise with it: a new owner's first record, or the only record of a process that owns nothing. */
  readonly takesOver: boolean;
  /** Whether the turn may be in another state after it: `statusAt` of a task is the time of the last such record. */
  readonly changesStatus: boolean;
  /** The record without usage and waits, for a retry, which counts its own. */
  withoutUsage(record: R): R;
}

/** The engine's own record types. */
type OwnType = Exclude<TurnRecord['type'], ExtensionRecord['type']>;

type RecordTable = { readonly [Type in OwnType]: RecordKind<Extract<TurnRecord, { readonly type: Type }>> };

/** A record of the turn as a whole. */
const ofTurn = { callOf: () => undefined, subject: () => undefined, takesOver: false, changesStatus: true } as const;
const byCallId = ({ callId }: { readonly callId: string }) => callId;
const ofModelCall = { callOf: () => undefined, subject: attemptOf, takesOver: false, changesStatus: false } as const;

/** The trace context of a record. */
const ofTrace = {
  members: { traceId: 'traceId', spanId: 'spanId', sampled: 'flag?', parentSpanId: 'spanId?', agentTurn: 'object?' },
  inner: { agentTurn: { members: { spanId: 'spanId', agentName: 'text' } } },
} as const;
const ofChild = { child: { members: { taskId: 'text', agentId: 'text' } } } as const;
const ofFailure = { code: 'text', message: 'text', reason: 'text', details: 'object?' } as const;

/**
 * Every type of record. A new one is a member of `TurnRecord` and an entry here: the check of records, the fold, the events, the timeline
 * and the stores go by this table.
 */
const own: RecordTable = {
  'turn.started': {
    members: {
      schema: 'number',
      taskId: 'text',
      contextId: 'text',
      agentId: 'text',
      messages: 'list',
      settings: 'object',
      metadata: 'object?',
      trace: 'object?',
      submitted: 'object?',
      forkedFrom: 'object?',
      follows: 'object?',
      parent: 'object?',
    },
    inner: {
      messages: 'messages',
      trace: ofTrace,
      submitted: { members: { trace: 'object?' }, inner: { trace: ofTrace } },
      follows: { members: { after: 'text?', before: 'text?' } },
      parent: { members: { taskId: 'text', callId: 'text', agentId: 'text', rootTaskId: 'text' } },
    },
    apply(_, record) {
      throw poison(record, record.taskId, 'turn.started is a journal’s first record');
    },
    events: (to, _, record) => to.started(record),
    words: () => undefined,
    streams: 'ends',
    ...ofTurn,
    withoutUsage: (record) => record,
  },
  'turn.resumed': {
    members: { trace: 'object?', lostAt: 'time?', waited: 'flag?', queued: 'flag?' },
    inner: { trace: ofTrace },
    apply: resume,
    events: (to) => to.resumed(),
    words: () => 'resumed',
    streams: 'ends',
    ...ofTurn,
    takesOver: true,
    withoutUsage: (record) => record,
  },
  'llm.start': {
    members: { iteration: 'number', attempt: 'number', tools: 'list?', options: 'object?', summary: 'flag?' },
    apply: startCall,
    events: (to, before, record) => to.llmStarted(before, record),
    words: () => undefined,
    streams: 'begins',
    ...ofModelCall,
    withoutUsage: (record) => record,
  },
  'llm.done': {
    members: {
      iteration: 'number',
      attempt: 'number',
      message: 'object',
      calls: 'list',
      finishReason: 'text',
      finishWord: 'text?',
      usage: 'object?',
      model: 'text?',
    },
    inner: { message: 'message', calls: 'calls' },
    apply: endCall,
    events: (to, before, record) => to.llmDone(before, record),
    words: () => undefined,
    streams: 'ends',
    ...ofModelCall,
    withoutUsage: ({ usage: _, ...record }) => record,
  },
  'tool.intent': {
    members: { callId: 'text', attempt: 'number', arguments: 'any', child: 'object?' },
    inner: ofChild,
    apply: startTool,
    events: (to, before, record) => to.toolStarted(before, record),
    words: () => undefined,
    streams: 'as before',
    callOf: byCallId,
    subject: ({ callId, attempt }) => `${callId}#${attempt}`,
    takesOver: false,
    changesStatus: false,
    withoutUsage: (record) => record,
  },
  'tool.result': {
    members: {
      callId: 'text',
      content: 'content',
      success: 'flag',
      error: 'object?',
      arguments: 'any?',
      durationMs: 'number',
      usage: 'object?',
      usageBy: 'list?',
      fails: 'object?',
    },
    inner: { fails: { members: ofFailure }, error: { members: { ...ofFailure, reason: 'text?' } } },
    apply: endToolCall,
    events: (to, before, record) => to.toolDone(before, record),
    words: () => undefined,
    streams: 'as before',
    callOf: byCallId,
    subject: byCallId,
    takesOver: false,
    changesStatus: false,
    withoutUsage: ({ usage: _, usageBy: __, ...record }) => record,
  },
  'turn.asked': {
    members: { question: 'object', private: 'any?', usage: 'object?', usageBy: 'list?' },
    inner: {
      question: {
        members: {
          callId: 'text',
          kind: 'text',
          toolName: 'text',
          prompt: 'text?',
          data: 'any?',
          child: 'object?',
        },
        inner: ofChild,
      },
    },
    apply: ask,
    events: (to, before, record) => to.asked(before, record),
    words: ({ question: { toolName, callId, kind } }) => `${toolName} (${callId}) asks: ${kind}`,
    streams: 'ends',
    callOf: ({ question }) => question.callId,
    subject: ({ question }) => question.callId,
    takesOver: false,
    changesStatus: true,
    withoutUsage: ({ usage: _, usageBy: __, ...record }) => record,
  },
  'turn.answered': {
    members: { callId: 'text', questionId: 'text', answer: 'any', command: 'text?', message: 'object?' },
    inner: { message: 'message' },
    apply: answer,
    events: (to, before, record) => to.answered(before, record),
    words: (record) => `${record.callId} answered: ${JSON.stringify(record.answer)}`,
    streams: 'ends',
    callOf: byCallId,
    subject: byCallId,
    takesOver: true,
    changesStatus: true,
    withoutUsage: (record) => record,
  },
  'turn.suspended': {
    members: {
      state: 'text',
      reason: 'text',
      questions: 'list',
      commands: 'list?',
      hold: 'object?',
      usage: 'object?',
    },
    inner: { hold: { members: { until: 'number?', attempt: 'number?', error: 'object?' } } },
    apply: suspend,
    events: (to, before, record) => to.suspended(before, record),
    words: suspendedWords,
    streams: 'ends',
    ...ofTurn,
    withoutUsage: ({ usage: _, ...record }) => record,
  },
  'agent.changed': {
    members: { from: 'text', to: 'text', reason: 'text', callId: 'text?', note: 'text?' },
    apply: changeAgent,
    events: (to, before) => (before.phase === 'answered' ? to.iterationOver(before) : []),
    words: ({ to, reason }) => `agent ${to} (${reason})`,
    streams: 'as before',
    ...ofTurn,
    changesStatus: false,
    withoutUsage: (record) => record,
  },
  'turn.done': {
    members: { text: 'text', value: 'any?', reason: 'text', usage: 'object?', usageBy: 'list?' },
    apply: complete,
    events: (to, before, record) => to.done(before, record),
    words: () => undefined,
    streams: 'ends',
    ...ofTurn,
    withoutUsage: ({ usage: _, usageBy: __, ...record }) => record,
  },
  'turn.failed': {
    members: { ...ofFailure, usage: 'object?', usageBy: 'list?' },
    apply: fail,
    events: (to, before, record) => to.failed(before, record),
    words: () => undefined,
    streams: 'ends',
    ...ofTurn,
    withoutUsage: ({ usage: _, usageBy: __, ...record }) => record,
  },
  'turn.canceled': {
    members: { reason: 'text', usage: 'object?', usageBy: 'list?' },
    apply: cancel,
    events: (to, before, record) => to.canceled(before, record),
    words: () => undefined,
    streams: 'ends',
    ...ofTurn,
    takesOver: true,
    withoutUsage: ({ usage: _, usageBy: __, ...record }) => record,
  },
};

/** Records of extensions and of commands: `x.` and a name. */
const extensions: RecordKind<ExtensionRecord> = {
  members: {
    effects: 'object?',
    data: 'any?',
    hook: 'text?',
    branch: 'text?',
    callId: 'text?',
    events: 'list?',
    event: 'object?',
    command: 'text?',
  },
  inner: {
    events: 'events',
    effects: {
      members: {
        messages: 'list?',
        late: 'flag?',
        withhold: 'flag?',
        given: 'list?',
        earlier: 'number?',
        // A file must not name conversations of the store that it is read into.
        givenFrom: 'nothing?',
        deleted: 'flag?',
        waitedMs: 'number?',
        agent: 'object?',
        results: 'object?',
        settings: 'object?',
        tools: 'object?',
        repeat: 'flag?',
        finish: 'object?',
        usage: 'object?',
        usageBy: 'list?',
      },
      inner: {
        messages: 'messages',
        given: 'messages',
        agent: { members: { to: 'text', reason: 'text', callId: 'text?', note: 'text?' } },
        tools: { members: { add: 'list?', remove: 'list?' } },
        usage: { members: { promptTokens: 'number', completionTokens: 'number', totalTokens: 'number' } },
      },
    },
  },
  apply: extend,
  events: (to, before, record) => to.extended(before, record),
  words: extensionWords,
  streams: 'as before',
  callOf: ({ callId }) => callId,
  subject: ({ callId, hook, branch }) => (callId === undefined ? undefined : `${callId} ${hook} ${branch}`),
  takesOver: false,
  changesStatus: false,
  withoutUsage(record) {
    if (!record.effects) return record;
    const { usage: _, usageBy: __, waitedMs: ___, ...effects } = record.effects;
    return { ...record, effects };
  },
};

const kinds: ReadonlyMap<string, RecordKind> = new Map(Object.entries(own));

/** `undefined` for a type that this version does not know. */
export function kindOf(type: string): RecordKind | undefined {
  return kinds.get(type) ?? (type.startsWith('x.') ? extensions : undefined);
}

/** Whether this version can fold a record of that type. */
export function isKnownType(type: string): type is TurnRecord['type'] {
  return kindOf(type) !== undefined;
}

function suspendedWords({ reason, hold }: TurnSuspended): string {
  const { until, error } = hold ?? {};
  const words = `suspended: ${reason}${error ? ` after ${error.code}` : ''}`;
  return until === undefined ? words : `${words}, until ${new Date(until).toISOString()}`;
}

function extensionWords(record: ExtensionRecord): string {
  if (record.type === 'x.steer')
    return record.effects?.late ? 'a message was added for the next turn' : 'a message was added';
  if (isLeftCall(record)) return 'the process shut down';
  const labels = eventsIn(record).flatMap(({ label }) => label ?? []);
  return labels.length === 0 ? record.type : `${record.type}: ${labels.join('; ')}`;
}

function attemptOf({ iteration, attempt }: { readonly iteration: number; readonly attempt: number }): string {
  return `${iteration}.${attempt}`;
}
