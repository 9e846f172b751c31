import { context as activeContext } from '@opentelemetry/api';
import type { Observable } from 'rxjs';
import {
  type AgentEvent,
  AgentLoopError,
  type ComparedByMembers,
  invalidConfig,
  type Message,
  systemClock,
  type TaskSummary,
  type Tool,
  type ToolProvider,
  type Usage,
} from '../core/contracts/index.ts';
import type { Predecessor, TurnResult } from '../core/journal/index.ts';
import type { OutputSchema } from '../extensions/structured-output/output-options.ts';
import { anObject, checkOption } from '../options/option-rules.ts';
import { assertContextId } from '../stores/messages/stored-messages.ts';
import { type Admission, AgentLoop } from '../tasks/agent-loop.ts';
import type { SubmittedTask } from '../tasks/create-task.ts';
import type { Steered } from '../tasks/steered.ts';
import type { Turn } from '../tasks/turn.ts';
import type { TurnStream } from '../tasks/turn-stream.ts';
import { type AgentNotice, type AgentState, checkListener, type NoticeOf } from './agent-events.ts';
import {
  type AgentChanges,
  type AgentResumeOptions,
  type AgentRetryOptions,
  type AgentSettings,
  type AgentSubmitOptions,
  type AgentTurnOptions,
  type KnownTools,
  messagesOf,
  type OutputOf,
  predecessorOf,
  type RegenerateOptions,
  type TurnInput,
} from './agent-options.ts';
import { givenTo, type PathMessage, type PathQuery, storedPath } from './branches.ts';
import { type BetweenTurns, betweenTurnsOf } from './conversation.ts';
import { closed, Lifecycle, TurnSpanContext, type UsageSummary, UsageTally } from './lifecycle.ts';
import { RunningTurns } from './open-turns.ts';
import { type AgentObserveOptions, type RecoverOptions, Recovery, type TasksOptions } from './recovery.ts';
import { givesWay, type ResolvedAgent } from './resolve-agent.ts';
import { type AgentInternals, TurnConfigs } from './turn-configs.ts';
import { type CancelOutside, cancelOutside, TurnControls } from './turn-controls.ts';

type Derive = (changes: AgentChanges, internals: AgentInternals) => Agent;

/**
 * Runs turns in many contexts: loads the history of the context, runs the loop, and saves the messages that the turn added, also if it failed or was
 * cancelled. A context has one turn at a time; contexts run concurrently.
 * `T`: the value of its turns besides text. `C`: the `context` of its turns. `X`: the tools whose calls have typed events.
 *
 * Memory: the options, the running turns, and the content of an in-memory `messageStore`.
 */
export class Agent<T = unknown, C = unknown, X extends Tool = Tool> {
  /** Never there: see `ComparedByMembers`. */
  declare readonly '~tools'?: ComparedByMembers<X>;
  /** Names it in journals, events and spans: turns are resumed by an agent with the same id. */
  readonly id: string;
  readonly name: string;
  /** The context of turns without a `contextId`. */
  readonly contextId: string;
  /** As passed, without tools and their dependencies. */
  readonly options: AgentSettings;
  readonly #resolved: ResolvedAgent;
  readonly #derive: Derive;
  readonly #internals: AgentInternals;
  readonly #running: RunningTurns;
  readonly #life: Lifecycle;
  readonly #controls: TurnControls;
  readonly #usage: UsageTally;
  /** Absent if contexts are not compacted. */
  readonly #between: BetweenTurns | undefined;
  readonly #configs: TurnConfigs;
  #recovery: Recovery | undefined;

  private constructor(resolved: ResolvedAgent, internals: AgentInternals, derive: Derive) {
    this.id = resolved.id;
    this.name = resolved.name;
    this.contextId = resolved.settings.contextId ?? internals.contextId ?? resolved.contextId;
    this.options = resolved.settings;
    this.#resolved = resolved;
    this.#derive = derive;
    this.#internals = internals;
    this.#usage = internals.usage ?? new UsageTally();
    this.#running = internals.running ?? new RunningTurns();
    const { members } = internals;
    const compacting = members ? { ...members.compactedBy, messageStore: resolved.messageStore } : resolved;
    this.#between = betweenTurnsOf(compacting, (usage) => {
      this.#usage.addUsage(usage);
      members?.count([{ agentId: members.compactedBy.id, usage }]);
    });
    const { id: agentId, settings } = resolved;
    this.#life = new Lifecycle({ agentId, running: this.#running, between: this.#between, logger: settings.logger });
    if (internals.relay) this.#life.events$.subscribe(internals.relay);
    const parts = { running: this.#running, life: this.#life, usage: this.#usage, between: this.#between };
    this.#configs = new TurnConfigs({ resolved, internals, ...parts });
    this.#controls = new TurnControls({
      running: this.#running,
      config: this.#configs.config,
      newId: () => this.#newId(),
    });
  }

  /** @internal */
  static made(resolved: ResolvedAgent, internals: AgentInternals, derive: Derive): Agent {
    return new Agent(resolved, internals, derive);
  }

  /** The state of the agent in this process: `busy` while one of its turns runs here. */
  get state(): AgentState {
    return this.#life.state;
  }

  /** The tools of its turns, unless a turn overrides dependencies. */
  get toolProviders(): readonly ToolProvider[] {
    return this.#configs.config.toolProviders ?? [];
  }

  /** Live events of all turns, and those of the agent. Never errors; completes when the agent is closed. */
  get events$(): Observable<AgentNotice<X>> {
    return this.#notices$();
  }

  /**
   * The usage of the model calls of this agent in this process: in its own turns, as a sub-agent, and in turns of a team; counted
   * when a turn ends here. For a team's agent (`team.asAgent()`), that of its turns with all their child turns. `undefined` if
   * `enableUsageTracking` is off.
   */
  get usage(): UsageSummary | undefined {
    return this.options.enableUsageTracking === false ? undefined : this.#usage.summary;
  }

  /** Whether a turn of this context runs here. */
  isBusy(contextId: string = this.contextId): boolean {
    return this.#running.ahead(contextId, '') !== undefined;
  }

  /**
   * Calls `listener` with each event of that kind, until the returned function is called. Exceptions of the listener are logged. Errors:
   * `INVALID_INPUT` for an unknown kind.
   */
  on<K extends AgentNotice['kind']>(kind: K, listener: (event: NoticeOf<K, X>) => void): () => void {
    checkListener('agent', { kind, listener });
    return this.#life.on(this.#notices$(), kind, listener);
  }

  /**
   * Runs one turn, as `AgentLoop.startTurn` does, after the history of its context. Throws `AGENT_BUSY` while another turn of the context
   * runs here and `busy` is `'reject'`, `SHUTDOWN` once the agent is closed, and `INVALID_INPUT`. If the turn ahead runs in another process,
   * is suspended or was abandoned, this turn errors with `AGENT_BUSY`, and nothing is recorded.
   */
  startTurn(input: TurnInput, options?: AgentTurnOptions<C>): Turn<T, X>;
  startTurn(input: TurnInput, options: AgentTurnOptions<C> = {}): Turn {
    this.#life.open();
    const messages = messagesOf(input);
    if (typeof options !== 'object' || options === null)
      throw new AgentLoopError('INVALID_INPUT', 'The options of a turn are an object; leave them out for none.');
    const { after, ...rest } = options;
    return this.#startAt(messages, rest, predecessorOf(after));
  }

  #startAt(
    messages: readonly Message[],
    options: Omit<AgentTurnOptions<C>, 'after'>,
    follows: Predecessor | undefined,
  ): Turn {
    const { dependencies, parentContext: parent, metadata, ...rest } = options;
    const isChild = options.parent !== undefined;
    const { taskId = this.#newId(), contextId = this.contextId } = options;
    if (!isChild) assertContextId(contextId);
    const same = isChild ? undefined : this.#running.get(taskId);
    if (same && !this.#configs.config.taskStateStore) return same.turn;
    const steered =
      same || isChild || follows
        ? undefined
        : this.#running.steerInstead({ contextId, taskId }, messages, this.#resolved.busy);
    if (steered) return steered;
    const parentContext = this.#spanOf(
      { taskId, contextId, agentId: options.agentId ?? this.id },
      { messages, parent },
    );
    const loop = isChild ? new AgentLoop(this.#configs.ofChild) : this.#configs.loopWith(dependencies);
    const metadataOfTurn = { ...this.options.metadata, ...metadata };
    const start = { ...rest, taskId, contextId: this.#named(options), parentContext, metadata: metadataOfTurn };
    const admission = isChild ? {} : this.#configs.admission(contextId, taskId);
    const turn = loop.startAdmitted(messages, start, { ...admission, contextId, follows });
    this.#life.watch(turn, parentContext);
    return turn;
  }

  /**
   * Answers the input of an ended turn anew, or an edited one, as a new turn that follows what came before that one: the context gets a branch, which
   * later turns continue. The turns and messages after that place stay stored. `contextId`: default that of the turn's journal, else of the agent.
   * Rejects with `NOT_FOUND` if the context has no messages of the turn; other errors as `startTurn`.
   */
  regenerate(taskId: string, options?: RegenerateOptions<C>): Promise<Turn<T, X>>;
  async regenerate(taskId: string, options: RegenerateOptions<C> = {}): Promise<Turn> {
    this.#life.open();
    const { messageStore } = this.#resolved;
    const { taskStateStore: store } = this.#configs.config;
    const contextId = options.contextId ?? (await store?.describe(taskId))?.contextId ?? this.contextId;
    const given = await givenTo(taskId, { contextId, messages: messageStore, journals: store });
    if (!given) {
      const message = `Context "${contextId}" has no turn "${taskId}"; give the id of one of its turns.`;
      throw new AgentLoopError('NOT_FOUND', message, { taskId });
    }
    const { input = given.input, ...rest } = options;
    this.#life.open();
    return this.#startAt(messagesOf(input), { ...rest, contextId }, { before: given.taskId });
  }

  /**
   * @internal The newest stored messages of the conversation, the oldest first: of those of all branches that are at most `limit`, the path to the last
   * one, to the last one that follows the message `version`, or to what the turn `before` follows.
   */
  async conversation(
    contextId: string,
    { before, ...query }: Omit<PathQuery, 'follows'> & { readonly before?: string | undefined },
  ): Promise<readonly PathMessage[]> {
    const [first] = before === undefined ? [] : ((await this.#configs.config.taskStateStore?.read(before)) ?? []);
    const follows = first?.type === 'turn.started' ? first.follows : undefined;
    return storedPath(this.#resolved.messageStore, contextId, { ...query, follows });
  }

  /** The result of one turn; rejects as `Turn.result` does. */
  async run(input: TurnInput, options: AgentTurnOptions<C> = {}): Promise<TurnResult<T>> {
    return this.startTurn(input, options).result();
  }

  /** The events of one turn; leaving the iteration cancels the turn. */
  stream(input: TurnInput, options: AgentTurnOptions<C> = {}): AsyncIterable<AgentEvent<X>> {
    return this.startTurn(input, options);
  }

  /**
   * Creates a turn and runs nothing, as `AgentLoop.submit` does: `resume` of this agent starts it, in any process. Its place in the
   * context is reserved now, so turns run in the order of their submission; history, prompt and tools are those at its start, and
   * `context`, `authContext` and dependencies those of the resume. `busy: 'reject'` refuses it with `AGENT_BUSY`, and deletes it, if
   * another turn of the context is open. With `'queue'` and `'steer'` it waits for the turns ahead; with `'steer'` it is refused while one
   * of them is suspended. The agent of a team submits turns of the team. Errors: as there, and `SHUTDOWN` once the agent is closed.
   */
  async submit(input: TurnInput, options: AgentSubmitOptions = {}): Promise<SubmittedTask> {
    this.#life.open();
    const { taskId = this.#newId() } = options;
    const given = { ...options, taskId, contextId: this.#named(options) };
    return this.#configs.submit(messagesOf(input), given, this.contextId);
  }

  /**
   * Resumes a turn in any process, as `AgentLoop.resume` does; without a store it resumes a turn that is paused here, as `Turn.resume` does. Errors:
   * as there, and `SHUTDOWN` once the agent is closed.
   */
  resume(taskId: string, options?: AgentResumeOptions<C>): Turn<T, X>;
  resume(taskId: string, options: AgentResumeOptions = {}): Turn {
    return this.resumeAdmitted(taskId, options);
  }

  /** @internal As `resume`, of a worker. `admission`: default the one of the agent. */
  resumeAdmitted(taskId: string, options: AgentResumeOptions, admission?: Pick<Admission, 'onLease'>): Turn {
    this.#life.open();
    const paused = this.#configs.config.taskStateStore || options.parent ? undefined : this.#running.get(taskId)?.turn;
    if (paused) {
      paused.resume();
      return paused;
    }
    const { dependencies, parentContext: parent, ...rest } = options;
    const ids = { taskId, contextId: options.contextId ?? this.contextId, agentId: this.id };
    const parentContext = this.#spanOf(ids, { parent });
    const isChild = options.parent !== undefined;
    const config = isChild ? this.#configs.ofChild : this.#configs.with(dependencies);
    const resumed = { ...rest, parentContext };
    const turn = AgentLoop.resumeAdmitted(
      taskId,
      config,
      resumed,
      isChild ? {} : (admission ?? this.#configs.resumption),
    );
    this.#life.watch(turn, parentContext);
    return turn;
  }

  /** Continues a failed or cancelled turn as a new task, as `AgentLoop.retry` does. Errors: as there, and `SHUTDOWN` once the agent is closed. */
  retry(taskId: string, options?: AgentRetryOptions<C>): Turn<T, X>;
  retry(taskId: string, options: AgentRetryOptions<C> = {}): Turn {
    this.#life.open();
    const { dependencies, parentContext: parent, taskId: newTaskId = this.#newId(), ...rest } = options;
    const ids = { taskId: newTaskId, contextId: options.contextId ?? this.contextId, agentId: this.id };
    const parentContext = this.#spanOf(ids, { parent, isNew: true });
    const config = this.#configs.with(dependencies);
    const turn = AgentLoop.retry(taskId, config, { ...rest, taskId: newTaskId, parentContext });
    this.#life.watch(turn, parentContext);
    return turn;
  }

  /**
   * Suspends a turn of this agent as soon as nothing of it runs, here or in another process. Errors: `NOT_FOUND` if it does not exist,
   * `TERMINAL` if it has ended.
   */
  async pause(taskId: string, reason = 'paused'): Promise<void> {
    return this.#controls.pause(taskId, reason);
  }

  /**
   * Adds messages to a running turn, here or in another process, before its next model call; a turn that would have ended continues, unless it is
   * at its limit: they then count for the next turn of the context. The result says which. Errors as `pause`.
   */
  async steer(taskId: string, input: TurnInput): Promise<Steered> {
    return this.#controls.steer(taskId, messagesOf(input));
  }

  /**
   * Cancels a turn, here or in another process, and its child turns; resolves once it is over. Errors: `NOT_FOUND`,
   * `UNAVAILABLE`.
   */
  async cancel(taskId: string, reason = 'canceled'): Promise<void> {
    return this.#controls.cancel(taskId, reason);
  }

  /**
   * Watches a turn of this agent in any process, as `AgentLoop.observe` does; with `recover` it also resumes a turn whose owner is gone. Errors:
   * as there, and `INVALID_CONFIG` without a `taskStateStore`.
   */
  observe(taskId: string, options?: AgentObserveOptions<C>): TurnStream<AgentEvent<X>>;
  observe(taskId: string, options: AgentObserveOptions = {}): TurnStream<AgentEvent> {
    return this.recovery.observe(taskId, options);
  }

  /**
   * The turns of a context that this agent started, the newest first, without their child turns. Without a `contextId`, here and in the options
   * of the agent, those of all its contexts. Errors: as `observe`.
   */
  async tasks(contextId?: string, options: TasksOptions = {}): Promise<readonly TaskSummary[]> {
    return this.recovery.tasks(contextId ?? this.options.contextId, options);
  }

  /**
   * Resumes turns of this agent that have no owner, those of one context in order, and cancels child turns whose parent
   * turn has ended. Skips turns that another process acquires first. Call it at start and periodically. Returns the number of resumed turns.
   * Errors: `UNAVAILABLE`; `INVALID_CONFIG` without a `taskStateStore`.
   */
  async recover(options: RecoverOptions = {}): Promise<number> {
    return this.recovery.recover(options);
  }

  /**
   * Refuses new turns, cancels those that run here, and resolves once they are over. Once `shutdown` is aborted it releases them instead, so
   * that another process resumes them. Turns that another process runs continue there.
   */
  async close(): Promise<void> {
    const running = this.#running.all();
    this.#life.close();
    // Child turns may have later listeners of `shutdown` than the one that calls this.
    await Promise.resolve();
    await Promise.all(running.map((turn) => turn.leave(closed)));
    await this.#between?.close();
    this.#life.complete();
  }

  /**
   * Creates an agent with changed options, and the same context and stored history; listeners and running turns stay
   * with this one. Errors as `agent`.
   */
  with<Y extends Tool<unknown, C> = X, P extends readonly ToolProvider[] | undefined = undefined>(
    changes: AgentChanges<never, C, Y> & { readonly toolProviders?: P },
  ): Agent<T, C, KnownTools<Y, P>>;
  with<
    const S extends OutputSchema,
    Y extends Tool<unknown, C> = X,
    P extends readonly ToolProvider[] | undefined = undefined,
  >(changes: AgentChanges<S, C, Y> & { readonly toolProviders?: P }): Agent<OutputOf<S>, C, KnownTools<Y, P>>;
  with(changes: AgentChanges): Agent {
    return this.withInternals(changes, {});
  }

  /** @internal As `with`; this agent counts its usage and emits the events of its turns. */
  variant(changes: AgentChanges): Agent<T, C, X>;
  variant(changes: AgentChanges): Agent {
    const relay = (notice: AgentNotice) => {
      if (notice.kind !== 'agent:state') this.#life.tell(notice);
    };
    return this.withInternals(changes, { usage: this.#usage, relay });
  }

  #notices$(): Observable<AgentNotice<X>>;
  #notices$(): Observable<AgentNotice> {
    return this.#life.events$;
  }

  /** @internal For a resume that errors with `AGENT_BUSY` if another turn of the context is ahead. */
  get inOrder(): Admission {
    return this.#configs.inOrder;
  }

  /** @internal */
  get recovery(): Recovery {
    const {
      taskStateStore: store,
      clock = systemClock,
      storeDeadlineMs = 30_000,
      leaseMs = 30_000,
      logger,
      shutdown,
    } = this.#configs.config;
    if (!store) throw invalidConfig(`agent "${this.id}" has no taskStateStore`, 'set one, such as a LmdbStateStore');
    const runsHere = (taskId: string) => this.#running.get(taskId) !== undefined;
    const resume = (taskId: string, options: AgentResumeOptions) => this.resumeAdmitted(taskId, options);
    const { messageStore } = this.#resolved;
    const stores = { store, messageStore, clock, storeDeadlineMs, leaseMs, logger, shutdown };
    this.#recovery ??= new Recovery({ ...stores, agentId: this.id, runsHere, resume });
    return this.#recovery;
  }

  /** @internal */
  get resolved(): ResolvedAgent {
    return this.#resolved;
  }

  /** @internal Whether its turns are those of a team. */
  get isTeam(): boolean {
    return this.#internals.members !== undefined;
  }

  /** @internal */
  get runningTurns(): readonly Turn[] {
    return this.#running.all();
  }

  /** @internal Cancels the remote work of a turn of this agent without an owner. */
  get cancelOutside(): CancelOutside {
    return cancelOutside(this.#configs.config);
  }

  /** @internal */
  countUsage(used: Usage): void {
    this.#usage.addUsage(used);
  }

  /** @internal */
  withInternals(changes: AgentChanges, internals: AgentInternals): Agent {
    checkOption('the changes of an agent', changes, { ...anObject, cure: 'write agent.with({ … })' });
    const { name } = this;
    const { contextId } = this.options;
    const { messageStore } = this.#resolved;
    const id = changes.name === undefined || this.options.id !== undefined ? { id: this.id } : {};
    const kept = changes.taskStateStore && givesWay(messageStore) ? {} : { messageStore };
    const named = contextId === undefined ? {} : { contextId };
    return this.#derive({ ...id, name, ...named, ...kept, ...changes }, { contextId: this.contextId, ...internals });
  }

  #spanOf(
    ids: ConstructorParameters<typeof TurnSpanContext>[0]['ids'],
    {
      messages = [],
      parent = activeContext.active(),
      isNew = false,
    }: {
      readonly messages?: readonly Message[];
      readonly parent: AgentTurnOptions['parentContext'];
      readonly isNew?: boolean;
    },
  ): TurnSpanContext {
    const { description } = this.options;
    return new TurnSpanContext({
      config: this.#configs.config,
      ids,
      agentName: this.name,
      description,
      messages,
      parent,
      isNew,
    });
  }

  /** The context that somebody chose: the one made up for this agent is a default, and no condition on an existing task. */
  #named({ contextId = this.options.contextId }: Pick<AgentTurnOptions, 'contextId'>): string | undefined {
    return contextId;
  }

  #newId(): string {
    return this.#configs.config.generateId?.() ?? crypto.randomUUID();
  }
}
