import {
  A2A_ERROR_CODE,
  A2AError,
  InvalidAgentResponseError,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
} from '@a2a-js/sdk/errors';
import { limitErrorIn } from '../../body-limits.ts';
import {
  AgentLoopError,
  type AgentLoopErrorOptions,
  type Clock,
  type ErrorCode,
  messageOf,
} from '../../core/contracts/index.ts';
import { Backoff } from '../../core/streams/index.ts';
import { modelServer } from '../../providers/openai-wire/wire-errors.ts';
import { isAwayCode } from '../protocol-errors.ts';
import { failure, type RemoteName } from './remote-failure.ts';

/** The reason of an error by which the other side says that it does not know the method. */
const unsupported = 'remote_unsupported';
/** The reason of an error by which the other side says that it does not do that: an agent without streams, say. */
const refused = 'remote_unsupported_operation';
/** The reason of an error by which a server of Millrace says that it cannot work at the moment: it stops, or its store is away. */
const unavailable = 'remote_unavailable';
/** What the package makes of an internal error over HTTP+JSON of 0.3. */
const legacyInternal = /\(Code: -32603\)/;
const unreachable = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT/;
const closed = /ECONNRESET|EPIPE|UND_ERR_SOCKET|terminated|aborted|UND_ERR_BODY_TIMEOUT/;

/** What a request to the other side threw, as a coded error in words of ours. */
export function remoteError(name: RemoteName, thrown: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const limit = limitErrorIn(thrown);
  if (limit) return limit;
  // What a call of gRPC threw that is none of its statuses.
  if (thrown instanceof Error && AgentLoopError.isInstance(thrown.cause)) return thrown.cause;
  // An error that comes as an event of a stream.
  if (thrown instanceof Error && thrown.cause instanceof A2AError) return remoteError(name, thrown.cause);
  if (thrown instanceof TaskNotFoundError)
    return failure(name, 'PROVIDER_NOT_FOUND', 'does not know the task (any more)');
  if (thrown instanceof TaskNotCancelableError) return failure(name, 'PROVIDER_BAD_REQUEST', 'cannot cancel the task');
  const fails = (error: Error) => `fails with ${quoted(name, error.message)}: try again later`;
  // HTTP 502 in A2A 1.0.0, 500 in 1.0.1.
  if (thrown instanceof InvalidAgentResponseError) return failure(name, 'PROVIDER_SERVER', fails(thrown));
  if (thrown instanceof A2AError) {
    const status = grpcStatusOf(thrown);
    if (status !== undefined) return grpcFailure(name, status);
    if (isInternal(thrown))
      return failure(name, 'PROVIDER_SERVER', fails(thrown), saysUnavailable(thrown) ? { reason: unavailable } : {});
    const isUnknown = 'envelopeCode' in thrown && thrown.envelopeCode === A2A_ERROR_CODE.METHOD_NOT_FOUND;
    const what = `refuses the request with ${quoted(name, thrown.message)}`;
    if (isUnknown) return failure(name, 'PROVIDER_BAD_REQUEST', what, { reason: unsupported });
    if (thrown instanceof UnsupportedOperationError)
      return failure(name, 'PROVIDER_BAD_REQUEST', what, { reason: refused });
    return failure(name, 'PROVIDER_BAD_REQUEST', what, statusOf(thrown));
  }
  const chain = chainOf(thrown);
  if (/TimeoutError/.test(chain)) return timedOut(name);
  if (unreachable.test(chain))
    return failure(name, 'PROVIDER_UNREACHABLE', 'cannot be reached: check url and that it runs');
  if (closed.test(chain)) return failure(name, 'PROVIDER_STREAM_CLOSED', 'closed the connection: try again');
  if (legacyInternal.test(chain))
    return failure(name, 'PROVIDER_SERVER', `fails with ${quoted(name, messageOf(thrown))}: try again later`);
  return failure(
    name,
    'PROVIDER_PROTOCOL',
    `does not answer as an A2A server, with ${quoted(name, messageOf(thrown))}: check url`,
  );
}

interface GrpcStatus {
  readonly code: number;
  readonly words: string;
  /** Whether the server has said more of it than a connection does. */
  readonly isAnswer: boolean;
}

/** Of an error of gRPC that is none of the protocol. */
function grpcStatusOf(error: A2AError): GrpcStatus | undefined {
  const { name, transport, status: code, statusDetailsBin, cause }: Readonly<Record<string, unknown>> = Object(error);
  if (transport !== 'grpc' || name !== 'A2AError' || typeof code !== 'number') return undefined;
  const { details } = Object(cause);
  const words = typeof details === 'string' ? details : error.message;
  return { code, words, isAnswer: statusDetailsBin !== undefined };
}

const notConnected = /^(?:No connection established|Name resolution failed)/;

/** By the codes of gRPC, https://grpc.github.io/grpc/core/md_doc_statuscodes.html. */
function grpcFailure(name: RemoteName, { code, words, isAnswer }: GrpcStatus): AgentLoopError {
  switch (code) {
    case 4:
      return timedOut(name);
    case 5:
      return failure(name, 'PROVIDER_NOT_FOUND', `knows nothing of it, with ${quoted(name, words)}`);
    case 7:
    case 16:
      return failure(name, 'PROVIDER_AUTH', 'refuses the credentials: check auth');
    case 8:
      if (/larger than max/.test(words))
        return failure(
          name,
          'PROVIDER_TOO_LARGE',
          'sent more than maxBodyBytes: raise it, or ask for a shorter answer',
        );
      return failure(name, 'PROVIDER_RATE_LIMIT', 'is asked too often: try again later');
    case 12:
      return failure(name, 'PROVIDER_BAD_REQUEST', `refuses the request with ${quoted(name, words)}`, {
        reason: unsupported,
      });
    case 3:
    case 9:
    case 11:
      return failure(name, 'PROVIDER_BAD_REQUEST', `refuses the request with ${quoted(name, words)}`);
    case 1:
    case 14:
      if (notConnected.test(words))
        return failure(name, 'PROVIDER_UNREACHABLE', 'cannot be reached: check url and that it runs');
      if (!isAnswer) return failure(name, 'PROVIDER_STREAM_CLOSED', 'closed the connection: try again');
      return failure(name, 'PROVIDER_SERVER', `fails with ${quoted(name, words)}: try again later`, {
        reason: unavailable,
      });
    default:
      return failure(name, 'PROVIDER_SERVER', `fails with ${quoted(name, words)}: try again later`);
  }
}

/** Reasons with which a process gives up a turn that another owner continues. */
const leavingCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'LEFT',
  'SHUTDOWN',
  'FENCED',
  'REWOUND',
  'UNAVAILABLE',
]);

/**
 * Whether an abort leaves the turn to its next owner, by the reason of the signal. The remote task of a turn that is left keeps
 * running; every other abort is a cancel. The A2A client decides this here and nowhere else.
 */
export function keepsRemoteTask(reason: unknown): boolean {
  return AgentLoopError.isInstance(reason) && leavingCodes.has(reason.code);
}

/** Whether the other side does not know the method, and so has done nothing. */
export function isUnsupported(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.reason === unsupported;
}

/** Statuses of a server, or of a proxy, that has no such route. */
const noRoute: ReadonlySet<number | undefined> = new Set([404, 405, 501]);

/** Whether the other side takes no messages that open a stream, and so has done nothing: it may take those that do not. */
export function refusesStream(error: unknown): boolean {
  if (!AgentLoopError.isInstance(error)) return false;
  return isUnsupported(error) || error.reason === refused || noRoute.has(error.status);
}

export function isUnavailable({ reason }: AgentLoopError): boolean {
  return reason === unavailable;
}

/** Whether it is the other side's fault, as HTTP 500 is. */
function isInternal(error: A2AError): boolean {
  if ('envelopeCode' in error) return error.envelopeCode === A2A_ERROR_CODE.INTERNAL_ERROR;
  // INTERNAL of gRPC.
  if ('status' in error && error.status === 13) return true;
  return 'statusCode' in error && typeof error.statusCode === 'number' && error.statusCode >= 500;
}

/** Of HTTP+JSON. */
function statusOf(error: A2AError): Pick<AgentLoopErrorOptions, 'status'> {
  const status: unknown = 'statusCode' in error ? error.statusCode : undefined;
  return typeof status === 'number' && status >= 400 ? { status } : {};
}

function saysUnavailable(error: A2AError): boolean {
  const details: unknown = 'data' in error ? error.data : undefined;
  if (!Array.isArray(details)) return false;
  const codes: readonly unknown[] = details.map((detail) => Object(Object(detail).metadata).code);
  return codes.some(isAwayCode);
}

/** Whether nobody at the address knows the request, and so nobody has done anything: it may be an address of before. */
export function isMisdirected(error: AgentLoopError): boolean {
  return isUnsupported(error) || error.status === 404 || error.code === 'PROVIDER_UNREACHABLE';
}

const surelyNotArrived: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'PROVIDER_UNREACHABLE',
  'PROVIDER_AUTH',
  'PROVIDER_NOT_FOUND',
  'PROVIDER_RATE_LIMIT',
]);

/** A server may work on a message and still fail to answer it: the SDK's refuses a stream whose first event is not the task. */
export function mayHaveArrived(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && !surelyNotArrived.has(error.code);
}

/** `option`: the one that says how long it may take. */
export function timedOut(name: RemoteName, option = 'requestTimeoutMs'): AgentLoopError {
  return failure(name, 'PROVIDER_TIMEOUT', `did not answer in time: raise ${option} where it may take longer`);
}

/** A task that its server does not end. */
export function tooLong({ address }: RemoteName, ms: number): AgentLoopError {
  const message = `The agent at ${address} did not end its task within ${ms} ms: raise taskTimeoutMs where it may take longer.`;
  return new AgentLoopError('PROVIDER_TIMEOUT', message, { reason: 'remote_task_timeout' });
}

/** A task that its server keeps and does not work on. */
export function unchanged({ address }: RemoteName, ms: number): AgentLoopError {
  const message = `The task of the agent at ${address} has not changed for ${ms} ms: raise maxSilenceMs where it may be silent for longer.`;
  return new AgentLoopError('PROVIDER_TIMEOUT', message, { reason: 'remote_task_silent' });
}

/** An HTTP status that is none of success, and that carries no error of the protocol. */
export function httpFailure(name: RemoteName, status: number): AgentLoopError {
  if (status === 401 || status === 403)
    return failure(name, 'PROVIDER_AUTH', 'refuses the credentials: check auth', { status });
  if (status === 404) return failure(name, 'PROVIDER_NOT_FOUND', 'has nothing at this address: check url', { status });
  if (status === 429) return failure(name, 'PROVIDER_RATE_LIMIT', 'is asked too often: try again later', { status });
  if (status >= 500) return failure(name, 'PROVIDER_SERVER', `fails with HTTP ${status}: try again later`, { status });
  if (status >= 300 && status < 400) {
    return failure(name, 'PROVIDER_PROTOCOL', 'redirects: set url to where it really is', { status });
  }
  return failure(name, 'PROVIDER_BAD_REQUEST', `refuses the request with HTTP ${status}`, { status });
}

/** Words of the other side, fit to be shown: on one line, shortened, without what authorized the request. */
export function quoted({ address, secrets }: RemoteName, words: string): string {
  return modelServer({ address, model: '', secrets }).quote(words);
}

/** Names, codes and messages of an error and its causes. By shape: those of Node may be of another realm. */
function chainOf(thrown: unknown): string {
  let chain = '';
  let error = thrown;
  for (let depth = 0; depth < 8 && typeof error === 'object' && error !== null; depth++) {
    for (const member of ['name', 'code', 'message'] as const) chain += ` ${String(Reflect.get(error, member) ?? '')}`;
    error = 'cause' in error ? error.cause : undefined;
  }
  return chain;
}

/** Pauses between attempts: 250 ms, then twice the one before, 5 s at most. */
export function remoteBackoff(): Backoff {
  return new Backoff(250, 5_000);
}

/** Asks again after each retryable error, for `forMs` milliseconds in all; rejects with the last error, or the reason of the signal. */
export async function retrying<T>(
  ask: () => Promise<T>,
  { clock, signal, forMs }: { readonly clock: Clock; readonly signal: AbortSignal; readonly forMs: number },
): Promise<T> {
  const until = clock.now() + forMs;
  const backoff = remoteBackoff();
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (!isPassing(error) || clock.now() >= until) throw error;
    }
    await backoff.pause(clock, signal);
  }
}

/** Whether the same request may succeed later. */
export function isPassing(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.retryable;
}
