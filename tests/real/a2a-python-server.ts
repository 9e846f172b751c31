import { fileURLToPath } from 'node:url';
import { type PartName, realPart } from './real-part.ts';
import { RealProcess } from './real-process.ts';

const script = fileURLToPath(new URL('a2a-python/server.py', import.meta.url));

/** For the hook that starts it, in milliseconds. */
export const startTimeoutMs = 90_000;

/** The ids of the messages that its agent was given, and of the tasks that it was told to cancel. */
interface Seen {
  readonly received: readonly string[];
  readonly canceled: readonly string[];
}

export interface PythonServer {
  readonly port: number;
  seen(): Promise<Seen>;
  close(): Promise<void>;
}

/** The agent of `a2a-python/server.py` on a free port of the loopback interface; `at`: the port that its card names, where another way leads to it. */
export async function startPythonServer(
  part: PartName,
  transport: 'JSONRPC' | 'HTTP+JSON',
  { port, at = port }: { readonly port: number; readonly at?: number },
): Promise<PythonServer> {
  const { bin = 'python3' } = realPart(part);
  const server = new RealProcess(bin, [script, transport, String(port), String(at)]);
  const seen = async (): Promise<Seen> => Object(await (await fetch(`http://127.0.0.1:${port}/seen`)).json());
  await server.ready('The Python server', 60_000, async () => Boolean(await seen()));
  return { port, seen, close: () => server.close() };
}
