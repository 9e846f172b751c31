import { formatSSEEvent, SSE_HEADERS } from '@a2a-js/sdk';
import type { A2AError } from '@a2a-js/sdk/errors';
import type { NextFunction, Request, Response } from 'express';
import { isAwayCode, type ReachedLimit } from '../protocol-errors.ts';

/** Why a request does not reach the protocol's handlers. */
export interface Refusal {
  /** Of HTTP. */
  readonly status: number;
  /** Of JSON-RPC. */
  readonly code: number;
  /** Of `google.rpc.Status`. */
  readonly statusName: string;
  /** Of `google.rpc.ErrorInfo`. */
  readonly reason: string;
  /** A sentence for the caller. */
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Of `google.rpc.ErrorInfo`: what the limit is, for programs. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** JSON-RPC leaves -32000 to -32099 to servers; those of the protocol begin at -32001. */
const serverError = -32_000;
export const invalidRequest = -32_600;
export const invalidParams = -32_602;
const internalError = -32_603;
export const parseError = -32_700;

/** `FETCH`: a handler beside A2A. */
export type Binding = 'JSONRPC' | 'HTTP+JSON' | 'FETCH';

/** Answers in the form of the binding and of the version that was asked for. */
export function refuse(request: Request, response: Response, binding: Binding, refusal: Refusal): void {
  const { status, code, message, headers = {} } = refusal;
  response.status(status).set(headers);
  const data = [detailOf(refusal)];
  if (binding === 'JSONRPC') {
    answerRpc(request, response, { jsonrpc: '2.0', id: idOf(request.body), error: { code, message, data } });
  } else if (binding === 'FETCH') {
    response.json({ error: { code: refusal.reason, message } });
  } else if (isLegacy(request.header('a2a-version'))) {
    response.json({ code, message });
  } else {
    response.type('application/a2a+json');
    response.json({ error: { code: status, status: refusal.statusName, message, details: data } });
  }
}

const legacyStreams: ReadonlySet<unknown> = new Set(['message/stream', 'tasks/resubscribe']);

/** Sends one answer of JSON-RPC. A client of 0.3 that asked for a stream reads events only: it gets an error of the protocol as the only one. */
export function answerRpc(request: Request, response: Response, answer: object): void {
  const { body } = request;
  const method = typeof body === 'object' && body !== null && 'method' in body ? body.method : undefined;
  const isStream = isLegacy(request.header(header)) && legacyStreams.has(method);
  if (isStream && response.statusCode === 200) response.set(SSE_HEADERS).end(formatSSEEvent(answer));
  else response.json(answer);
}

/** LangChain ends at a 429 that does not say when to try again. */
const soon = { 'Retry-After': '1' };

/** That of a limit on what is kept. */
export function refusalOf({ reason, message, metadata, retryAfterMs }: ReachedLimit): Refusal {
  return {
    status: 429,
    code: serverError,
    statusName: 'RESOURCE_EXHAUSTED',
    reason,
    message,
    metadata,
    ...(retryAfterMs !== undefined && { headers: { 'Retry-After': String(Math.ceil(retryAfterMs / 1_000)) } }),
  };
}

/** That of an error inside, in words for the caller. */
export function failureOf({ message, metadata = {} }: A2AError): Refusal {
  const isAway = isAwayCode(metadata['code']);
  return {
    status: isAway ? 503 : 500,
    code: internalError,
    statusName: isAway ? 'UNAVAILABLE' : 'INTERNAL',
    reason: 'INTERNAL_ERROR',
    message,
    metadata,
  };
}

export const notLocal: Refusal = {
  status: 403,
  code: serverError,
  statusName: 'PERMISSION_DENIED',
  reason: 'LOCAL_ONLY',
  message: 'The server is for callers of its own machine.',
};

export function unauthenticated(challenges: string): Refusal {
  return {
    status: 401,
    code: serverError,
    statusName: 'UNAUTHENTICATED',
    reason: 'UNAUTHENTICATED',
    message: 'Authentication is required.',
    headers: { 'WWW-Authenticate': challenges },
  };
}

export function tooManyRequests(waitMs: number): Refusal {
  return {
    status: 429,
    code: serverError,
    statusName: 'RESOURCE_EXHAUSTED',
    reason: 'RATE_LIMIT',
    message: `Too many requests; try again in ${Math.ceil(waitMs / 1_000)} seconds.`,
    headers: { 'Retry-After': String(Math.ceil(waitMs / 1_000)) },
  };
}

export const tooManyStreams: Refusal = {
  status: 429,
  code: serverError,
  statusName: 'RESOURCE_EXHAUSTED',
  reason: 'STREAM_LIMIT',
  message: 'Too many streams are open; close one first.',
  headers: soon,
};

export const tooManyTurns: Refusal = {
  status: 429,
  code: serverError,
  statusName: 'RESOURCE_EXHAUSTED',
  reason: 'TURN_LIMIT',
  message: 'Too many of your tasks run or are queued; wait until one is over, or cancel one.',
  headers: soon,
};

export const starting: Refusal = {
  status: 503,
  code: serverError,
  statusName: 'UNAVAILABLE',
  reason: 'STARTING',
  message: 'The server starts; try again.',
  headers: soon,
};

export const closing: Refusal = {
  status: 503,
  code: serverError,
  statusName: 'UNAVAILABLE',
  reason: 'CLOSING',
  message: 'The server shuts down; try again.',
  // The connection is not kept, so that the next request finds another process.
  headers: { ...soon, Connection: 'close' },
};

export const errorInfoType = 'type.googleapis.com/google.rpc.ErrorInfo';
export const errorDomain = 'millrace';

function detailOf({ reason, metadata }: Refusal): object {
  return { '@type': errorInfoType, reason, domain: errorDomain, ...(metadata && { metadata }) };
}

function idOf(body: unknown): string | number | null {
  const id = typeof body === 'object' && body !== null && 'id' in body ? body.id : null;
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}

const header = 'a2a-version';

/**
 * Puts the version that a request asks for where the protocol's handlers look for it, in the form that they know: the header decides,
 * then the query; a patch number is left out, since it changes nothing on the wire (`1.0.1` is `1.0`). Without either it stays absent, which means 0.3.
 */
export function protocolVersion(request: Request, _response: Response, next: NextFunction): void {
  const version = normalVersion(request.header(header) ?? versionOfQuery(request));
  if (version === undefined) delete request.headers[header];
  else request.headers[header] = version;
  next();
}

/** `undefined` for an absent or empty one; what is no version stays as it is, to be refused. */
export function normalVersion(text: string | undefined): string | undefined {
  const trimmed = text?.trim();
  if (trimmed === undefined || trimmed === '') return undefined;
  return /^(\d+\.\d+)\.\d+$/.exec(trimmed)?.[1] ?? trimmed;
}

/** Whether a version, as `protocolVersion` leaves it, is one before 1.0. */
export function isLegacy(version: string | undefined): boolean {
  return version === undefined || /^0\./.test(version);
}

function versionOfQuery({ query }: Request): string | undefined {
  const [, value] = Object.entries(query).find(([name]) => name.toLowerCase() === header) ?? [];
  return typeof value === 'string' ? value : undefined;
}
