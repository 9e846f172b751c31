import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { pack } from '../packed-package.ts';
import { freePort } from '../stores/redis/free-port.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';
import { describeReal } from './real-part.ts';

const run = promisify(execFile);
const minutes = 60_000;

/** Runs a turn on each store, and gives how they stand in it, and the spans of the turns; exporters, metrics and packages of vendors are not installed. */
const turns = `
import { AgentLoop, agent } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { LmdbStateStore } from 'millrace/lmdb';
import { RedisStateStore } from 'millrace/redis';
import { turnQueue, worker } from 'millrace/fleet';
import { startMetrics, startTracing } from 'millrace/otel';
import { recordSpans, scriptedLLM } from 'millrace/testing';
import { lastValueFrom } from 'rxjs';

export async function turns() {
  const redis = new RedisStateStore({ redis: process.env.TEST_REDIS });
  const lmdb = new LmdbStateStore({ path: process.env.TEST_FOLDER });
  const found = {};
  const spans = [];
  const tracing = startTracing({ exporter: 'none', flushOnSignals: [], onSpanEnd: ({ name }) => spans.push(name) });
  for (const [name, taskStateStore] of Object.entries({ redis, lmdb })) {
    const llmProvider = scriptedLLM([{ text: 'Hello.' }]);
    const turn = new AgentLoop({ agentId: 'a', llmProvider, taskStateStore }).startTurn([{ role: 'user', content: 'Hi' }]);
    await turn.result();
    found[name] = (await taskStateStore.load(turn.taskId)).status;
    await taskStateStore.close();
  }
  found.fleet = await queued();
  await tracing.shutdown();
  found.spans = spans.filter((name) => name === 'agent.execute').length;
  const recorder = recordSpans();
  await recorder.dispose();
  try {
    startTracing();
  } catch ({ code, message }) {
    found.exporter = [code, message.includes('npm install @opentelemetry/exporter-trace-otlp-proto\`')];
  }
  found.vendor = await createProvider('anthropic:claude', { apiKey: 'key' }).catch(({ code }) => code);
  found.metrics = await startMetrics().catch(({ code }) => code);
  return found;
}

/** How a turn ends that a worker takes from a queue. */
async function queued() {
  const store = new RedisStateStore({ redis: process.env.TEST_REDIS });
  const queue = turnQueue({ connection: process.env.TEST_REDIS, store });
  const working = worker({ queue, agents: [agent({ id: 'a', provider: scriptedLLM([{ text: 'Hello.' }]) })] });
  const running = working.run();
  const { taskId } = await queue.start([{ role: 'user', content: 'Hi' }], { agentId: 'a' });
  await lastValueFrom(AgentLoop.observe(taskId, { store }));
  await working.drain();
  await running;
  const { status } = await store.load(taskId);
  await queue.close();
  await store.close();
  return status;
}
`;

const files: Readonly<Record<string, string>> = {
  'package.json': JSON.stringify({ name: 'bundled', private: true }),
  'turns.mjs': turns,
  'main.mjs': "import { turns } from './turns.mjs';\nturns().then((found) => console.log(JSON.stringify(found)));\n",
  'vite.config.mjs':
    "export default { build: { ssr: 'main.mjs', outDir: 'vite', rollupOptions: { output: { entryFileNames: 'main.mjs' } } }, ssr: { noExternal: true }, logLevel: 'error' };\n",
  'next.config.mjs': 'export default {};\n',
  'app/layout.js': 'export default ({ children }) => <html><body>{children}</body></html>;\n',
  'app/api/turns/route.js': `import { turns } from '../../../turns.mjs';
export const dynamic = 'force-dynamic';
export async function GET() { return Response.json(await turns()); }
`,
};

const both = {
  redis: 'completed',
  lmdb: 'completed',
  fleet: 'completed',
  spans: 3,
  exporter: ['MISSING_PACKAGE', true],
  vendor: 'MISSING_PACKAGE',
  metrics: 'MISSING_PACKAGE',
};

describeReal(['redis'], 'the packed package in a bundle', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-bundles-'));
  const inRepository = (path: string) => join(process.cwd(), 'node_modules', path);
  let redis: RedisProcess;
  let stores = 0;
  const environment = () => ({
    ...process.env,
    TEST_REDIS: redis.url,
    TEST_FOLDER: join(folder, `store-${++stores}`),
    NEXT_TELEMETRY_DISABLED: '1',
    NODE_ENV: 'production',
  });

  beforeAll(async () => {
    redis = await startRedis();
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(join(folder, name, '..'), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    const tarball = await pack(folder);
    const packages = [
      tarball,
      'bullmq@6',
      'ioredis@6',
      '@opentelemetry/core@2',
      '@opentelemetry/resources@2',
      '@opentelemetry/sdk-trace-node@2',
      'lmdb@3',
      'next@16',
      'react@19',
      'react-dom@19',
      'webpack@5',
      'webpack-cli@6',
    ];
    await run('npm', ['install', '--no-audit', '--no-fund', '--silent', ...packages], { cwd: folder });
  }, 10 * minutes);
  afterAll(async () => {
    await redis?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  async function answerOf(cwd: string, program: string): Promise<unknown> {
    const { stdout } = await run(process.execPath, [program], { cwd, env: environment() });
    return JSON.parse(stdout);
  }

  const esbuild = (...options: readonly string[]) =>
    run(inRepository('.bin/esbuild'), ['main.mjs', '--bundle', '--platform=node', '--log-level=error', ...options], {
      cwd: folder,
    });

  it('H-41 of esbuild runs turns on both stores, and from a queue: CommonJS with nothing beside it but lmdb', async () => {
    const alone = mkdtempSync(join(tmpdir(), 'millrace-alone-'));
    mkdirSync(join(alone, 'node_modules'));
    symlinkSync(join(folder, 'node_modules', 'lmdb'), join(alone, 'node_modules', 'lmdb'));
    await esbuild('--format=cjs', `--outfile=${join(alone, 'main.cjs')}`);
    expect(await answerOf(alone, 'main.cjs')).toEqual(both);
    rmSync(alone, { recursive: true });
  });

  it('H-41 of esbuild runs turns on both stores, and from a queue: an ES module beside node_modules', async () => {
    await esbuild('--format=esm', '--outfile=esbuild/main.mjs');
    expect(await answerOf(join(folder, 'esbuild'), 'main.mjs')).toEqual(both);
  });

  it('H-41 of webpack runs turns on both stores, and from a queue', async () => {
    const options = ['--mode', 'production', '--target', 'node20', '--entry', './main.mjs'];
    const output = ['--output-path', join(folder, 'webpack'), '--output-filename', 'main.cjs'];
    await run(join(folder, 'node_modules/.bin/webpack'), [...options, ...output], { cwd: folder });
    expect(await answerOf(join(folder, 'webpack'), 'main.cjs')).toEqual(both);
  });

  it('H-41 of vite runs turns on both stores, and from a queue', async () => {
    await run(process.execPath, [inRepository('vite/bin/vite.js'), 'build'], { cwd: folder });
    expect(await answerOf(join(folder, 'vite'), 'main.mjs')).toEqual(both);
  });

  it(
    'H-41 of Next.js runs turns on both stores, and from a queue in a route handler',
    async () => {
      const next = join(folder, 'node_modules/next/dist/bin/next');
      await run(process.execPath, [next, 'build'], { cwd: folder, env: environment() });
      const port = await freePort();
      const server = spawn(process.execPath, [next, 'start', '-p', String(port), '-H', '127.0.0.1'], {
        cwd: folder,
        env: environment(),
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      try {
        for await (const line of createInterface({ input: server.stdout })) if (line.includes('Ready')) break;
        const answer = await fetch(`http://127.0.0.1:${port}/api/turns`);
        expect(await answer.json()).toEqual(both);
      } finally {
        const gone = new Promise((resolve) => server.once('close', resolve));
        server.kill();
        await gone;
      }
    },
    8 * minutes,
  );
});
