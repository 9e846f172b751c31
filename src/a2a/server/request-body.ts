import type { ErrorRequestHandler, RequestHandler } from 'express';
import express from 'express';
import { type JSONSchema, JsonCounter, maxJsonDepth, maxJsonValues } from '../../core/contracts/index.ts';
import { unsafeInLogs } from '../../guarded-logger.ts';
import { compileJsonSchema } from '../../tools/json-schema-engine.ts';
import { unsafeInIds, wellFormedId } from '../received-message.ts';
import { type Binding, invalidParams, invalidRequest, parseError, type Refusal, refuse } from './refusal.ts';

/**
 * Reads JSON bodies up to a size, before the protocol's handlers, which then find them read; what cannot be read is answered in the
 * protocol's own form.
 */
export function jsonBody(binding: Binding, limit: number): readonly (RequestHandler | ErrorRequestHandler)[] {
  const read = express.json({ limit, strict: false, type: ['application/json', 'application/a2a+json'], verify });
  const onError: ErrorRequestHandler = (error: unknown, request, response, _next) => {
    refuse(request, response, binding, refusalOf(error, limit));
  };
  return [read, onError];
}

/** Before bytes are parsed. They are counted as UTF-8, which JSON between systems must be: RFC 8259, section 8.1. */
function verify(_request: unknown, _response: unknown, bytes: Buffer, encoding: string): void {
  const type = encoding === 'utf-8' ? new JsonCounter().add(bytes) : 'charset.unsupported';
  if (type !== undefined) throw Object.assign(new Error(type), { type });
}

const tooMany: Refusal = {
  status: 400,
  code: invalidRequest,
  statusName: 'INVALID_ARGUMENT',
  reason: 'TOO_MANY_VALUES',
  message: `The request has more than ${maxJsonValues} values; send large data as a file.`,
};

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
  if (type === 'depth') return tooDeep;
  if (type === 'values') return tooMany;
  const unsupported = type === 'encoding.unsupported' || type === 'charset.unsupported';
  return {
    status: unsupported ? 415 : 400,
    code: unsupported ? invalidRequest : parseError,
    statusName: 'INVALID_ARGUMENT',
    reason: unsupported ? 'UNSUPPORTED_ENCODING' : 'INVALID_JSON',
    message: unsupported ? 'The encoding of the request is not supported.' : 'The request is not JSON.',
  };
}

/**
 * Refuses bodies whose members have other types than the protocol's, which the official codecs would stumble over, in words of
 * JavaScript. Names (ids, tenants, schemes) with control characters or lone surrogates are refused, too: the official codecs print some of them. What else is wrong with a request they and the handler say better.
 */
export function requestShape(binding: Binding): RequestHandler {
  return async (request, response, next) => {
    if (unsafeInLogs.test(decodeURIComponent(request.url))) {
      return refuse(request, response, binding, malformed(400, 'The path must not have control characters.'));
    }
    if (request.method !== 'POST') return next();
    const { body } = request;
    if (binding === 'JSONRPC' && request.is('application/json') && (await problemOf(envelope, body)) !== undefined) {
      return refuse(request, response, binding, {
        ...malformed(200, 'The request is not one of JSON-RPC 2.0.'),
        code: invalidRequest,
      });
    }
    const problem = await problemOf(binding === 'JSONRPC' ? call : params, body);
    if (problem === undefined) return next();
    refuse(request, response, binding, malformed(binding === 'JSONRPC' ? 200 : 400, problem));
  };
}

function malformed(status: number, message: string): Refusal {
  return { status, code: invalidParams, statusName: 'INVALID_ARGUMENT', reason: 'INVALID_PARAMS', message };
}

async function problemOf(schema: JSONSchema, body: unknown): Promise<string | undefined> {
  const check = await compileJsonSchema(schema, 'a request');
  if (check(body)) return undefined;
  const { instancePath = '', keyword, message: said = 'is not right' } = check.errors?.[0] ?? {};
  const message = keyword === 'pattern' ? wellFormedId : said;
  const place = instancePath
    .replace(/^\/params/, '')
    .slice(1)
    .replaceAll('/', '.');
  return `${place === '' ? 'The request' : place} ${message}.`;
}

/** `null` is a member that is not there. */
const text = { type: ['string', 'null'] };
/** Of a name, such as an id: no control characters, no lone surrogates. */
const name = { ...text, pattern: `^[^${unsafeInIds.source.slice(1, -1)}]*$` };
const names = { type: ['array', 'null'], items: { type: 'string', pattern: name.pattern } };
const texts = { type: ['array', 'null'], items: { type: 'string' } };

/** Of 1.0, and of 0.3, where `kind` says what it is. */
const part = {
  type: 'object',
  properties: {
    text,
    raw: text,
    url: text,
    filename: text,
    mediaType: text,
    file: { type: 'object', properties: { bytes: { type: 'string' }, uri: { type: 'string' } } },
  },
  allOf: [needs('text', { type: 'string' }), needs('file', { type: 'object' })],
};

function needs(kind: string, member: object): object {
  return {
    if: { properties: { kind: { const: kind } }, required: ['kind'] },
    then: { properties: { [kind]: member }, required: [kind] },
  };
}

const push = {
  properties: {
    id: name,
    url: text,
    token: text,
    authentication: { properties: { schemes: names, scheme: name, credentials: text } },
  },
};

/** What the codecs convert by themselves, from texts too; an object they stumble over. */
const plain = { type: ['string', 'number', 'boolean', 'null'] };

const message = {
  properties: {
    messageId: name,
    taskId: name,
    contextId: name,
    parts: { items: part },
    content: { items: { type: 'object' } },
    extensions: texts,
    referenceTaskIds: names,
  },
};

/** What methods are called with, by either binding. */
const params: JSONSchema = {
  properties: {
    ...push.properties,
    tenant: name,
    taskId: name,
    contextId: name,
    pushNotificationConfigId: name,
    pageSize: plain,
    pageToken: plain,
    historyLength: plain,
    includeArtifacts: plain,
    status: plain,
    statusTimestampAfter: plain,
    message,
    // The message of 0.3 over HTTP.
    request: message,
    configuration: {
      properties: {
        acceptedOutputModes: texts,
        historyLength: plain,
        blocking: plain,
        returnImmediately: plain,
        pushNotificationConfig: push,
        taskPushNotificationConfig: push,
      },
    },
    pushNotificationConfig: push,
  },
};

const envelope: JSONSchema = {
  type: 'object',
  properties: { jsonrpc: { const: '2.0' }, method: { type: 'string' }, id: { type: ['string', 'number', 'null'] } },
  required: ['jsonrpc', 'method'],
};

const call: JSONSchema = {
  properties: { params },
  if: { properties: { method: { const: 'tasks/pushNotificationConfig/set' } }, required: ['method'] },
  then: {
    properties: {
      params: { properties: { pushNotificationConfig: { type: 'object' } }, required: ['pushNotificationConfig'] },
    },
  },
};
