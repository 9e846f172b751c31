import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { transformSync } from 'esbuild';
import type { Browser } from 'playwright-core';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { codeBlocksIn, sectionOf } from '../docs/markdown.ts';
import { installPacked } from '../packed-package.ts';
import { newPage, startChromium } from './browser.ts';
import { describeReal } from './real-part.ts';

const project = temporaryFolder({});
beforeAll(() => installPacked(project.path));
afterAll(() => project.remove());

/** The program of a section, written into a folder of its own below the project. Gives that folder; the file is `main.mjs`. */
function written(page: string, anchor: string, change: (code: string) => string = (code) => code): string {
  const [block] = codeBlocksIn(sectionOf(page, anchor)).filter(
    ({ language, mark }) => language === 'ts' && mark === '',
  );
  const folder = join(project.path, anchor);
  mkdirSync(folder, { recursive: true });
  const { code } = transformSync(change(block?.code ?? ''), { loader: 'ts', format: 'esm' });
  writeFileSync(join(folder, 'main.mjs'), code);
  return folder;
}

describe('the recipe for an approval', () => {
  it('asks in one process, and runs the approved call in another', () => {
    const cwd = written('docs/questions.md', 'approval');
    const run = (...args: readonly string[]) =>
      spawnSync(process.execPath, ['main.mjs', ...args], { cwd, encoding: 'utf8' });
    const [, taskId = '', questionId = ''] = /node refund\.ts (\S+) (\S+)/.exec(run().stdout) ?? [];
    const { stdout, stderr } = run(taskId, questionId);
    expect(stderr).toBe('');
    expect(stdout).toContain(`Order 17 is refunded (${taskId}:${questionId}).`);
  });
});

describe('the recipe for a test', () => {
  it('passes', () => {
    const cwd = written('docs/testing.md', 'a-scripted-model');
    expect(spawnSync(process.execPath, ['main.mjs'], { cwd, encoding: 'utf8' })).toMatchObject({
      status: 0,
      stderr: '',
    });
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

const started: ChildProcess[] = [];
afterAll(() => started.forEach((child) => void child.kill('SIGKILL')));

async function served(cwd: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['main.mjs'], { cwd, stdio: ['ignore', 'pipe', 'inherit'] });
  await once(createInterface({ input: child.stdout }), 'line');
  started.push(child);
  return child;
}

it('the recipe for a page refuses what cannot be taken, and serves the next request', async () => {
  const port = await freePort();
  const cwd = written('docs/ui.md', 'a-page-in-one-file', (code) => code.replaceAll('3000', `${port}`));
  const server = await served(cwd);
  const get = (path: string, headers = {}) => fetch(`http://127.0.0.1:${port}${path}`, { headers });
  for (const path of ['/turn?question=Hi&task=a%20b', '/turn?question=Hi&task='])
    expect([path, (await get(path)).status]).toEqual([path, 400]);
  expect((await get('/turn?question=Hi&task=a', { 'last-event-id': 'no cursor' })).status).toBe(400);
  expect((await get('//')).status).toBe(200);
  const whole = await get('/turn?question=Hi&task=b');
  expect([whole.status, await whole.text()]).toEqual([200, expect.stringMatching(/event: end/)]);
  server.kill('SIGTERM');
  await once(server, 'exit');
});

describeReal(['chromium'], 'the recipe for a page', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser?.close());

  it('shows the whole answer once, also where its server is killed in the middle and started again', async () => {
    const port = await freePort();
    // Only the lease is shorter, so that the test does not wait half a minute for that of the killed process.
    const change = (code: string) =>
      code.replaceAll('3000', `${port}`).replace("id: 'assistant',", "id: 'assistant', leaseMs: 2_000,");
    const cwd = written('docs/ui.md', 'a-page-in-one-file', change);
    let server = await served(cwd);
    const page = await newPage(browser);
    await page.goto(`http://127.0.0.1:${port}`);
    const answer = page.locator('#answer');
    const whole = /^Hello! I am a stand-in for a model: .*[^.]\.$/;

    await page.getByRole('button', { name: 'Ask' }).click();
    await answer.getByText(/No tool is offered.*\.$/).waitFor();
    const first = (await answer.textContent()) ?? '';
    expect(first).toMatch(whole);

    await page.getByRole('button', { name: 'Ask' }).click();
    await answer.getByText(/^Hello! I am a stand-in/).waitFor();
    server.kill('SIGKILL');
    await once(server, 'exit');
    expect(first.startsWith((await answer.textContent()) ?? '')).toBe(true);
    expect(await answer.textContent()).not.toBe(first);
    server = await served(cwd);
    await answer.getByText(first, { exact: true }).waitFor();
    await page.close();
    server.kill('SIGTERM');
    await once(server, 'exit');
  });
});
