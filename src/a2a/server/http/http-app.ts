import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { restHandler } from '@a2a-js/sdk/server/express';
import express, { type ErrorRequestHandler, type Express } from 'express';
import { type Clock, nameOf, type TaskStateStore } from '../../../core/contracts/index.ts';
import { callerOf, jsonRpcContext } from '../call-context.ts';
import type { CardDesk } from '../card-desk.ts';
import { type Admission, admit, admitMessage, answerRefused } from './admission.ts';
import { cardPaths, cardRoute } from './card-route.ts';
import { healthRoutes } from './health-routes.ts';
import { jsonBody } from './json-body.ts';
import { jsonRpcRoute } from './json-rpc-route.ts';
import { jsonRpcPath, restPath } from './paths.ts';
import { protocolVersion } from './protocol-version.ts';
import { requestLog } from './request-log.ts';
import { requestShape } from './request-shape.ts';

export interface HttpAppOptions {
  readonly handler: A2ARequestHandler;
  readonly cards: CardDesk;
  readonly admission: Admission;
  readonly store: TaskStateStore;
  readonly maxBodyBytes: number;
  readonly trustedProxies: number;
  /** Public keys of what the server signs. */
  readonly publicKeys: object | undefined;
  readonly clock: Clock;
}

/** The server as an application of Express: both bindings in both versions, the card, and health. */
export function httpApp(options: HttpAppOptions): Express {
  const { handler, cards, admission, store, maxBodyBytes, clock } = options;
  const { phase, logger } = admission;
  const app = express();
  app.disable('x-powered-by');
  app.set('trust proxy', options.trustedProxies);
  app.use(healthRoutes({ store, phase, clock }));
  app.use(requestLog(logger, clock), protocolVersion);
  app.use([...cardPaths], cardRoute(cards));
  if (options.publicKeys)
    app.get('/.well-known/jwks.json', (_request, response) => void response.json(options.publicKeys));
  app.use(
    jsonRpcPath,
    admit('JSONRPC', admission),
    ...jsonBody('JSONRPC', maxBodyBytes),
    requestShape('JSONRPC'),
    admitMessage('JSONRPC', admission),
    answerRefused('JSONRPC'),
  );
  app.post(jsonRpcPath, jsonRpcRoute({ handler, contextOf: jsonRpcContext }));
  app.all(jsonRpcPath, (_request, response) => void response.status(405).set('Allow', 'POST').end());
  app.use(
    restPath,
    admit('HTTP+JSON', admission),
    ...jsonBody('HTTP+JSON', maxBodyBytes),
    requestShape('HTTP+JSON'),
    admitMessage('HTTP+JSON', admission),
    answerRefused('HTTP+JSON'),
    restHandler({
      requestHandler: handler,
      userBuilder: async (request) => callerOf(request),
      legacyCompat: { enabled: true },
    }),
  );
  app.use((_request, response) => void response.status(404).json({ error: 'There is nothing here.' }));
  const onError: ErrorRequestHandler = (error: unknown, _request, response, _next) => {
    if (error instanceof URIError) return void response.status(400).json({ error: 'The path cannot be read.' });
    logger.error('request failed', { code: nameOf(error) });
    if (response.headersSent) response.destroy();
    else response.status(500).json({ error: 'The server failed.' });
  };
  app.use(onError);
  return app;
}
