// Every kind of client at once against servers on LMDB and on Redis, for as long as it is told. What it takes and checks stands in README.md.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { LATEST_PROTOCOL_VERSION } from '@modelcontextprotocol/sdk/types.js';
import { Random, seedOf } from '../crash/random.ts';
import { startRedis } from '../stores/redis/redis-process.ts';
import type { MixedMeasure, MixedReady, MixedSettings } from './messages.ts';
import { MixedLoad, secret } from './mixed-load.ts';

const { values } = parseArgs({
  options: {
    mixed: { type: 'boolean' },
    minutes: { type: 'string', default: '10' },
    clients: { type: 'string', default: '6' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
  },
});
const [minutes, clients, seed] = [Number(values.minutes), Number(values.clients), Number(values.seed)];
if (!(minutes >= 0.2) || !(Number.isInteger(clients) && clients > 0) || !Number.isInteger(seed)) {
  console.error('--minutes must be a number from 0.2, --clients and --seed whole numbers.');
  process.exit(1);
}
/** What the heap may have grown by once all clients have left, and the sockets. */
const maxGrowth = 30_000_000;
/** The same of all memory of its own: the allocator keeps some of what the load needed. What is mapped of LMDB's file has no bound but the file. */
const maxOwnGrowth = 100_000_000;
const maxSockets = 2;
const quietMs = 30_000;

/** A server in a process of its own, and its load. */
interface Served {
  readonly name: string;
  readonly child: ChildProcess;
  readonly load: MixedLoad;
  /** Rejects once the process has ended by itself. */
  readonly measure: () => Promise<MixedMeasure>;
}

const folder = mkdtempSync(join(tmpdir(), 'millrace-mixed-'));
const redis = await startRedis();
const keys = [
  { id: 'alice', key: 'the-key-of-alice-1234' },
  { id: 'bob', key: 'the-key-of-bob-123456' },
];
const violations: string[] = [];
let stopping = false;
const served = await Promise.all([serve('LMDB'), serve('Redis', redis.url)]);
console.log(
  `seed ${seed}: ${minutes} minutes, ${clients} clients each of ${served.map(({ name }) => name).join(' and ')}`,
);

let acts = 0;
// What is loaded and compiled with the first requests is no leak: the base is what is left after a tenth of the time.
await loadFor((minutes * 60_000) / 10);
const bases = await Promise.all(served.map(quiet));
await loadFor((minutes * 60_000 * 9) / 10);
const ends = await Promise.all(served.map(quiet));
for (const [index, { name, load }] of served.entries()) {
  const [base, end] = [bases[index] as MixedMeasure, ends[index] as MixedMeasure];
  const growth = end.heap - base.heap;
  if (growth > maxGrowth) violations.push(`${name}: the heap grew by ${growth} bytes`);
  const ownGrowth = end.own - base.own;
  if (ownGrowth > maxOwnGrowth) violations.push(`${name}: memory of its own grew by ${ownGrowth} bytes`);
  if (end.sockets > base.sockets + maxSockets)
    violations.push(`${name}: ${end.sockets} sockets are open, ${base.sockets} before`);
  violations.push(...load.faults);
  const kinds = [...load.done].map(([kind, count]) => `${count} ${kind}`).join(', ');
  console.log(
    `${name}: ${kinds}; heap ${mb(base.heap)} to ${mb(end.heap)}, own memory ${mb(base.own)} to ${mb(end.own)}, mapped files ${mb(base.mapped)} to ${mb(end.mapped)}, sockets ${base.sockets} to ${end.sockets}`,
  );
}
stopping = true;
for (const { name, child, load } of served) {
  load.close();
  const gone = once(child, 'exit');
  child.send('stop');
  const code = await Promise.race([gone.then(([status]) => status), sleep(20_000, 'late', { ref: false })]);
  if (code !== 0) violations.push(`${name}: the server ended with ${code}`);
  child.kill('SIGKILL');
}
await redis.remove();
rmSync(folder, { recursive: true, force: true });
for (const violation of violations.slice(0, 50)) console.log(`VIOLATION seed ${seed}: ${violation}`);
console.log(`${acts} acts, ${violations.length} violations`);
process.exit(violations.length > 0 ? 1 : 0);

/** Clients act one after another, each with a breath between. */
async function loadFor(ms: number): Promise<void> {
  const until = Date.now() + ms;
  const telling = setInterval(() => console.log(line()), 30_000);
  const client = async ({ name, load }: Served, number: number) => {
    for (let act = 0; Date.now() < until && violations.length < 50; act++) {
      const random = new Random(seedOf(seed, name, ms, number, act));
      acts++;
      await load.act(random);
      await sleep(random.int(0, 30));
    }
  };
  await Promise.all(served.flatMap((each) => Array.from({ length: clients }, (_, number) => client(each, number))));
  clearInterval(telling);
}

/** With what was found last, so that it can be looked at while it happens. */
function line(): string {
  const found = [...violations, ...served.flatMap(({ load }) => load.faults)];
  return `${acts} acts, ${found.length} violations${found.length === 0 ? '' : `, the last: ${found.at(-1)}`}`;
}

/** A measure once nothing is left of the clients, or after a while. */
async function quiet({ measure }: Served): Promise<MixedMeasure> {
  const until = Date.now() + quietMs;
  let last = await measure();
  for (;;) {
    await sleep(2_000);
    const next = await measure();
    const isQuiet = next.sockets <= last.sockets && Math.abs(next.heap - last.heap) < 500_000;
    if ((isQuiet && Date.now() > until - quietMs + 10_000) || Date.now() > until) return next;
    last = next;
  }
}

async function serve(name: string, redisUrl?: string): Promise<Served> {
  const home = join(folder, name);
  workspaceIn(home);
  const settings: MixedSettings = { folder: home, keys, ...(redisUrl !== undefined && { redis: redisUrl }) };
  const program = fileURLToPath(new URL('mixed-server.mjs', import.meta.url));
  const child = spawn(process.execPath, [program, JSON.stringify(settings)], {
    stdio: ['pipe', 'pipe', 'inherit', 'ipc'],
  });
  child.once('exit', (code, signal) => {
    if (!stopping) violations.push(`${name}: the server is gone, with ${code ?? signal}`);
  });
  const [ready]: MixedReady[] = await once(child, 'message');
  const measure = async () => {
    const measured = once(child, 'message');
    child.send('measure');
    const [report]: MixedMeasure[] = await measured;
    if (!report) throw new Error('no measure came');
    for (const error of report.unhandled) violations.push(`${name}: unhandled: ${error.slice(0, 500)}`);
    return report;
  };
  const load = new MixedLoad(name, ready as MixedReady, { keys, stdio: stdioOf(child) });
  await load.open();
  return { name, child, load, measure };
}

/** Sends lines to an MCP server over stdio; gives the answer to the one whose id is `$ID`. */
function stdioOf(child: ChildProcess): (text: string) => Promise<string> {
  const waiting = new Map<string, (line: string) => void>();
  const { stdin, stdout } = child;
  if (!stdin || !stdout) throw new Error('the server has no stdio');
  stdin.on('error', () => {});
  createInterface({ input: stdout }).on('line', (text) => waiting.get(/"id":"(n\d+)"/.exec(text)?.[1] ?? '')?.(text));
  let count = 0;
  const ask = (text: string) => {
    const id = `n${++count}`;
    const answered = new Promise<string>((resolve) => void waiting.set(id, resolve));
    stdin.write(`${text.replace('$ID', id)}\n`);
    return answered.finally(() => waiting.delete(id));
  };
  const params = {
    protocolVersion: LATEST_PROTOCOL_VERSION,
    capabilities: {},
    clientInfo: { name: 'mixed', version: '1' },
  };
  const begun = ask(JSON.stringify({ jsonrpc: '2.0', id: '$ID', method: 'initialize', params }));
  return async (text) => {
    await begun;
    return ask(text);
  };
}

/** A workspace with a file to read, and with what no tool may read, inside and beside it. */
function workspaceIn(home: string): void {
  const workspace = join(home, 'workspace');
  mkdirSync(join(workspace, '.git'), { recursive: true });
  writeFileSync(join(workspace, 'notes.txt'), 'A note.\n');
  writeFileSync(join(workspace, '.env'), secret);
  writeFileSync(join(workspace, '.git', 'config'), secret);
  writeFileSync(join(home, 'secret.txt'), secret);
  symlinkSync(join(home, 'secret.txt'), join(workspace, 'link.txt'));
  linkSync(join(home, 'secret.txt'), join(workspace, 'hard.txt'));
}

function mb(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
