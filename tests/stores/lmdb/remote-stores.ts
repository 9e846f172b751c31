import type { ChildProcess } from 'node:child_process';
import { AgentLoopError, type Clock, type ErrorCode, type TaskStateStore } from 'millrace';
import { Observable, Subject } from 'rxjs';

type Call = {
  [M in Exclude<keyof TaskStateStore, 'messages' | 'refersTo' | 'isEphemeral' | 'follow' | 'commands' | 'check'>]: {
    readonly method: M;
    readonly args: Parameters<TaskStateStore[M]>;
  };
}[Exclude<keyof TaskStateStore, 'messages' | 'refersTo' | 'isEphemeral' | 'follow' | 'commands' | 'check'>];

interface Addressed {
  readonly id: number;
  readonly store: number;
  /** Milliseconds since 1970: the time of the peer's clock from then on. */
  readonly now: number;
}

export type CallRequest = Addressed & { readonly kind: 'call' } & Call;

export interface SubscribeRequest extends Addressed {
  readonly kind: 'subscribe';
  readonly source: 'follow' | 'commands';
  readonly taskId: string;
  readonly from?: number;
}

/** What the parent asks. */
export type PeerRequest =
  | (Addressed & { readonly kind: 'open'; readonly path: string })
  | (Addressed & { readonly kind: 'close' })
  | CallRequest
  | SubscribeRequest
  | { readonly id: number; readonly kind: 'unsubscribe' };

export interface SentError {
  readonly code?: ErrorCode;
  readonly message: string;
  readonly retryable?: boolean;
  readonly retryAfterMs?: number;
  readonly taskId?: string;
}

export type PeerReply = {
  readonly id: number;
} /** `value`: as JSON, so that it becomes an object of the realm that reads it; absent for nothing. */ & (
  | { readonly kind: 'answer' | 'next'; readonly value?: string }
  | { readonly kind: 'error'; readonly error: SentError }
  | { readonly kind: 'complete' }
);

export interface RemoteStore extends TaskStateStore {
  close(): Promise<void>;
}

/** Stores that stand in another process, `children/peer.ts`. */
export class RemoteStores {
  readonly #child: ChildProcess;
  readonly #replies = new Subject<PeerReply>();
  #last = 0;

  constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', (reply: PeerReply) => this.#replies.next(reply));
  }

  async open({ path, clock }: { readonly path: string; readonly clock: Clock }): Promise<RemoteStore> {
    const store = ++this.#last;
    await this.#ask({ kind: 'open', path, store, now: clock.now() });
    // biome-ignore lint/suspicious/noExplicitAny: an answer has the type of the method that was called.
    const call = (request: Call): Promise<any> => this.#ask({ kind: 'call', ...request, store, now: clock.now() });
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    const subscribe = (source: 'follow' | 'commands', taskId: string, from?: number): Observable<any> =>
      this.#watch(() => ({
        ...{ kind: 'subscribe', source, taskId, store, now: clock.now() },
        ...(from !== undefined && { from }),
      }));
    return {
      create: (...args) => call({ method: 'create', args }),
      // What is sent is JSON, in which `undefined` as an argument would be null.
      acquire: (taskId, owner, leaseMs, under) =>
        call({ method: 'acquire', args: under ? [taskId, owner, leaseMs, under] : [taskId, owner, leaseMs] }),
      append: (...args) => call({ method: 'append', args }),
      renew: (...args) => call({ method: 'renew', args }),
      release: (...args) => call({ method: 'release', args }),
      breakLease: (...args) => call({ method: 'breakLease', args }),
      post: (...args) => call({ method: 'post', args }),
      read: (...args) => call({ method: 'read', args }),
      load: (...args) => call({ method: 'load', args }),
      describe: (...args) => call({ method: 'describe', args }),
      list: (...args) => call({ method: 'list', args }),
      delete: (...args) => call({ method: 'delete', args }),
      publish: (...args) => void call({ method: 'publish', args }),
      check: () => ({ ok: true, warnings: [] }),
      follow: (taskId, options) => subscribe('follow', taskId, options?.from),
      commands: (taskId) => subscribe('commands', taskId),
      close: async () => void (await this.#ask({ kind: 'close', store, now: clock.now() })),
    };
  }

  #ask(request: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#watch(() => request).subscribe({ next: resolve, error: reject });
    });
  }

  #watch(request: () => object): Observable<unknown> {
    return new Observable((subscriber) => {
      const id = ++this.#last;
      subscriber.add(
        this.#replies.subscribe((reply) => {
          if (reply.id !== id) return;
          if (reply.kind === 'error') subscriber.error(errorOf(reply.error));
          else if (reply.kind === 'complete') subscriber.complete();
          else subscriber.next(reply.value === undefined ? undefined : JSON.parse(reply.value));
          if (reply.kind === 'answer') subscriber.complete();
        }),
      );
      subscriber.add(() => this.#child.connected && this.#child.send({ id, kind: 'unsubscribe' }));
      this.#child.send({ ...request(), id });
    });
  }
}

function errorOf({ code, message, ...options }: SentError): Error {
  return code === undefined ? new Error(message) : new AgentLoopError(code, message, options);
}
