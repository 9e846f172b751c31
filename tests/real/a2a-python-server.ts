import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type PartName, realPart } from './real-part.ts';

const script = fileURLToPath(new URL('a2a-python/server.py', import.meta.url));

/** For the hook that starts it, in milliseconds. */
export const startTimeoutMs = 90_000;

/** A test run that is broken off leaves no server behind. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

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
  const { PATH = '', HOME = '' } = process.env;
  const args = [script, transport, String(port), String(at)];
  const child = spawn(bin, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH, HOME } });
  running.add(child);
  child.once('exit', () => running.delete(child));
  const log: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => log.push(String(text)));
  const close = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  };
  const seen = async (): Promise<Seen> => Object(await (await fetch(`http://127.0.0.1:${port}/seen`)).json());
  for (const until = Date.now() + 60_000; Date.now() < until && child.exitCode === null; ) {
    if (await seen().catch(() => undefined)) return { port, seen, close };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await close();
  throw new Error(`The Python server did not start:\n${log.join('')}`);
}
