import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { LmdbStateStore } from 'millrace/lmdb';
import pLimit from 'p-limit';
import type { Browser } from 'playwright-core';
import { eventually } from '../eventually.ts';
import { pack } from '../packed-package.ts';
import { kill } from '../stores/lmdb/child-programs.ts';
import { freePort } from '../stores/redis/free-port.ts';
import { newPage, startChromium } from './browser.ts';
import { describeReal, type PartName, realPart } from './real-part.ts';

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'millrace-quick-starts-'));

/** How each is started where users have it in production, and what it needs besides Node.js. */
const quickStarts: Readonly<Record<string, { readonly start: readonly string[]; readonly part?: PartName }>> = {
  node: { start: ['node', '--import', 'tsx', 'server.ts'] },
  express: { start: ['node', '--import', 'tsx', 'server.ts'] },
  fastify: { start: ['node', '--import', 'tsx', 'server.ts'] },
  hono: { start: ['node', '--import', 'tsx', 'server.ts'] },
  next: { start: ['node', 'node_modules/next/dist/bin/next', 'start', '-H', '127.0.0.1'] },
  bun: { start: ['bun', 'server.ts'], part: 'bun' },
  deno: { start: ['deno', 'run', '-A', 'server.ts'], part: 'deno' },
};
const isThere = ({ part }: { readonly part?: PartName }) => part === undefined || realPart(part).missing === undefined;

/** With the programs of the parts first, so that scripts of a package.json find them. */
const environment = (): NodeJS.ProcessEnv => {
  const programs = (['bun', 'deno'] as const).flatMap((name) => realPart(name).bin ?? []).map((bin) => dirname(bin));
  const path = [...programs, process.env['PATH']].join(delimiter);
  return { ...process.env, PATH: path, NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: undefined, MODEL: undefined };
};

/** A quick start as a user has it: generated, installed with the packed package, compiled, tested and talked to by its own scripts. */
async function prepare(name: string, { tarball, create }: { readonly tarball: string; readonly create: string }) {
  const options = { cwd: join(folder, name), env: environment() };
  await run(process.execPath, [create, name, '--framework', name], { cwd: folder });
  await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', '--silent', tarball], options);
  if (name === 'next') addCancelRoute(options.cwd);
  if (name === 'fastify') addCancelHandler(options.cwd);
  const scripts = name === 'next' ? ['test', 'build'] : ['test', 'typecheck'];
  for (const script of scripts) await run('npm', ['run', '--silent', script], options);
  if (name === 'node') {
    // What `create-next-app` and others bring.
    await run('npm', ['install', '--no-save', '--no-audit', '--no-fund', '--silent', 'typescript@5.9.3'], options);
    await run('npm', ['run', '--silent', 'typecheck'], options);
  }
  const chat = run('npm', ['run', '--silent', 'chat'], options);
  chat.child.stdin?.end('What is the status of order A-1?\n');
  expect((await chat).stdout).toContain('Order A-1 is shipped.');
}

/** In Fastify. */
function addCancelHandler(project: string): void {
  const file = join(project, 'server.ts');
  const server = readFileSync(file, 'utf8');
  const cancel = `const cancel = uiMessageHandler({ agent, scopeOf: () => 'demo', onDisconnect: 'cancel' });\n`;
  const routes = `'/api/chat/*': chat, '/api/cancel': cancel, '/api/cancel/*': cancel }`;
  const changed = server.replace(/^const page = /m, `${cancel}$&`).replace(`'/api/chat/*': chat }`, routes);
  expect(changed.match(/cancel/g)).toHaveLength(6);
  writeFileSync(file, changed);
}

/** A second handler, whose turns end with their client. */
function addCancelRoute(project: string): void {
  const route = join(project, 'app/api/cancel/[[...path]]');
  mkdirSync(route, { recursive: true });
  writeFileSync(
    join(route, 'route.ts'),
    `import { InMemoryStateStore } from 'millrace';
import { uiMessageHandler } from 'millrace/ui';
import support from '../../../../agent';
const agent = support.with({ taskStateStore: new InMemoryStateStore() });
const chat = uiMessageHandler({ agent, scopeOf: () => 'demo', onDisconnect: 'cancel' });
export const GET = chat;
export const POST = chat;
`,
  );
}

interface Part {
  readonly type: string;
  readonly text?: string;
  readonly state?: string;
  readonly output?: unknown;
}

interface Client {
  readonly messages: readonly {
    readonly role: string;
    readonly parts: readonly Part[];
    readonly metadata?: { readonly state: string };
  }[];
  readonly status: string;
  readonly error?: string;
}

async function clientOf(api: string, chat: string, what: 'ask' | 'resume'): Promise<Client> {
  const { stdout } = await run(process.execPath, ['quick-start-client.mjs', api, chat, what], {
    cwd: 'tests/front-ends',
  });
  return JSON.parse(stdout);
}

/** A question that the demo model takes some seconds to repeat; of a longer one it repeats the beginning only. */
const longQuestion = `What is the status of order A-1 ${'that I have been waiting for '.repeat(15)}?`;

/** Asks, reads the first words of the answer, and gives how the connection is dropped. */
async function begin(api: string, chat: string): Promise<() => void> {
  const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: longQuestion }] };
  const headers = { 'content-type': 'application/json' };
  const left = new AbortController();
  const body = JSON.stringify({ id: chat, messages: [message] });
  const response = await fetch(api, { method: 'POST', headers, body, signal: left.signal });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; !text.includes('tool-output-available'); ) {
    const { value = '', done } = (await reader?.read()) ?? { done: true };
    if (done) throw new Error(`The stream ended:\n${text}`);
    text += value;
  }
  return () => {
    left.abort();
    reader?.cancel().catch(() => {});
  };
}

async function hasState(api: string, chat: string, state: string): Promise<boolean> {
  const response = await fetch(`${api}/${chat}/messages`);
  const messages: Client['messages'] = response.ok ? JSON.parse(await response.text()) : [];
  return messages.at(-1)?.metadata?.state === state;
}

class Server {
  readonly api: string;
  readonly #child: ChildProcess;
  readonly #log: string[] = [];

  private constructor(name: string, port: number) {
    const [command = '', ...args] = quickStarts[name]?.start ?? [];
    const env = { ...environment(), PORT: String(port) };
    this.#child = spawn(command === 'node' ? process.execPath : command, args, { cwd: join(folder, name), env });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (text) => this.#log.push(String(text)));
    this.api = `http://127.0.0.1:${port}/api/chat`;
  }

  static async start(name: string, port?: number): Promise<Server> {
    const server = new Server(name, port ?? (await freePort()));
    const isOver = () => server.#child.exitCode !== null;
    await eventually(async () => isOver() || (await server.#shows()));
    if (isOver()) throw new Error(`${name} did not start:\n${server.#log.join('')}`);
    return server;
  }

  /** Whether its page is there. */
  async #shows(): Promise<boolean> {
    const response = await fetch(new URL('/', this.api)).catch(() => undefined);
    return (await response?.text())?.includes('<title>Support</title>') === true;
  }

  /** How it ends after a signal. */
  async end(by: 'SIGINT' | 'SIGTERM'): Promise<string | number | null> {
    const ended = once(this.#child, 'exit');
    this.#child.kill(by);
    const [code, signal] = await ended;
    return signal ?? code;
  }

  kill(): Promise<unknown> {
    return kill(this.#child);
  }
}

/** What preparing each came to. */
const prepared = new Map<string, Promise<void>>();
const running: Server[] = [];
const started = async (name: string, port?: number): Promise<Server> => {
  const server = await Server.start(name, port);
  running.push(server);
  return server;
};

beforeAll(async () => {
  const tarball = await pack(folder);
  const packed = await run('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: 'create-millrace' });
  await run('tar', ['-xzf', packed.stdout.trim()], { cwd: folder });
  const limit = pLimit(3);
  for (const [name, each] of Object.entries(quickStarts)) {
    if (!isThere(each)) continue;
    const done = limit(() => prepare(name, { tarball, create: join(folder, 'package/index.js') }));
    done.catch(() => {});
    prepared.set(name, done);
  }
});
afterAll(async () => {
  await Promise.all(running.map((server) => server.kill()));
  await Promise.allSettled(prepared.values());
  rmSync(folder, { recursive: true, force: true });
});

for (const [name, { part }] of Object.entries(quickStarts)) {
  describeReal(part ? ['front-ends', part] : ['front-ends'], `the quick start of ${name}`, () => {
    let server: Server;

    beforeAll(async () => {
      await prepared.get(name);
      server = await started(name);
    });
    afterAll(() => server?.kill());

    it('answers the client of the AI SDK, and refunds once that is approved', async () => {
      const { messages, status, error } = await clientOf(server.api, 'asked', 'ask');
      expect([status, error]).toEqual(['ready', undefined]);
      expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
      const tools = messages.flatMap(({ parts }) => parts.filter(({ type }) => type === 'dynamic-tool'));
      expect(tools).toMatchObject([
        { state: 'output-available', output: 'Order A-1 is shipped.' },
        { state: 'output-available', output: 'Refunded 12000 cents for order A-2.' },
      ]);
      expect(messages.at(-1)?.parts.at(-1)?.text).toContain('refund_order says: Refunded 12000 cents for order A-2.');
    });

    it(`V-09 in ${name} leaves a turn alone whose client disconnects`, async () => {
      const leave = await begin(server.api, 'left');
      leave();
      await eventually(() => hasState(server.api, 'left', 'completed'));
    });

    if (name === 'next' || name === 'fastify')
      it(`V-09 in ${name} cancels a turn within a second of its client’s leaving, with cancel`, async () => {
        const api = server.api.replace('/chat', '/cancel');
        const leave = await begin(api, 'left-for-good');
        leave();
        await eventually(() => hasState(api, 'left-for-good', 'canceled'));
      });

    it('ends at SIGTERM in the middle of an answer, which the next process completes; the conversation is there', async () => {
      const leave = await begin(server.api, 'interrupted');
      expect(await server.end('SIGTERM')).toBe(0);
      leave();
      server = await started(name);
      const { messages, error } = await clientOf(server.api, 'interrupted', 'resume');
      expect(error).toBe(undefined);
      expect(messages.map(({ role, metadata }) => [role, metadata?.state])).toEqual([
        ['user', undefined],
        ['assistant', 'completed'],
      ]);
      expect(messages.at(-1)?.parts.at(-1)?.text).toContain(longQuestion.slice(0, -2));
      const before = await clientOf(server.api, 'asked', 'resume');
      expect(before.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    });
  });
}

let browser: Browser;
const openBrowser = async () => {
  browser = await startChromium();
};

for (const [name, { part }] of Object.entries(quickStarts)) {
  const parts: readonly PartName[] = ['front-ends', 'chromium', ...(part ? [part] : [])];
  describeReal(parts, `the page of the quick start of ${name}, while its server restarts`, () => {
    beforeAll(async () => {
      await prepared.get(name);
      await openBrowser();
    });
    afterAll(() => browser?.close());

    it.each(['SIGINT', 'SIGTERM'] as const)(
      'R-43 %s releases the lease; the page keeps its text, says what it waits for, and continues',
      async (by) => {
        const first = await started(name);
        const page = await newPage(browser);
        await page.goto(new URL('/', first.api).href);
        await page.getByRole('textbox', { name: 'Message' }).fill(longQuestion);
        await page.keyboard.press('Enter');
        const answer = page.locator('p', { hasText: 'For “What is the status of order A-1 that' });
        await answer.waitFor();
        const shown = String(await answer.textContent()).trim();
        expect(await first.end(by)).toBe(0);
        const store = new LmdbStateStore({ path: join(folder, name, '.millrace') });
        const open = (await store.list({})).filter(({ state }) => state === 'working');
        expect(open.length).toBeGreaterThan(0);
        expect(open.filter(({ held }) => held)).toEqual([]);
        await store.close();
        await page.getByText(/^Waiting \d+ s for the server$/).waitFor();
        expect(await answer.textContent()).toContain(shown);
        const second = await started(name, Number(new URL(first.api).port));
        // The question and the whole answer.
        await page.getByText(longQuestion.slice(0, -2)).nth(1).waitFor();
        await page.getByText(/^Waiting/).waitFor({ state: 'detached' });
        await page.close();
        await second.end(by);
      },
    );
  });
}

describeReal(['front-ends', 'chromium'], 'the page of the quick start of next', () => {
  beforeAll(async () => {
    await prepared.get('next');
    await openBrowser();
  });
  afterAll(() => browser?.close());

  it('V-03 asks for the approval again after a reload, and shows the answer after the next one', async () => {
    const { api } = await started('next');
    const page = await newPage(browser);
    await page.goto(new URL('/', api).href);
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Approve' }).click();
    const answer = page.getByText('refund_order says: Refunded 12000 cents for order A-2.');
    await answer.waitFor();
    await page.reload();
    await answer.waitFor();
    expect(await answer.count()).toBe(1);
  });
});
