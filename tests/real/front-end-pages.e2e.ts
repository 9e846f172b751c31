import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { build } from 'esbuild';
import type { Browser, Page } from 'playwright-core';
import { slowText } from '../front-ends/model.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { newPage, startChromium } from './browser.ts';
import { describeReal } from './real-part.ts';

describeReal(['front-ends', 'chromium'], 'a page with useChat', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-pages-'));
  const script = join(folder, 'page.js');
  const effects = join(folder, 'effects');
  const programs = new ChildPrograms('tests/front-ends');
  let browser: Browser;
  let page: Page;
  let server: ChildProcess;
  let url = '';
  let faults: string[] = [];

  async function start(): Promise<void> {
    server = programs.start('server', join(folder, 'store'), script, effects, url === '' ? '0' : new URL(url).port);
    [url] = await nextMessage(server);
  }

  beforeAll(async () => {
    const options = { bundle: true, format: 'esm', jsx: 'automatic', logLevel: 'silent', target: 'es2022' } as const;
    await build({ ...options, entryPoints: ['tests/front-ends/page.jsx'], outfile: script });
    writeFileSync(effects, '');
    await start();
    browser = await startChromium();
  });
  afterEach(() => page?.close());
  afterAll(async () => {
    await browser?.close();
    await programs.clear();
    rmSync(folder, { recursive: true, force: true });
  });

  async function open(chat: string): Promise<void> {
    faults = [];
    page = await newPage(browser);
    page.on('pageerror', ({ message }) => faults.push(message));
    await page.goto(`${url}/?chat=${chat}`);
  }

  async function say(text: string): Promise<void> {
    await page.getByRole('textbox', { name: 'Message' }).fill(text);
    await page.keyboard.press('Enter');
  }

  const texts = () => page.locator('[data-role=assistant] .text').allInnerTexts();
  const ready = () => page.locator('main[data-status=ready]').waitFor();
  const partOfText = () => page.getByText(/word2/).waitFor();

  it('V-03 has one copy of the text at the end where it is reloaded in the middle of it', async () => {
    await open('reload');
    await say('slow');
    for (let times = 0; times < 3; times++) {
      await partOfText();
      if (times === 0) expect(await page.locator('main[data-status=ready]').count()).toBe(0);
      await page.reload();
    }
    await partOfText();
    await ready();
    expect((await texts()).join('').trim()).toBe(slowText.trim());
    expect(await page.locator('article').count()).toBe(2);
    await page.reload();
    await ready();
    expect((await texts()).join('').trim()).toBe(slowText.trim());
    expect(await page.locator('article').count()).toBe(2);
    expect(faults).toEqual([]);
  });

  it('V-03 shows the approval of a turn that waits again after a reload, and goes on when it is given', async () => {
    await open('approval');
    await say('refund');
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('All is done.').waitFor();
    await ready();
    expect(await page.locator('.tool').count()).toBe(1);
    expect(await page.locator('.tool').getAttribute('data-state')).toBe('output-available');
    expect(await page.locator('article').count()).toBe(2);
    expect(faults).toEqual([]);
  });

  it('V-03 follows one turn in two tabs', async () => {
    await open('tabs');
    await say('slow');
    await partOfText();
    const other = await newPage(browser);
    await other.goto(`${url}/?chat=tabs`);
    await other.getByText(/word29/).waitFor();
    await ready();
    expect((await other.locator('[data-role=assistant] .text').allInnerTexts()).join('').trim()).toBe(slowText.trim());
    await other.close();
  });

  it('V-03 shows the answer of a turn that ended after the messages were loaded and before its stream was asked for', async () => {
    await open('between');
    await say('slow');
    await partOfText();
    const other = await newPage(browser);
    await other.route('**/stream', async (route) => {
      await ready();
      await route.continue();
    });
    await other.goto(`${url}/?chat=between`);
    await other.getByText(/word29/).waitFor();
    expect((await other.locator('[data-role=assistant] .text').allInnerTexts()).join('').trim()).toBe(slowText.trim());
    expect(await other.locator('article').count()).toBe(2);
    await other.close();
  });

  it('R-11 answers a message anew, and an edited one in its place, and shows that after a reload', async () => {
    await open('edited');
    const last = (text: string) => page.locator('article').last().getByText(text, { exact: true }).waitFor();
    await say('list one');
    await last('list one (1)');
    await say('list two');
    await last('list one, list one (1), list two (2)');
    await ready();
    await page.getByRole('button', { name: 'Again' }).last().click();
    await last('list one, list one (1), list two (3)');
    await ready();
    await say('list three');
    await last('list one, list one (1), list two, list one, list one (1), list two (3), list three (4)');
    await ready();
    await page.getByRole('button', { name: 'Edit' }).nth(1).click();
    await say('list else');
    await last('list one, list one (1), list else (5)');
    await ready();
    await say('list more');
    const all = ['list one (1)', 'list one, list one (1), list else (5)'];
    all.push(`list one, ${all[0]}, list else, ${all[1]}, list more (6)`);
    await last(all[2] ?? '');
    await ready();
    expect(await texts()).toEqual(all);
    await page.reload();
    await last(all[2] ?? '');
    expect(await texts()).toEqual(all);
    expect(await page.locator('article').count()).toBe(6);
    expect(faults).toEqual([]);
  });

  it('V-04 has the whole text after the server was killed in the middle, and no effect twice', async () => {
    writeFileSync(effects, '');
    await open('killed');
    await say('book slow');
    await partOfText();
    await kill(server);
    await start();
    await page.reload();
    await page.getByText(/word29/).waitFor();
    await ready();
    expect((await texts()).join('').replace('Booking.', '').trim()).toBe(slowText.trim());
    expect(readFileSync(effects, 'utf8')).toBe('effect\n');
    expect(await page.locator('article').count()).toBe(2);
  });

  it('V-13 reads a turn with EventSource across a broken connection: no gap, no record event twice', async () => {
    await open('events');
    const chat = page.waitForResponse(/\/api\/chat$/);
    await say('slow');
    const body = (await chat).request().postDataJSON();
    await partOfText();
    const stream = await fetch(`${url}/api/chat/${body.id}/stream`);
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    const { value = '' } = (await reader?.read()) ?? {};
    await reader?.cancel();
    const [, taskId = ''] = /"messageId":"([^"]+)"/.exec(value) ?? [];
    await page.evaluate(`
      globalThis.seen = [];
      const source = new EventSource('/api/events/${taskId}');
      for (const event of ['task', 'iteration', 'iteration-end', 'text', 'end'])
        source.addEventListener(event, ({ data }) => {
          seen.push({ event, data: JSON.parse(data) });
          if (event === 'end') source.close();
        });
    `);
    await page.waitForFunction("seen.some(({ event }) => event === 'text')");
    await kill(server);
    await start();
    await page.waitForFunction("seen.at(-1)?.event === 'end'");
    const seen = await page.evaluate<{ event: string; data: { text?: string; reset?: boolean } }[]>('seen');
    let text = '';
    for (const { event, data } of seen) if (event === 'text') text = (data.reset ? '' : text) + data.text;
    expect(text.trim()).toBe(slowText.trim());
    const kinds = seen.map(({ event }) => event).filter((event) => event !== 'text');
    expect(kinds).toEqual(['task', 'iteration', 'iteration-end', 'end']);
  });
});
