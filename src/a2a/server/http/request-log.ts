import type { Request, RequestHandler } from 'express';
import type { Clock, Logger } from '../../../core/contracts/index.ts';

/** The parameters that are logged are none: a path may hold ids, a body may hold anything. */
export function requestLog(logger: Logger, clock: Clock): RequestHandler {
  return (request, response, next) => {
    const startedAt = clock.now();
    response.once('close', () => {
      logger.info('request', {
        method: request.method,
        operation: operationOf(request),
        status: response.statusCode,
        finished: response.writableFinished,
        ms: clock.now() - startedAt,
      });
    });
    next();
  };
}

/** What was asked for: the method of JSON-RPC, else the path without ids. */
export function operationOf({ body, baseUrl, path }: Request): string {
  const method = typeof body === 'object' && body !== null && 'method' in body ? body.method : undefined;
  if (typeof method === 'string' && /^[A-Za-z/]{1,64}$/.test(method)) return method;
  return `${baseUrl}${path}`.replace(/\/tasks\/[^/:]+/, '/tasks/…').replace(/(pushNotificationConfigs)\/.+$/, '$1/…');
}
