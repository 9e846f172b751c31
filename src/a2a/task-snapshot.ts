import type { Artifact, Message, Part, Task, TaskStatus, TaskState as WireState } from '@a2a-js/sdk';
import {
  type AssistantMessage,
  type ErrorCode,
  isSuspended,
  isTerminalState,
  type Message as OwnMessage,
  type TaskState,
  textOf,
  type UserMessage,
  waitingState,
} from '../core/contracts/index.ts';
import {
  artifactId,
  finalArtifactId,
  isoTime,
  type JournalRecord,
  kindOf,
  type LoopState,
  openQuestions,
  outputId,
  type Question,
  shownRecords,
  type TurnAnswered,
  taskState,
  unreadOf,
} from '../core/journal/index.ts';
import { type TurnMetadata, turnMetadata } from './extensions.ts';
import { dataPart, messageOfCommand, partsOf, receivedMetadataOf, sourceOf, textPart } from './received-message.ts';
import { shownContext } from './scope.ts';

/** The records of a turn and what they fold to. */
export interface TurnView {
  readonly records: readonly JournalRecord[];
  readonly state: LoopState;
}

export interface SnapshotOptions {
  /** How many of the last messages. Default: all. */
  readonly historyLength?: number | undefined;
  /** Default true. */
  readonly artifacts?: boolean;
}

/** A task as its journal tells it. A pure function of the records. */
export function taskOf({ records, state }: TurnView, options: SnapshotOptions = {}): Task {
  const { historyLength, artifacts = true } = options;
  const { taskId, contextId } = state.turn;
  return {
    id: taskId,
    contextId: shownContext(contextId),
    status: statusOf({ records, state }),
    artifacts: artifacts ? artifactsOf(shownRecords(records, state.changes)) : [],
    history:
      historyLength === 0 ? [] : historyOf({ records, state }).slice(-(historyLength ?? Number.POSITIVE_INFINITY)),
    metadata: turnMetadata({ cursor: cursorAfterRecords(records), ...reasonsOf(state) }),
  };
}

function statusOf({ records, state }: TurnView): TaskStatus {
  const last = records.findLast(({ type }) => kindOf(type)?.changesStatus);
  return {
    state: wireState(shownState(state)),
    message: statusMessage(state),
    timestamp: isoTime(last?.at ?? state.updatedAt),
  };
}

/** As the updates tell it: a question makes the task wait though other calls still run, and a started turn works. */
export function shownState(state: LoopState): TaskState {
  if (state.outcome?.error) return failedState(state.outcome.error);
  const questions = openQuestions(state);
  return state.outcome || questions.length === 0 ? taskState(state) : waitingState(questions);
}

interface Failed {
  readonly code: ErrorCode;
  readonly message: string;
}

/** An extension may have rejected the turn, which for the engine has failed. */
export function failedState({ code }: Pick<Failed, 'code'>): TaskState {
  return code === 'REJECTED' ? 'rejected' : 'failed';
}

function statusMessage(state: LoopState): Message | undefined {
  const { turn, outcome, finalMessage: text = '', value } = state;
  if (outcome?.state === 'completed') return finalMessage(turn, text, value);
  if (outcome?.error) return failureMessage(turn, outcome.error);
  if (outcome?.state === 'canceled') return undefined;
  return questionMessage(turn, openQuestions(state));
}

function reasonsOf(state: LoopState): Pick<TurnMetadata, 'reason' | 'code' | 'unread'> {
  const { outcome } = state;
  if (!outcome) return {};
  return { reason: outcome.reason, ...(outcome.error && { code: outcome.error.code }), ...unreadOf(state) };
}

/**
 * The cursor behind all events of these records: in front of those of the next one. The first record says that the task was submitted, and
 * then that it is worked on, so a task of that alone is in front of it.
 */
function cursorAfterRecords(records: readonly JournalRecord[]): string {
  const { seq, epoch } = records.at(-1) ?? { seq: 0, epoch: 0 };
  return cursorAfter(seq, epoch);
}

export function cursorAfter(seq: number, epoch = 0): string {
  return `${seq === 1 ? 1 : seq + 1}-${epoch}.0`;
}

function artifactsOf(records: readonly JournalRecord[]): Artifact[] {
  const artifacts = new Map<string, Artifact>();
  const set = (id: string, part: Part) => artifacts.set(id, artifact(id, [part]));
  let iteration = 0;
  let last: AssistantMessage | undefined;
  for (const record of records) {
    if (record.type === 'llm.start') {
      iteration = record.iteration;
      last = undefined;
    }
    if (record.type === 'llm.done') {
      last = record.message;
      const said = textOf(last.content);
      if (said !== '') set(artifactId(iteration), textPart(said));
    }
    if (record.type !== 'turn.done') continue;
    if (record.text !== '' && record.text !== textOf(last?.content))
      set(finalArtifactId(iteration, last, record.text), textPart(record.text));
    if (record.value !== undefined) set(outputId, dataPart(record.value));
  }
  return [...artifacts.values()];
}

export function artifact(id: string, parts: Part[]): Artifact {
  return { artifactId: id, name: '', description: '', parts, metadata: undefined, extensions: [] };
}

function historyOf({ records: all, state }: TurnView): Message[] {
  const records = shownRecords(all, state.changes);
  const { turn } = state;
  const history: Message[] = [];
  const answering = answeringMessages(records);
  let isAnswered = false;
  /** Adds the message that a record is of, once, if it is kept whole. */
  const addWhole = ({ command = '' }: { readonly command?: string }): boolean => {
    const source = sourceOf(command) ?? '';
    const message = answering.get(source);
    if (message) history.push(...userMessages(turn, [message]));
    if (message) answering.set(source, undefined);
    return answering.has(source);
  };
  for (const record of records) {
    switch (record.type) {
      case 'turn.started':
        history.push(...userMessages(turn, record.messages));
        break;
      case 'x.steer':
        if (!addWhole(record)) history.push(...userMessages(turn, record.effects?.messages ?? []));
        break;
      case 'llm.done': {
        const text = textOf(record.message.content);
        if (text !== '') history.push(agentMessage(turn, `${turn.taskId}:${record.iteration}`, [textPart(text)]));
        isAnswered = record.calls.length === 0;
        break;
      }
      case 'turn.asked': {
        const asked = questionMessage(turn, [record.question]);
        if (asked) history.push(asked);
        break;
      }
      case 'turn.answered':
        if (!addWhole(record)) addAnswer(history, turn, record);
        break;
      case 'turn.done':
        endWith(history, finalMessage(turn, record.text, record.value), { isAnswered, late: state.changes.late ?? 0 });
        break;
      default:
        record.type satisfies
          | 'turn.resumed'
          | 'llm.start'
          | 'tool.intent'
          | 'tool.result'
          | 'turn.suspended'
          | 'agent.changed'
          | 'turn.failed'
          | 'turn.canceled'
          | `x.${string}`;
    }
  }
  return history;
}

/** The messages that brought answers, by their source, as they were received. Older journals have none. */
function answeringMessages(records: readonly JournalRecord[]): Map<string, OwnMessage | undefined> {
  const messages = new Map<string, OwnMessage | undefined>();
  for (const record of records) {
    if (record.type !== 'turn.answered' || !record.message) continue;
    const source = sourceOf(record.command ?? '');
    if (source !== undefined) messages.set(source, record.message);
  }
  return messages;
}

/** Adds what a client answered to the history: one message for all answers that it sent in one. */
function addAnswer(
  history: Message[],
  { taskId, contextId }: { readonly taskId: string; readonly contextId: string },
  { questionId, answer, command = '' }: TurnAnswered,
): void {
  const messageId = messageOfCommand(command) ?? `${taskId}:answers:${questionId}`;
  const last = history.at(-1);
  const part = dataPart({ answers: { [questionId]: answer } });
  if (last?.messageId === messageId) {
    last.parts.push(part);
    return;
  }
  history.push({
    messageId,
    taskId,
    contextId: shownContext(contextId),
    role: 1,
    parts: [part],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  });
}

interface Ending {
  /** Whether the last response is an answer: it has no calls. */
  readonly isAnswered: boolean;
  /** How many messages arrived too late for it. */
  readonly late: number;
}

/** As in the history of the turn, the final message stands for the last text where it is the same or replaces an answer, and before late messages. */
function endWith(history: Message[], final: Message | undefined, { isAnswered, late }: Ending): void {
  if (!final) return;
  const end = history.length - late;
  const last = history[end - 1];
  const text = textIn(final);
  const stands = last?.role === 2 && (textIn(last) === text || (isAnswered && text !== undefined));
  history.splice(stands ? end - 1 : end, stands ? 1 : 0, final);
}

function textIn({ parts }: Message): string | undefined {
  const first = parts[0]?.content;
  return first?.$case === 'text' ? first.value : undefined;
}

function userMessages({ taskId, contextId }: LoopState['turn'], messages: readonly OwnMessage[]): Message[] {
  return messages
    .filter((message): message is UserMessage => message.role === 'user')
    .map((message, index) => {
      const { parts, metadata, extensions = [], referenceTaskIds = [] } = receivedMetadataOf(message);
      return {
        messageId: message.id ?? `${taskId}:given:${index}`,
        taskId,
        contextId: shownContext(contextId),
        role: 1,
        parts: partsOf(message.content, parts),
        metadata: metadata && { ...metadata },
        extensions: [...extensions],
        referenceTaskIds: [...referenceTaskIds],
      };
    });
}

interface TaskNames {
  readonly taskId: string;
  readonly contextId: string;
}

/** A message of the agent within a task. `contextId` is ours, with the owner's digest. */
function agentMessage({ taskId, contextId }: TaskNames, messageId: string, parts: Part[]): Message {
  return {
    messageId,
    taskId,
    contextId: shownContext(contextId),
    role: 2,
    parts,
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
}

/** What a completed turn says: its text, and its value where it has one. */
export function finalMessage(task: TaskNames, text: string, value: unknown): Message | undefined {
  const parts = [...(text === '' ? [] : [textPart(text)]), ...(value === undefined ? [] : [dataPart(value)])];
  return parts.length === 0 ? undefined : agentMessage(task, finalId(task.taskId), parts);
}

function finalId(taskId: string): string {
  return `${taskId}:final`;
}

/** What the agent asks: for people the words, for programs a data part `{ question }` each, to be answered by `{ answers: { [id]: … } }`. */
export function questionMessage(task: TaskNames, questions: readonly Question[]): Message | undefined {
  if (questions.length === 0) return undefined;
  const id = `${task.taskId}:asks:${questions.map((question) => question.id).join(',')}`;
  return agentMessage(task, id, [textPart(questions.map(wordsOf).join('\n')), ...questions.map(questionPart)]);
}

function questionPart({ id, callId, kind, toolName, prompt, data, child }: Question): Part {
  const question = {
    id,
    callId,
    kind,
    toolName,
    ...(prompt !== undefined && { prompt }),
    ...(data !== undefined && { data }),
    ...(child && { child }),
  };
  return dataPart({ question });
}

function wordsOf({ kind, toolName, prompt }: Question): string {
  if (prompt !== undefined) return prompt;
  switch (kind) {
    case 'approval':
      return `May "${toolName}" run?`;
    case 'client-tool':
      return `Run "${toolName}" and send what it returned.`;
    case 'in-doubt':
      return `"${toolName}" was cut off: did it take effect?`;
    case 'auth':
      return `"${toolName}" needs you to sign in.`;
    case 'input':
      return `"${toolName}" needs an answer.`;
  }
}

/**
 * The message of a failed task for clients. Error messages of the engine may name servers and are not sent; that of a rejection is written for
 * clients.
 */
export function failureMessage(task: TaskNames, { code, message }: Failed): Message {
  const words = code === 'REJECTED' ? message : failureWords(code);
  return agentMessage(task, finalId(task.taskId), [textPart(words)]);
}

function failureWords(code: ErrorCode): string {
  switch (code) {
    case 'MAX_ITERATIONS':
    case 'LIMIT':
      return 'The agent reached a limit before it was done.';
    case 'LENGTH':
      return 'The answer was longer than the agent may write.';
    case 'CONTENT_FILTER':
    case 'GUARDRAIL':
      return 'The request or the answer is against the rules of the agent.';
    case 'AGENT_BUSY':
      return 'Another task of this context is not over; wait for it, answer it or cancel it.';
    default:
      return code.startsWith('PROVIDER_')
        ? 'The agent could not reach its model.'
        : 'The agent could not finish the task.';
  }
}

/** The numbers of the protocol's states; never stored or logged. */
const wireStates: Readonly<Record<TaskState, WireState>> = {
  submitted: 1,
  working: 2,
  completed: 3,
  failed: 4,
  canceled: 5,
  'input-required': 6,
  rejected: 7,
  'auth-required': 8,
};

export function wireState(state: TaskState): WireState {
  return wireStates[state];
}

/** Our name of a state of the protocol; `undefined` for what is none. */
export function stateOf(state: WireState): TaskState | undefined {
  const names: readonly TaskState[] = [
    'submitted',
    'working',
    'completed',
    'failed',
    'canceled',
    'input-required',
    'rejected',
    'auth-required',
  ];
  return names.find((name) => wireStates[name] === state);
}

/** Whether a client that waits for the task gets its response now: the task has ended, or needs input. */
export function isAtRest(state: TaskState): boolean {
  return isTerminalState(state) || isSuspended(state);
}
