import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { AgentLoopError, type Clock } from '../../../core/contracts/index.ts';
import type { PushEntry } from '../../../stores/push/push-store.ts';
import type { PushOptions } from './push-options.ts';
import { signature } from './push-signature.ts';
import { checkedLookup, targetUrl } from './push-target.ts';

export interface Notification {
  readonly body: string;
  readonly contentType: string;
  /** The same whenever it is sent again: receivers drop what they have had. */
  readonly id: string;
}

/** What came of a notification: taken, not wanted any more, or to be sent again. */
export type PushOutcome =
  | { readonly type: 'taken' }
  | { readonly type: 'gone' }
  | { readonly type: 'failed'; readonly status?: number; readonly retryAfterMs?: number };

/**
 * Posts a notification once. Follows no redirect, reads nothing of the answer but its status, and connects only to an address that was
 * checked. Never rejects.
 */
export async function sendNotification(
  entry: PushEntry,
  notification: Notification,
  options: Pick<PushOptions, 'signing' | 'allowHttp' | 'allowPrivateTargets' | 'timeoutMs'> & {
    readonly clock: Clock;
    readonly signal: AbortSignal;
  },
): Promise<PushOutcome> {
  try {
    const url = targetUrl(entry.url, options);
    const headers = await headersOf(entry, notification, { url, ...options });
    const response = await post(url, { headers, body: notification.body, ...options });
    return outcomeOf(response);
  } catch (thrown) {
    // A target that is not allowed any more will not be tomorrow.
    return AgentLoopError.isInstance(thrown) ? { type: 'gone' } : { type: 'failed' };
  }
}

type Headers = Readonly<Record<string, string | number>>;

async function headersOf(
  { token, authentication }: PushEntry,
  { body, contentType, id }: Notification,
  { url, signing, clock }: { readonly url: URL; readonly clock: Clock } & Pick<PushOptions, 'signing'>,
): Promise<Headers> {
  const signed = { body, id, audience: url.origin, now: clock.now() };
  return {
    'content-type': contentType,
    'content-length': Buffer.byteLength(body),
    'user-agent': 'millrace',
    'x-millrace-delivery': id,
    ...(token !== undefined && { 'x-a2a-notification-token': token }),
    ...(authentication && { authorization: `${authentication.scheme} ${authentication.credentials}` }),
    ...(signing && { 'x-millrace-signature': await signature(signing, signed) }),
  };
}

interface Post extends Pick<PushOptions, 'allowHttp' | 'allowPrivateTargets' | 'timeoutMs'> {
  readonly headers: Headers;
  readonly body: string;
  readonly signal: AbortSignal;
}

function post(url: URL, { headers, body, timeoutMs = 10_000, signal, ...rules }: Post): Promise<IncomingMessage> {
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const request = send(url, { method: 'POST', headers, agent: false, lookup: checkedLookup(rules), signal: limit });
    request.once('error', reject);
    request.once('response', (response) => {
      response.destroy();
      resolve(response);
    });
    request.end(body);
  });
}

function outcomeOf({ statusCode = 0, headers }: IncomingMessage): PushOutcome {
  if (statusCode >= 200 && statusCode < 300) return { type: 'taken' };
  if (statusCode === 410) return { type: 'gone' };
  const seconds = Number(headers['retry-after']);
  return { type: 'failed', status: statusCode, ...(seconds > 0 && { retryAfterMs: seconds * 1_000 }) };
}
