// Opens stores and does with them what its parent says: the far end of RemoteStores.

import { AgentLoopError } from 'millrace';
import { messageOf } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import type { Subscription } from 'rxjs';
import type { CallRequest, PeerReply, PeerRequest, SentError, SubscribeRequest } from '../remote-stores.ts';

const stores = new Map<number, LmdbStateStore>();
const subscriptions = new Map<number, Subscription>();
let now = 0;

const clock = {
  now: () => now,
  schedule: () => () => {},
};

function send(reply: PeerReply): void {
  process.send?.(reply);
}

function sentError(error: unknown): SentError {
  if (!AgentLoopError.isInstance(error)) return { message: messageOf(error) };
  const { code, message, retryable, retryAfterMs, taskId } = error;
  return {
    code,
    message,
    retryable,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(taskId !== undefined && { taskId }),
  };
}

async function call(store: LmdbStateStore, { method, args }: CallRequest): Promise<unknown> {
  switch (method) {
    case 'create':
      return store.create(...args);
    case 'acquire':
      return store.acquire(...args);
    case 'append':
      return store.append(...args);
    case 'renew':
      return store.renew(...args);
    case 'release':
      return store.release(...args);
    case 'breakLease':
      return store.breakLease(...args);
    case 'post':
      return store.post(...args);
    case 'read':
      return store.read(...args);
    case 'load':
      return store.load(...args);
    case 'describe':
      return store.describe(...args);
    case 'list':
      return store.list(...args);
    case 'delete':
      return store.delete(...args);
    case 'publish':
      return store.publish(...args);
  }
}

function subscribe(store: LmdbStateStore, { id, source, taskId, from }: SubscribeRequest): void {
  const observer = {
    next: (value: unknown) => send({ id, kind: 'next', value: JSON.stringify(value) }),
    error: (error: unknown) => send({ id, kind: 'error', error: sentError(error) }),
    complete: () => send({ id, kind: 'complete' }),
  };
  const options = from === undefined ? {} : { from };
  subscriptions.set(
    id,
    source === 'follow'
      ? store.follow(taskId, options).subscribe(observer)
      : store.commands(taskId).subscribe(observer),
  );
}

async function answer(request: Exclude<PeerRequest, { kind: 'unsubscribe' }>): Promise<unknown> {
  if (request.kind === 'open') {
    stores.set(request.store, new LmdbStateStore({ path: request.path, clock }));
    return undefined;
  }
  const store = stores.get(request.store);
  if (store === undefined) throw new Error(`No store ${request.store} is open.`);
  if (request.kind === 'close') return store.close();
  return request.kind === 'call' ? call(store, request) : subscribe(store, request);
}

process.on('message', async (request: PeerRequest) => {
  if (request.kind === 'unsubscribe') {
    subscriptions.get(request.id)?.unsubscribe();
    subscriptions.delete(request.id);
    return;
  }
  now = request.now;
  try {
    const value = await answer(request);
    if (request.kind === 'subscribe') return;
    send({ id: request.id, kind: 'answer', ...(value !== undefined && { value: JSON.stringify(value) }) });
  } catch (error) {
    send({ id: request.id, kind: 'error', error: sentError(error) });
  }
});
