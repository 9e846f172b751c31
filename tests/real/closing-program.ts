import { agent, InMemoryStateStore, type Turn, team, tool } from 'millrace';
import { a2aServer, remoteAgent } from 'millrace/a2a';
import { turnQueue, worker } from 'millrace/fleet';
import { LmdbStateStore } from 'millrace/lmdb';
import { mcpServer, mcpTools } from 'millrace/mcp';
import { startMetrics, startTracing } from 'millrace/otel';
import { PostgresStateStore } from 'millrace/postgres';
import { RedisStateStore } from 'millrace/redis';
import { scriptedLLM } from 'millrace/testing';
import type { TaskStateStore } from 'millrace/types';
import { uiMessageHandler } from 'millrace/ui';

/**
 * Uses a store and what its argument names, closes all of them in the order that it names, and prints the code after that: a process that ends while
 * it awaits prints nothing.
 */
interface Program {
  readonly store: 'memory' | 'lmdb' | 'redis' | 'postgres' | 'postgres without listening';
  /** The address of its server, or its folder. */
  readonly at: string;
  readonly parts: readonly (keyof typeof parts)[];
  readonly order: 'forth' | 'back' | 'at once';
}

const { store: kind, at, parts: used, order }: Program = JSON.parse(process.argv[2] ?? '{}');

const stores: Readonly<Record<Program['store'], () => TaskStateStore & { close?(): Promise<void> }>> = {
  memory: () => new InMemoryStateStore(),
  lmdb: () => new LmdbStateStore({ path: at }),
  redis: () => new RedisStateStore({ redis: at }),
  postgres: () => new PostgresStateStore({ postgres: at, migrate: true }),
  'postgres without listening': () => new PostgresStateStore({ postgres: at, migrate: true, listen: false }),
};
const store = stores[kind]();
const closers: (() => unknown)[] = [() => store.close?.()];
/** What was asked of the store before the others closed. */
const asked: Promise<unknown>[] = [];

const note = tool({ name: 'note', description: 'notes', parameters: { type: 'object' }, execute: () => 'noted' });
const callsNote = () => scriptedLLM([{ toolCalls: [{ name: 'note', arguments: {} }] }, { text: 'done' }]);
const noting = (id: string) => agent({ id, provider: callsNote(), tools: [note], taskStateStore: store });

const parts = {
  /** Refused ports: nobody collects. */
  async tracing() {
    const tracing = startTracing({ endpoint: 'http://127.0.0.1:9' });
    const metrics = await startMetrics({ endpoint: 'http://127.0.0.1:9' });
    closers.push(
      () => tracing.shutdown(),
      () => metrics.shutdown(),
    );
  },
  async agent() {
    const one = noting('one');
    await one.run('Note it.');
    closers.push(() => one.close());
  },
  async observed() {
    const one = noting('observed');
    const { taskId } = await one.startTurn('Note it.').result();
    one.observe(taskId).subscribe({ error: () => {} });
    closers.push(() => one.close());
  },
  /** A turn in the middle of a tool. */
  async busy() {
    let running = () => {};
    const started = new Promise<void>((resolve) => {
      running = resolve;
    });
    const wait = tool({
      name: 'note',
      description: 'waits',
      parameters: { type: 'object' },
      execute: (_, { signal }) => {
        running();
        return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      },
    });
    const one = agent({ id: 'busy', provider: callsNote(), tools: [wait], taskStateStore: store });
    const turn: Turn<unknown> = one.startTurn('Note it.');
    turn.subscribe({ error: () => {} });
    await started;
    closers.push(() => one.close());
  },
  async team() {
    const members = team({ agents: [noting('member')], taskStateStore: store });
    await members.ask('Note it.');
    closers.push(() => members.close());
  },
  async asking() {
    const list = async () => store.list({});
    closers.push(() => {
      for (let index = 0; index < 15; index++) asked.push(list().catch(() => {}));
    });
  },
  async a2a() {
    const server = await a2aServer({ agent: noting('served'), store });
    const { url } = await server.listen({ port: 0 });
    const remote = await remoteAgent({ url });
    await remote.startTurn('Note it.').result();
    closers.push(
      () => server.close(),
      () => remote.close(),
    );
  },
  async mcp() {
    const server = mcpServer({ agent: noting('offered'), toolName: 'ask' });
    const { url } = await server.listen({ port: 0 });
    const tools = mcpTools({ servers: { offered: { url } } });
    const calls = scriptedLLM([
      { toolCalls: [{ name: 'offered__ask', arguments: { message: 'Note it.' } }] },
      { text: 'done' },
    ]);
    const caller = agent({ id: 'caller', provider: calls, toolProviders: [tools], taskStateStore: store });
    await caller.run('Have it noted.');
    closers.push(
      () => server.close(),
      () => tools.close(),
      () => caller.close(),
    );
  },
  async ui() {
    const handler = uiMessageHandler({ agent: noting('shown'), scopeOf: () => 'user' });
    handler.start();
    const message = { id: 'm', role: 'user', parts: [{ type: 'text', text: 'Note it.' }] };
    const body = JSON.stringify({ id: 'chat', messages: [message], trigger: 'submit-message' });
    const headers = { 'content-type': 'application/json' };
    await (await handler(new Request('http://localhost/chat', { method: 'POST', headers, body }))).text();
    closers.push(() => handler.close());
  },
  async fleet() {
    const queue = turnQueue({ connection: at, store });
    const turns = agent({ id: 'queued', provider: callsNote(), tools: [note] });
    const working = worker({ queue, agents: [turns] });
    const run = working.run();
    const { taskId } = await queue.start([{ role: 'user', content: 'Note it.' }], { agentId: 'queued' });
    await new Promise<void>((resolve, reject) => {
      noting('queued').observe(taskId).subscribe({ complete: resolve, error: reject });
    });
    closers.push(
      () => working.drain().then(() => run),
      () => queue.close(),
    );
  },
};

for (const part of used) await parts[part]();
if (order === 'back') closers.reverse();
if (order === 'at once') await Promise.all(closers.map((close) => close()));
else for (const close of closers) await close();
await Promise.all(asked);
console.log('closed');
