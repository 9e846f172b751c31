import type { ServerResponse } from 'node:http';

/** The way back to a caller. */
export interface Connection {
  /** Aborted once nobody reads any more. */
  readonly closed: AbortSignal;
  /** Resolves when there is room again, or nobody reads; `undefined` while there is room. */
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

/** What of a call over gRPC is used. */
interface GrpcCall {
  once(event: 'cancelled' | 'finish', listener: () => void): unknown;
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

/** Of a call over gRPC, whose connection itself is asked for signs of life. */
export function grpcConnection(call: GrpcCall | (GrpcCall & Channel)): Connection {
  const closed = closedSignal((close) => {
    call.once('cancelled', close);
    call.once('finish', close);
  });
  return { closed, drained: () => ('writableNeedDrain' in call ? drainOf(call, closed) : undefined), beat() {} };
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
