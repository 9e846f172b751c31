import { createRequire } from 'node:module';
import type { A2AError, A2AErrorOptions } from '@a2a-js/sdk/errors';
import { AgentLoopError, type ErrorCode, missingPackage, nameOf } from '../core/contracts/index.ts';

/** The part of the package that is used. */
type Errors = Pick<
  typeof import('@a2a-js/sdk/errors'),
  | 'A2AError'
  | 'ContentTypeNotSupportedError'
  | 'ExtendedAgentCardNotConfiguredError'
  | 'ExtensionSupportRequiredError'
  | 'PushNotificationNotSupportedError'
  | 'RequestMalformedError'
  | 'TaskNotCancelableError'
  | 'TaskNotFoundError'
  | 'UnsupportedOperationError'
>;

let loaded: Errors | undefined;

/** The protocol's errors, loaded by the first handler of a process. Errors: `MISSING_PACKAGE`. */
export function protocolErrors(): Errors {
  loaded ??= load();
  return loaded;
}

function load(): Errors {
  try {
    return createRequire(import.meta.url)('@a2a-js/sdk/errors');
  } catch (cause) {
    throw missingPackage('@a2a-js/sdk', cause);
  }
}

export function malformed(message: string): A2AError {
  return new (protocolErrors().RequestMalformedError)(message);
}

export function unsupported(said: string | A2AErrorOptions): A2AError {
  return new (protocolErrors().UnsupportedOperationError)(said);
}

/** Why a limit on what is kept refuses a request. */
export interface ReachedLimit {
  readonly reason: 'KEPT_LIMIT' | 'HISTORY_LIMIT';
  /** A sentence with the limit and the cure. */
  readonly message: string;
  /** The same for programs: the option, as `limit`, and its figure, as `max`. */
  readonly metadata: Readonly<Record<string, string>>;
  /** After which it may be worth another try. Absent: waiting changes nothing. */
  readonly retryAfterMs?: number;
}

const reached = new WeakMap<object, ReachedLimit>();

/**
 * The error of a limit on what is kept. Our server answers it as its other limits: 429, `-32000`, `RESOURCE_EXHAUSTED`. Transports of the SDK know
 * no such error: they say 429 over HTTP, else UnsupportedOperation, with the reason.
 */
export function limitReached(limit: ReachedLimit): A2AError {
  const { message, metadata, reason } = limit;
  const error = unsupported({ message, metadata });
  reached.set(error, limit);
  return Object.assign(error, { reason, transport: 'rest', statusCode: 429 });
}

/** The limit that an error is of. */
export function limitOf(error: unknown): ReachedLimit | undefined {
  return typeof error === 'object' && error !== null ? reached.get(error) : undefined;
}

/** For what does not exist and for what is another's alike. */
export function taskNotFound(): A2AError {
  return new (protocolErrors().TaskNotFoundError)('There is no such task.');
}

export function contentNotSupported(message: string): A2AError {
  return new (protocolErrors().ContentTypeNotSupportedError)(message);
}

/**
 * The error that a client receives: its own mistakes with a helpful message, everything else without the engine's message, which may
 * name servers and other owners' things.
 */
export function clientError(error: unknown): A2AError {
  const { A2AError: ClientError } = protocolErrors();
  if (error instanceof ClientError) return error;
  if (!AgentLoopError.isInstance(error)) return new ClientError('The agent has failed.');
  switch (error.code) {
    case 'NOT_FOUND':
      return taskNotFound();
    case 'INVALID_INPUT':
      return malformed(error.message);
    case 'TERMINAL':
      return unsupported('The task is over and takes no more messages.');
    case 'CONFLICT':
      return unsupported('The task received a different answer before.');
    case 'AGENT_BUSY':
      return unsupported('Another task of this context is not over; wait for it, answer it or cancel it.');
    case 'BUSY':
    case 'FULL':
    case 'SHUTDOWN':
    case 'UNAVAILABLE':
      return new ClientError(withCode('The agent is not available at the moment; try again.', error));
    default:
      return new ClientError(withCode('The agent has failed.', error));
  }
}

const away: ReadonlySet<unknown> = new Set<ErrorCode>(['BUSY', 'SHUTDOWN', 'UNAVAILABLE']);

/** Whether a code that an error carries says that the server cannot work at the moment: it stops, or its store is away. */
export function isAwayCode(code: unknown): boolean {
  return away.has(code);
}

function withCode(message: string, { code }: AgentLoopError): A2AErrorOptions {
  return { message, metadata: { code } };
}

/** What is logged of an error: its code, or its name. */
export function codeOf(thrown: unknown): string {
  return AgentLoopError.isInstance(thrown) ? thrown.code : nameOf(thrown);
}
