import type { StreamResponse } from '@a2a-js/sdk';
import { A2AError, RequestMalformedError } from '@a2a-js/sdk/errors';
import type { A2ARequestHandler, ServerCallContext } from '@a2a-js/sdk/server';
import type { Clock, Logger } from '../../core/contracts/index.ts';
import { onAbort, Timer } from '../../core/streams/index.ts';
import { keepConnection } from '../extensions.ts';
import { clientError, codeOf, limitOf } from '../protocol-errors.ts';
import { type Admission, type Asked, countAsked } from './admission.ts';
import { type Connection, callerIn } from './caller.ts';
import { failureOf, refusalOf } from './refusal.ts';

interface GuardOptions {
  /** How many turns and streams a caller may have. */
  readonly limits: Pick<Admission, 'turns' | 'streams'>;
  /** Ends all streams with its reason. */
  readonly stop: AbortSignal;
  readonly heartbeatMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What all requests but that of the card have. */
interface Params {
  readonly tenant: string;
}

/**
 * A request handler with the checks that every transport needs: the tenant is one of the caller's, turns and streams are within its limits,
 * streams are as fast as their readers, and internal errors reach callers without details. What is counted is the method that a transport
 * has found, not a path, which it may match in another way.
 */
export function guardedHandler(handler: A2ARequestHandler, options: GuardOptions): A2ARequestHandler {
  const once =
    <P extends Params, R>(method: (params: P, context: ServerCallContext) => Promise<R>, turn = false) =>
    async (params: P, context: ServerCallContext): Promise<R> => {
      checkTenant(params, context);
      checkLimits({ turn, stream: false }, context, options);
      keepConnection(context, callerIn(context).connection.closed);
      return unlessStopped(method(params, context), options.stop).catch((error: unknown) => {
        throw clientErrorOf(error, context, options.logger);
      });
    };
  const streamed = <P extends Params>(
    method: (params: P, context: ServerCallContext) => AsyncIterator<StreamResponse>,
    turn = false,
  ) =>
    async function* (params: P, context: ServerCallContext): AsyncGenerator<StreamResponse, void, undefined> {
      checkTenant(params, context);
      checkLimits({ turn, stream: true }, context, options);
      const { connection } = callerIn(context);
      try {
        yield* pacedStream(method(params, context), { ...options, connection });
      } catch (error) {
        throw clientErrorOf(error, context, options.logger);
      }
    };
  return {
    getAgentCard: () => handler.getAgentCard(),
    getAuthenticatedExtendedAgentCard: once((params, context) =>
      handler.getAuthenticatedExtendedAgentCard(params, context),
    ),
    sendMessage: once((params, context) => handler.sendMessage(params, context), true),
    sendMessageStream: streamed((params, context) => handler.sendMessageStream(params, context), true),
    resubscribe: streamed((params, context) => handler.resubscribe(params, context)),
    getTask: once((params, context) => handler.getTask(params, context)),
    listTasks: once((params, context) => handler.listTasks(params, context)),
    cancelTask: once((params, context) => handler.cancelTask(params, context)),
    createTaskPushNotificationConfig: once((params, context) =>
      handler.createTaskPushNotificationConfig(params, context),
    ),
    getTaskPushNotificationConfig: once((params, context) => handler.getTaskPushNotificationConfig(params, context)),
    listTaskPushNotificationConfigs: once((params, context) =>
      handler.listTaskPushNotificationConfigs(params, context),
    ),
    deleteTaskPushNotificationConfig: once((params, context) =>
      handler.deleteTaskPushNotificationConfig(params, context),
    ),
  };
}

/** What waits for a turn that drains would wait for another process. */
function unlessStopped<T>(answer: Promise<T>, stop: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = () => reject(stop.reason);
    const leave = onAbort(stop, end);
    answer.then(resolve, reject).finally(leave);
    if (stop.aborted) end();
  });
}

/** The tenant comes from the caller, in the path or in the parameters; both have to be theirs, and the same. */
function checkTenant(params: Params, context: ServerCallContext): void {
  const named = [context.tenant ?? '', params.tenant ?? ''].filter((tenant) => tenant !== '');
  const caller = callerIn(context);
  for (const tenant of named) {
    if (tenant !== named[0]) throw new RequestMalformedError('The request names two tenants.');
    if (!caller.mayAct(tenant)) throw new RequestMalformedError('The tenant is not one of yours.');
  }
  if (context.tenant === undefined && named[0] !== undefined) context.setTenant(named[0]);
}

/** The transport answers the error; the server replaces that by the refusal, in the form of its binding. */
function checkLimits(asked: Asked, context: ServerCallContext, { limits }: GuardOptions): void {
  const caller = callerIn(context);
  const refusal = countAsked(caller, asked, limits);
  if (refusal === undefined) return;
  caller.refusal = refusal;
  throw new A2AError(refusal.message);
}

/** What a caller may read of an error: the protocol's own say what is wrong with the request; others are ours. */
function clientErrorOf(error: unknown, context: ServerCallContext, logger: Logger): Error {
  const limit = limitOf(error);
  if (limit) callerIn(context).refusal = refusalOf(limit);
  if (!(error instanceof A2AError)) logger.error('request failed', { code: codeOf(error) });
  const shown = clientError(error);
  if (shown.reason === 'INTERNAL_ERROR') callerIn(context).failure = failureOf(shown);
  return shown;
}

interface Pace {
  readonly connection: Connection;
  /** Ends the stream with its reason, an error. */
  readonly stop: AbortSignal;
  /** How long a stream may be silent before it sends a heartbeat. Milliseconds; 0: never. */
  readonly heartbeatMs: number;
  readonly clock: Clock;
}

/**
 * The events of a source, as fast as they are read: the next is asked for when the one before has been written and the connection has
 * room. Ends when the reader leaves, also while nothing happens; `stop` makes it throw. The source is left in every case.
 */
async function* pacedStream<T>(source: AsyncIterator<T>, pace: Pace): AsyncGenerator<T, void, undefined> {
  const wait = new InterruptibleWait(pace);
  try {
    for (;;) {
      await pace.connection.drained();
      const next = await wait.for(source.next());
      if (next === undefined || next.done) return;
      yield next.value;
    }
  } finally {
    wait.end();
    // What waits for its next event may not hear of it before that; nobody has to wait for it.
    source.return?.().catch(() => {});
  }
}

/** Waits for a promise, or the end of the reader or of the server, without a listener for each event. */
class InterruptibleWait {
  readonly #pace: Pace;
  #settle: (() => void) | undefined;
  readonly #beat: Timer;
  readonly #leave: readonly (() => void)[];

  constructor(pace: Pace) {
    this.#pace = pace;
    this.#beat = new Timer(pace.clock);
    this.#leave = [pace.connection.closed, pace.stop].map((signal) => onAbort(signal, () => this.#settle?.()));
    this.#scheduleBeat();
  }

  /** What the promise gives; `undefined` where the reader has left. */
  async for<T>(promise: Promise<T>): Promise<T | undefined> {
    const { stop, connection } = this.#pace;
    let value: { readonly is: T } | undefined;
    await new Promise<void>((resolve, reject) => {
      this.#settle = resolve;
      promise.then((is) => {
        value = { is };
        resolve();
      }, reject);
      if (stop.aborted || connection.closed.aborted) resolve();
    });
    this.#settle = undefined;
    if (connection.closed.aborted) return undefined;
    if (value === undefined) throw stop.reason;
    return value.is;
  }

  end(): void {
    for (const leave of this.#leave) leave();
    this.#beat.close();
  }

  #scheduleBeat(): void {
    const { heartbeatMs, connection } = this.#pace;
    if (heartbeatMs === 0) return;
    this.#beat.set(heartbeatMs, () => {
      connection.beat();
      this.#scheduleBeat();
    });
  }
}
