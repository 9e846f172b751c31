import { UIMessageFold } from '../../ui/fold-ui-chunks.ts';
import type { ShownQuestion } from '../../ui/shown-steps.ts';
import { type Api, chunksOf, type Message, type Part, RefusedError } from './api.ts';
import { newId } from './chat-list.ts';
import { answersOf, questionsIn } from './open-questions.ts';
import type { Outbox } from './outbox.ts';
import { UnreachableError } from './server-sent-events.ts';

const firstWaitMs = 250;

/** What a sub-agent does, as long as its call runs. */
export interface AgentActivity {
  readonly id: string;
  readonly agentId: string;
  readonly callId: string;
  readonly state: string;
  /** The end of what it said. */
  readonly text: string;
}

/** The assistant's message that grows. */
interface Live {
  readonly id: string;
  readonly fold: UIMessageFold;
}

export interface Failure {
  readonly text: string;
  readonly canRetry: boolean;
}

/** What a page waits for, and since when. */
export interface Wait {
  readonly awaited: string;
  /** As `Date.now()` has it. */
  readonly since: number;
  /** How long it takes until the page mentions it. Milliseconds. */
  readonly afterMs: number;
}

/** How many characters of what a sub-agent says are kept. */
const mostOfAgent = 2_000;

/**
 * One chat: sends, follows the turn, connects again, and keeps what the user has not got through yet. `onChange` receives all that happens, and may read the
 * members then. `leave` stops all of it; turns continue on the server.
 */
export class Conversation {
  readonly id: string;
  messages: readonly Message[] = [];
  /** `loading` until the messages are there; `busy` while a turn runs; `asking` while it waits for answers. */
  phase: 'loading' | 'ready' | 'busy' | 'asking' = 'loading';
  failure: Failure | undefined;
  isConnected = true;
  /** The API knows nobody. */
  isRefused = false;
  /** Counts changes of the message that grows. */
  version = 0;
  readonly agents = new Map<string, AgentActivity>();
  readonly #api: Api;
  readonly #outbox: Outbox;
  readonly #onChange: () => void;
  readonly #onActivity: () => void;
  readonly #left = new AbortController();
  readonly #answers = new Map<string, unknown>();
  #live: Live | undefined;
  /** The answer as it was shown when the connection broke: it remains until the new stream has caught up with it, or says something else. */
  #kept: Message | undefined;
  /** When something arrived last, or the connection broke. */
  #newsAt = 0;
  /** Whether the stream repeats the turn, with questions that were answered. */
  #isReplay = false;
  /** Whether the turn is to be stopped as soon as the server is reached. */
  #isStopping = false;
  /** The id of the message whose branch is shown. Default: the branch that was continued last. */
  #version: string | undefined;
  #actions = 0;

  constructor(parts: {
    readonly id: string;
    readonly api: Api;
    readonly outbox: Outbox;
    readonly onChange: () => void;
    /** Told when this page starts or continues a turn, for other tabs. */
    readonly onActivity: () => void;
  }) {
    this.id = parts.id;
    this.#api = parts.api;
    this.#outbox = parts.outbox;
    this.#onChange = parts.onChange;
    this.#onActivity = parts.onActivity;
  }

  /** A chat that the server does not know. */
  begin(): void {
    this.phase = 'ready';
    this.#onChange();
  }

  /** Gets what the server has of the chat, sends what it has not got, and follows the turn that is open. */
  async open(): Promise<void> {
    await this.#guarded(async () => {
      if (!(await this.#load())) return;
      const unsent = this.#outbox.of(this.id);
      const place = this.messages.findIndex(({ id }) => id === unsent?.id);
      if (unsent && (place < 0 || isEdited(unsent))) {
        this.messages = [...this.messages.slice(0, place < 0 ? undefined : place), unsent];
        await this.#follow(() => this.#post(unsent));
        return;
      }
      this.#outbox.remove(this.id);
      if (this.messages.length > 0) await this.#follow(undefined);
    });
  }

  /** Shows the branch of another version of a message, which what is said next continues. */
  async show(version: string): Promise<void> {
    if (this.phase === 'ready') await this.#reload(version);
  }

  /** Beside what the user does meanwhile. */
  async #reload(version?: string): Promise<void> {
    try {
      if (await this.#load(version)) this.#tellFailure();
    } catch (error) {
      if (this.phase === 'ready') this.failure = { text: textOfError(error), canRetry: false };
    }
    if (!this.#left.signal.aborted) this.#onChange();
  }

  /** False where something was said meanwhile: that has come further. */
  async #load(version = this.#version): Promise<boolean> {
    const before = this.messages;
    const loaded = await this.#again(() => this.#api.messages(this.id, this.#left.signal, version));
    if (this.messages !== before) return false;
    this.messages = loaded;
    this.#version = version;
    return true;
  }

  /** Where another tab has done something. */
  async refresh(): Promise<void> {
    if (this.phase === 'ready' || this.phase === 'asking') await this.open();
  }

  async send(text: string): Promise<void> {
    const metadata = { version: this.#version };
    await this.#say(this.messages, { id: newId(), role: 'user', parts: [{ type: 'text', text }], metadata });
  }

  /** Sends another text in the place of a message of the user: what came after that is left. */
  async edit(message: Message, text: string): Promise<void> {
    const before = this.messages.slice(0, this.messages.indexOf(message));
    await this.#say(before, { ...message, parts: [{ type: 'text', text }], metadata: { isEdited: true } });
  }

  async #say(before: readonly Message[], message: Message): Promise<void> {
    if (this.phase !== 'ready') return;
    this.messages = [...before, message];
    this.#outbox.keep(this.id, message);
    await this.#guarded(() => this.#follow(() => this.#post(message)));
    if (isEdited(message)) await this.#begun();
  }

  /** A branch: its first message has other versions now. */
  async #begun(): Promise<void> {
    if (this.phase === 'ready' && !this.failure) await this.#reload();
  }

  /** Has the last message answered anew; if the server refuses that, the answer is shown again. */
  async again(): Promise<void> {
    const { messages } = this;
    const last = messages.findLastIndex(({ role }) => role === 'user');
    if (last < 0 || this.phase !== 'ready') return;
    this.messages = messages.slice(0, last + 1);
    await this.retry();
    if (this.failure && this.messages.length === last + 1) this.messages = messages;
    this.#onChange();
    await this.#begun();
  }

  /** Continues the turn of the last message, which failed or was stopped, or sends that again. */
  async retry(): Promise<void> {
    const last = this.messages.findLast(({ role }) => role === 'user');
    if (!last || this.phase !== 'ready') return;
    const body = { id: this.id, messages: [last], trigger: 'regenerate-message' };
    const hasTurn = this.messages.at(-1)?.role === 'assistant' || this.#outbox.of(this.id) === undefined;
    await this.#guarded(() =>
      this.#follow(() => (hasTurn ? this.#api.post(body, this.#left.signal) : this.#post(last))),
    );
  }

  /** Keeps the answer until all questions of the turn have one, then gives them all. */
  async answer(id: string, answer: unknown): Promise<void> {
    this.#answers.set(id, answer);
    this.#onChange();
    await this.#giveAnswers();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#onChange();
    const wasAsking = this.phase === 'asking';
    await this.#stopNow();
    if (wasAsking) await this.open();
  }

  leave(): void {
    this.#left.abort();
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** What a turn that runs waits for now. */
  get wait(): Wait | undefined {
    if (this.isConnected && this.phase !== 'busy') return undefined;
    const since = this.#newsAt;
    if (!this.isConnected) return { awaited: 'the server', since, afterMs: 0 };
    if (this.#kept) return { awaited: 'a process that continues the answer', since, afterMs: 1_000 };
    return { awaited: this.#awaited, since, afterMs: 3_000 };
  }

  get #awaited(): string {
    const last = this.messages.at(-1);
    if (last?.role !== 'assistant') return 'the agent';
    const running = last.parts.filter(({ type, state }) => type === 'dynamic-tool' && state === 'input-available');
    return running.length === 0 ? 'the model' : running.map(({ toolName }) => String(toolName)).join(', ');
  }

  /** What waits for an answer. */
  get questions(): readonly ShownQuestion[] {
    const asked = questionsIn(this.messages.at(-1)?.parts ?? []);
    const isOpen = ({ id }: ShownQuestion) => !this.#answers.has(id);
    if (this.phase === 'busy') return this.#isReplay ? [] : asked.filter(isOpen);
    return asked.filter((question) => this.#waiting.includes(question.id) && isOpen(question));
  }

  /** The ids that the end of the stream named. */
  get #waiting(): readonly unknown[] {
    const { state, questions } = this.messages.at(-1)?.metadata ?? {};
    return state === 'input-required' || state === 'auth-required' ? Array.from(Object(questions ?? [])) : [];
  }

  async #giveAnswers(): Promise<void> {
    if (this.phase !== 'asking' || this.questions.length > 0) return;
    const waiting = this.#waiting;
    const given = new Map([...this.#answers].filter(([id]) => waiting.includes(id)));
    const messageId = this.messages.at(-1)?.id ?? '';
    if (given.size === 0) return;
    await this.#guarded(() =>
      this.#follow(() => this.#api.post(answersOf(this.id, messageId, given), this.#left.signal)),
    );
  }

  #post(message: Message): Promise<Response> {
    const place = isEdited(message) ? { messageId: message.id } : { version: message.metadata?.['version'] };
    const body = { id: this.id, messages: [message], trigger: 'submit-message', ...place };
    return this.#api.post(body, this.#left.signal);
  }

  /** Follows the turn to its end or its question, however often the connection breaks. `begin` is tried until the server has answered it. */
  async #follow(begin: (() => Promise<Response>) | undefined): Promise<void> {
    this.phase = 'busy';
    this.failure = undefined;
    this.#newsAt = Date.now();
    this.#onChange();
    let open: (() => Promise<Response | undefined>) | undefined = begin;
    for (;;) {
      this.#isReplay = open === undefined;
      const response = await this.#again(open ?? (() => this.#resume()));
      if (this.#isStopping) await this.#stopNow();
      if (open) {
        this.#outbox.remove(this.id);
        this.#version = undefined;
        this.#onActivity();
      }
      open = undefined;
      if (!response) return await this.#settle();
      if (await this.#read(response)) return await this.#end();
      this.#keep();
      this.#connected(false);
      await this.#pause(firstWaitMs);
    }
  }

  /** The stop that waits for the server comes first: the stream has it continue the turn, which may then end before it is stopped. */
  async #resume(): Promise<Response | undefined> {
    if (this.#isStopping) await this.#stopNow();
    return this.#api.resume(this.id, this.#left.signal);
  }

  /** No turn is open: what the last one left is in the messages. */
  async #settle(): Promise<void> {
    if (this.#live || this.messages.at(-1)?.role !== 'assistant') await this.#load();
    this.#tellFailure();
    await this.#end();
  }

  /** That of the last turn, if it failed. */
  #tellFailure(): void {
    const { errorText } = this.messages.at(-1)?.metadata ?? {};
    this.failure = typeof errorText === 'string' ? { text: errorText, canRetry: true } : undefined;
  }

  async #end(): Promise<void> {
    this.#isStopping = false;
    this.agents.clear();
    this.phase = this.#waiting.length > 0 && !this.failure ? 'asking' : 'ready';
    if (this.phase === 'ready') this.#answers.clear();
    this.#live = undefined;
    this.#kept = undefined;
    this.#onChange();
    await this.#giveAnswers();
  }

  /** Reads a stream. False where it was cut, or its turn was lost and can be followed again. */
  async #read(response: Response): Promise<boolean> {
    let isFinished = false;
    try {
      for await (const chunk of chunksOf(response)) {
        this.#connected(true);
        this.#newsAt = Date.now();
        switch (chunk.type) {
          case 'start':
            this.#begin(chunk.messageId);
            break;
          case 'data-agent':
            this.#activity(Object(chunk.data));
            break;
          case 'finish':
            this.#kept = undefined;
            isFinished = true;
            break;
          case 'error': {
            if (this.#live?.fold.metadata['retryable'] === true) return false;
            this.failure = { text: chunk.errorText, canRetry: true };
            this.#kept = undefined;
            isFinished = true;
          }
        }
        this.#live?.fold.take(chunk);
        this.#show();
      }
    } catch (error) {
      if (!(error instanceof UnreachableError)) throw error;
    }
    return isFinished;
  }

  /** A post that answers continues the message; a stream of the turn from its beginning replaces it. */
  #begin(id: string): void {
    const last = this.messages.at(-1);
    const isContinued = last?.id === id && !this.#isReplay;
    const fold = new UIMessageFold();
    if (isContinued) {
      fold.metadata = last.metadata ?? {};
      fold.parts = last.parts.map((part) => ({ ...part }));
    }
    this.#live = { id, fold };
  }

  /** The message has a new object at each change, its parts have not. */
  #show(): void {
    if (!this.#live) return;
    const { id, fold } = this.#live;
    if (this.#kept?.id !== id || !isBeginning(fold.parts, this.#kept.parts)) this.#kept = undefined;
    const parts = this.#kept?.parts ?? fold.parts;
    const message: Message = { id, role: 'assistant', parts, metadata: fold.metadata };
    const before = this.messages.filter((each) => each.id !== id);
    const isRetry = before.at(-1)?.role === 'assistant';
    this.messages = [...(isRetry ? before.slice(0, -1) : before), message];
    this.version += 1;
    this.#onChange();
  }

  #keep(): void {
    const last = this.messages.at(-1);
    this.#kept = last?.role === 'assistant' && last.id === this.#live?.id ? last : undefined;
  }

  #activity(data: Partial<AgentActivity>): void {
    const { id = '', agentId = '', callId = '', state, text = '' } = data;
    const known = this.agents.get(id);
    const said = `${known?.text ?? ''}${text}`.slice(-mostOfAgent);
    this.agents.set(id, { id, agentId, callId, state: state ?? known?.state ?? 'working', text: said });
  }

  async #stopNow(): Promise<void> {
    try {
      await this.#api.stop(this.id);
      this.#isStopping = false;
    } catch (error) {
      // A turn that is not there yet is stopped when it is.
      this.#isStopping = this.phase === 'busy' && (error instanceof UnreachableError || !this.#live);
    }
  }

  /** The same request until the server answers it. */
  async #again<T>(request: () => Promise<T>): Promise<T> {
    for (let waitMs = firstWaitMs; ; waitMs *= 2) {
      try {
        const result = await request();
        this.#connected(true);
        return result;
      } catch (error) {
        if (!(error instanceof UnreachableError)) throw error;
        this.#connected(false);
        waitMs = Math.min(waitMs, error.longestWaitMs);
        await this.#pause(waitMs);
      }
    }
  }

  #connected(isConnected: boolean): void {
    if (this.isConnected === isConnected) return;
    this.isConnected = isConnected;
    this.#newsAt = Date.now();
    this.#onChange();
  }

  async #pause(ms: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, ms));
    this.#left.signal.throwIfAborted();
  }

  /** The newest action alone says what the conversation is at its end. */
  async #guarded(action: () => Promise<void>): Promise<void> {
    const own = ++this.#actions;
    const isOver = () => this.#left.signal.aborted || own !== this.#actions;
    try {
      await action();
    } catch (error) {
      if (isOver()) return;
      this.#failed(error);
    }
    if (isOver()) return;
    if (this.phase === 'busy' || this.phase === 'loading') this.phase = this.#waiting.length > 0 ? 'asking' : 'ready';
    this.#onChange();
  }

  #failed(error: unknown): void {
    this.isRefused = error instanceof RefusedError && error.status === 401;
    this.failure = {
      text: textOfError(error),
      canRetry: !this.isRefused && this.#answers.size === 0,
    };
    // They were not taken: the questions are shown again.
    this.#answers.clear();
    this.#live = undefined;
    this.#kept = undefined;
    this.#isStopping = false;
  }
}

/** The messages that stand in the place of one, and which of them it is. */
export function versionsOf({ metadata }: Message): { readonly ids: readonly string[]; readonly at: number } {
  return Object(metadata?.['versions'] ?? { ids: [], at: 0 });
}

function textOfError(error: unknown): string {
  return error instanceof RefusedError ? error.message : 'Something went wrong.';
}

/** Whether the message replaces one of the same id. */
function isEdited({ metadata }: Message): boolean {
  return metadata?.['isEdited'] === true;
}

/** Whether a message with these parts may still become one that begins with all of the others. */
function isBeginning(parts: readonly Part[], of: readonly Part[]): boolean {
  return parts.every((part, index) => {
    const { type, toolCallId, text } = of[index] ?? {};
    if (part['type'] !== type || part['toolCallId'] !== toolCallId) return false;
    return part['text'] === undefined || String(text).startsWith(String(part['text']));
  });
}
