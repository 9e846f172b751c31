import type { AgentTurnOptions, TurnInput } from '../agent/agent-options.ts';
import {
  AgentLoopError,
  isSuspended,
  isTerminalState,
  type Message,
  type TaskSummary,
  taskIdPattern,
} from '../core/contracts/index.ts';
import type { JournalRecord } from '../core/journal/index.ts';
import type { Turn } from '../tasks/turn.ts';
import { begun, type EventSource } from './event-stream.ts';
import { type ResolvedHandler, scopeFor, valuesFor } from './handler-options.ts';
import { BeginFailure, digestOf, malformed, notFound, refusalFor } from './requests.ts';
import { sentenceOf } from './stream-options.ts';

/** What a context is: a chat, whose client can come back; a completion, whose client cannot; one whose client can with its `Idempotency-Key`. */
export type ChatKind = 'chat' | 'completion' | 'keyed';
/** How many of the newest turns of a chat are looked at beside those that its conversation names as open. */
const newest = 10;

/** The turns that a request is given, and what its stream begins with. */
export interface Followed {
  readonly source: EventSource;
  /** Where the request starts or continues it. */
  readonly turn?: Turn;
  readonly from?: string;
  readonly answered?: readonly string[];
}

interface ChatOptions {
  readonly kind?: ChatKind;
  readonly isStreamed?: boolean;
  readonly scope?: string;
}

/** A chat of an owner: the turns of one context. Ids of stores are digests of what clients chose, so nobody reaches the chats of another owner. */
export class Chat {
  readonly contextId: string;
  readonly #handler: ResolvedHandler;
  readonly #scope: string;
  readonly #id: string;
  readonly #given: Awaited<ReturnType<typeof valuesFor>>;
  readonly #request: Request;
  readonly #isStreamed: boolean;

  private constructor(parts: {
    readonly handler: ResolvedHandler;
    readonly scope: string;
    readonly id: string;
    readonly contextId: string;
    readonly given: Awaited<ReturnType<typeof valuesFor>>;
    readonly request: Request;
    readonly isStreamed: boolean;
  }) {
    this.#handler = parts.handler;
    this.#scope = parts.scope;
    this.#id = parts.id;
    this.contextId = parts.contextId;
    this.#given = parts.given;
    this.#request = parts.request;
    this.#isStreamed = parts.isStreamed;
  }

  /**
   * `isStreamed`: whether a turn that is started or answered is streamed to the request. `scope`: of the request, where it is known. Errors: `Refusal` with 401;
   * what the functions of the options throw.
   */
  static async of(
    handler: ResolvedHandler,
    request: Request,
    id: string,
    { kind = 'chat', isStreamed = true, scope: known }: ChatOptions = {},
  ): Promise<Chat> {
    const scope = known ?? (await scopeFor(handler, request));
    const { id: agentId } = handler.agent;
    // The contexts of an owner are one group, so that stores find what is theirs.
    const owner = (await digestOf('owner', agentId, scope)).slice(0, 22);
    const contextId = `ui.${owner}:${kind}.${await digestOf('context', agentId, scope, id)}`;
    const given = await valuesFor(handler, request);
    return new Chat({ handler, scope, id, contextId, given, request, isStreamed });
  }

  /** The turn of a message, by the message's id: the same whenever the message comes. */
  async taskOf(messageId: string): Promise<string> {
    return digestOf('task', this.#handler.agent.id, this.#scope, this.#id, messageId);
  }

  /** Starts the turn of a message, or attaches to it. Errors: those of the turn before its first event. */
  async start(
    messageId: string,
    input: TurnInput,
    options: Pick<AgentTurnOptions, 'after' | 'detached'> = {},
  ): Promise<Followed> {
    const { agent, isDetached: detached } = this.#handler;
    const { contextId } = this;
    const taskId = await this.taskOf(messageId);
    if (agent.options.busy === 'queue') await this.#refuseBehindQuestion(taskId);
    const start = () => agent.startTurn(input, { ...this.#given, taskId, contextId, detached, ...options });
    return this.#begun(start, { taskId, input });
  }

  /**
   * A client that waits for the answer of its message can send no answer to the question before it. Errors: `Refusal` with 409.
   */
  async #refuseBehindQuestion(taskId: string): Promise<void> {
    const open = await this.open();
    if (!open.some(isAsking) || (await this.#handler.store.describe(taskId)) !== null) return;
    throw refusalFor('AGENT_BUSY');
  }

  /**
   * Answers a message anew: what failed or was cancelled is continued as a new turn, and what is complete answered once more, in its place. A turn that
   * is open is attached to. `edited`: what the message says now; the same again attaches to its turn. Errors: `Refusal` with 404 for a message that has
   * no turn, and with 409 for an edited one while its turn is open.
   */
  async again(messageId: string, edited?: Message): Promise<Followed> {
    const { agent, isDetached: detached } = this.#handler;
    const { contextId } = this;
    const { taskId, next, state } = await this.#lastOf(messageId);
    const isOpen = !isTerminalState(state);
    if (edited ? await this.#hasSaid(taskId, edited) : isOpen) return this.observe(taskId);
    if (isOpen) throw refusalFor('AGENT_BUSY');
    if (agent.options.busy === 'queue') await this.#refuseBehindQuestion(next);
    const options = { ...this.#given, taskId: next, contextId, detached };
    const isNew = edited || state === 'completed';
    const make = () => (isNew ? agent.regenerate(taskId, { ...options, input: edited }) : agent.retry(taskId, options));
    return this.#begun(make, { taskId: next, input: edited });
  }

  async #hasSaid(taskId: string, { content }: Message): Promise<boolean> {
    const [first] = await this.#handler.store.read(taskId);
    return first?.type === 'turn.started' && JSON.stringify(first.messages.at(-1)?.content) === JSON.stringify(content);
  }

  /** The last turn of a message, and the id of one more. Errors: `Refusal` with 404 for a message that has no turn. */
  async #lastOf(messageId: string): Promise<{ taskId: string; next: string; state: TaskSummary['state'] }> {
    for (let taskId = await this.taskOf(messageId); ; ) {
      const { state } = await this.own(taskId);
      const next = await digestOf('again', taskId);
      if ((await this.#handler.store.describe(next)) === null) return { taskId, next, state };
      taskId = next;
    }
  }

  /** Gives a turn answers to its questions. Errors: `Refusal` with 404 for a task or a question that is not there. */
  async answer({ taskId, answers }: Answered): Promise<Followed> {
    await this.own(taskId);
    const { agent, store, isDetached: detached } = this.#handler;
    const records = await store.read(taskId);
    const answered = Object.keys(answers);
    const asked = new Set(records.flatMap((record) => (record.type === 'turn.asked' ? [record.question.id] : [])));
    if (answered.some((id) => !asked.has(id))) throw notFound();
    const from = cursorBefore(records, answered);
    const { contextId } = this;
    const options = { ...this.#given, contextId, answers, from, detached, onBusy: 'wait' as const };
    const followed = await this.#begun(() => agent.resume(taskId, options), { input: answers });
    return { ...followed, from, answered };
  }

  /** Follows a turn, and continues it here where its owner is gone. */
  observe(taskId: string, from?: string): Followed {
    const { agent } = this.#handler;
    const source = agent.observe(taskId, { recover: this.#given, descendants: true, from });
    return { source, ...(from === undefined ? {} : { from }) };
  }

  /** The id of the last message that follows a version of a message. Errors: `Refusal` with 404 for one that is not there. */
  async endOf(version: string): Promise<string | undefined> {
    const { agent, maxMessages: limit } = this.#handler;
    const path = await agent.conversation(this.contextId, { limit, version });
    if (!path.some(({ id }) => id === version)) throw notFound();
    return path.at(-1)?.id;
  }

  /** The turns that have not ended, the oldest first. */
  async open(): Promise<readonly TaskSummary[]> {
    const open: TaskSummary[] = [];
    for await (const task of this.#openTurns(await this.#newest())) open.unshift(task);
    return open;
  }

  /** Cancels the turns that have not ended, the newest first: a turn that waits for another one does not start meanwhile. Errors: `Refusal` with 404 for a chat without turns. */
  async stop(): Promise<void> {
    const tasks = await this.#newest();
    if (tasks.length === 0) throw notFound();
    for await (const { taskId } of this.#openTurns(tasks))
      await this.#handler.agent.cancel(taskId, 'stopped by the user');
  }

  async #newest(): Promise<readonly TaskSummary[]> {
    return this.#handler.agent.tasks(this.contextId, { limit: newest });
  }

  /** The newest turns that have not ended, then older ones, as the conversation names them: their number does not depend on that of ended turns. */
  async *#openTurns(tasks: readonly TaskSummary[]): AsyncGenerator<TaskSummary, void> {
    const { messages, store } = this.#handler;
    const { openTurns } = await messages.load(this.contextId, { limit: 0 });
    for (const taskId of new Set([...tasks.map(({ taskId }) => taskId), ...openTurns.toReversed()])) {
      const task = await store.describe(taskId);
      if (task && !isTerminalState(task.state) && this.#isOwn(task)) yield task;
    }
  }

  /** The id of the turn that began last. */
  async newest(): Promise<string | undefined> {
    const [task] = await this.#handler.agent.tasks(this.contextId, { limit: 1 });
    return task?.taskId;
  }

  /** `taskId`: of a turn that this makes, where there is none of that id. Errors: those of `admit`, and of the turn before its first event. */
  async #begun(
    make: () => Turn | Promise<Turn>,
    { taskId, input }: { readonly taskId?: string; readonly input?: unknown },
  ) {
    const { admit, onTurn, store } = this.#handler;
    const { contextId } = this;
    const isKnown = admit && taskId !== undefined && (await store.describe(taskId)) !== null;
    const bytes = admit ? bytesOf(input) : 0;
    const added = { contextId, bytes, startsTurn: taskId !== undefined, isStreamed: this.#isStreamed };
    const settle = isKnown ? undefined : await admit?.(added, this.#request);
    try {
      const turn = await make();
      if (settle) turn.settled.then(settle, settle);
      onTurn?.(turn, this.#request);
      const source = await begun(turn).catch((cause: unknown) => {
        throw new BeginFailure('the turn failed before its first event', { cause });
      });
      return { source, turn };
    } catch (error) {
      settle?.();
      throw error;
    }
  }

  /** Errors: `Refusal` with 404 for a task that is not of this chat. */
  async own(taskId: string): Promise<TaskSummary> {
    const { store } = this.#handler;
    const task = taskIdPattern.test(taskId) ? await store.describe(taskId) : null;
    if (!task || !this.#isOwn(task)) throw notFound();
    return task;
  }

  #isOwn({ contextId, agentId, parentTaskId }: TaskSummary): boolean {
    return contextId === this.contextId && agentId === this.#handler.agent.id && parentTaskId === undefined;
  }
}

/** The one that a client follows: the first that waits for an answer, else the newest. */
export function followedOf(open: readonly TaskSummary[]): TaskSummary | undefined {
  return open.find(isAsking) ?? open.at(-1);
}

function isAsking({ state }: TaskSummary): boolean {
  return isSuspended(state);
}

/** Answers to questions of one turn. */
export interface Answered {
  readonly taskId: string;
  readonly answers: Readonly<Record<string, unknown>>;
}

/** Questions are `<taskId>/<question id>`. Errors: `Refusal` where they are not of one task. */
export function ofOneTask(all: ReadonlyMap<string, unknown>): Answered {
  const tasks = new Set<string>();
  const answers: [string, unknown][] = [];
  for (const [id, answer] of all) {
    const at = id.indexOf('/');
    if (at === -1) throw notFound();
    tasks.add(id.slice(0, at));
    answers.push([id.slice(at + 1), answer]);
  }
  const [taskId] = tasks;
  if (taskId === undefined || tasks.size > 1) throw malformed('The answers must be of one turn.');
  return { taskId, answers: Object.fromEntries(answers) };
}

/** More events than a record gives. */
const afterAll = 999_999;

/** The cursor after which these answers follow: that of the last record, or of the one before the first answer that was given. */
function cursorBefore(records: readonly JournalRecord[], answered: readonly string[]): string {
  const first = records.findIndex((record) => record.type === 'turn.answered' && answered.includes(record.questionId));
  const last = records.at(first === -1 ? -1 : first - 1);
  return `${last?.seq ?? 0}-${last?.epoch ?? 0}.${afterAll}`;
}

function bytesOf(value: unknown): number {
  return value === undefined ? 0 : new TextEncoder().encode(JSON.stringify(value)).byteLength;
}

/** What the context of a task is; `undefined` where it is none of these handlers. */
export function kindOf({ contextId }: TaskSummary): ChatKind | undefined {
  const [, kind] = /^ui\.[\w-]{22}:(chat|completion|keyed)\./.exec(contextId) ?? [];
  return kind === 'chat' || kind === 'completion' || kind === 'keyed' ? kind : undefined;
}

/** Continues turns of chats that nobody runs, now and then, from the first request on. */
export class ChatRecovery {
  readonly #handler: ResolvedHandler;
  readonly #afterwards: () => Promise<void>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  /** `afterwards`: what else is done each time. Its errors are logged. */
  constructor(handler: ResolvedHandler, afterwards = async () => {}) {
    this.#handler = handler;
    this.#afterwards = afterwards;
  }

  /** Any number of times. */
  start(): void {
    if (this.#timer !== undefined || this.#isClosed || this.#handler.recoverMs === 0) return;
    this.#schedule(0);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #schedule(ms: number): void {
    this.#timer = setTimeout(() => void this.#recover(), ms);
    // Node.js only: a process with nothing else to do ends.
    if (typeof this.#timer === 'object') this.#timer.unref();
  }

  /** Continues one turn now, if nobody runs it. Never throws. */
  take(id: string): void {
    void this.#logged(() => this.#look(({ taskId }) => taskId === id));
  }

  async #recover(): Promise<void> {
    await this.#logged(() => this.#look((task) => kindOf(task) === 'chat'));
    await this.#logged(this.#afterwards);
    if (!this.#isClosed) this.#schedule(this.#handler.recoverMs);
  }

  async #look(accepts: (task: TaskSummary) => boolean): Promise<void> {
    await this.#handler.agent.recover({ accepts });
  }

  async #logged(act: () => Promise<void>): Promise<void> {
    const { agent } = this.#handler;
    try {
      await act();
    } catch (error) {
      const code = AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
      agent.options.logger?.warn('recovery failed', { code, message: sentenceOf({ code }) });
    }
  }
}
