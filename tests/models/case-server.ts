import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type SeenRequest, satisfies } from './checks.ts';
import type { Answer, Piece, ServerScript } from './model-case.ts';
import { written } from './notation.ts';

/** A server that answers with the bytes of a case and refuses what the case says. */
export interface CaseServer {
  readonly url: string;
  /** The requests so far. */
  readonly seen: readonly SeenRequest[];
  close(): Promise<void>;
}

/** Called where a stream pauses, with the number of bytes sent so far. */
export type Pause = (sentBytes: number, ms: number) => Promise<void>;

/** Starts it on a free port of the loopback. The last answer is repeated for every further request. */
export async function startCaseServer(script: ServerScript, pause: Pause): Promise<CaseServer> {
  const rules = written(script.server);
  const seen: SeenRequest[] = [];
  const answerTo = (request: SeenRequest): Answer => {
    const refusal = rules.find(({ check, from = 1 }) => seen.length >= from && !satisfies(check, request));
    if (refusal !== undefined) return { status: refusal.status, body: refusal.body };
    return script.answers[Math.min(seen.length, script.answers.length) - 1] ?? { status: 404 };
  };
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const seenNow = seenRequest(request.url ?? '', Buffer.concat(pieces).toString('utf8'));
      seen.push(seenNow);
      void send(response, answerTo(seenNow), pause);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function seenRequest(path: string, raw: string): SeenRequest {
  try {
    return { path, raw, body: JSON.parse(raw) };
  } catch {
    return { path, raw };
  }
}

async function send(response: ServerResponse, answer: Answer, pause: Pause): Promise<void> {
  response.writeHead(answer.status, answer.headers ?? { 'content-type': 'application/json' });
  let sentBytes = 0;
  for (const piece of answer.sse ?? []) {
    if (typeof piece === 'object' && 'cut' in piece) {
      response.write('', () => response.destroy());
      return;
    }
    if (typeof piece === 'object' && 'pauseMs' in piece) {
      await pause(sentBytes, piece.pauseMs);
      continue;
    }
    const bytes = bytesOf(piece);
    sentBytes += bytes.length;
    response.write(bytes);
  }
  const { body = '' } = answer;
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

function bytesOf(piece: Exclude<Piece, { pauseMs: number } | { cut: true }>): Buffer {
  if (typeof piece === 'string') return Buffer.from(piece);
  if ('base64' in piece) return Buffer.from(piece.base64, 'base64');
  const event = piece.event === undefined ? '' : `event: ${piece.event}\n`;
  return Buffer.from(`${event}data: ${JSON.stringify(piece.data)}\n\n`);
}
