import { AgentLoopError, messageOf, nameOf } from '../../core/contracts/index.ts';

const refusedCredentials: ReadonlySet<string> = new Set([
  'AccessDenied',
  'AccountProblem',
  'CredentialsProviderError',
  'ExpiredToken',
  'InvalidAccessKeyId',
  'InvalidToken',
  'RequestTimeTooSkewed',
  'SignatureDoesNotMatch',
]);
const full: ReadonlySet<string> = new Set([
  'EntityTooLarge',
  'InsufficientStorage',
  'QuotaExceeded',
  'XMinioStorageFull',
]);

/**
 * The error of a request that S3 did not carry out: `FULL` where it has no room, else `UNAVAILABLE`. Says what S3 said; the request
 * itself, which holds a signature, stays out.
 */
export function s3Error(thrown: unknown, bucket: string): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const said = saidBy(thrown);
  const name = nameOf(thrown);
  const about = `The bucket "${bucket}"`;
  if (full.has(name) || statusOf(thrown) === 507) {
    const message = `${about} has no room for this: "${said}"; free space, or raise the quota.`;
    return new AgentLoopError('FULL', message, { retryable: true });
  }
  const cure = cureOf(name, statusOf(thrown));
  if (cure !== undefined) {
    return new AgentLoopError('UNAVAILABLE', `${about} cannot be used: "${said}"; ${cure}.`);
  }
  const message = `${about} cannot be reached: "${said}"; check endpoint and network, or try again later.`;
  return new AgentLoopError('UNAVAILABLE', message, { retryable: true });
}

/** Whether a request was refused because of what stands at its key. */
export function isTaken(thrown: unknown): boolean {
  const status = statusOf(thrown);
  return status === 412 || (status === 409 && nameOf(thrown) === 'ConditionalRequestConflict');
}

export function isMissingKey(thrown: unknown): boolean {
  return ['NoSuchKey', 'NotFound'].includes(nameOf(thrown));
}

export function isMissingUpload(thrown: unknown): boolean {
  return nameOf(thrown) === 'NoSuchUpload';
}

/** What helps against a refusal that another try would meet again. */
function cureOf(name: string, status: number | undefined): string | undefined {
  if (refusedCredentials.has(name) || status === 401 || status === 403) {
    return 'check the credentials, and what their policy allows';
  }
  if (name === 'NoSuchBucket') return 'make it, or name another one';
  if (name === 'NotImplemented' || status === 501) {
    return 'where the server does not know If-None-Match, set conditionalWrites to false';
  }
  const isRefusal = status !== undefined && status >= 400 && status < 500 && ![408, 409, 425, 429].includes(status);
  return isRefusal ? 'check bucket, region and endpoint' : undefined;
}

function saidBy(thrown: unknown): string {
  const name = nameOf(thrown);
  const message = messageOf(thrown);
  return name === 'Error' ? message : `${name}: ${message}`;
}

function statusOf(thrown: unknown): number | undefined {
  if (typeof thrown !== 'object' || thrown === null || !('$metadata' in thrown)) return undefined;
  const metadata = thrown.$metadata;
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return undefined;
  return typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : undefined;
}
