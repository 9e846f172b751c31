import express, { type ErrorRequestHandler, type RequestHandler } from 'express';
import { maxJsonDepth, nestsTooDeep } from '../../../core/contracts/index.ts';
import { type Binding, invalidRequest, parseError, type Refusal, refuse } from './refusal.ts';

/**
 * Reads JSON bodies up to a size, before the protocol's handlers, which then find them read; what cannot be read is answered in the
 * protocol's own form.
 */
export function jsonBody(binding: Binding, limit: number): readonly (RequestHandler | ErrorRequestHandler)[] {
  const read = express.json({ limit, strict: false, type: ['application/json', 'application/a2a+json'] });
  const onError: ErrorRequestHandler = (error: unknown, request, response, _next) => {
    refuse(request, response, binding, refusalOf(error, limit));
  };
  const notTooDeep: RequestHandler = (request, response, next) => {
    if (nestsTooDeep(request.body)) refuse(request, response, binding, tooDeep);
    else next();
  };
  return [read, onError, notTooDeep];
}

const tooDeep: Refusal = {
  status: 400,
  code: invalidRequest,
  statusName: 'INVALID_ARGUMENT',
  reason: 'NESTED_TOO_DEEP',
  message: `The request nests deeper than ${maxJsonDepth} levels.`,
};

function refusalOf(error: unknown, limit: number): Refusal {
  const type = typeof error === 'object' && error !== null && 'type' in error ? error.type : undefined;
  if (type === 'entity.too.large') {
    return {
      status: 413,
      code: invalidRequest,
      statusName: 'INVALID_ARGUMENT',
      reason: 'REQUEST_TOO_LARGE',
      message: `The request is larger than ${limit} bytes.`,
    };
  }
  const unsupported = type === 'encoding.unsupported' || type === 'charset.unsupported';
  return {
    status: unsupported ? 415 : 400,
    code: unsupported ? invalidRequest : parseError,
    statusName: 'INVALID_ARGUMENT',
    reason: unsupported ? 'UNSUPPORTED_ENCODING' : 'INVALID_JSON',
    message: unsupported ? 'The encoding of the request is not supported.' : 'The request is not JSON.',
  };
}
