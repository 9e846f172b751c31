import { ROOT_CONTEXT } from '@opentelemetry/api';
import { defer, type Observable } from 'rxjs';
import type { TaskStateStore } from '../stores/interfaces.ts';
import { AbortScope } from './abort-scope.ts';
import { type AnswerOptions, answerTask } from './answer-task.ts';
import { type CancelOptions, cancelTask } from './cancel-task.ts';
import type { Answers } from './check-answers.ts';
import { checkMessages } from './check-messages.ts';
import { checkResumeOptions, checkStartOptions, checkTaskId } from './check-start-options.ts';
import { type Clock, systemClock } from './clock.ts';
import type { AgentLoopConfig, StartOptions } from './config.ts';
import { AgentLoopError } from './errors.ts';
import type { AgentEvent } from './events.ts';
import { type ForkedTask, type ForkOptions, forkTask } from './fork-task.ts';
import { Inbox } from './inbox.ts';
import { incomingMessage } from './incoming-message.ts';
import type { Message } from './messages.ts';
import { observeTurn } from './observe-turn.ts';
import { eventsBehind, projectEvents } from './operators/event-operators.ts';
import { checkStore, type ResolvedConfig, resolveConfig } from './resolve-config.ts';
import { type RunRequest, resumeRun, startRun, type TurnStart } from './run-turn.ts';
import type { Signal } from './signals.ts';
import { Turn } from './turn.ts';

/** What a resumed turn is given anew; everything else is in its journal. */
export interface ResumeOptions
  extends Pick<StartOptions, 'contextId' | 'authContext' | 'parentContext' | 'signal' | 'detached'> {
  /** Answers to the questions of a suspended turn, by their `id`: `{ '1:0': { approved: true } }`. */
  readonly answers?: Answers;
}

export interface ObserveOptions {
  readonly store: TaskStateStore;
  /** The `cursor` of the last event that is known; events behind it are given. Default: from the start. */
  readonly from?: string;
  /** How long to wait for a store that does not answer. Milliseconds; default 30,000. */
  readonly storeDeadlineMs?: number;
  readonly clock?: Clock;
}

/** Runs turns: the model is called, the tools it asks for run, the results go back, until the model is done. */
export class AgentLoop {
  readonly #config: ResolvedConfig;

  /** Errors: `INVALID_CONFIG`, naming the option and the cure. */
  constructor(config: AgentLoopConfig) {
    this.#config = resolveConfig(config);
  }

  /**
   * One turn, from the caller's messages to the final answer. Nothing runs before the turn is subscribed to, unless it is `detached`.
   * With a `taskId` that the store knows it attaches to the turn there is. Errors: `INVALID_INPUT` and `EXTENSION_FAILED` (`beforeMessage`) at once; those of the turn
   * through the turn.
   */
  startTurn(messages: readonly Message[], options: StartOptions = {}): Turn {
    const config = this.#config;
    const start = turnStart(config, messages, options);
    const { taskId, contextId } = start;
    const execution = (request: RunRequest) => startRun(request, { start, contextId: options.contextId });
    return newTurn(config, options, { taskId, contextId, execution });
  }

  /**
   * Goes on with a turn in any process: finished tool calls are not repeated, the rest is done. The events of the records so far come
   * first. A turn that has ended replays how it did, and so does one that waits for answers and is given none. The turn is lost with
   * `NOT_FOUND`, `BUSY` while somebody else holds it, `CONFLICT` where `contextId` is not the task's or an answer differs from the one
   * that was given before, and `INVALID_INPUT` for an answer to nothing or of the wrong form.
   */
  static resume(taskId: string, config: AgentLoopConfig, options: ResumeOptions = {}): Turn {
    const resolved = resolveConfig(config);
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
    return newTurn(resolved, options, { taskId, contextId: contextId ?? '', execution });
  }

  /**
   * Watches a turn of any process: the events of its records from `from` on, the text of an open model call, then what happens.
   * Completes when the turn ends or suspends. Errors: `NOT_FOUND`, `UNAVAILABLE`. Unsubscribing leaves the turn alone.
   */
  static observe(taskId: string, options: ObserveOptions): Observable<AgentEvent> {
    checkTaskId(taskId);
    const { store, clock = systemClock, storeDeadlineMs: ms = 30_000 } = options ?? {};
    checkStore('store', store);
    const signals$ = observeTurn(store, taskId, { clock, ms });
    return signals$.pipe(projectEvents({ checkpoints: true, now: () => clock.now() }), eventsBehind(options.from));
  }

  /**
   * Answers questions of a turn of any process: its owner is told; where it has none, the answers are written here, and
   * `AgentLoop.resume` goes on. Resolves once they are recorded. Errors: `INVALID_INPUT`, `CONFLICT`, `NOT_FOUND`, `TERMINAL`,
   * `UNAVAILABLE`, and `BUSY` where the owner does not record them in time.
   */
  static answer(taskId: string, options: AnswerOptions): Promise<void> {
    checkTaskId(taskId);
    checkStore('store', options?.store);
    return answerTask(taskId, options);
  }

  /**
   * Cancels a turn of any process: its owner is told; where it has none, its end is written here. Resolves once the turn is over, or
   * after `deadlineMs`. Errors: `NOT_FOUND`, `UNAVAILABLE`.
   */
  static cancel(taskId: string, options: CancelOptions): Promise<void> {
    checkTaskId(taskId);
    checkStore('store', options?.store);
    return cancelTask(taskId, options);
  }

  /**
   * Starts a new task from the first iterations of another, with edits; `AgentLoop.resume` runs it. Errors: `NOT_FOUND`;
   * `INVALID_INPUT`, naming what there is to cut and to edit; `CONFLICT` where the new id is taken; what the store says.
   */
  static async fork(taskId: string, options: ForkOptions): Promise<ForkedTask> {
    checkTaskId(taskId);
    return forkTask(taskId, options);
  }
}

interface NewTurn {
  readonly taskId: string;
  readonly contextId: string;
  readonly execution: (request: RunRequest) => Observable<Signal>;
}

function newTurn(config: ResolvedConfig, options: StartOptions & Pick<ResumeOptions, 'answers'>, turn: NewTurn): Turn {
  const scope = new AbortScope();
  const inbox = new Inbox((message) => incomingMessage(config.hooks.beforeMessage, message));
  const { parentContext = ROOT_CONTEXT, authContext, signal, answers = {} } = options;
  const request = { config, scope, inbox, parentContext, authContext, answers };
  return Turn.of({
    taskId: turn.taskId,
    contextId: turn.contextId,
    execution$: defer(() => {
      if (signal) scope.follow(signal);
      return turn.execution(request);
    }),
    scope,
    inbox,
    projection: { checkpoints: config.taskStateStore !== undefined, now: () => config.clock.now() },
    detached: options.detached ?? false,
  });
}

function turnStart(config: ResolvedConfig, messages: readonly Message[], options: StartOptions): TurnStart {
  checkMessages(messages);
  checkStartOptions(options);
  const { systemPrompt, maxIterations, metadata } = options;
  return {
    taskId: options.taskId ?? config.generateId(),
    contextId: options.contextId ?? config.generateId(),
    agentId: options.agentId ?? config.agentId,
    messages: messages.map((message) => incomingMessage(config.hooks.beforeMessage, message)),
    settings: {
      ...(systemPrompt === undefined ? {} : { systemPrompt }),
      ...(maxIterations === undefined ? {} : { maxIterations }),
    },
    ...(metadata === undefined ? {} : { metadata }),
  };
}
