import { isDeepStrictEqual } from 'node:util';
import {
  AgentCard,
  type ListTasksResponse,
  type Message,
  Role,
  type SendMessageResult,
  type StreamResponse,
  type Task,
  TaskState,
} from '@a2a-js/sdk';
import type { Client, RequestOptions } from '@a2a-js/sdk/client';
import type { Context } from '@opentelemetry/api';
import { AgentLoopError, type Clock, type ErrorCode, systemClock } from '../../core/contracts/index.ts';
import { after, onAbort, unlessAborted } from '../../core/streams/index.ts';
import { carrierFromContext } from '../../observability/trace-carrier.ts';
import type { ResolvedRemote } from './remote-agent.ts';
import {
  type Connected,
  connectToRemote,
  isLegacy,
  isMillrace,
  streams,
  type TaskStream,
  TaskStreams,
} from './remote-client.ts';
import {
  isMisdirected,
  isPassing,
  keepsRemoteTask,
  mayHaveArrived,
  refusesStream,
  remoteError,
  timedOut,
} from './remote-errors.ts';
import { failure, type RemoteName } from './remote-failure.ts';
import type { RemoteReference } from './remote-progress.ts';
import { cardRefused } from './verify-card.ts';

/** Of one request. */
export interface RequestScope {
  /** Ends it. */
  readonly signal: AbortSignal;
  /** Whose trace the other side continues. */
  readonly traceContext?: Context | undefined;
}

/** A card that is being read. */
interface Reading {
  readonly connected: Promise<Connected>;
  /** The requests that wait for it. */
  waiting: number;
  /** Aborts it. */
  readonly abort: () => void;
}

interface AskOptions {
  /** Aborted with the request, and else stays with what the request opened. */
  readonly open?: AbortController;
  /** The option that says how long the request may take to be answered. */
  readonly within?: 'requestTimeoutMs' | 'maxSilenceMs';
}

interface SentTo {
  readonly taskId: string | undefined;
  readonly contextId: string | undefined;
  readonly messageId: string;
  /** In milliseconds since 1970. */
  readonly sentAt: number;
}

/** What is answered by who says that there is an extended card, and has none. */
const promisesTooMuch: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'PROVIDER_BAD_REQUEST',
  'PROVIDER_NOT_FOUND',
  'PROVIDER_PROTOCOL',
]);

/** How many pages of a hundred tasks are searched for a message. */
const listedPages = 10;

/** The step after the one that opened a stream takes it. */
const takenWithinMs = 5_000;

/** The way to one A2A agent: its card, read when it is first needed, and the requests that we make. Errors carry `PROVIDER_…` codes. */
export class RemoteConnection {
  readonly name: RemoteName;
  /** What sent messages opened, until it is read. */
  readonly streams: TaskStreams;
  readonly #remote: ResolvedRemote;
  readonly #clock: Clock;
  #secrets: readonly string[] = [];
  #connected: Connected | undefined;
  #reading: Reading | undefined;
  #isKnown = false;
  /** The last message of each turn that may have arrived, by the id of the turn, until the turn ends. */
  readonly #sent = new Map<string, string>();

  constructor(remote: ResolvedRemote) {
    this.#remote = remote;
    this.#clock = remote.local.clock ?? systemClock;
    this.streams = new TaskStreams(this.#clock, Math.min(remote.silenceMs, takenWithinMs));
    const secrets = () => this.#secrets;
    this.name = {
      address: `${remote.url.origin}${remote.url.pathname.replace(/\/$/, '')}`,
      get secrets() {
        return secrets();
      },
    };
  }

  get address(): URL {
    return this.#remote.url;
  }

  /** Whether a card has been read; before that nothing is sent. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Whether the last message that a turn sent over this connection is this one, and may have arrived. */
  mayHaveSent(turnId: string, messageId: string): boolean {
    return this.#sent.get(turnId) === messageId;
  }

  /** Forgets what a turn that has ended sent. */
  forget(turnId: string): void {
    this.#sent.delete(turnId);
  }

  /**
   * The one for callers that are known, where the other side has one; not older than the connection. With `verifyCard` one that is signed,
   * else the public one.
   */
  async card(scope: RequestScope): Promise<AgentCard> {
    const { card } = await this.#connect(scope.signal);
    if (card.capabilities?.extendedAgentCard !== true) return card;
    const { verifyCard } = this.#remote;
    try {
      const extended = await this.#ask(scope, (client, options) => client.getAgentCard(options));
      if (verifyCard && extended.signatures.length === 0) return card;
      await verifyCard?.(this.name, AgentCard.toJSON(extended));
      return extended;
    } catch (error) {
      const isUseless = AgentLoopError.isInstance(error) && promisesTooMuch.has(error.code);
      if (isUseless && error.reason !== cardRefused) return card;
      throw error;
    }
  }

  /**
   * Sends a message, and gives the first answer to it: the task, an update of it, or a message. The stream of a new task is kept in
   * `streams` under the id of the message. A reply to a task, and a server that does not stream, are answered with the task as it is. The same `messageId` again is
   * the same message, for a server that keeps to that. A message on its way may have begun a task, and only its answer names it: on a
   * cancel the answer is awaited for as long as a tool may take to stop. If the turn is left to its next owner, which asks for the task, it
   * is not. A message that is not on its way by then is not sent.
   */
  async send(message: Message, turnId: string, { signal, traceContext }: RequestScope): Promise<StreamResponse> {
    signal.throwIfAborted();
    const late = new AbortController();
    const { abortGraceMs = 5_000 } = this.#remote.local;
    let stop = () => {};
    const aborted = () => {
      const end = () => late.abort(signal.reason);
      if (keepsRemoteTask(signal.reason)) end();
      else stop = after(abortGraceMs, this.#clock, end);
    };
    const leave = onAbort(signal, aborted);
    try {
      const connected = await this.#connect(signal);
      signal.throwIfAborted();
      const scope = { signal: late.signal, traceContext };
      const first = await this.#delivered(turnId, message.messageId, () => this.#send(message, connected, scope));
      if (first.payload?.$case === 'task') this.#checked(first.payload.value);
      return first;
    } finally {
      leave();
      stop();
    }
  }

  /** Notes that a message may have arrived, unless this attempt shows that it did not, and it is the first. */
  async #delivered<T>(turnId: string, messageId: string, deliver: () => Promise<T>): Promise<T> {
    const isFirst = !this.mayHaveSent(turnId, messageId);
    this.#sent.set(turnId, messageId);
    try {
      return await deliver();
    } catch (error) {
      if (isFirst && AgentLoopError.isInstance(error) && !mayHaveArrived(error)) this.forget(turnId);
      throw error;
    }
  }

  async #send(message: Message, connected: Connected, scope: RequestScope): Promise<StreamResponse> {
    const configuration = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: true };
    const request = { tenant: '', message, configuration, metadata: undefined };
    const open = new AbortController();
    // Servers made of the SDK refuse to stream what an executor adds to a task that there is, and lose it.
    if (message.taskId === '' && streams(connected)) {
      try {
        const asked = (own: Client, options: RequestOptions) => firstOf(own.sendMessageStream(request, options));
        const { first, rest } = await this.#ask(scope, asked, { open });
        const stream = { updates: rest, close: () => open.abort() };
        if (first.payload?.$case === 'message') stream.close();
        else this.streams.keep(message.messageId, stream);
        return first;
      } catch (error) {
        if (!refusesStream(error)) throw error;
      }
    }
    // A server may ignore `returnImmediately`, and one that answers with a Message has nothing to return before it.
    const { requestTimeoutMs, maxSilenceMs } = this.#remote;
    const mayTakeLong = maxSilenceMs > requestTimeoutMs && !isMillrace(connected);
    const within = mayTakeLong ? 'maxSilenceMs' : 'requestTimeoutMs';
    const value = await this.#ask(scope, (own, options) => own.sendMessage(request, options), { within });
    return { payload: isTask(value) ? { $case: 'task', value } : { $case: 'message', value } };
  }

  /**
   * The task that a message began or went to, by the id of the message. `'none'` where the server has no such task, `'unknown'` where it
   * does not tell: of 0.3, one that lists no tasks or that keeps no messages.
   */
  async taskOf(messageId: string, scope: RequestScope): Promise<Task | 'none' | 'unknown'> {
    let allListed = true;
    for (let page = 0, pageToken = ''; page < listedPages; page++) {
      const listed = await this.#list(pageToken, scope);
      if (!listed) return 'unknown';
      for (const task of listed.tasks) {
        if (task.history.some((message) => message.messageId === messageId)) return this.#checked(task);
        allListed &&= task.history.some(({ role }) => role === Role.ROLE_USER);
      }
      pageToken = listed.nextPageToken;
      if (pageToken === '') return allListed ? 'none' : 'unknown';
    }
    return 'unknown';
  }

  /** `undefined` where the server lists no tasks. */
  async #list(pageToken: string, scope: RequestScope): Promise<ListTasksResponse | undefined> {
    const filter = { contextId: '', status: TaskState.TASK_STATE_UNSPECIFIED, statusTimestampAfter: undefined };
    const request = { tenant: '', ...filter, pageSize: 100, pageToken, historyLength: 100, includeArtifacts: false };
    try {
      return await this.#ask(scope, (client, options) => client.listTasks(request, options));
    } catch (error) {
      if (isPassing(error) || scope.signal.aborted) throw error;
      return undefined;
    }
  }

  /** Whether the same `messageId` again is known to be the same message: the other side is Millrace. */
  async ignoresRepeats(signal: AbortSignal): Promise<boolean> {
    return isMillrace(await this.#connect(signal));
  }

  async task(id: string, scope: RequestScope): Promise<Task> {
    const task = this.#checked(
      await this.#ask(scope, (client, options) => client.getTask({ tenant: '', id }, options)),
    );
    if (task.id === id) return task;
    throw failure(this.name, 'PROVIDER_PROTOCOL', 'answers with another task than it was asked for: check url');
  }

  cancel(id: string, scope: RequestScope): Promise<Task> {
    return this.#ask(scope, (client, options) => client.cancelTask({ tenant: '', id, metadata: undefined }, options));
  }

  /**
   * What happens to a task from now on; `undefined` where the server does not stream, where what it streams cannot be read, and where
   * streaming it again is not safe: the Python server of 0.3 writes each update to its own task once more for each subscriber.
   */
  async follow(id: string, { signal, traceContext }: RequestScope): Promise<TaskStream | undefined> {
    const connected = await this.#connect(signal);
    const { client } = connected;
    if (!streams(connected) || (isLegacy(client) && !isMillrace(connected))) return undefined;
    const open = new AbortController();
    const options = { signal: open.signal, serviceParameters: headersOf(traceContext) };
    return { updates: client.resubscribeTask({ tenant: '', id }, options), close: () => open.abort() };
  }

  /** What the journal keeps of a message that a task works on. */
  reference({ taskId, contextId, ...sent }: SentTo): RemoteReference & { readonly taskId: string } {
    if (!taskId) throw this.#noTask();
    return { taskId, ...(contextId && { contextId }), ...sent, url: this.name.address };
  }

  /** A task that could be followed for ever is none. */
  #checked(task: Task): Task {
    const { state = TaskState.TASK_STATE_UNSPECIFIED } = task.status ?? {};
    if (task.id !== '' && state > TaskState.TASK_STATE_UNSPECIFIED) return task;
    throw this.#noTask();
  }

  #noTask(): AgentLoopError {
    const what = 'does not answer as an A2A server, with a task that has no id or no known state: check url';
    return failure(this.name, 'PROVIDER_PROTOCOL', what);
  }

  /** One request. */
  async #ask<T>(
    { signal, traceContext }: RequestScope,
    ask: (client: Client, options: RequestOptions) => Promise<T>,
    { open = new AbortController(), within = 'requestTimeoutMs' }: AskOptions = {},
  ): Promise<T> {
    signal.throwIfAborted();
    let isLate = false;
    const stop = after(this.#remote[within], this.#clock, () => {
      isLate = true;
      open.abort();
    });
    const leave = onAbort(signal, () => open.abort(signal.reason));
    try {
      const options = { signal: open.signal, serviceParameters: headersOf(traceContext) };
      return await this.#current(open.signal, (client) => ask(client, options));
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (isLate) throw timedOut(this.name, within);
      throw remoteError(this.name, error);
    } finally {
      stop();
      leave();
    }
  }

  /** Asks by the card that was read; where nobody knows the request, by the one that there is, if that is another one by now. */
  async #current<T>(signal: AbortSignal, ask: (client: Client) => Promise<T>): Promise<T> {
    const connected = await this.#connect(signal);
    const { client, card } = connected;
    try {
      return await ask(client);
    } catch (thrown) {
      const error = remoteError(this.name, thrown);
      if (signal.aborted || !isMisdirected(error)) throw error;
      // The server may have been replaced by one that is found elsewhere, or that speaks another version.
      if (this.#connected === connected) this.#connected = undefined;
      const now = await this.#connect(signal);
      if (isDeepStrictEqual(now.card, card)) throw error;
      return await ask(now.client);
    }
  }

  /** The card is read once for all requests that wait for it, until the last of them is aborted. Where that fails, the next request reads it again. */
  async #connect(signal: AbortSignal): Promise<Connected> {
    signal.throwIfAborted();
    if (this.#connected) return this.#connected;
    this.#reading ??= this.#read();
    const reading = this.#reading;
    reading.waiting++;
    try {
      return await unlessAborted(signal, reading.connected);
    } finally {
      reading.waiting--;
      if (reading.waiting === 0) reading.abort();
    }
  }

  #read(): Reading {
    const { name } = this;
    const late = new AbortController();
    const stop = after(this.#remote.requestTimeoutMs, this.#clock, () => late.abort(timedOut(name)));
    const onSecrets = (secrets: readonly string[]) => {
      this.#secrets = secrets;
    };
    const over = () => {
      stop();
      if (this.#reading === reading) this.#reading = undefined;
    };
    const connected = connectToRemote({ remote: this.#remote, name, onSecrets, signal: late.signal })
      .then((value) => {
        this.#connected = value;
        this.#isKnown = true;
        return value;
      })
      .catch((error: unknown) => {
        throw remoteError(name, error);
      })
      .finally(over);
    const abort = () => {
      over();
      late.abort();
    };
    const reading: Reading = { connected, waiting: 0, abort };
    return reading;
  }
}

function isTask(result: SendMessageResult): result is Task {
  return 'artifacts' in result;
}

/** The first answer, and what comes after it. */
async function firstOf(updates: AsyncGenerator<StreamResponse>) {
  const { value, done } = await updates.next();
  if (done !== true) return { first: value, rest: updates };
  throw Object.assign(new Error('the stream ended without an answer'), { code: 'ECONNRESET' });
}

function headersOf(traceContext: Context | undefined): Record<string, string> {
  return traceContext ? carrierFromContext(traceContext) : {};
}
