import { formatSSEErrorEvent, formatSSEEvent, SSE_HEADERS } from '@a2a-js/sdk';
import { LegacyJsonRpcTransportHandler } from '@a2a-js/sdk/compat/v0_3/server';
import {
  type A2ARequestHandler,
  JsonRpcTransportHandler,
  type ServerCallContext,
  validateVersion,
} from '@a2a-js/sdk/server';
import type { Request, RequestHandler, Response } from 'express';
import { isObject } from '../../core/contracts/index.ts';
import { contentNotSupported } from '../protocol-errors.ts';
import { type ContextOf, callerOf } from './caller.ts';
import { forLegacyClients } from './legacy-requests.ts';
import { answerRpc, isLegacy } from './refusal.ts';

interface JsonRpcRouteOptions {
  readonly handler: A2ARequestHandler;
  readonly contextOf: ContextOf;
}

interface Transport {
  handle(body: Record<string, unknown>, context: ServerCallContext): Promise<object>;
  readonly errorOf: (error: unknown) => object;
  readonly extensionsHeader: string;
}

/**
 * A2A over JSON-RPC, both versions. The body has been read, the caller is known. Errors of the protocol are answers with status 200.
 * A stream is written as its events come: who makes them waits for the connection.
 */
export function jsonRpcRoute({ handler, contextOf }: JsonRpcRouteOptions): RequestHandler {
  const current = new JsonRpcTransportHandler(handler);
  const legacy = new LegacyJsonRpcTransportHandler(forLegacyClients(handler));
  const transports: Readonly<Record<'current' | 'legacy', Transport>> = {
    current: {
      handle: (body, context) => current.handle(body, context),
      errorOf: (error) => JsonRpcTransportHandler.mapToJSONRPCError(error),
      extensionsHeader: 'A2A-Extensions',
    },
    legacy: {
      handle: (body, context) => legacy.handle(body, context),
      errorOf: (error) => LegacyJsonRpcTransportHandler.mapToLegacyJSONRPCError(error),
      extensionsHeader: 'X-A2A-Extensions',
    },
  };
  return async (request, response) => {
    const transport = transports[isLegacy(request.header('a2a-version')) ? 'legacy' : 'current'];
    const body = bodyOf(request);
    const failed = (error: unknown) => ({ jsonrpc: '2.0', id: body['id'] ?? null, error: transport.errorOf(error) });
    try {
      const context = contextOf(request);
      checkContentType(request);
      validateVersion(context.requestedVersion, await handler.getAgentCard(), 'JSONRPC');
      const answer = await transport.handle(body, context);
      const { activatedExtensions } = context;
      if (activatedExtensions) response.setHeader(transport.extensionsHeader, [...activatedExtensions]);
      if (isStream(answer)) await writeStream(answer, response, failed);
      else answerOnce(request, response, answer);
    } catch (error) {
      if (!response.headersSent) answerOnce(request, response, failed(error));
    }
  };
}

/** What a limit refused is answered with its status instead. */
function answerOnce(request: Request, response: Response, answer: object): void {
  if (callerOf(request).refusal) response.json(answer);
  else answerRpc(request, response, answer);
}

/** A request without one has no body, or is refused as invalid. */
function checkContentType(request: Request): void {
  if (request.header('content-type') === undefined || request.is('application/json') === 'application/json') return;
  throw contentNotSupported('The content type of a request is application/json.');
}

/** The first event is waited for, so that what is wrong with the request is an answer and not a stream. */
async function writeStream(
  events: AsyncGenerator<object>,
  response: Response,
  failed: (error: unknown) => object,
): Promise<void> {
  const first = await events.next();
  response.set(SSE_HEADERS).flushHeaders();
  try {
    if (!first.done) response.write(formatSSEEvent(first.value));
    for await (const event of events) response.write(formatSSEEvent(event));
  } catch (error) {
    response.write(formatSSEErrorEvent(failed(error)));
  } finally {
    response.end();
  }
}

function bodyOf({ body }: Request): Record<string, unknown> {
  return isObject(body) ? body : {};
}

function isStream(answer: object): answer is AsyncGenerator<object> {
  return Symbol.asyncIterator in answer;
}
