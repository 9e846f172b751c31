import type { Request, Response } from 'express';
import type { ReachedLimit } from '../../protocol-errors.ts';
import { isLegacy } from './protocol-version.ts';

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
export const serverError = -32_000;
export const invalidRequest = -32_600;
export const invalidParams = -32_602;
export const parseError = -32_700;

export type Binding = 'JSONRPC' | 'HTTP+JSON';

/** Answers in the form of the binding and of the version that was asked for. */
export function refuse(request: Request, response: Response, binding: Binding, refusal: Refusal): void {
  const { status, code, message, headers = {} } = refusal;
  response.status(status).set(headers);
  const data = [detailOf(refusal)];
  if (binding === 'JSONRPC') {
    response.json({ jsonrpc: '2.0', id: idOf(request.body), error: { code, message, data } });
  } else if (isLegacy(request.header('a2a-version'))) {
    response.json({ code, message });
  } else {
    response.type('application/a2a+json');
    response.json({ error: { code: status, status: refusal.statusName, message, details: data } });
  }
}

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

export const errorInfoType = 'type.googleapis.com/google.rpc.ErrorInfo';
export const errorDomain = 'millrace';

function detailOf({ reason, metadata }: Refusal): object {
  return { '@type': errorInfoType, reason, domain: errorDomain, ...(metadata && { metadata }) };
}

function idOf(body: unknown): string | number | null {
  const id = typeof body === 'object' && body !== null && 'id' in body ? body.id : null;
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}
