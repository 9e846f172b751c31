import { createHash } from 'node:crypto';
import { AgentCard } from '@a2a-js/sdk';
import { legacyAgentCardRouter } from '@a2a-js/sdk/compat/v0_3/server/express';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { restHandler } from '@a2a-js/sdk/server/express';
import express, {
  type ErrorRequestHandler,
  type Express,
  type Request,
  type RequestHandler,
  type Response,
  Router,
} from 'express';
import { type Clock, type Logger, nameOf, systemClock, type TaskStateStore } from '../../core/contracts/index.ts';
import { within } from '../../core/streams/index.ts';
import { type Admission, admit, answerRefused, type ServerPhase } from './admission.ts';
import { type AgentCards, jsonRpcPath, restPath } from './agent-card.ts';
import { callerOf, jsonRpcContext } from './caller.ts';
import { fetchRoute, type RouteHandler } from './fetch-route.ts';
import { jsonRpcRoute } from './json-rpc-route.ts';
import { forLegacyClients, legacyPushConfig } from './legacy-requests.ts';
import { isLegacy, protocolVersion } from './refusal.ts';
import { jsonBody, requestShape } from './request-body.ts';

interface HttpAppOptions {
  readonly handler: A2ARequestHandler;
  readonly cards: AgentCards;
  readonly admission: Admission;
  readonly store: TaskStateStore;
  readonly maxBodyBytes: number;
  readonly trustedProxies: number;
  /** Public keys of what the server signs. */
  readonly publicKeys: object | undefined;
  readonly clock: Clock;
  /** Whether A2A 0.3 is served too. */
  readonly legacy: boolean;
  /** By their paths. */
  readonly routes: ReadonlyMap<string, RouteHandler>;
}

/** The server as an application of Express: both bindings in both versions, the card, and health. */
export function httpApp(options: HttpAppOptions): Express {
  const { handler, cards, admission, store, maxBodyBytes, clock, legacy } = options;
  const { phase, logger } = admission;
  const app = express();
  app.disable('x-powered-by');
  app.set('trust proxy', options.trustedProxies);
  app.use(healthRoutes({ store, phase, clock }));
  app.use(requestLog(logger, clock), protocolVersion);
  app.use([...cardPaths], cardRoute(cards, legacy));
  if (options.publicKeys)
    app.get('/.well-known/jwks.json', (_request, response) => void response.json(options.publicKeys));
  app.use(
    jsonRpcPath,
    admit('JSONRPC', admission),
    ...jsonBody('JSONRPC', maxBodyBytes),
    requestShape('JSONRPC'),
    answerRefused('JSONRPC'),
  );
  app.post(jsonRpcPath, jsonRpcRoute({ handler, contextOf: jsonRpcContext }));
  app.all(jsonRpcPath, (_request, response) => void response.status(405).set('Allow', 'POST').end());
  app.use(
    restPath,
    admit('HTTP+JSON', admission),
    ...jsonBody('HTTP+JSON', maxBodyBytes),
    legacyPushConfig,
    requestShape('HTTP+JSON'),
    answerRefused('HTTP+JSON'),
    emptyMessage,
    restHandler({
      requestHandler: forLegacyClients(handler),
      userBuilder: async (request) => callerOf(request),
      legacyCompat: { enabled: legacy },
    }),
  );
  for (const [path, route] of options.routes) app.use(path, ...fetchRoute(route, admission));
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

/** Answers a deletion with the message that the protocol has for it, `{}`; the package sends an empty body. */
const emptyMessage: RequestHandler = (request, response, next) => {
  const { end } = response;
  if (request.method === 'DELETE')
    response.end = (...given: readonly unknown[]) => {
      response.end = end;
      if (response.statusCode === 204) return response.status(200).json({});
      Reflect.apply(end, response, given);
      return response;
    };
  next();
};

/** Where the card is, since 0.3, and before it. */
const cardPaths = ['/.well-known/agent-card.json', '/.well-known/agent.json'];

const maxAgeSeconds = 300;

/**
 * Serves the card in the form of the version that is asked for: without one that is 0.3, which has what clients of 1.0 read too. A
 * signature is over the card of 1.0, so that of 0.3 has none. Caches may keep it for five minutes. `legacy`: whether there is one of 0.3.
 */
function cardRoute(cards: AgentCards, legacy: boolean): RequestHandler {
  const router = Router();
  router.use((_request, response, next) => {
    if (cards.isOpen) next();
    else response.status(503).set('Retry-After', '1').json({ error: 'The server starts.' });
  });
  const unsigned = async () => ({ ...cards.card, signatures: [] });
  if (legacy) {
    router.use(bothVersions(cards));
    router.use(legacyAgentCardRouter({ agentCardProvider: unsigned, cache: { maxAge: maxAgeSeconds } }));
  }
  router.get('/', (request: Request, response: Response) => {
    const text = JSON.stringify(AgentCard.toJSON(cards.card));
    const etag = `W/"${createHash('sha256').update(text).digest('hex').slice(0, 16)}"`;
    response.set({ ETag: etag, Vary: 'A2A-Version', 'Cache-Control': `public, max-age=${maxAgeSeconds}` });
    if (request.fresh) response.status(304).end();
    else response.type('application/json').send(text);
  });
  return router;
}

/** The package leaves these members of 1.0 out of the card of 0.3, beside the addresses of 1.0. */
function bothVersions(cards: AgentCards): RequestHandler {
  return (request, response, next) => {
    const { securityRequirements, capabilities } = Object(AgentCard.toJSON(cards.card));
    const send = response.send.bind(response);
    response.send = (body: unknown) => {
      response.send = send;
      if (!isLegacy(request.header('a2a-version')) || typeof body !== 'string') return send(body);
      const card = Object(JSON.parse(body));
      const { extendedAgentCard = false } = Object(capabilities);
      return send(
        JSON.stringify({
          ...card,
          capabilities: { ...card.capabilities, extendedAgentCard },
          ...(securityRequirements && { securityRequirements }),
        }),
      );
    };
    next();
  };
}

interface HealthOptions {
  readonly store: TaskStateStore;
  readonly phase: () => ServerPhase;
  readonly clock?: Clock;
}

/** How long an answer of the store counts. */
const freshMs = 1_000;
/** How long the store may take for one. */
const deadlineMs = 5_000;

/**
 * `/healthz`: 200 while the process answers. `/readyz`: 200 while it can serve, 503 before it has started, once it closes and while the store does not answer.
 * Neither asks who is asking; the store is asked once a second at most. What it says is for logs, not for strangers.
 */
function healthRoutes({ store, phase, clock = systemClock }: HealthOptions): Router {
  const isReachable = reachable(store, clock);
  const router = Router();
  router.get('/healthz', (_request, response) => void response.json({ status: 'ok' }));
  router.get('/readyz', async (_request, response) => {
    const now = phase();
    const reason = now !== 'open' ? now : (await isReachable()) ? undefined : 'store';
    response.set('Cache-Control', 'no-store');
    if (reason === undefined) response.json({ status: 'ok' });
    else response.status(503).json({ status: 'unavailable', reason });
  });
  return router;
}

function reachable(store: TaskStateStore, clock: Clock): () => Promise<boolean> {
  let asked: { readonly at: number; readonly answer: Promise<boolean> } | undefined;
  return () => {
    if (asked === undefined || clock.now() - asked.at >= freshMs) {
      asked = { at: clock.now(), answer: answers(store, clock) };
    }
    return asked.answer;
  };
}

/** Warnings are about how the store is configured; a store that gives some is reachable. */
async function answers(store: TaskStateStore, clock: Clock): Promise<boolean> {
  const check = async () => {
    await store.check();
    return true;
  };
  return within({ ms: deadlineMs, clock, late: () => false }, check).catch(() => false);
}

/** The parameters that are logged are none: a path may hold ids, a body may hold anything. */
function requestLog(logger: Logger, clock: Clock): RequestHandler {
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

/** Parts of paths that are logged as they are. */
const words: ReadonlySet<string> = new Set([
  ...['.well-known', 'agent-card.json', 'agent.json', 'jwks.json', 'v1', 'tasks', 'message:send', 'message:stream'],
  ...['pushnotificationconfigs', 'extendedagentcard', 'card', 'models', 'chat', 'completions', 'responses', 'cancel'],
  ...['api', 'stream', 'stop', 'messages', 'a2a', 'rest', 'jsonrpc', ''],
]);

/** What was asked for: the method of JSON-RPC, else the path. Ids, tenants and all other parts that are no words of a route are left out. */
function operationOf({ body, baseUrl, path }: Request): string {
  const method = typeof body === 'object' && body !== null && 'method' in body ? body.method : undefined;
  if (typeof method === 'string' && /^[A-Za-z/]{1,64}$/.test(method)) return method;
  const parts = path.split('/').map((part) => {
    const [verb = ''] = /:(?:cancel|subscribe)$/i.exec(part) ?? [];
    return words.has(part.toLowerCase()) ? part : `…${verb}`;
  });
  return `${baseUrl}${parts.join('/')}`;
}
