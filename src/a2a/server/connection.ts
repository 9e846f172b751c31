import type { ServerResponse } from 'node:http';

/** The way back to a caller. */
export interface Connection {
  /** Aborted when the client disconnects. */
  readonly closed: AbortSignal;
  /** Resolves when there is room again, or the client disconnects; `undefined` while there is room. */
  drained(): Promise<void> | undefined;
  /** Shows an idle reader, and what is in between, that the stream is alive; does nothing before the stream has begun. */
  beat(): void;
}

/** What of a stream of Node's is used. */
interface Channel {
  readonly writableNeedDrain: boolean;
  once(event: 'drain', listener: () => void): unknown;
  off(event: 'drain', listener: () => void): unknown;
}

/** Of an HTTP response; its beat is a comment of server-sent events, which their readers skip. */
export function httpConnection(response: ServerResponse): Connection {
  const closed = closedSignal((close) => response.once('close', close));
  return {
    closed,
    drained: () => drainOf(response, closed),
    beat() {
      const streams = String(response.getHeader('content-type')).startsWith('text/event-stream');
      if (response.headersSent && streams && !response.writableEnded && !response.writableNeedDrain) {
        response.write(': alive\n\n');
      }
    },
  };
}

/** Of a call over gRPC, which is there before its stream is. Sends no heartbeat: the connection itself is pinged. */
export class GrpcConnection implements Connection {
  readonly #closed = new AbortController();
  #channel: Channel | undefined;

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** The call is over, or its client has left. */
  close(): void {
    this.#closed.abort();
  }

  /** Names the stream that the answers are written to; a call with one answer has none. */
  writeTo(channel: Channel): void {
    this.#channel = channel;
  }

  drained(): Promise<void> | undefined {
    return this.#channel && drainOf(this.#channel, this.closed);
  }

  beat(): void {}
}

function closedSignal(onClose: (close: () => void) => void): AbortSignal {
  const controller = new AbortController();
  onClose(() => controller.abort());
  return controller.signal;
}

function drainOf(channel: Channel, closed: AbortSignal): Promise<void> | undefined {
  if (!channel.writableNeedDrain || closed.aborted) return undefined;
  return new Promise((resolve) => {
    const go = () => {
      channel.off('drain', go);
      closed.removeEventListener('abort', go);
      resolve();
    };
    channel.once('drain', go);
    closed.addEventListener('abort', go, { once: true });
  });
}
