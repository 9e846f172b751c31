import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { FetchLike } from '@modelcontextprotocol/sdk/shared/transport.js';
import { AgentLoopError, systemClock } from '../core/contracts/index.ts';
import { boundedResponse } from '../core/model-call/index.ts';
import { inTime } from '../core/options/index.ts';
import { bodyLimitsOf } from './check-mcp-options.ts';
import type { ClientSdk } from './load-sdk.ts';
import type { McpHeaders, McpHttpOptions } from './mcp-options.ts';

export interface HttpTransportOptions {
  readonly sdk: ClientSdk;
  readonly server: McpHttpOptions;
  /** Told of headers before they are sent. */
  readonly onHeaders: (headers: McpHeaders) => void;
  /**
   * Called where the stream that should have brought the answer of a tool has ended. `resumable`: the server may send the rest of it
   * on another stream.
   */
  readonly onStreamEnd: (resumable: boolean) => void;
  /** Called where the server sends more than it may, before what reads the response hears of it. */
  readonly onTooLarge: (error: AgentLoopError) => void;
}

/** Streams that break off are taken up again this often. */
const reconnectionOptions = {
  initialReconnectionDelay: 500,
  maxReconnectionDelay: 30_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 10,
};

/** Streamable HTTP with the server's headers on each request, and an eye on answers that break off: the SDK's own waits for them for ever. */
export function httpTransport(options: HttpTransportOptions): StreamableHTTPClientTransport {
  const { sdk, server } = options;
  const limits = bodyLimitsOf(server);
  // A stream that the server keeps open for what it has to say brings many messages.
  const eventLimits = { ...limits, maxBodyBytes: Number.POSITIVE_INFINITY };
  const tooLarge = (what: string) => {
    const error = new AgentLoopError('TOOL_TOO_LARGE', what);
    options.onTooLarge(error);
    return error;
  };
  const send: FetchLike = async (url, init) => {
    const headers = new Headers(init?.headers);
    const own = await headersOf(server);
    if (own) {
      options.onHeaders(own);
      for (const [name, value] of Object.entries(own)) headers.set(name, value);
    }
    const response = await fetch(url, { ...init, headers }).catch((error: unknown) => {
      // By any other failure the SDK would take up the stream again and again, also behind its own end.
      if (init?.method === 'GET' && init.signal?.aborted) return new Response(null, { status: 405 });
      throw error;
    });
    const bounded = boundedResponse(response, init?.method === 'GET' ? eventLimits : limits, tooLarge);
    return isToolCall(init?.body) ? watched(bounded, options.onStreamEnd) : bounded;
  };
  return new sdk.StreamableHTTPClientTransport(new URL(server.url), { fetch: send, reconnectionOptions });
}

/** A function that gives them has as long as the server has to start. */
async function headersOf({ headers, connectTimeoutMs: ms = 30_000 }: McpHttpOptions): Promise<McpHeaders | undefined> {
  if (typeof headers !== 'function') return headers;
  const late = () =>
    new AgentLoopError(
      'UNAVAILABLE',
      `has no headers: their function did not answer within ${ms} ms (connectTimeoutMs)`,
      {
        retryable: true,
      },
    );
  return inTime(headers, { ms, clock: systemClock, late });
}

/** A call that the server makes a task of has its answer elsewhere. */
function isToolCall(body: unknown): boolean {
  if (typeof body !== 'string') return false;
  const message: unknown = JSON.parse(body);
  if (!isRecord(message) || message['method'] !== 'tools/call') return false;
  return !isRecord(message['params']) || message['params']['task'] === undefined;
}

/** The same response, with a callback at its end. */
function watched(response: Response, onEnd: (resumable: boolean) => void): Response {
  const { body, status, headers } = response;
  if (!response.ok || !body || !headers.get('content-type')?.startsWith('text/event-stream')) return response;
  const decoder = new TextDecoder();
  let line = '';
  let resumable = false;
  const read = (text: string) => {
    const lines = (line + text).split(/\r?\n/);
    line = (lines.pop() ?? '').slice(0, 3);
    if (lines.some((each) => each.startsWith('id:'))) resumable = true;
  };
  const reader = body.getReader();
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { value, done } = await reader.read();
        if (value) {
          read(decoder.decode(value, { stream: true }));
          return controller.enqueue(value);
        }
        if (done) controller.close();
      } catch (error) {
        controller.error(error);
      }
      // After the last chunk was read.
      setTimeout(() => onEnd(resumable), 0);
    },
    cancel: (reason: unknown) => reader.cancel(reason),
  });
  return new Response(stream, { status, headers });
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
