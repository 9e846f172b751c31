import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, it } from '@jest/globals';
import { build } from 'esbuild';
import express from 'express';
import { eventually } from '../eventually.ts';
import { disconnecting } from '../front-ends/fetch-server.ts';
import { answer, listening, serverOf } from '../front-ends/node-server.ts';
import { kill, linesOf } from '../stores/lmdb/child-programs.ts';
import { describeReal, realPart } from './real-part.ts';

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

function stoppable(server: Server): Server {
  stops.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

/** Reads the first words of a turn, and leaves. */
async function leave(url: string, which: 'cancel' | 'continue'): Promise<void> {
  const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'slow' }] };
  const body = JSON.stringify({ id: 'c', messages: [message] });
  const left = new AbortController();
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${url}/${which}/api/chat`, { method: 'POST', headers, body, signal: left.signal });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; !text.includes('word3'); ) text += (await reader?.read())?.value ?? '';
  left.abort();
  await reader?.cancel().catch(() => {});
}

async function hasState(url: string, which: 'cancel' | 'continue', state: string): Promise<boolean> {
  const [found]: readonly string[] = JSON.parse(await (await fetch(`${url}/${which}/states`)).text());
  return found === state;
}

async function expectBoth(url: string): Promise<void> {
  await leave(url, 'cancel');
  await eventually(() => hasState(url, 'cancel', 'canceled'));
  await leave(url, 'continue');
  await eventually(() => hasState(url, 'continue', 'completed'));
}

const what = 'cancels its turn with cancel, and leaves it alone with continue';

for (const [name, args] of [
  ['bun', []],
  ['deno', ['run', '-A']],
] as const) {
  describeReal([name], 'a client that disconnects', () => {
    it(`V-09 in ${name} ${what}`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'millrace-runtime-'));
      const program = join(folder, 'runtime.mjs');
      const banner = {
        js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
      };
      const options = { bundle: true, platform: 'node', format: 'esm', logLevel: 'warning', banner } as const;
      await build({ ...options, entryPoints: ['tests/front-ends/runtime.ts'], outfile: program });
      const child = spawn(realPart(name).bin ?? name, [...args, program], { stdio: ['ignore', 'pipe', 'inherit'] });
      stops.push(() => rmSync(folder, { recursive: true, force: true }));
      stops.push(() => kill(child));
      const { lines, reach } = linesOf(child);
      await reach(1);
      await expectBoth(lines[0] ?? '');
    });
  });
}

describeReal(['front-ends'], 'a client that disconnects', () => {
  it(`V-09 in node:http ${what}`, async () => {
    await expectBoth(await listening(stoppable(serverOf(disconnecting()))));
  });

  it(`V-09 in Express ${what}`, async () => {
    const handler = disconnecting();
    const app = express().use(
      (request, response) => void answer(handler, request, response).catch(() => response.destroy()),
    );
    await expectBoth(await listening(stoppable(createServer(app))));
  });

  it(`V-09 in Hono ${what}`, async () => {
    const load = (path: string) => import(pathToFileURL(join('tests/front-ends/node_modules', path)).href);
    const [{ Hono }, { serve }] = [await load('hono/dist/index.js'), await load('@hono/node-server/dist/index.mjs')];
    const handler = disconnecting();
    const app = new Hono();
    app.all('*', ({ req }: { readonly req: { readonly raw: Request } }) => handler(req.raw));
    const server: Server = stoppable(serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }));
    if (!server.listening) await once(server, 'listening');
    const address = server.address();
    await expectBoth(typeof address === 'object' ? `http://127.0.0.1:${address?.port}` : '');
  });
});
