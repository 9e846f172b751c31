import { type Message, Role, type Task } from '@a2a-js/sdk';
import {
  AgentLoopError,
  AskedTask,
  type Clock,
  type ErrorCode,
  kindAbove,
  type Reconciled,
  type ToolContext,
} from '../../core/contracts/index.ts';
import type { Question } from '../../core/journal/index.ts';
import { type Tool, tool } from '../../tools/tool.ts';
import type { RemoteConnection, RequestScope } from './remote-connection.ts';
import { isUnavailable, mayHaveArrived, remoteBackoff, retrying } from './remote-errors.ts';
import {
  messageIdOf,
  type PartJson,
  partFromJson,
  partOfAnswer,
  type RemoteReference,
  replyName,
  sendName,
  textOfParts,
} from './remote-progress.ts';
import { statusKeyOf } from './remote-task.ts';

interface RemoteToolOptions {
  readonly clock: Clock;
  readonly silenceMs: number;
  readonly onInDoubt: 'fail' | 'retry';
}

export interface SendArguments {
  readonly parts: readonly PartJson[];
  readonly contextId?: string;
}

export interface ReplyArguments extends Asked {
  readonly contextId?: string;
  /** The status that asks. */
  readonly status: string;
}

const message = { type: 'object' } as const;

/**
 * The steps of a remote task that have an effect on the other side, each a call of the turn. A call keeps the id of its message in every
 * attempt, and its result names the task, so that a resumed turn follows the task that there is. A call in doubt asks the other side what
 * became of its message.
 */
export function remoteTools(connection: RemoteConnection, options: RemoteToolOptions): readonly Tool[] {
  const sender = { connection, ...options };
  const find: Find = (_args, messageId, scope) => connection.taskOf(messageId, scope);
  const findReplied: Find = (args, messageId, scope) => repliedTask(connection, replyOf(args), messageId, scope);
  const policy = { parameters: message, timeoutMs: 0 } as const;
  return [
    tool({
      name: sendName,
      description: 'Sends what the user said to the remote agent.',
      ...policy,
      onInDoubt: (_key, context) => reconcile(sender, find, context),
      execute: (args, context) => send({ ...sender, find }, sendOf(args), context),
    }),
    tool({
      name: replyName,
      description: 'Asks what the remote agent asks, and sends it the answer.',
      ...policy,
      onInDoubt: (_key, context) => reconcile(sender, findReplied, context),
      async execute(args, context) {
        const { status, ...asked } = replyOf(args);
        const parts = [answerOf(asked, context)];
        const sent = await send({ ...sender, find: findReplied }, { ...asked, parts }, context);
        return { ...sent, answered: status };
      },
    }),
  ];
}

type Given = Readonly<Record<string, unknown>>;

/** The task that a message arrived at. `'none'`: it did not arrive; `'unknown'`: nobody tells. */
type Find = (args: Given, messageId: string, scope: RequestScope) => Promise<Task | 'none' | 'unknown'>;

interface Sender extends RemoteToolOptions {
  readonly connection: RemoteConnection;
}

function sendOf({ parts, contextId }: Given): SendArguments {
  return { parts: partsGiven(parts), ...(typeof contextId === 'string' && { contextId }) };
}

function replyOf({ taskId, kind, prompt, status, ...rest }: Given): ReplyArguments {
  return {
    ...sendOf(rest),
    taskId: String(taskId),
    kind: kind === 'auth' ? 'auth' : 'input',
    prompt: String(prompt),
    status: String(status),
  };
}

function partsGiven(parts: unknown): readonly PartJson[] {
  return Array.isArray(parts) ? parts.filter((part) => typeof part === 'object' && part !== null) : [];
}

/** Sends again while the server is away, where that begins no second task, for `silenceMs`. */
async function send(
  { connection, clock, silenceMs, find }: Sender & { readonly find: Find },
  { parts, contextId = '', taskId = '' }: SendArguments & { readonly taskId?: string },
  { idempotencyKey, taskId: turnId, signal, traceContext, arguments: args }: ToolContext,
): Promise<RemoteReference> {
  const messageId = messageIdOf(idempotencyKey);
  const outgoing: Message = {
    messageId,
    contextId,
    taskId,
    role: Role.ROLE_USER,
    parts: parts.map(partFromJson),
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
  const sentAt = clock.now();
  const scope = { signal, traceContext };
  const backoff = remoteBackoff();
  for (;;) {
    try {
      const { payload } = await connection.send(outgoing, turnId, scope);
      if (payload?.$case === 'message') {
        const answer = payload.value;
        return { text: textOfParts(answer.parts), ...(answer.contextId && { contextId: answer.contextId }) };
      }
      const ids = payload?.$case === 'task' ? { ...payload.value, taskId: payload.value.id } : payload?.value;
      return connection.reference({ taskId: ids?.taskId, contextId: ids?.contextId, messageId, sentAt });
    } catch (error) {
      if (signal.aborted) throw error;
      const isLate = clock.now() - sentAt >= silenceMs;
      const isSent = connection.mayHaveSent(turnId, messageId);
      if (!isSent && (isLate || !maySendLater(connection, error))) throw error;
      if (isSent && (isLate || !(await mayRepeat(connection, error, signal)))) {
        const ask = () => find(objectOf(args), messageId, scope);
        const forMs = (isAway(error) || isSilent(error)) && !isLate ? silenceMs : 0;
        const found = await retrying(ask, { clock, signal, forMs }).catch(() => 'unknown' as const);
        if (typeof found === 'string') throw error;
        return connection.reference({ taskId: found.id, contextId: found.contextId, messageId, sentAt });
      }
    }
    await backoff.pause(clock, signal);
  }
}

const awayCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['PROVIDER_UNREACHABLE', 'PROVIDER_STREAM_CLOSED']);
/** What a server answers that starts or stops, and what stands in front of one that is down. */
const awayStatuses: ReadonlySet<number> = new Set([502, 503, 504]);

/** Whether the server is down, or went down with the request: it may be back soon. */
function isAway(error: unknown): boolean {
  if (!AgentLoopError.isInstance(error)) return false;
  if (awayCodes.has(error.code) || isUnavailable(error)) return true;
  return error.status !== undefined && awayStatuses.has(error.status);
}

/** Whether a server took the request and said nothing: it may have been stopped. */
function isSilent(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.code === 'PROVIDER_TIMEOUT';
}

/** Whether a message that was not sent is sent once the server is back. One that never gave a card may be no agent at all. */
function maySendLater(connection: RemoteConnection, error: unknown): boolean {
  return isAway(error) || (isSilent(error) && connection.isKnown);
}

/** Whether a message that was sent may be sent again: it did not arrive, or its server takes it once. */
async function mayRepeat(connection: RemoteConnection, error: unknown, signal: AbortSignal): Promise<boolean> {
  if (isSilent(error)) return connection.ignoresRepeats(signal);
  if (!isAway(error)) return false;
  return !mayHaveArrived(error) || connection.ignoresRepeats(signal).catch(isAway);
}

/** What became of a message whose sender stopped before it knew. */
async function reconcile(
  { connection, clock, silenceMs, onInDoubt }: Sender,
  find: Find,
  { idempotencyKey, signal, traceContext, arguments: args }: ToolContext,
): Promise<Reconciled> {
  const messageId = messageIdOf(idempotencyKey);
  const given = objectOf(args);
  const ask = async () =>
    (await connection.ignoresRepeats(signal)) ? 'none' : find(given, messageId, { signal, traceContext });
  const found = await retrying(ask, { clock, signal, forMs: silenceMs });
  if (found === 'none' || (found === 'unknown' && onInDoubt === 'retry')) return { outcome: 'not-applied' };
  if (found === 'unknown') return { outcome: 'unknown' };
  const { id: taskId, contextId } = found;
  const { status: answered } = given;
  const reference = connection.reference({ taskId, contextId, messageId, sentAt: clock.now() });
  const content = { ...reference, ...(typeof answered === 'string' && { answered }) };
  return { outcome: 'applied', content: JSON.stringify(content) };
}

/** A reply has arrived where the history of the task names it, or the task does not ask any more what it asked. */
async function repliedTask(
  connection: RemoteConnection,
  { taskId, status }: ReplyArguments,
  messageId: string,
  scope: RequestScope,
): Promise<Task | 'none'> {
  const task = await connection.task(taskId, scope);
  if (task.history.some((each) => each.messageId === messageId)) return task;
  return statusKeyOf(task.status) === status ? 'none' : task;
}

function objectOf(value: unknown): Given {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

/** What the other side waits for. */
interface Asked {
  readonly taskId: string;
  readonly kind: 'input' | 'auth';
  readonly prompt: string;
  /** What it said, as parts of the protocol. */
  readonly parts: readonly PartJson[];
}

/**
 * Asks what the other side asks, and gives the part that answers it. The questions of a turn of Millrace are asked one after another, each
 * with its data and answered in its form; of other servers there is one, answered by text or by data.
 */
function answerOf({ taskId: remoteTaskId, kind, prompt, parts }: Asked, context: ToolContext): PartJson {
  const { ask, agentId } = context;
  const questions = parts.flatMap(questionIn);
  if (questions.length === 0) return partOfAnswer(ask({ kind, prompt, data: { remoteTaskId, parts } }));
  const answers = questions.map((question) => {
    const words = questions.length === 1 ? prompt : wordsOf(question);
    const task = new AskedTask({ taskId: remoteTaskId, agentId });
    const answer = ask({ kind: kindAbove(question), prompt: words, data: { remoteTaskId, question }, task });
    return [question.id, answer] as const;
  });
  return { data: { answers: Object.fromEntries(answers) } };
}

/** The question that a data part of Millrace holds. */
function questionIn({ data }: PartJson): readonly Question[] {
  const question: unknown = isObject(data) ? data['question'] : undefined;
  return isQuestion(question) ? [question] : [];
}

function isQuestion(value: unknown): value is Question {
  return isObject(value) && ['id', 'callId', 'kind', 'toolName'].every((name) => typeof value[name] === 'string');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function wordsOf({ prompt, kind, toolName }: Question): string {
  return prompt ?? `${kind} of ${toolName}`;
}
