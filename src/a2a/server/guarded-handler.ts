import type { StreamResponse } from '@a2a-js/sdk';
import { A2AError, RequestMalformedError } from '@a2a-js/sdk/errors';
import type { A2ARequestHandler, ServerCallContext } from '@a2a-js/sdk/server';
import { AgentLoopError, type Clock, type Logger, nameOf } from '../../core/contracts/index.ts';
import { limitOf, toldError } from '../protocol-errors.ts';
import { keepConnection } from '../requested.ts';
import { callerIn } from './call-context.ts';
import { refusalOf } from './http/refusal.ts';
import { pacedStream } from './paced-stream.ts';

export interface GuardOptions {
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
 * A request handler with the checks that every transport needs: the tenant is one of the caller's, streams are as fast as their
 * readers, and internal errors reach callers without details.
 */
export function guardedHandler(handler: A2ARequestHandler, options: GuardOptions): A2ARequestHandler {
  const once =
    <P extends Params, R>(method: (params: P, context: ServerCallContext) => Promise<R>) =>
    async (params: P, context: ServerCallContext): Promise<R> => {
      checkTenant(params, context);
      keepConnection(context, callerIn(context).connection.closed);
      return unlessStopped(method(params, context), options.stop).catch((error: unknown) => {
        throw toldTo(error, context, options.logger);
      });
    };
  const streamed = <P extends Params>(
    method: (params: P, context: ServerCallContext) => AsyncIterator<StreamResponse>,
  ) =>
    async function* (params: P, context: ServerCallContext): AsyncGenerator<StreamResponse, void, undefined> {
      checkTenant(params, context);
      const { connection } = callerIn(context);
      try {
        yield* pacedStream(method(params, context), { ...options, connection });
      } catch (error) {
        throw toldTo(error, context, options.logger);
      }
    };
  return {
    getAgentCard: () => handler.getAgentCard(),
    getAuthenticatedExtendedAgentCard: once((params, context) =>
      handler.getAuthenticatedExtendedAgentCard(params, context),
    ),
    sendMessage: once((params, context) => handler.sendMessage(params, context)),
    sendMessageStream: streamed((params, context) => handler.sendMessageStream(params, context)),
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
    stop.addEventListener('abort', end);
    answer.then(resolve, reject).finally(() => stop.removeEventListener('abort', end));
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

/** What a caller may read of an error: the protocol's own say what is wrong with the request; others are ours. */
function toldTo(error: unknown, context: ServerCallContext, logger: Logger): Error {
  const limit = limitOf(error);
  if (limit) callerIn(context).refusal = refusalOf(limit);
  if (error instanceof A2AError) return error;
  const code = AgentLoopError.isInstance(error) ? error.code : nameOf(error);
  logger.error('request failed', { code });
  return toldError(error);
}
