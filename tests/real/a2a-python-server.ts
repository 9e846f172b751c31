import { fileURLToPath } from 'node:url';
import { type PartName, realPart } from './real-part.ts';
import { RealProcess } from './real-process.ts';

const script = fileURLToPath(new URL('a2a-python/server.py', import.meta.url));

/** A kept connection is one that the server may be closing: uvicorn does so after five seconds. */
const fresh = { headers: { connection: 'close' } };

/** The ids of the messages that its agent was given, and of the tasks that it was told to cancel. */
interface Seen {
  readonly received: readonly string[];
  readonly canceled: readonly string[];
}

export interface PythonServer {
  readonly port: number;
  seen(): Promise<Seen>;
  /** Resolves once its agent was given so many messages. */
  hasReceived(count: number): Promise<void>;
  /** Lets it answer what it has been told to answer late. */
  release(): Promise<void>;
  close(): Promise<void>;
}

interface PythonServerOptions {
  readonly port: number;
  /** The port that its card names, where another way leads to it. gRPC listens there. */
  readonly at?: number;
  /** Whether its card says that it streams. Default true. */
  readonly streaming?: boolean;
}

/** The agent of `a2a-python/server.py` on a free port of the loopback interface. */
export async function startPythonServer(
  part: PartName,
  transport: 'JSONRPC' | 'HTTP+JSON' | 'GRPC',
  { port, at = port, streaming = true }: PythonServerOptions,
): Promise<PythonServer> {
  const { bin = 'python3' } = realPart(part);
  const server = new RealProcess(bin, [script, transport, String(port), String(at), ...(streaming ? [] : ['plain'])]);
  const asked = async (path: string) => Object(await (await fetch(`http://127.0.0.1:${port}/${path}`, fresh)).json());
  const seen = (): Promise<Seen> => asked('seen');
  const hasReceived = (count: number) =>
    server.ready(`Message ${count}`, async () => (await seen()).received.length >= count);
  const release = async () => void (await asked('release'));
  await server.ready('The Python server', async () => Boolean(await seen()));
  return { port, seen, hasReceived, release, close: () => server.close() };
}
