import { createRequire } from 'node:module';
import type { A2AError, A2AErrorOptions } from '@a2a-js/sdk/errors';
import { AgentLoopError } from '../core/errors.ts';
import { missingPackage } from '../core/missing-package.ts';

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

export function unsupported(message: string): A2AError {
  return new (protocolErrors().UnsupportedOperationError)(message);
}

/** For what does not exist and for what is another's alike. */
export function taskNotFound(): A2AError {
  return new (protocolErrors().TaskNotFoundError)('There is no such task.');
}

export function contentNotSupported(message: string): A2AError {
  return new (protocolErrors().ContentTypeNotSupportedError)(message);
}

/**
 * What a client is told of an error: its own mistakes in words that help it, everything else without a word of the engine's, which may
 * name servers and other owners' things.
 */
export function toldError(error: unknown): A2AError {
  const { A2AError: Told } = protocolErrors();
  if (error instanceof Told) return error;
  if (!AgentLoopError.isInstance(error)) return new Told('The agent has failed.');
  switch (error.code) {
    case 'NOT_FOUND':
      return taskNotFound();
    case 'INVALID_INPUT':
      return malformed(error.message);
    case 'TERMINAL':
      return unsupported('The task is over and takes no more messages.');
    case 'CONFLICT':
      return unsupported('The task was told otherwise before.');
    case 'AGENT_BUSY':
      return unsupported('Another task of this context is not over; wait for it, answer it or cancel it.');
    case 'BUSY':
    case 'SHUTDOWN':
    case 'UNAVAILABLE':
      return new Told(withCode('The agent is not available at the moment; try again.', error));
    default:
      return new Told(withCode('The agent has failed.', error));
  }
}

function withCode(message: string, { code }: AgentLoopError): A2AErrorOptions {
  return { message, metadata: { code } };
}
