import { call, stream } from './a2a-client.ts';
import { type ChatState, load, newState, save } from './chat-state.ts';
import { RefusedError, UnreachableError, unsupportedOperation } from './errors.ts';
import { answered, type Exchange, failed, isAtRest, isOver, newExchange, updated } from './exchange.ts';
import type { OutgoingMessage, Part, StreamResponse, Task } from './wire.ts';

const firstWaitMs = 250;
const longestWaitMs = 5_000;
const saveEveryMs = 200;

/**
 * One conversation with an agent. What is to be sent, what was seen and up to where stands in the storage of the tab: a page that is
 * loaded again sends what had no answer, under the same id, and resumes after the last update that it received.
 */
export class Chat {
  readonly #onChange: () => void;
  #state: ChatState = load();
  #isConnected = true;
  #leave = new AbortController();
  #isFollowing = false;
  /** Whether a turn is to be stopped whose server could not be reached. */
  #isStopping = false;
  #saving: ReturnType<typeof setTimeout> | undefined;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
    addEventListener('pagehide', () => this.#save());
  }

  get exchanges(): readonly Exchange[] {
    return this.#state.exchanges;
  }

  /** Whether the server could be reached when it was last asked. */
  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Whether the agent works, or waits for an answer. */
  get isBusy(): boolean {
    const last = this.#last;
    return last !== undefined && !isOver(last);
  }

  /** Resumes where the page was left. */
  resume(): void {
    void this.#follow();
  }

  say(said: string): void {
    this.#state = { ...this.#state, exchanges: [...this.#state.exchanges, newExchange(said)] };
    this.#post({ contextId: this.#state.contextId }, [{ text: said }]);
  }

  answer(questionId: string, answer: unknown): void {
    const { taskId } = this.#last ?? {};
    if (taskId === undefined) return;
    this.#change((exchange) => answered(exchange, questionId));
    this.#post({ taskId }, [{ data: { answers: { [questionId]: answer } } }]);
  }

  /** Asks for an end, as soon as the server can be reached. */
  async stop(): Promise<void> {
    await this.#cancel();
  }

  /** Leaves the conversation, and ends what the agent still does in it: from here on nobody could stop it. */
  restart(): void {
    const { taskId } = this.#last ?? {};
    if (this.isBusy && taskId !== undefined) void call('CancelTask', { id: taskId }).catch(() => {});
    this.#interrupt();
    this.#isStopping = false;
    this.#state = newState();
    this.#save();
    this.#onChange();
  }

  async #cancel(): Promise<void> {
    const { taskId } = this.#last ?? {};
    this.#isStopping = false;
    try {
      if (taskId === undefined) return;
      const task = await call<Task>('CancelTask', { id: taskId });
      if (this.#last?.taskId !== taskId) return; // Another conversation was begun meanwhile.
      this.#take({ task });
      this.#interrupt();
    } catch (error) {
      this.#isStopping = error instanceof UnreachableError;
    }
  }

  get #last(): Exchange | undefined {
    return this.#state.exchanges.at(-1);
  }

  #post(to: Pick<OutgoingMessage, 'contextId' | 'taskId'>, parts: readonly Part[]): void {
    const message: OutgoingMessage = { messageId: crypto.randomUUID(), role: 'ROLE_USER', ...to, parts };
    this.#state = { ...this.#state, outbox: [...this.#state.outbox, message] };
    this.#save();
    this.#onChange();
    this.#interrupt();
    void this.#follow();
  }

  /** Ends the stream that is open: there is something to be sent first, or nothing more to be read. */
  #interrupt(): void {
    this.#leave.abort();
    this.#leave = new AbortController();
  }

  /** Until all is sent and the agent does nothing more by itself. */
  async #follow(): Promise<void> {
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    let waitMs = firstWaitMs;
    while (this.#hasMore) {
      const { signal } = this.#leave;
      const wentWell = await this.#read(signal);
      if (signal.aborted || !this.#hasMore) continue;
      this.#connected(wentWell);
      if (wentWell) waitMs = firstWaitMs;
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      waitMs = Math.min(waitMs * 2, longestWaitMs);
      if (this.#isStopping) await this.#cancel();
    }
    this.#isFollowing = false;
  }

  get #hasMore(): boolean {
    const last = this.#last;
    return this.#state.outbox.length > 0 || (last?.taskId !== undefined && !isAtRest(last));
  }

  /** One stream, up to its end. Gives whether it came to one. */
  async #read(signal: AbortSignal): Promise<boolean> {
    try {
      for await (const response of this.#open(signal)) {
        if (signal.aborted) return true;
        this.#connected(true);
        this.#take(response);
        if (this.#isStopping) await this.#cancel();
      }
      return true;
    } catch (error) {
      if (signal.aborted) return true;
      if (error instanceof UnreachableError) return false;
      await this.#refused(error);
      return true;
    }
  }

  async *#open(signal: AbortSignal): AsyncGenerator<StreamResponse> {
    const [message] = this.#state.outbox;
    const { taskId: id, cursor } = this.#last ?? {};
    if (!message) {
      yield* stream('SubscribeToTask', { id }, { signal, cursor });
      return;
    }
    for await (const response of stream('SendStreamingMessage', { message }, { signal, cursor })) {
      const outbox = this.#state.outbox.filter(({ messageId }) => messageId !== message.messageId);
      this.#state = { ...this.#state, outbox };
      yield response;
    }
  }

  /** A task that is over meanwhile has no stream: it is asked for. Anything else that is refused ends the exchange. */
  async #refused(error: unknown): Promise<void> {
    const { taskId: id } = this.#last ?? {};
    if (error instanceof RefusedError && error.code === unsupportedOperation && id !== undefined) {
      const task = await call<Task>('GetTask', { id }).catch(() => undefined);
      if (task) {
        this.#state = { ...this.#state, outbox: [] };
        this.#take({ task });
        return;
      }
    }
    this.#state = { ...this.#state, outbox: [] };
    this.#change((exchange) => failed(exchange, error instanceof Error ? error.message : String(error)));
  }

  #take(response: StreamResponse): void {
    this.#change((exchange) => updated(exchange, response));
  }

  #change(change: (exchange: Exchange) => Exchange): void {
    const { exchanges } = this.#state;
    const last = exchanges.at(-1);
    if (last) this.#state = { ...this.#state, exchanges: [...exchanges.slice(0, -1), change(last)] };
    this.#changed();
  }

  #connected(isConnected: boolean): void {
    if (this.#isConnected === isConnected) return;
    this.#isConnected = isConnected;
    this.#onChange();
  }

  /** Lost updates are sent again after the cursor, which was saved together with the state before them. */
  #changed(): void {
    this.#saving ??= setTimeout(() => this.#save(), saveEveryMs);
    this.#onChange();
  }

  #save(): void {
    clearTimeout(this.#saving);
    this.#saving = undefined;
    save(this.#state);
  }
}
