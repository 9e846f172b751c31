// One server of the mixed load, in a process of its own: an agent over A2A on all its bindings and over MCP, by HTTP and by stdio, on LMDB
// or on Redis. Is told by its parent to measure itself and to stop.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { agent, type LLMCallParams, type LLMChunk, type LLMProvider, type LLMResponse, tool } from 'millrace';
import { a2aServer, apiKeyAuth } from 'millrace/a2a';
import { builtInTools } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { mcpServer } from 'millrace/mcp';
import { RedisStateStore } from 'millrace/redis';
import { from } from 'rxjs';
import type { MixedMeasure, MixedReady, MixedSettings } from './messages.ts';

const settings: MixedSettings = JSON.parse(process.argv[2] ?? '{}');
const unhandled: string[] = [];
const note = (error: unknown) =>
  unhandled.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
process.on('unhandledRejection', note);
process.on('uncaughtException', note);
setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');
/** The transports of the A2A SDK print the errors that they send. */
console.error = () => {};

/** What the last message asks for, in words: `say 40`, `read PATH`, `list PATH`, `wait`, `refund`; after a tool, its result. */
const model: LLMProvider = {
  stream: (params) => from(answer(params)),
  call: async (params) => {
    for await (const chunk of answer(params)) if (chunk.type === 'done') return chunk.response;
    throw new Error('there is no answer');
  },
};

async function* answer({ messages, signal }: LLMCallParams): AsyncGenerator<LLMChunk> {
  const last = messages.at(-1);
  const text = typeof last?.content === 'string' ? last.content : JSON.stringify(last?.content ?? '');
  const [verb = '', ...rest] = last?.role === 'tool' ? ['tool'] : text.split(' ');
  if (verb === 'wait') await aborted(signal);
  const call = callFor(verb, rest.join(' '));
  if (call) return yield { type: 'done', response: call };
  const pieces = verb === 'say' ? Number(rest[0]) : 1;
  const piece = verb === 'say' ? `${'word '.repeat(12)}\n` : verb === 'tool' ? text.slice(0, 2_000) : 'Done.';
  for (let sent = 0; sent < pieces && !signal?.aborted; sent++) {
    yield { type: 'text', text: piece };
    if (sent % 20 === 19) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  yield { type: 'done', response: { message: { role: 'assistant', content: piece.repeat(pieces) } } };
}

function callFor(verb: string, rest: string): LLMResponse | undefined {
  const tools: Readonly<Record<string, readonly [string, object]>> = {
    read: ['read_file', { path: rest }],
    list: ['list_files', { path: rest }],
    refund: ['refund', {}],
  };
  const [name, args] = tools[verb] ?? [];
  if (name === undefined) return undefined;
  const call = { id: 'c', type: 'function' as const, function: { name, arguments: JSON.stringify(args) } };
  return { message: { role: 'assistant', content: null, toolCalls: [call] } };
}

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(resolve, 20_000);
    signal?.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}

const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  parameters: { type: 'object', properties: {} },
  needsApproval: true,
  execute: () => 'refunded',
});
const store =
  settings.redis === undefined
    ? new LmdbStateStore({ path: join(settings.folder, 'store') })
    : new RedisStateStore({ redis: settings.redis });
const clerk = agent({
  id: 'clerk',
  description: 'Reads files.',
  provider: model,
  tools: [refund],
  toolProviders: [builtInTools({ workspace: { root: join(settings.folder, 'workspace') } })],
  taskStateStore: store,
  busy: 'queue',
});
const server = await a2aServer({
  agent: clerk,
  auth: apiKeyAuth({ keys: settings.keys }),
  rateLimit: null,
  maxTurns: 1_000,
  maxStreams: 1_000,
  // One caller sends it all, and deletes nothing.
  limits: { maxKeptBytes: 2 ** 40 },
  grpc: { port: 0 },
  closeMs: 5_000,
  toolEvents: true,
});
const mcp = mcpServer({ agent: agent({ name: 'the_clerk', provider: model }), maxTurns: 1_000 });
const [{ url, grpcAddress = '' }, { url: mcpUrl }] = await Promise.all([
  server.listen({ port: 0 }),
  mcp.listen({ sessionIdleMs: 15_000, maxSessions: 5_000, maxSessionsPerCaller: 5_000 }),
]);
const overStdio = mcp.serve({ stdin: process.stdin, stdout: process.stdout });
tell({ type: 'ready', url, grpcAddress, mcpUrl });

process.on('message', async (told: 'measure' | 'stop') => {
  if (told === 'measure') return tell(measure());
  process.stdin.destroy();
  await Promise.all([server.close(), mcp.close(), overStdio]);
  await store.close();
  tell(measure());
  process.disconnect();
});

function measure(): MixedMeasure {
  for (let round = 0; round < 4; round++) collect();
  const { heapUsed: heap } = process.memoryUsage();
  const [own, mapped] = [residentBytes('RssAnon'), residentBytes('RssFile')];
  return { type: 'measure', heap, own, mapped, sockets: openSockets(), unhandled: unhandled.splice(0) };
}

/** A part of what the process has in memory. */
function residentBytes(part: 'RssAnon' | 'RssFile'): number {
  if (process.platform !== 'linux') return 0;
  const [, kibibytes = 0] =
    new RegExp(`^${part}:\\s+(\\d+)`, 'm').exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return Number(kibibytes) * 1024;
}

/** Those of clients: what listens, talks to the store and to the parent is there at all times. */
function openSockets(): number {
  const isSocket = (name: string) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`).startsWith('socket:');
    } catch {
      return false;
    }
  };
  return process.platform === 'linux' ? readdirSync('/proc/self/fd').filter(isSocket).length : 0;
}

function tell(report: MixedReady | MixedMeasure): void {
  process.send?.(report);
}
