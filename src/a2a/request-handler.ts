import type {
  AgentCard,
  CancelTaskRequest,
  DeleteTaskPushNotificationConfigRequest,
  GetExtendedAgentCardRequest,
  GetTaskPushNotificationConfigRequest,
  GetTaskRequest,
  ListTaskPushNotificationConfigsRequest,
  ListTaskPushNotificationConfigsResponse,
  ListTasksRequest,
  ListTasksResponse,
  SendMessageRequest,
  StreamResponse,
  SubscribeToTaskRequest,
  Task,
  TaskPushNotificationConfig,
} from '@a2a-js/sdk';
import type { A2ARequestHandler, ServerCallContext } from '@a2a-js/sdk/server';
import { catchError, defer, type Observable, switchMap, throwError } from 'rxjs';
import { AgentLoopError, type AuthContext, nameOf } from '../core/contracts/index.ts';
import { within } from '../core/streams/index.ts';
import { CallerTasks } from './caller-tasks.ts';
import {
  activated,
  clientToolsExtension,
  connectionOf,
  extensionEventsExtension,
  requestedCursor,
  toolEventsExtension,
  turnExtension,
} from './extensions.ts';
import {
  type A2ARequestHandlerOptions,
  type ResolvedHandlerOptions,
  resolveHandlerOptions,
} from './handler-options.ts';
import { listTasks } from './list-tasks.ts';
import { clientError, malformed, protocolErrors, taskNotFound, unsupported } from './protocol-errors.ts';
import { QueuedTurns } from './queued-turns.ts';
import { receiveMessage } from './receive-message.ts';
import { ResponseStream } from './response-stream.ts';
import { defaultScopeOf, Scope, unauthenticated } from './scope.ts';
import { ServedTurns } from './served-turns.ts';
import { streamUpdates } from './stream-updates.ts';
import type { TurnExecution } from './turn-execution.ts';

/** The protocol's methods, and what keeps turns going that another process left. */
export interface A2AHandler extends A2ARequestHandler {
  /**
   * Resumes turns of the agent without an owner: those of processes that died. Call it at start and periodically. Returns how
   * many it took: none with a `queue`, whose workers find them. Rejects where the store cannot be asked.
   */
  recover(): Promise<number>;
}

/**
 * Serves an agent by the methods of A2A, for the transports of `@a2a-js/sdk`.
 *
 * A message without a task starts a detached turn: clients come and go. Tasks are read from the agent's journal, so any process that
 * shares its stores answers for all of them. A message that comes twice starts one task. Every method sees the tasks of the caller's
 * scope only; those of others do not exist. Rejections are errors of the protocol without internal words.
 *
 * Memory: what streams hold for clients that are slower than their turns, text merged. Errors: `INVALID_CONFIG`, `MISSING_PACKAGE`.
 */
export function a2aRequestHandler(options: A2ARequestHandlerOptions): A2AHandler {
  return requestHandler(resolveHandlerOptions(options));
}

export function requestHandler(options: ResolvedHandlerOptions): A2AHandler {
  protocolErrors();
  return new RequestHandler(options);
}

class RequestHandler implements A2AHandler {
  readonly #options: ResolvedHandlerOptions;
  readonly #turns: TurnExecution;
  readonly #scopeOf: (context: ServerCallContext) => string | undefined | Promise<string | undefined>;

  constructor(options: ResolvedHandlerOptions) {
    this.#options = options;
    this.#turns = options.queue ? new QueuedTurns(options, options.queue) : new ServedTurns(options);
    this.#scopeOf = options.scopeOf ?? defaultScopeOf(() => this.getAgentCard());
  }

  /** What a function of the options gives, in time. */
  #called<T>(name: string, ask: () => T | Promise<T>): Promise<T> {
    const { callbackTimeoutMs: ms, clock } = this.#options;
    const late = () => {
      const message = `The function ${name} did not answer within ${ms} ms (callbackTimeoutMs).`;
      this.#options.logger?.warn(message);
      return new AgentLoopError('UNAVAILABLE', message, { retryable: true });
    };
    return within({ ms, clock, late }, ask);
  }

  async getAgentCard(): Promise<AgentCard> {
    const { card } = this.#options;
    return typeof card === 'function' ? this.#called('card', card) : card;
  }

  async getAuthenticatedExtendedAgentCard(
    _params: GetExtendedAgentCardRequest,
    context: ServerCallContext,
  ): Promise<AgentCard> {
    const { capabilities } = await this.getAgentCard();
    if (!capabilities?.extendedAgentCard) throw unsupported('The agent has no extended card.');
    const { extendedCard } = this.#options;
    if (!extendedCard) throw new (protocolErrors().ExtendedAgentCardNotConfiguredError)();
    if (!context.user?.isAuthenticated) throw unauthenticated();
    return this.#mapErrors(() => this.#called('extendedCard', () => extendedCard(context)));
  }

  sendMessage(params: SendMessageRequest, context: ServerCallContext): Promise<Task> {
    return this.#mapErrors(async () => {
      activated(context, turnExtension);
      const { historyLength, returnImmediately: immediately = false } = params.configuration ?? {};
      const options = { historyLength: checkedLength(historyLength), immediately, left: connectionOf(context) };
      const tasks = await this.#tasksOf(context);
      return tasks.awaited(await this.#receive(tasks, params, context), options);
    });
  }

  sendMessageStream(
    params: SendMessageRequest,
    context: ServerCallContext,
  ): AsyncGenerator<StreamResponse, void, undefined> {
    const streaming = this.#streaming(context);
    return this.#stream(async () => {
      const historyLength = checkedLength(params.configuration?.historyLength);
      const from = requestedCursor(context);
      const tasks = await this.#tasksOf(context);
      const { taskId, since, beyond } = await this.#receive(tasks, params, context);
      const kept = since === 1 ? [] : await tasks.kept(taskId);
      const options = { ...streaming, from, since, kept, historyLength, untilInput: true, beyond };
      return tasks.signals(taskId, streaming.toolEvents).pipe(streamUpdates(options));
    });
  }

  resubscribe(
    { id }: SubscribeToTaskRequest,
    context: ServerCallContext,
  ): AsyncGenerator<StreamResponse, void, undefined> {
    const streaming = this.#streaming(context);
    return this.#stream(async () => {
      const from = requestedCursor(context);
      const tasks = await this.#tasksOf(context);
      const signals$ = tasks.openSignals(id, streaming.toolEvents);
      const kept = await tasks.kept(id);
      const options = { ...streaming, from, kept, historyLength: undefined, untilInput: false, beyond: 0 };
      return signals$.pipe(streamUpdates(options));
    });
  }

  getTask({ id, historyLength }: GetTaskRequest, context: ServerCallContext): Promise<Task> {
    return this.#mapErrors(async () => {
      const tasks = await this.#tasksOf(context);
      return tasks.shown(await tasks.find(id), { historyLength: checkedLength(historyLength) });
    });
  }

  listTasks(params: ListTasksRequest, context: ServerCallContext): Promise<ListTasksResponse> {
    return this.#mapErrors(async () => listTasks(await this.#tasksOf(context), params));
  }

  cancelTask({ id }: CancelTaskRequest, context: ServerCallContext): Promise<Task> {
    return this.#mapErrors(async () => (await this.#tasksOf(context)).cancel(id));
  }

  createTaskPushNotificationConfig(
    params: TaskPushNotificationConfig,
    context: ServerCallContext,
  ): Promise<TaskPushNotificationConfig> {
    return this.#mapErrors(async () => {
      const push = await this.#push();
      const tasks = await this.#tasksOf(context);
      return tasks.register(push, await tasks.own(params.taskId), params, context.requestedVersion);
    });
  }

  getTaskPushNotificationConfig(
    { taskId, id }: GetTaskPushNotificationConfigRequest,
    context: ServerCallContext,
  ): Promise<TaskPushNotificationConfig> {
    return this.#mapErrors(async () => {
      const push = await this.#push();
      const found = await push.get(await this.#own(taskId, context), id);
      if (!found) throw taskNotFound();
      return found;
    });
  }

  listTaskPushNotificationConfigs(
    { taskId }: ListTaskPushNotificationConfigsRequest,
    context: ServerCallContext,
  ): Promise<ListTaskPushNotificationConfigsResponse> {
    return this.#mapErrors(async () => {
      const push = await this.#push();
      return { configs: [...(await push.list(await this.#own(taskId, context)))], nextPageToken: '' };
    });
  }

  deleteTaskPushNotificationConfig(
    { taskId, id }: DeleteTaskPushNotificationConfigRequest,
    context: ServerCallContext,
  ): Promise<void> {
    return this.#mapErrors(async () => {
      const push = await this.#push();
      await push.delete(await this.#own(taskId, context), id);
    });
  }

  recover(): Promise<number> {
    return this.#turns.recover();
  }

  async #tasksOf(context: ServerCallContext): Promise<CallerTasks> {
    const owner = await this.#scopeOf(context);
    if (owner === undefined) throw unauthenticated();
    const { agent, authContextOf = defaultAuthContext, contextOf, scopeOf } = this.#options;
    const isAnonymous = !scopeOf && !context.user?.isAuthenticated;
    const scope = new Scope(agent.id, owner, { sender: this.#senderOf(context), isAnonymous });
    const caller = { authContext: authContextOf(context), context: contextOf?.(context) };
    return new CallerTasks(this.#options, { scope, turns: this.#turns, ...caller });
  }

  /** The default scope is that of one user. */
  #senderOf(context: ServerCallContext): string {
    const { scopeOf, senderOf } = this.#options;
    if (senderOf) return senderOf(context);
    return scopeOf && context.user?.isAuthenticated ? context.user.userName : '';
  }

  async #own(taskId: string, context: ServerCallContext) {
    return (await this.#tasksOf(context)).own(taskId);
  }

  async #push() {
    const { capabilities } = await this.getAgentCard();
    const { push } = this.#options;
    if (capabilities?.pushNotifications && push) return push;
    throw new (protocolErrors().PushNotificationNotSupportedError)();
  }

  async #checkExtensions({ requestedExtensions = [] }: ServerCallContext): Promise<void> {
    const { capabilities } = await this.getAgentCard();
    const required = (capabilities?.extensions ?? []).filter((each) => each.required).map(({ uri }) => uri);
    const missing = required.filter((uri) => !requestedExtensions.includes(uri));
    if (missing.length === 0) return;
    const message = `The client must support these extensions: ${missing.join(', ')}.`;
    throw new (protocolErrors().ExtensionSupportRequiredError)(message);
  }

  async #receive(tasks: CallerTasks, params: SendMessageRequest, call: ServerCallContext) {
    await this.#checkExtensions(call);
    activated(call, clientToolsExtension);
    const { defaultInputModes: inputModes, defaultOutputModes, skills } = await this.getAgentCard();
    const outputModes = [...defaultOutputModes, ...skills.flatMap((skill) => skill.outputModes)];
    return receiveMessage({ tasks, call, inputModes, outputModes, push: () => this.#push() }, params);
  }

  /** Called with the method, not with the first pull: transports send the headers in between. */
  #streaming(context: ServerCallContext) {
    const { clock, toolEvents = false, extensionEvents = [] } = this.#options;
    activated(context, turnExtension);
    return {
      now: () => clock.now(),
      toolEvents: toolEvents && activated(context, toolEventsExtension),
      extensionEvents:
        extensionEvents.length > 0 && activated(context, extensionEventsExtension) ? extensionEvents : [],
    };
  }

  #stream(begin: () => Promise<Observable<StreamResponse>>): AsyncGenerator<StreamResponse, void, undefined> {
    const begun = async () => {
      const { capabilities } = await this.getAgentCard();
      if (!capabilities?.streaming) throw unsupported('The agent does not stream.');
      return begin();
    };
    const responses$ = defer(begun).pipe(switchMap((begun$) => begun$));
    return new ResponseStream(responses$.pipe(catchError((error: unknown) => throwError(() => this.#refusal(error)))));
  }

  async #mapErrors<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#refusal(error);
    }
  }

  /** The error for the client; errors whose message is withheld are logged by their code. */
  #refusal(error: unknown): Error {
    const refusal = clientError(error);
    if (refusal !== error && refusal.reason === 'INTERNAL_ERROR') {
      const code = AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
      this.#options.logger?.error('request failed', { code, name: nameOf(error) });
    }
    return refusal;
  }
}

function defaultAuthContext({ user, tenant }: ServerCallContext): AuthContext | undefined {
  if (!user?.isAuthenticated) return tenant === undefined ? undefined : { tenant };
  return { user: user.userName, ...(tenant !== undefined && { tenant }) };
}

/** Errors: RequestMalformed. */
function checkedLength(historyLength: number | undefined): number | undefined {
  if (historyLength === undefined || (Number.isSafeInteger(historyLength) && historyLength >= 0)) return historyLength;
  throw malformed('historyLength must be a whole number of at least 0.');
}
