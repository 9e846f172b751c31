import { Part, type Task, TaskState } from '@a2a-js/sdk';
import {
  AgentLoopError,
  type AssistantMessage,
  type Clock,
  type Extension,
  type LLMCallParams,
  type LLMChunk,
  type LLMProvider,
  type LLMResponse,
  type ToolCall,
} from '../../core/contracts/index.ts';
import { AbortScope, after } from '../../core/streams/index.ts';
import { fromAsyncIterable } from '../../providers/from-async-iterable.ts';
import type { RemoteConnection } from './remote-connection.ts';
import { quoted, tooLong, unchanged } from './remote-errors.ts';
import { nextStep, type PartJson, type RemoteReference, replyName, sendName, textOfParts } from './remote-progress.ts';
import { followRemoteTask, isStill, ProgressWatch, RemoteTask, taskAtEnd } from './remote-task.ts';
import type { ReplyArguments, SendArguments } from './remote-tools.ts';

interface RemoteProviderOptions {
  readonly connection: RemoteConnection;
  readonly agentName: string;
  readonly clock: Clock;
  readonly silenceMs: number;
  readonly taskTimeoutMs: number;
  readonly maxSilenceMs: number;
}

/**
 * The other side in the place of a model. What it wants of us are calls: to send what the user said, to reply to its questions. Then its
 * task is the model's answer, streamed as it is written. It remembers nothing, so a turn that is resumed continues with its task.
 */
export function remoteProvider(options: RemoteProviderOptions): LLMProvider {
  const { address } = options.connection;
  return {
    info: {
      providerName: 'a2a',
      model: options.agentName,
      serverAddress: address.hostname,
      serverPort: Number(address.port) || (address.protocol === 'https:' ? 443 : 80),
    },
    async call(params) {
      const scope = new AbortScope();
      if (params.signal) scope.follow(params.signal);
      try {
        for await (const chunk of answer(options, params, scope.signal))
          if (chunk.type === 'done') return chunk.response;
      } finally {
        scope.release();
      }
      throw new AgentLoopError('INTERNAL', 'The answer of a remote agent has no end; please report this.');
    },
    stream: (params) => fromAsyncIterable(({ signal }) => answer(options, params, signal)),
  };
}

async function* answer(
  options: RemoteProviderOptions,
  params: LLMCallParams,
  signal: AbortSignal,
): AsyncGenerator<LLMChunk> {
  const step = nextStep(params.messages, options.connection.name.address);
  if (step.type === 'follow') {
    yield* follow(options, step.reference, { ...params, signal });
    return;
  }
  const { parts, contextId } = step;
  const args: SendArguments = { parts, ...(contextId !== undefined && { contextId }) };
  yield done(calling(params, sendName, args));
}

async function* follow(
  options: RemoteProviderOptions,
  reference: RemoteReference,
  params: LLMCallParams & { readonly signal: AbortSignal },
): AsyncGenerator<LLMChunk> {
  const { connection, agentName } = options;
  const { taskId, contextId, text = '' } = reference;
  if (taskId === undefined) {
    if (text) yield { type: 'text', text };
    yield done(saying(text));
    return;
  }
  const task = new RemoteTask();
  yield* untilItRests(options, { ...reference, taskId }, task, params);
  if (asks(task)) {
    const args = questionOf(task, { taskId, agentName, ...(contextId !== undefined && { contextId }) });
    yield done(calling(params, replyName, args, task.text));
    return;
  }
  if (task.state !== TaskState.TASK_STATE_COMPLETED) throw notCompleted(connection, task);
  yield done(saying(task.text, task.value));
}

/** Shows what the task writes until it ends or asks, and then what its server keeps of it, where that differs. */
async function* untilItRests(
  { connection, clock, silenceMs, taskTimeoutMs, maxSilenceMs }: RemoteProviderOptions,
  reference: RemoteReference & { readonly taskId: string },
  task: RemoteTask,
  { signal, traceContext }: LLMCallParams & { readonly signal: AbortSignal },
): AsyncGenerator<LLMChunk> {
  const { taskId, answered, sentAt = clock.now() } = reference;
  const life = new AbortScope();
  life.follow(signal);
  const leftMs = Math.max(0, sentAt + taskTimeoutMs - clock.now());
  const stop = after(leftMs, clock, () => life.abort(tooLong(connection.name, taskTimeoutMs)));
  const progress = new ProgressWatch(clock, maxSilenceMs, () => life.abort(unchanged(connection.name, maxSilenceMs)));
  const scope = { signal: life.signal, traceContext, clock, silenceMs };
  try {
    const rests = () => isStill(task.state) && !(asks(task) && task.statusKey === answered);
    for await (const { update, from } of followRemoteTask(connection, reference, scope)) {
      const shown = task.take(update);
      progress.note(`${task.state} ${task.statusAt}`, shown.length > 0 || task.holdsBack);
      yield* shown;
      if (!rests()) continue;
      if (from === 'asked') return;
      // A stream may replay a question that has been answered, so the server is asked whether it still waits.
      const isEnd = asks(task) ? () => true : endsAs(task.state);
      const kept = await taskAtEnd(connection, taskId, { ...scope, isEnd, isUnbroken: from === 'sent' });
      yield* kept ? task.compare(kept) : task.rest();
      if (rests()) return;
    }
  } finally {
    stop();
    progress.stop();
    life.release();
  }
}

function endsAs(state: TaskState): (task: Task) => boolean {
  return ({ status }) => status?.state === state;
}

function asks({ state }: RemoteTask): boolean {
  return state === TaskState.TASK_STATE_INPUT_REQUIRED || state === TaskState.TASK_STATE_AUTH_REQUIRED;
}

function questionOf(
  task: RemoteTask,
  { agentName, ...ids }: Pick<ReplyArguments, 'taskId' | 'contextId'> & { readonly agentName: string },
): ReplyArguments {
  const isAuth = task.state === TaskState.TASK_STATE_AUTH_REQUIRED;
  const said = textOfParts(task.parts.filter(({ content }) => content?.$case === 'text'));
  return {
    ...ids,
    kind: isAuth ? 'auth' : 'input',
    prompt: said || `The agent ${agentName} ${isAuth ? 'needs you to sign in' : 'asks for input'}.`,
    parts: task.parts.map((part) => Part.toJSON(part) as PartJson),
    status: task.statusKey,
  };
}

function notCompleted({ name }: RemoteConnection, task: RemoteTask): AgentLoopError {
  const words = textOfParts(task.parts);
  const why = words === '' ? '' : `, saying ${quoted(name, words)}`;
  const { what, reason } = endOf(task.state);
  return new AgentLoopError('PROVIDER_FAILED', `The agent at ${name.address} ${what}${why}.`, { reason });
}

function endOf(state: TaskState): { readonly what: string; readonly reason: string } {
  if (state === TaskState.TASK_STATE_CANCELED) return { what: 'was canceled there', reason: 'remote_canceled' };
  if (state === TaskState.TASK_STATE_REJECTED) return { what: 'has rejected its task', reason: 'remote_rejected' };
  return { what: 'has failed its task', reason: 'remote_failed' };
}

/** The step as a call; its id is one that the history does not have yet. */
function calling(
  { messages }: LLMCallParams,
  name: string,
  args: SendArguments | ReplyArguments,
  text = '',
): LLMResponse {
  const id = `${name}_${messages.length}`;
  const call: ToolCall = { id, type: 'function', function: { name, arguments: JSON.stringify(args) } };
  return { message: { role: 'assistant', content: text || null, toolCalls: [call] }, finishReason: 'tool_calls' };
}

function saying(content: string, value?: unknown): LLMResponse {
  return { message: withValue({ role: 'assistant', content }, value), finishReason: 'stop' };
}

function done(response: LLMResponse): LLMChunk {
  return { type: 'done', response };
}

const key = 'a2a';

/** The last message of a remote turn, with the value that it ended with, if any. */
function withValue(message: AssistantMessage, value: unknown): AssistantMessage {
  return value === undefined ? message : { ...message, metadata: { [key]: { value } } };
}

/** Ends the turn with the value of the remote one. */
export function remoteValue(): Extension {
  return {
    name: 'remote-value',
    beforeFinish({ state, text, reason }) {
      const held: unknown = state.messages.at(-1)?.metadata?.[key];
      if (typeof held !== 'object' || held === null || !('value' in held)) return undefined;
      return { finish: { text, reason, value: held.value } };
    },
  };
}
