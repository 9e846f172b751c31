import { type Observable, Subject } from 'rxjs';
import { AgentLoop, type ResumeOptions } from '../core/agent-loop.ts';
import { checkMessages } from '../core/check-messages.ts';
import { systemClock } from '../core/clock.ts';
import type { AgentLoopConfig } from '../core/config.ts';
import { AgentLoopError } from '../core/errors.ts';
import type { AgentEvent } from '../core/events.ts';
import { incomingMessage } from '../core/incoming-message.ts';
import type { Message } from '../core/messages.ts';
import type { Turn } from '../core/turn.ts';
import type { TurnResult } from '../core/turn-result.ts';
import type { TaskStateStore } from '../stores/interfaces.ts';
import type { ToolParameters } from '../tools/tool-options.ts';
import { type AgentNotice, type AgentState, isKind, type NoticeOf } from './agent-events.ts';
import type { AgentInternals } from './agent-internals.ts';
import type { AgentOptions, AgentSettings, AgentTurnOptions, Dependencies, OutputOf } from './agent-options.ts';
import { cancelBelow } from './agents-below.ts';
import { type BetweenTurns, betweenTurnsOf } from './between-turns.ts';
import { conversation } from './conversation.ts';
import { receivedMessage } from './received-message.ts';
import { type ResolvedAgent, resolveAgent } from './resolve-agent.ts';
import { contextBusy, RunningTurns, runsHere } from './running-turns.ts';
import { TurnSpanContext } from './turn-span-context.ts';
import { type UsageSummary, UsageTally } from './usage-tally.ts';

/** What a turn is given: a text, a message, or several. */
export type TurnInput = string | Message | readonly Message[];

export interface AgentResumeOptions extends ResumeOptions {
  readonly dependencies?: Dependencies;
}

/**
 * Makes an agent. Calls no provider, store or tool; what becomes of the options object later changes nothing. Errors: `INVALID_CONFIG`,
 * naming the option and the cure.
 */
export function agent<D extends Dependencies = Dependencies, S extends ToolParameters = ToolParameters>(
  options: AgentOptions<D, S>,
): Agent<OutputOf<S>>;
export function agent(options: AgentOptions): Agent {
  return madeOf(options, {}, {});
}

function madeOf<D extends Dependencies>(
  options: AgentOptions<D>,
  changes: Partial<AgentSettings>,
  internals: AgentInternals,
): Agent {
  const all: AgentOptions<D> = { ...options, ...changes };
  return new Agent(resolveAgent(all), internals, (more, shared) => madeOf(all, more, { ...internals, ...shared }));
}

type Derive = (changes: Partial<AgentSettings>, internals: AgentInternals) => Agent;

/**
 * Many turns of many contexts: loads what its context remembers, runs the loop, saves what the turn added, also where it failed or was
 * cancelled. A context has one turn at a time, contexts run side by side.
 * `T`: what its turns finish with besides text, by its `outputSchema`.
 *
 * Memory: the options, the turns that run, and what the `messageStore` keeps.
 */
export class Agent<T = unknown> {
  readonly id: string;
  readonly name: string;
  /** The context of turns that name none. */
  readonly contextId: string;
  /** As they were given, but for tools and what they depend on. */
  readonly options: AgentSettings;
  readonly #resolved: ResolvedAgent;
  readonly #derive: Derive;
  readonly #internals: AgentInternals;
  readonly #running: RunningTurns;
  readonly #notices = new Subject<AgentNotice>();
  readonly #usage = new UsageTally();
  /** Absent where contexts are not compacted. */
  readonly #between: BetweenTurns | undefined;
  readonly #config: AgentLoopConfig;
  readonly #loop: AgentLoop;
  #state: AgentState = 'created';
  /** Turns of this agent that run. */
  #active = 0;

  /** @internal */
  constructor(resolved: ResolvedAgent, internals: AgentInternals, derive: Derive) {
    this.id = resolved.id;
    this.name = resolved.name;
    this.contextId = resolved.contextId;
    this.options = resolved.settings;
    this.#resolved = resolved;
    this.#derive = derive;
    this.#internals = internals;
    this.#running = internals.running ?? new RunningTurns();
    this.#between = betweenTurnsOf(resolved, (usage) => this.#usage.addUsage(usage));
    this.#config = { ...resolved.loop, toolProviders: resolved.toolsWith({}), extensions: this.#extensions() };
    this.#loop = new AgentLoop(this.#config);
  }

  get state(): AgentState {
    return this.#state;
  }

  /** The events of all turns from now on, and those of the agent. Never errors; completes when the agent is closed. */
  get events$(): Observable<AgentNotice> {
    return this.#notices.asObservable();
  }

  /** What the turns that ended here took; `undefined` where `enableUsageTracking` is off. */
  get usage(): UsageSummary | undefined {
    return this.options.enableUsageTracking === false ? undefined : this.#usage.summary;
  }

  /** Whether a turn of this context runs here. */
  isBusy(contextId: string = this.contextId): boolean {
    return this.#running.ahead(contextId, '') !== undefined;
  }

  /** Calls `listener` with each event of that kind, until the function that it gives back is called. What it throws is logged. */
  on<K extends AgentNotice['kind']>(kind: K, listener: (event: NoticeOf<K>) => void): () => void {
    const subscription = this.#notices.subscribe((notice) => {
      if (!isKind(notice, kind)) return;
      try {
        listener(notice);
      } catch {
        this.options.logger?.error('listener failed', { agentId: this.id, kind });
      }
    });
    return () => subscription.unsubscribe();
  }

  /**
   * One turn, as `AgentLoop.startTurn` runs it, behind what its context remembers. Errors: `AGENT_BUSY` while another turn of the context
   * runs and `busy` is `'reject'`, `SHUTDOWN` once the agent is closed, `INVALID_INPUT`; all at once. A turn that runs into one of
   * another process, or into one that was left open, fails with `AGENT_BUSY`.
   */
  startTurn(input: TurnInput, options?: AgentTurnOptions): Turn<T>;
  startTurn(input: TurnInput, options: AgentTurnOptions = {}): Turn {
    this.#open();
    const messages = messagesOf(input);
    const { dependencies, parentContext: parent, metadata, ...rest } = options;
    const { taskId = this.#newId(), contextId = this.contextId } = options;
    const same = this.#running.get(taskId);
    if (same && !this.#config.taskStateStore) return same.turn;
    const steered = same ? undefined : this.#steeredInstead(contextId, taskId, messages);
    if (steered) return steered;
    const parentContext = this.#spanOf({ taskId, contextId, agentId: options.agentId ?? this.id }, messages, parent);
    const turn = this.#loopWith(dependencies).startTurn(messages, {
      ...rest,
      taskId,
      contextId,
      parentContext,
      metadata: { ...this.options.metadata, ...metadata },
    });
    this.#watch(turn, parentContext);
    return turn;
  }

  /** The result of one turn; rejects as `Turn.result` does. */
  async run(input: TurnInput, options: AgentTurnOptions = {}): Promise<TurnResult<T>> {
    return this.startTurn(input, options).result();
  }

  /** The events of one turn; leaving the iteration cancels it. */
  stream(input: TurnInput, options: AgentTurnOptions = {}): AsyncIterable<AgentEvent> {
    return this.startTurn(input, options);
  }

  /** Goes on with a turn in any process, as `AgentLoop.resume` does. Errors: as there, and `SHUTDOWN` once the agent is closed. */
  resume(taskId: string, options?: AgentResumeOptions): Turn<T>;
  resume(taskId: string, options: AgentResumeOptions = {}): Turn {
    this.#open();
    const { dependencies, parentContext: parent, ...rest } = options;
    const ids = { taskId, contextId: options.contextId ?? this.contextId, agentId: this.id };
    const parentContext = this.#spanOf(ids, [], parent);
    const turn = AgentLoop.resume(taskId, this.#configWith(dependencies), { ...rest, parentContext });
    this.#watch(turn, parentContext);
    return turn;
  }

  /**
   * Suspends a turn of this agent as soon as nothing of it runs, here or in another process. Errors: `NOT_FOUND` where there is no such
   * turn, `TERMINAL` where it is over.
   */
  async pause(taskId: string, reason = 'paused'): Promise<void> {
    const running = this.#running.get(taskId);
    if (running) return running.turn.pause(reason);
    await this.#journalOf(taskId).post(taskId, { id: this.#newId(), type: 'pause', reason });
  }

  /** Adds messages to a turn that runs, here or in another process: before its next model call, also where it would have ended. Errors as `pause`. */
  async steer(taskId: string, input: TurnInput): Promise<void> {
    const messages = messagesOf(input);
    const running = this.#running.get(taskId);
    for (const given of messages) {
      if (running) {
        running.turn.steer(given);
        continue;
      }
      const message = incomingMessage(this.#config.extensions ?? [], given);
      await this.#journalOf(taskId).post(taskId, { id: this.#newId(), type: 'steer', message });
    }
  }

  /**
   * Cancels a turn, here or in another process, and those of agents that are its tools; resolves once it is over. Errors: `NOT_FOUND`,
   * `UNAVAILABLE`.
   */
  async cancel(taskId: string, reason = 'canceled'): Promise<void> {
    const running = this.#running.get(taskId);
    if (running) return running.turn.cancel(reason);
    const store = this.#journalOf(taskId);
    await AgentLoop.cancel(taskId, { store, reason, ...(this.options.clock && { clock: this.options.clock }) });
    const { toolProviders = [], extensions = [] } = this.#config;
    const providers = [...toolProviders, ...extensions.flatMap((each) => each.toolProviders ?? [])];
    await cancelBelow(await store.read(taskId), { providers, reason });
  }

  /** Takes no more turns, cancels those that run here, and resolves once they are over. */
  async close(): Promise<void> {
    const running = this.#running.all();
    if (this.#state !== 'closed') this.#enter('closed');
    await Promise.allSettled(running.map((turn) => turn.cancel('the agent is closed')));
    await this.#between?.close();
    this.#notices.complete();
  }

  /**
   * An agent with other options and what else this one has, its context and what it remembers too; listeners and running turns stay
   * here. Errors as `agent`.
   */
  with(changes: Partial<AgentSettings<never>>, /** @internal */ internals?: AgentInternals): Agent<T>;
  with<S extends ToolParameters>(
    changes: Partial<AgentSettings<S>>,
    /** @internal */ internals?: AgentInternals,
  ): Agent<OutputOf<S>>;
  with(changes: Partial<AgentSettings>, internals: AgentInternals = {}): Agent {
    const { name, contextId } = this;
    const { messageStore } = this.#resolved;
    const id = changes.name === undefined || this.options.id !== undefined ? { id: this.id } : {};
    return this.#derive({ ...id, name, contextId, messageStore, ...changes }, internals);
  }

  #extensions(): NonNullable<AgentLoopConfig['extensions']> {
    const { messageStore, busy, loop } = this.#resolved;
    const { clock = systemClock, storeDeadlineMs = 30_000, leaseMs = 30_000, taskStateStore: journal } = loop;
    const agentId = this.id;
    const remember = conversation({
      messageStore,
      journal,
      busy,
      running: this.#running,
      deadline: { clock, ms: storeDeadlineMs },
      leaseMs,
      between: this.#between,
      endsOnly: this.#internals.endsOnly === true,
      onSent: ({ taskId, contextId }, messages) =>
        this.#notices.next({ kind: 'message:sent', agentId, taskId, contextId, messages }),
      onEnd: ({ taskId, state }) => {
        const running = this.#running.get(taskId);
        if (running) running.endsHere = true;
        this.#usage.add(state);
      },
    });
    return [...(loop.extensions ?? []), remember];
  }

  #configWith(dependencies: Dependencies | undefined): AgentLoopConfig {
    if (dependencies === undefined) return this.#config;
    if (this.#resolved.toolsDepend) return { ...this.#config, toolProviders: this.#resolved.toolsWith(dependencies) };
    const message = `Agent "${this.id}" has no dependencies to override; make its tools a function of them: tools: (dependencies) => […].`;
    throw new AgentLoopError('INVALID_INPUT', message);
  }

  #loopWith(dependencies: Dependencies | undefined): AgentLoop {
    return dependencies === undefined ? this.#loop : new AgentLoop(this.#configWith(dependencies));
  }

  /** The turn that takes the messages of one that would start while it runs. One that is about to end takes none. */
  #steeredInstead(contextId: string, taskId: string, messages: readonly Message[]): Turn | undefined {
    const ahead = this.#running.ahead(contextId, taskId)?.turn;
    if (!ahead || this.#resolved.busy === 'queue') return undefined;
    if (this.#resolved.busy === 'reject') throw contextBusy(contextId, ahead.taskId, runsHere);
    try {
      for (const message of messages) ahead.steer(message);
      return ahead;
    } catch (error) {
      if (AgentLoopError.isInstance(error) && error.code === 'TERMINAL') return undefined;
      throw error;
    }
  }

  #spanOf(
    ids: ConstructorParameters<typeof TurnSpanContext>[0]['ids'],
    messages: readonly Message[],
    parent: AgentTurnOptions['parentContext'],
  ): TurnSpanContext {
    return new TurnSpanContext({ config: this.#config, ids, agentName: this.name, messages, parent });
  }

  /** Keeps a turn among those that run, from its first event to its end, and passes its events on. */
  #watch(turn: Turn, span: TurnSpanContext): void {
    let known = false;
    const over = (lost?: { readonly cause: unknown }) => {
      span.end(turn.state, lost);
      if (this.#running.get(turn.taskId)?.endsHere) this.#between?.start(turn.contextId);
      this.#running.delete(turn);
      if (known && --this.#active === 0 && this.#state === 'busy') this.#enter('ready');
    };
    turn.live$.subscribe({
      next: (event) => {
        if (event.kind === 'task' && !known && this.#running.add(turn, event.contextId)) {
          known = true;
          this.#active++;
        }
        if (!known) return;
        if (this.#state === 'ready') this.#enter('busy');
        const endsHere = this.#running.get(turn.taskId)?.endsHere === true;
        const received = endsHere ? receivedMessage(this.id, event, turn.state) : undefined;
        if (received) this.#notices.next(received);
        this.#notices.next(event);
      },
      error: (cause: unknown) => over({ cause }),
      complete: () => over(),
    });
  }

  #open(): void {
    if (this.#state === 'closed') {
      throw new AgentLoopError('SHUTDOWN', `Agent "${this.id}" is closed; make another with agent({ … }).`);
    }
    if (this.#state === 'created') this.#enter('ready');
  }

  #enter(state: AgentState): void {
    this.#state = state;
    this.#notices.next({ kind: 'agent:state', agentId: this.id, state });
  }

  #journalOf(taskId: string): TaskStateStore {
    const { taskStateStore } = this.#config;
    if (taskStateStore) return taskStateStore;
    throw new AgentLoopError(
      'NOT_FOUND',
      `Turn "${taskId}" does not run here; other processes are reached through taskStateStore.`,
    );
  }

  #newId(): string {
    return this.#config.generateId?.() ?? crypto.randomUUID();
  }
}

/** Errors: `INVALID_INPUT`. */
export function messagesOf(input: TurnInput): readonly Message[] {
  const messages: readonly Message[] =
    typeof input === 'string' ? [{ role: 'user', content: input }] : isList(input) ? input : [input];
  checkMessages(messages);
  return messages;
}

function isList(input: Message | readonly Message[]): input is readonly Message[] {
  return Array.isArray(input);
}
