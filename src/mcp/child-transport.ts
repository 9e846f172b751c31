import { type ChildProcess, spawn } from 'node:child_process';
import type { ReadBuffer } from '@modelcontextprotocol/sdk/shared/stdio.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { bodyLimitsOf } from './check-mcp-options.ts';
import type { ClientSdk } from './load-sdk.ts';
import type { McpProcessOptions } from './mcp-options.ts';

const defaultGraceMs = 1_500;
/** How long what a process that has ended wrote may be on its way. Milliseconds. */
const restMs = 200;
const tailLength = 2_000;

/**
 * An MCP server as a process, one JSON message a line. It leads a process group of its own, so that what it starts ends with it: with
 * `close`, with its own end, and, at once, with the end of this process.
 */
export class ChildTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  protocolVersion: string | undefined;
  /** Why we left the process. */
  flaw: string | undefined;
  readonly #sdk: ClientSdk;
  readonly #options: McpProcessOptions;
  readonly #buffer: ReadBuffer;
  #child: ChildProcess | undefined;
  #stderr = '';
  #delivering = false;
  #over: Promise<void> | undefined;
  #closed = false;

  constructor(sdk: ClientSdk, options: McpProcessOptions) {
    this.#sdk = sdk;
    this.#options = options;
    this.#buffer = new sdk.ReadBuffer({ maxBufferSize: bodyLimitsOf(options).maxEventBytes });
  }

  get #graceMs(): number {
    return this.#options.closeGraceMs ?? defaultGraceMs;
  }

  /** The end of what the process wrote to stderr. */
  get stderrTail(): string {
    return this.#stderr;
  }

  setProtocolVersion(version: string): void {
    this.protocolVersion = version;
  }

  /** Resolves once the process runs; rejects where it cannot be started. */
  start(): Promise<void> {
    const { command, args = [], env, cwd } = this.#options;
    return new Promise((resolve, reject) => {
      const child = spawn(command, args, {
        env: { ...this.#sdk.getDefaultEnvironment(), ...env },
        stdio: 'pipe',
        detached: process.platform !== 'win32',
        windowsHide: true,
        ...(cwd !== undefined && { cwd }),
      });
      this.#child = child;
      this.#over = new Promise((ended) => {
        child.once('error', (error) => {
          reject(startError(error, this.#options));
          this.#ended();
          ended();
        });
        child.once('exit', () => {
          const rest = setTimeout(() => this.#hangUp(), restMs);
          child.once('close', () => {
            clearTimeout(rest);
            ended();
            this.#ended();
          });
        });
      });
      child.once('spawn', () => {
        if (child.pid !== undefined) watchGroup(child.pid);
        resolve();
      });
      this.#listen(child);
    });
  }

  send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin;
    return new Promise((resolve, reject) => {
      if (this.#closed || !stdin?.writable) return reject(new Error('the process is not there'));
      stdin.write(this.#sdk.serializeMessage(message), (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Closes stdin, then sends SIGTERM, then SIGKILL, to all that the process started, each where the one before did not help. */
  async close(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    child.stdin?.end();
    if (child.pid !== undefined && isGroupAlive(child.pid))
      await endGroup(child.pid, { graceMs: this.#graceMs, politely: true });
    this.#hangUp();
    await this.#over;
  }

  #listen(child: ChildProcess): void {
    for (const pipe of [child.stdin, child.stdout, child.stderr])
      pipe?.on('error', (error: Error) => this.onerror?.(error));
    child.stdout?.on('data', (chunk: Buffer) => this.#read(chunk));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-tailLength);
    });
  }

  #read(chunk: Buffer): void {
    try {
      this.#buffer.append(chunk);
    } catch (error) {
      // A line without an end: nothing after it could be parsed.
      const { maxEventBytes } = bodyLimitsOf(this.#options);
      this.flaw = `sent more than maxEventBytes (${maxEventBytes} bytes) in one line: raise it, or ask for a shorter answer`;
      this.#fail(error);
      this.#hangUp();
      void this.close();
      return;
    }
    if (!this.#delivering) void this.#deliver();
  }

  /** One message after the other, each once the one before it was taken in: the SDK takes in a progress notification later than a response. */
  async #deliver(): Promise<void> {
    this.#delivering = true;
    for (let more = true; more; await Promise.resolve()) more = this.#deliverOne();
    this.#delivering = false;
  }

  #deliverOne(): boolean {
    try {
      const message = this.#buffer.readMessage();
      if (message === null) return false;
      this.onmessage?.(message);
    } catch (error) {
      this.#fail(error);
    }
    return true;
  }

  #fail(error: unknown): void {
    this.onerror?.(error instanceof Error ? error : new Error(String(error)));
  }

  /** Lets go of pipes that a process which outlives the group may hold. */
  #hangUp(): void {
    this.#child?.stdin?.destroy();
    this.#child?.stdout?.destroy();
    this.#child?.stderr?.destroy();
  }

  #ended(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#buffer.clear();
    const pid = this.#child?.pid;
    if (pid !== undefined) void endGroup(pid, { graceMs: this.#graceMs, politely: false });
    this.onclose?.();
  }
}

function startError(error: Error, { command, cwd }: McpProcessOptions): Error {
  if (!('code' in error) || error.code !== 'ENOENT') return error;
  return new Error(`there is no program "${command}"${cwd === undefined ? '' : `, or no folder "${cwd}"`}`);
}

/** The groups that this process has started and that are to end with it, by their leaders' process ids. */
const groups = new Set<number>();
const pollMs = 20;
let listening = false;

/** Ends the group at once where this process exits before the group was ended. */
function watchGroup(leader: number): void {
  groups.add(leader);
  if (listening) return;
  listening = true;
  process.once('exit', () => {
    for (const each of groups) signalGroup(each, 'SIGKILL');
  });
}

function isGroupAlive(leader: number): boolean {
  return signalGroup(leader, 0);
}

interface EndOptions {
  /** How long each step may take. Milliseconds. */
  readonly graceMs: number;
  /** Whether the group has been asked to end by other means, and gets time for it before SIGTERM. */
  readonly politely: boolean;
}

/** Waits for a group to end by itself, if it was asked to, then sends SIGTERM, then SIGKILL. Resolves once nothing of it is left. */
async function endGroup(leader: number, { graceMs, politely }: EndOptions): Promise<void> {
  const gone = (politely && (await isGoneWithin(leader, graceMs))) || !signalGroup(leader, 'SIGTERM');
  if (!gone && !(await isGoneWithin(leader, graceMs))) {
    signalGroup(leader, 'SIGKILL');
    await isGoneWithin(leader, graceMs);
  }
  groups.delete(leader);
}

async function isGoneWithin(leader: number, ms: number): Promise<boolean> {
  const deadline = Date.now() + ms;
  while (isGroupAlive(leader)) {
    if (Date.now() >= deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  return true;
}

/** Whether there was anybody to get the signal. */
function signalGroup(leader: number, signal: NodeJS.Signals | 0): boolean {
  try {
    // Windows has no groups: there only the leader is reached.
    process.kill(process.platform === 'win32' ? leader : -leader, signal);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
