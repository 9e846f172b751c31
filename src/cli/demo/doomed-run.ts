import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentEvent } from '../../core/contracts/index.ts';
import { ownFile } from '../own-file.ts';
import type { Environment } from '../style.ts';
import { slowTools } from './demo-tools.ts';

export interface DoomedRunOptions {
  /** The arguments of `millrace run`; with `--json`. */
  readonly args: readonly string[];
  readonly env: Environment;
  readonly signal: AbortSignal;
  /** Shows an event. */
  readonly show: (event: AgentEvent) => void | Promise<void>;
}

export interface DoomedRun {
  readonly pid: number;
  /** False where the turn was over before any of its tools could be interrupted. */
  readonly killed: boolean;
}

/** So that it can be seen that they run. */
const beforeKillMs = 400;

const main = ownFile('dist/cli/main.js');

/**
 * Runs a turn as a process of its own and kills it with SIGKILL while slow tools run and no other does. Resolves when the process is
 * gone. Rejects where it cannot be started, or ends on its own with an error: with what it said.
 */
export async function doomedRun({ args, env, signal, show }: DoomedRunOptions): Promise<DoomedRun> {
  const child = spawn(process.execPath, [main, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const gone = once(child, 'close');
  const leave = () => child.kill('SIGKILL');
  signal.addEventListener('abort', leave, { once: true });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  try {
    const running = new Map<string, string>();
    let kill: Promise<void> | undefined;
    for await (const line of createInterface({ input: child.stdout })) {
      const event = eventIn(line);
      if (event === undefined) break;
      await show(event);
      if (event.kind === 'internal:tool-start') running.set(event.callId, event.toolName);
      if (event.kind === 'internal:tool-complete') running.delete(event.callId);
      const onlySlow = running.size > 0 && [...running.values()].every((name) => slowTools.has(name));
      if (onlySlow) kill ??= sleep(beforeKillMs).then(() => void child.kill('SIGKILL'));
    }
    await gone;
    await kill;
    return ended(child, said);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

/** The last line of a process that was killed may be a part of one. */
function eventIn(line: string): AgentEvent | undefined {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function ended({ pid = 0, signalCode, exitCode }: ChildProcess, said: string): DoomedRun {
  if (signalCode === null && exitCode !== 0) throw new Error(said.trim());
  return { pid, killed: signalCode === 'SIGKILL' };
}
