import { context as activeContext } from '@opentelemetry/api';
import { defer, finalize, from, Observable, switchMap } from 'rxjs';
import {
  type AgentEvent,
  type AgentLoopConfig,
  AgentLoopError,
  checkInput,
  checkMessages,
  type Message,
  type StartOptions,
  type TaskStateStore,
  type ToolListContext,
  turnCallSettingsOf,
} from '../core/contracts/index.ts';
import type { Answers, Predecessor, Signal, TurnStart } from '../core/journal/index.ts';
import type { ResolvedConfig } from '../core/options/index.ts';
import { Inbox, incomingMessage, ParentTurn } from '../core/ownership/index.ts';
import { markOpening, type OnLease, type RunRequest, resumeRun, startRun } from '../core/turn/index.ts';
import { resolveConfig } from '../options/config.ts';
import { assertKnownOptions, checkStore, type OptionNames } from '../options/option-rules.ts';
import {
  checkResumeOptions,
  checkRetryOptions,
  checkStartOptions,
  checkSubmitOptions,
  checkTaskId,
  type ForkOptions,
} from '../options/turn-options.ts';
import { childConfig } from './child-turn.ts';
import { type ForkedTask, forkTask, type SubmitOptions, type SubmittedTask, submitTask } from './create-task.ts';
import { retryTask } from './retry-task.ts';
import { type AnswerOptions, answerTask, type CancelOptions, cancelTask } from './task-commands.ts';
import { Turn } from './turn.ts';
import { type ObserveOptions, observeEvents, type TurnStream } from './turn-stream.ts';

/** Options of a resume. All other settings of the turn are in its journal. */
export interface ResumeOptions
  extends Pick<
    StartOptions,
    'contextId' | 'authContext' | 'context' | 'parentContext' | 'signal' | 'detached' | 'parent'
  > {
  /** Answers to the questions of a suspended turn, by their `id`: `{ '1:0': { approved: true } }`. */
  readonly answers?: Answers | undefined;
  /**
   * If another owner runs the turn: `'fail'` (default) errors this turn with `BUSY`; `'wait'` sends the `answers` to that owner,
   * watches the turn, and takes it over once the lease ends.
   */
  readonly onBusy?: 'fail' | 'wait' | undefined;
  /** Aborting it drains this turn, as `shutdown` of the configuration drains all turns: another process can resume it at once. */
  readonly shutdown?: AbortSignal | undefined;
  /** The `cursor` of the last received event; only later events are emitted. Default: from the start. */
  readonly from?: string | undefined;
}

/** Options of a retry. All other settings of the turn are in the journal of the failed one. */
export interface RetryTurnOptions
  extends Pick<
    StartOptions,
    'taskId' | 'contextId' | 'authContext' | 'context' | 'parentContext' | 'signal' | 'detached'
  > {}

/** Runs turns: calls the model, runs the tools that it requests, and returns their results to it, until the model requests no more. */
export class AgentLoop {
  readonly #config: ResolvedConfig;

  /** Errors: `INVALID_CONFIG`, naming the option and the cure. */
  constructor(config: AgentLoopConfig) {
    this.#config = resolveConfig(config);
  }

  /**
   * Runs one turn, from the caller's messages to the final answer. Nothing runs before the turn is subscribed to, unless it is `detached`.
   * With the `taskId` of an existing task it attaches to that turn: it resumes a turn without an owner, and watches a turn that another
   * process runs, to take it over once its lease ends. Throws `INVALID_INPUT`, also for an empty array, and `EXTENSION_FAILED`
   * (`beforeMessage`); all other errors arrive through the turn.
   */
  startTurn(messages: readonly Message[], options: StartOptions = {}): Turn {
    return this.startAdmitted(messages, options);
  }

  /** @internal As `startTurn`, for an agent. */
  startAdmitted(messages: readonly Message[], options: StartOptions, admission?: Admission): Turn {
    checkMessages(messages);
    checkStartOptions(options);
    const config = configFor(this.#config, options);
    // The messages of an admitted turn come from an agent, which has checked them, or from a journal of version 0.1, which allowed an empty array.
    if (messages.length === 0 && !admission) checkInput(messages);
    const start = turnStartOf(config, messages, options, admission);
    const { taskId, contextId } = start;
    const { wrapRun, onLease } = admission ?? {};
    const execution = (request: RunRequest) => {
      const run = () => startRun(request, { start, contextId: options.contextId });
      return wrapRun ? wrapRun(defer(run)) : run();
    };
    return createTurn(config, options, { taskId, contextId, execution, onLease });
  }

  /**
   * Creates the journal of a turn and runs nothing: the first resume of the task, in any process, starts it. The journal contains the messages,
   * the settings, the metadata, the retry plan, and the caller's span, to which the first run links. Idempotent: if the `taskId` exists, nothing
   * is written and `created` is false. Errors: `INVALID_INPUT`, also for an empty array; `EXTENSION_FAILED` (`beforeMessage`);
   * `INVALID_CONFIG` without a store; `CONFLICT` if the task has other messages, or another agent or context; `FULL`, `UNAVAILABLE`.
   */
  async submit(messages: readonly Message[], options: SubmitOptions = {}): Promise<SubmittedTask> {
    return this.submitAdmitted(messages, options);
  }

  /** @internal As `submit`, for an agent. */
  async submitAdmitted(
    messages: readonly Message[],
    options: SubmitOptions,
    admission: Pick<Admission, 'contextId' | 'follows'> = {},
  ): Promise<SubmittedTask> {
    const { taskStateStore: store, clock, storeDeadlineMs: ms } = this.#config;
    if (!store) {
      throw new AgentLoopError(
        'INVALID_CONFIG',
        'AgentLoop.submit needs taskStateStore; give a store that the process which runs the turn opens, too.',
      );
    }
    checkInput(messages);
    checkSubmitOptions(options);
    const { contextId, parentContext = activeContext.active() } = options;
    const start = turnStartOf(this.#config, messages, options, admission);
    return submitTask({ store, deadline: { clock, ms }, start, contextId, parentContext });
  }

  /**
   * Resumes a turn in any process: finished tool calls are not repeated, the rest is done. First emits the events of the records so far.
   * A turn that has ended only replays, and so does a turn that waits for answers if none are passed. Child turns are resumed by
   * their parent turn. The turn errors with `NOT_FOUND`; `BUSY` as `onBusy` says; `CONFLICT` if `contextId` is not the task's, if the task
   * is the child turn of an open turn, or if an answer differs from the recorded one; and `INVALID_INPUT` for an answer
   * to no open question or of the wrong form.
   */
  static resume(taskId: string, config: AgentLoopConfig, options: ResumeOptions = {}): Turn {
    return AgentLoop.resumeAdmitted(taskId, config, options);
  }

  /** @internal As `resume`, for an agent. */
  static resumeAdmitted(
    taskId: string,
    config: AgentLoopConfig,
    options: ResumeOptions,
    { onLease }: Pick<Admission, 'onLease'> = {},
  ): Turn {
    const resolved = configFor(resolveConfig(config), options);
    const { taskStateStore: store } = resolved;
    if (!store) {
      throw new AgentLoopError(
        'INVALID_CONFIG',
        'AgentLoop.resume needs taskStateStore: the store that the turn was started with.',
      );
    }
    checkTaskId(taskId);
    checkResumeOptions(options);
    const { contextId } = options;
    const execution = (request: RunRequest) => resumeRun(request, store, { taskId, contextId });
    return createTurn(resolved, options, { taskId, contextId: contextId ?? '', execution, onLease });
  }

  /**
   * Continues a failed or cancelled turn from its last good record, as a new task that names the old one (`forkedFrom`): successful
   * calls are not repeated, and limits count from zero. A failed call runs again; one whose outcome is unknown is settled by its
   * tool's `onInDoubt`, under its original idempotency key. The same holds for child turns of such calls. `taskId` in the options is the new
   * task's id: repeating it attaches to that task. The turn errors with `NOT_FOUND`; `CONFLICT` if the task has not ended, is a child turn, is
   * in another context, or if the new id is taken; and `INVALID_INPUT` if it has completed.
   */
  static retry(taskId: string, config: AgentLoopConfig, options: RetryTurnOptions = {}): Turn {
    const resolved = resolveConfig(config);
    const { taskStateStore: store, clock } = resolved;
    if (!store) {
      throw new AgentLoopError(
        'INVALID_CONFIG',
        'AgentLoop.retry needs taskStateStore: the store of the turn that failed.',
      );
    }
    checkTaskId(taskId);
    checkRetryOptions(options);
    const { contextId, taskId: newTaskId = resolved.generateId() } = options;
    const execution = (request: RunRequest) => {
      const opened = markOpening(store, newTaskId);
      return from(retryTask(taskId, { store, newTaskId, contextId, clock, signal: request.inbox.scope.signal })).pipe(
        // Once the resume has its own mark.
        finalize(opened),
        switchMap(() => resumeRun(request, store, { taskId: newTaskId, contextId })),
      );
    };
    return createTurn(
      resolved,
      { ...options, onBusy: 'wait' },
      { taskId: newTaskId, contextId: contextId ?? '', execution },
    );
  }

  /**
   * Watches a turn of any process: emits the events of its records after `from`, the text of an open model call, then live events.
   * Completes when the turn ends or suspends. Errors: `NOT_FOUND`, `UNAVAILABLE`. Unsubscribing does not affect the turn. Memory: the fold of
   * the turn; with `descendants` also that of each open child turn. Also for `for await`, as a `Turn` is: a slow reader gets adjacent
   * text deltas merged into one event.
   */
  static observe(taskId: string, options: ObserveOptions): TurnStream<AgentEvent> {
    if (options) assertKnownOptions('AgentLoop.observe', options, ofObserve);
    return observeEvents(taskId, options);
  }

  /**
   * Answers questions of a turn of any process: sends the answers to its owner; if it has none, writes them here, and
   * `AgentLoop.resume` continues. Resolves once they are recorded. Errors: `INVALID_INPUT`, `CONFLICT` (also for a child turn), `NOT_FOUND`, `TERMINAL`,
   * `UNAVAILABLE`, and `BUSY` if the owner does not record them in time.
   */
  static answer(taskId: string, options: AnswerOptions): Promise<void> {
    checkTaskId(taskId);
    checkStore('store', options?.store);
    assertKnownOptions('AgentLoop.answer', options, ofAnswer);
    return answerTask(taskId, { ...options, root: true });
  }

  /**
   * Cancels a turn of any process, and its child turns: its owner stops it; if it has none, the end records are written here, those of
   * child turns first. Resolves once the turn is over, or after `deadlineMs`. Errors: `NOT_FOUND`, `UNAVAILABLE`.
   */
  static cancel(taskId: string, options: CancelOptions): Promise<void> {
    checkTaskId(taskId);
    checkStore('store', options?.store);
    assertKnownOptions('AgentLoop.cancel', options, ofCancel);
    return cancelTask(taskId, options);
  }

  /**
   * Revokes the lease of a turn, in any process: for an operator who knows that the owner is dead or stuck. The old
   * owner errors with `FENCED` at its next append; `AgentLoop.resume` continues the turn at once, and tools that were running are in
   * doubt, since they may still run. Resolves with false if the turn has no owner or has ended. Errors: `NOT_FOUND`, `UNAVAILABLE`.
   */
  static async breakLease(taskId: string, options: { readonly store: TaskStateStore }): Promise<boolean> {
    checkTaskId(taskId);
    checkStore('store', options?.store);
    return options.store.breakLease(taskId);
  }

  /**
   * Starts a new task from the first iterations of another, with edits; `AgentLoop.resume` runs it. Errors: `NOT_FOUND`;
   * `INVALID_INPUT`, naming the iterations and calls that exist; `CONFLICT` if the new id is taken; errors of the store.
   */
  static async fork(taskId: string, options: ForkOptions): Promise<ForkedTask> {
    checkTaskId(taskId);
    return forkTask(taskId, options);
  }
}

const ofObserve: OptionNames<ObserveOptions> = {
  store: true,
  from: true,
  descendants: true,
  storeDeadlineMs: true,
  clock: true,
};
const ofCancel: OptionNames<CancelOptions> = { store: true, reason: true, deadlineMs: true, clock: true };
const ofAnswer: OptionNames<AnswerOptions> = {
  store: true,
  answers: true,
  deadlineMs: true,
  clock: true,
  commandId: true,
  message: true,
};

interface TurnExecution extends Pick<RunRequest, 'onLease'> {
  readonly taskId: string;
  readonly contextId: string;
  readonly execution: (request: RunRequest) => Observable<Signal>;
}

/** A child turn has the store and the retry plan of its parent. */
function configFor(config: ResolvedConfig, { parent }: Pick<StartOptions, 'parent'>): ResolvedConfig {
  return ParentTurn.isInstance(parent) ? childConfig(config, parent) : config;
}

function createTurn(
  config: ResolvedConfig,
  options: StartOptions & Pick<ResumeOptions, 'answers' | 'onBusy' | 'from' | 'shutdown'>,
  { taskId, contextId, execution, onLease }: TurnExecution,
): Turn {
  const inbox = new Inbox(config.hooks.beforeMessage);
  // Read at the call: at subscription another context may be active.
  const {
    parentContext = activeContext.active(),
    authContext,
    context,
    signal,
    answers = {},
    onBusy = 'fail',
    shutdown,
  } = options;
  const parent = ParentTurn.isInstance(options.parent) ? options.parent : undefined;
  const caller = { parentContext, authContext, context };
  const request = { config, inbox, caller, resume: { answers, onBusy, shutdown }, parent, onLease };
  return Turn.of({
    taskId,
    contextId,
    execution$: new Observable((to) => {
      if (signal) inbox.scope.follow(signal);
      execution(request).subscribe(to);
    }),
    request,
    projection: { checkpoints: config.taskStateStore !== undefined, now: () => config.clock.now() },
    detached: options.detached ?? false,
    from: options.from,
  });
}

function turnStartOf(
  config: ResolvedConfig,
  messages: readonly Message[],
  options: StartOptions & SubmitOptions,
  admission: Pick<Admission, 'contextId' | 'follows'> = {},
): TurnStart {
  const { systemPrompt, maxIterations, metadata, retryPlan = config.retryPlan, tenant, priority, notBefore } = options;
  // With `agents`, the task belongs to the agent of the configuration, whichever agent starts it.
  const named = config.agents && options.agentId !== config.agentId ? options.agentId : undefined;
  return {
    taskId: options.taskId ?? config.generateId(),
    contextId: options.contextId ?? admission.contextId ?? config.generateId(),
    agentId: config.agents ? config.agentId : (options.agentId ?? config.agentId),
    messages: messages.map((message) => incomingMessage(config.hooks.beforeMessage, message)),
    settings: {
      ...(named === undefined ? {} : { agentId: named }),
      ...(systemPrompt === undefined ? {} : { systemPrompt }),
      ...(maxIterations === undefined ? {} : { maxIterations }),
      ...turnCallSettingsOf(options),
      ...(retryPlan === undefined ? {} : { retryPlan }),
      ...(tenant === undefined ? {} : { tenant }),
      ...(priority === undefined ? {} : { priority }),
      ...(notBefore === undefined ? {} : { notBefore }),
    },
    ...(metadata === undefined ? {} : { metadata }),
    ...(admission.follows && { follows: admission.follows }),
  };
}

/** The caller's values that are never journaled, for a child turn of this one. */
export function givenByCaller({
  authContext,
  context,
}: Pick<ToolListContext, 'authContext' | 'context'>): Pick<StartOptions, 'authContext' | 'context'> {
  return { ...(authContext && { authContext }), ...(context !== undefined && { context }) };
}

/** Admission control of a turn. */
export interface Admission {
  /** The context of a new task whose caller passed none. An existing task keeps its own: a default is not compared. */
  readonly contextId?: string;
  /** Where a new turn continues its context, if not at its end. */
  readonly follows?: Predecessor | undefined;
  /**
   * Wraps the run of a new turn, and may refuse it: the returned Observable then errors before any record is written. Called per
   * subscription, as an operator is; not called for a resumed turn.
   */
  readonly wrapRun?: (run$: Observable<Signal>) => Observable<Signal>;
  readonly onLease?: OnLease;
}
