import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { build } from 'esbuild';
import { type OtlpReceiver, startOtlpReceiver } from '../otlp-receiver.ts';

let folder: string;
let program: string;
let receiver: OtlpReceiver;
let child: ChildProcess | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-exit-'));
  program = join(folder, 'traced-process.mjs');
  await build({
    entryPoints: [new URL('./traced-process.ts', import.meta.url).pathname],
    outfile: program,
    bundle: true,
    platform: 'node',
    format: 'esm',
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    logLevel: 'error',
  });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

beforeEach(async () => {
  receiver = await startOtlpReceiver();
});
afterEach(async () => {
  if (child?.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  await receiver.close();
});

interface Run {
  readonly output: () => string;
  /** The exit code and the signal. */
  readonly exit: Promise<readonly [number | null, NodeJS.Signals | null]>;
  readonly ready: Promise<void>;
}

function run(way: string, endpoint: string): Run {
  const endless = way === 'waits without end' && { OTEL_EXPORTER_OTLP_TIMEOUT: '3600000' };
  const env = { PATH: process.env['PATH'], OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, ...endless };
  const started = spawn(process.execPath, [program, way], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  child = started;
  let output = '';
  const ready = new Promise<void>((resolve) => {
    started.stdout.on('data', (chunk) => {
      output += chunk;
      if (output.includes('ready\n')) resolve();
    });
  });
  const exit = once(started, 'close').then(([code, signal]) => [code, signal] as const);
  return { output: () => output, exit, ready };
}

const names = () => receiver.spans.map((span) => span.name);

describe('a process', () => {
  it('that ends by itself has sent its spans', async () => {
    expect(await run('returns', receiver.url).exit).toEqual([0, null]);
    expect(names()).toEqual(['last words']);
  });

  it('that nobody else ends on SIGTERM sends its spans and ends by that signal', async () => {
    const { ready, exit } = run('waits', receiver.url);
    await ready;
    child?.kill('SIGTERM');
    expect(await exit).toEqual([null, 'SIGTERM']);
    expect(names()).toEqual(['last words']);
  });

  it('that measures too sends spans and metrics and ends by the signal', async () => {
    const { ready, exit } = run('measures', receiver.url);
    await ready;
    child?.kill('SIGTERM');
    expect(await exit).toEqual([null, 'SIGTERM']);
    expect(receiver.requests.map(({ path }) => path).sort()).toEqual(['/v1/metrics', '/v1/traces']);
  });

  it('that measures and has its own way out sends what is measured after the signal', async () => {
    const { ready, exit } = run('listens and measures', receiver.url);
    await ready;
    child?.kill('SIGTERM');
    expect(await exit).toEqual([7, null]);
    expect(receiver.requests.filter(({ path }) => path === '/v1/metrics')).toHaveLength(2);
  });

  it('that has its own way out of SIGTERM keeps it, hears it once, and has sent its spans, also later ones', async () => {
    const { ready, exit, output } = run('listens', receiver.url);
    await ready;
    child?.kill('SIGTERM');
    expect(await exit).toEqual([7, null]);
    expect(output().match(/SIGTERM/g)).toHaveLength(1);
    expect(names().sort()).toEqual(['last words', 'still there']);
  });

  it('that gets a second SIGTERM while it flushes ends at once', async () => {
    await receiver.close();
    receiver = await startOtlpReceiver({ answers: ['never'] });
    const { ready, exit } = run('waits without end', receiver.url);
    await ready;
    child?.kill('SIGTERM');
    await receiver.waitUntil(({ requests }) => requests.length === 1);
    child?.kill('SIGTERM');
    expect(await exit).toEqual([null, 'SIGTERM']);
  });

  it('whose collector is down shuts down, knows why, and is gone', async () => {
    const { port } = new URL(receiver.url);
    await receiver.close();
    const { output, exit } = run('shuts down', `http://localhost:${port}`);
    expect(await exit).toEqual([0, null]);
    const report = JSON.parse(output().split('\n')[0] ?? '');
    expect(report).toMatchObject({ ended: 1, exported: 0, lastError: expect.stringContaining('ECONNREFUSED') });
  });

  it('whose collector is down ends by itself nevertheless', async () => {
    await receiver.close();
    expect(await run('returns', receiver.url).exit).toEqual([0, null]);
  });
});
