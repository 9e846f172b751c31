import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { AgentLoop, agent, agentTools, type TaskStateStore, tool } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { RedisStateStore } from 'millrace/redis';
import { scriptedLLM } from 'millrace/testing';
import type { JournalRecord } from 'millrace/types';
import type { Browser, Page } from 'playwright-core';
import { startRedis } from '../stores/redis/redis-process.ts';
import { newPage, startChromium } from './browser.ts';
import { describeReal } from './real-part.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** What would be read as `exe.png`, and would color a terminal. */
const turnedAround = '\u202egnp.exe\u001b[31m';
const call = (name: string, given: object = {}) => ({ toolCalls: [{ name, arguments: given }] });
const look = tool({
  name: 'look',
  description: 'Looks.',
  parameters: { type: 'object' },
  execute: ({ city }) => `<img src=x onerror="document.title='owned'"> in ${String(city)}`,
});
const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  parameters: { type: 'object' },
  needsApproval: true,
  execute: () => 'refunded',
});

/** Whether the tab that is shown can be seen, however small the screen is. */
const isTabInSight = `(() => {
  const tab = document.querySelector('[aria-selected="true"]');
  if (!tab) return true;
  const [inner, outer] = [tab, tab.parentElement].map((element) => element.getBoundingClientRect());
  return inner.left >= outer.left && inner.right <= outer.right + 1;
})()`;

/** A journal of many iterations, as its owner would have written it. */
async function writeLong(store: TaskStateStore, taskId: string, iterations: number): Promise<void> {
  const at = Date.now() - 86_400_000;
  const started = { type: 'turn.started' as const, schema: 3, taskId, contextId: taskId, agentId: 'bo', settings: {} };
  const messages = [{ role: 'user' as const, content: 'Walk through all cities.' }];
  await store.create(taskId, { ...started, messages, seq: 1, epoch: 0, at });
  const lease = await store.acquire(taskId, 'test', 600_000);
  const { epoch } = lease;
  let seq = 1;
  for (let first = 1; first <= iterations; first += 500) {
    const records: JournalRecord[] = [];
    for (let iteration = first; iteration < first + 500 && iteration <= iterations; iteration++) {
      const callId = `${iteration}:0`;
      const asked = {
        id: `c${iteration}`,
        type: 'function' as const,
        function: { name: 'look', arguments: '{"city":"Oslo"}' },
      };
      const message = { role: 'assistant' as const, content: '', toolCalls: [asked] };
      const stamp = () => ({ seq: ++seq, epoch, at: at + seq * 100 });
      records.push(
        { type: 'llm.start', iteration, attempt: 1, ...stamp() },
        {
          type: 'llm.done',
          iteration,
          attempt: 1,
          message,
          calls: [{ callId, call: asked }],
          finishReason: 'tool_calls',
          ...stamp(),
        },
        { type: 'tool.intent', callId, attempt: 1, arguments: { city: 'Oslo' }, ...stamp() },
        { type: 'tool.result', callId, content: `sun ${iteration}`, success: true, durationMs: 80, ...stamp() },
      );
    }
    await store.append(lease, records, { status: 'working', barrier: true });
  }
  await store.release(lease);
}

describeReal(['chromium'], 'the page of millrace inspect', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-inspect-page-'));
  const inspectors: ChildProcess[] = [];
  let browser: Browser;
  let page: Page;
  let faults: string[] = [];
  let foreign: string[] = [];

  beforeAll(async () => {
    browser = await startChromium();
  });
  afterEach(async () => {
    await page?.close();
    expect(faults).toEqual([]);
    expect(foreign).toEqual([]);
  });
  afterAll(async () => {
    await browser?.close();
    for (const child of inspectors) {
      if (child.exitCode === null) {
        child.kill('SIGTERM');
        await new Promise((resolve) => child.once('exit', resolve));
      }
    }
    rmSync(folder, { recursive: true, force: true });
  });

  /** The address of an inspector that runs as a command. */
  async function inspect(store: string, ...flags: readonly string[]): Promise<string> {
    const child = spawn(process.execPath, ['dist/cli/main.js', 'inspect', '--store', store, ...flags], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    inspectors.push(child);
    return new Promise((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`the inspector ended with ${code}`)));
      child.stdout.on('data', (text) => {
        const [url] = /http:\S+/.exec(String(text)) ?? [];
        if (url !== undefined) resolve(url);
      });
    });
  }

  async function open(url: string, options: Parameters<Browser['newPage']>[0] = {}): Promise<void> {
    faults = [];
    foreign = [];
    page = await newPage(browser, { viewport: { width: 1280, height: 800 }, ...options });
    page.on('pageerror', ({ message }) => faults.push(message));
    page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
    const { origin } = new URL(url);
    page.on('request', (request) => {
      const to = request.url();
      if (!to.startsWith(origin) && !to.startsWith('data:') && !to.startsWith('blob:')) foreign.push(to);
    });
    await page.goto(url);
  }

  /** What the inspector sent to the page since it was opened, in bytes. */
  const sent = () =>
    page.evaluate<number>('performance.getEntriesByType("resource").reduce((sum, each) => sum + each.transferSize, 0)');

  const goTo = (hash: string) => page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
  const nodes = () => page.evaluate<number>('document.querySelectorAll("*").length');

  describe('over a store with many turns', () => {
    const path = join(folder, 'many');
    let url = '';

    beforeAll(async () => {
      const store = new LmdbStateStore({ path });
      const at = Date.now() - 3_600_000;
      for (let index = 0; index < 10_000; index++) {
        const taskId = `t${index}`;
        const messages = [{ role: 'user' as const, content: `Question ${index}` }];
        const started = {
          type: 'turn.started' as const,
          schema: 3,
          taskId,
          contextId: taskId,
          agentId: 'bo',
          settings: {},
        };
        await store.create(taskId, { ...started, messages, seq: 1, epoch: 0, at: at + index });
      }
      await writeLong(store, 'long', 5_000);
      await store.close();
      url = await inspect(`lmdb:${path}`);
    });

    it('V-21 shows the first of 10,000 turns without loading the others, and those as they are scrolled to', async () => {
      await open(url);
      await page.getByRole('link', { name: /long/ }).waitFor();
      const first = await sent();
      expect(first).toBeLessThan(200_000);
      expect(await nodes()).toBeLessThan(1_000);
      // All pages, to the last turn.
      for (let last = 0; ; ) {
        await page.evaluate('scrollTo(0, document.body.scrollHeight)');
        const status = (await page.getByRole('status').textContent()) ?? '';
        if (status.includes('in all')) break;
        const count = Number(status.replace(/\D/g, ''));
        expect(count).toBeGreaterThanOrEqual(last);
        last = count;
      }
      await page.evaluate('scrollTo(0, document.body.scrollHeight)');
      await page.getByText('Question 0', { exact: true }).waitFor();
      expect(await page.getByRole('status').textContent()).toContain('10,001 in all');
      expect(await sent()).toBeGreaterThan(5 * first);
      expect(await nodes()).toBeLessThan(1_000);
    });

    it('V-21 shows the rows of a turn of 20,001 records in few elements, and scrolls to the last of them', async () => {
      await open(url);
      await page.getByRole('link', { name: /long/ }).waitFor();
      await goTo('#/task/long');
      await page.locator('.event').first().waitFor();
      expect(await nodes()).toBeLessThan(1_000);
      await page.getByRole('list', { name: 'Timeline' }).and(page.locator('[style*="400000px"]')).waitFor();
      expect(await nodes()).toBeLessThan(1_000);
      await page.evaluate('scrollTo(0, document.body.scrollHeight)');
      await page.getByText('sun 5000').waitFor();
      await page.getByRole('tab', { name: /Records/ }).click();
      await page.evaluate('scrollTo(0, document.body.scrollHeight)');
      await page.getByText('20001', { exact: true }).waitFor();
      expect(await nodes()).toBeLessThan(1_000);
    });
  });

  describe('over turns of all kinds', () => {
    const path = join(folder, 'kinds');
    const store = new LmdbStateStore({ path });
    let url = '';

    beforeAll(async () => {
      const below = agent({
        id: 'below',
        description: 'Works.',
        provider: scriptedLLM([{ text: 'Deep.' }]),
        taskStateStore: store,
      });
      const options = { id: 'bo', tools: [look, refund], taskStateStore: store, retry: null };
      const long = { ...options, id: `bo-${'x'.repeat(80)}`, provider: scriptedLLM([{ text: 'W'.repeat(300) }]) };
      await agent(long).run('W'.repeat(300), { taskId: 'long-words' });
      const city = `<script>document.title="owned"</script>${turnedAround}`;
      const steps = [call('look', { city }), { text: '<b>Sun</b>' }];
      await agent({ ...options, provider: scriptedLLM(steps) }).run('Weather?', { taskId: 'weather' });
      const asking = [call('refund', { order: 7 }), call('below', { message: 'Go on.' }), { text: 'All done.' }];
      const asks = { ...options, toolProviders: [agentTools([below])] };
      await agent({ ...asks, provider: scriptedLLM(asking) }).run('Refund.', { taskId: 'asks' });
      await AgentLoop.fork('weather', {
        store,
        at: 1,
        taskId: 'forked',
        edits: { results: { '1:0': { content: 'rain' } } },
      });
      url = await inspect(`lmdb:${path}`, '--write');
    });
    afterAll(() => store.close());

    it('V-27 shows HTML and scripts of arguments and results as text, with the token nowhere in the address', async () => {
      await open(url);
      await page.getByRole('link', { name: /weather/ }).click();
      await page.locator('.event.tool').click();
      const city = '<script>document.title="owned"</script>⟨U+202E⟩gnp.exe␛[31m';
      await page.getByText(city, { exact: true }).waitFor();
      await page
        .getByText(/<img src=x onerror=/)
        .first()
        .waitFor();
      expect(await page.title()).toBe('Millrace');
      const shown = await page.locator('#page').textContent();
      for (const character of ['\u202e', '\u001b']) expect(shown).not.toContain(character);
      expect(await page.locator('img, .prose b, script:not([src])').count()).toBe(0);
      expect(page.url()).not.toContain('token');
      await page.reload();
      await page.locator('.event.tool').waitFor();
    });

    it('V-28 has no violation of axe: list, turn, question, records, comparison; light, dark, 360 px, 200 % zoom', async () => {
      const views = [
        '',
        'task/weather',
        'task/asks',
        'task/weather?tab=records&record=2',
        'task/weather?tab=messages',
        'task/weather?tab=about',
        'task/asks?tab=questions',
        'task/weather?tab=related',
        'compare/weather/forked',
        'task/long-words?tab=messages',
      ];
      for (const options of [
        { colorScheme: 'light' as const },
        { colorScheme: 'dark' as const },
        { colorScheme: 'light' as const, viewport: { width: 360, height: 740 } },
        // What zoom makes of a window of 1280 pixels.
        { colorScheme: 'dark' as const, viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 },
      ]) {
        // axe is not of the page: it may be put there in spite of the policy.
        await open(url, { ...options, bypassCSP: true });
        await page.evaluate(axe);
        for (const view of views) {
          await goTo(`#/${view}`);
          await page.locator('main h1').waitFor();
          if (view === 'task/weather') await page.locator('.event.tool').click();
          if (view.includes('record=')) await page.locator('.opened .json').first().waitFor();
          const found = await page.evaluate<readonly { id: string; nodes: readonly { html: string }[] }[]>(
            'axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations)',
          );
          const shown = found.map(({ id, nodes: [first] }) => `${id}: ${first?.html}`);
          expect([view, JSON.stringify(options), shown]).toEqual([view, JSON.stringify(options), []]);
          expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
          expect(await page.evaluate(isTabInSight)).toBe(true);
        }
        await page.close();
      }
    });

    it('V-28 is used by keyboard alone: to a turn, along its rows, to an answer', async () => {
      await open(url);
      await page.getByRole('link', { name: /asks/ }).waitFor();
      await page.getByRole('link', { name: /forked/ }).focus();
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Refund.' }).waitFor();
      await page.getByRole('textbox', { name: 'Reason' }).focus();
      await page.keyboard.press('Tab');
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.textContent')).toBe('Approve');
      await page.keyboard.press('Enter');
      await page.getByRole('button', { name: 'Approve', exact: true }).waitFor({ state: 'detached' });
      await page.getByRole('tab', { name: 'Timeline' }).focus();
      await page.keyboard.press('ArrowRight');
      await page.keyboard.press('ArrowRight');
      await page.getByText('by command').waitFor();
      await page.getByRole('tab', { name: /Questions/ }).press('ArrowLeft');
      await page.getByRole('tab', { name: 'Messages' }).press('ArrowLeft');
      await page.locator('.event').first().focus();
      await page.keyboard.press('End');
      await page.keyboard.press('Enter');
      await page.locator('.opened').waitFor();
    });

    it('V-24 shows a fork beside its origin, from the first record that differs', async () => {
      await open(`${url.replace(/#.*/, '')}${new URL(url).hash}`);
      await goTo('#/task/forked?tab=related');
      await page.getByText('Origin of the fork').waitFor();
      await goTo('#/task/weather?tab=related');
      await page.locator('.tree').getByText('Not running').waitFor();
      await page.getByRole('link', { name: 'Compare' }).click();
      await page.getByText(/differs in content/).waitFor();
      await page.getByText('rain', { exact: true }).first().waitFor();
    });
  });

  it('V-22 shows each record of a turn in another process before the next is written, on LMDB', async () => {
    const path = join(folder, 'live');
    const store = new LmdbStateStore({ path });
    try {
      await liveTurn(store, `lmdb:${path}`);
    } finally {
      await store.close();
    }
  });

  it('V-22 shows each record of a turn in another process before the next is written, on Redis', async () => {
    const server = await startRedis();
    const store = new RedisStateStore({ redis: server.url });
    try {
      await liveTurn(store, server.url);
    } finally {
      await store.close();
      await server.remove();
    }
  });

  /** A turn of this process, whose steps the test allows one by one, seen by an inspector in another one. */
  async function liveTurn(store: TaskStateStore, where: string): Promise<void> {
    const waiting: (() => void)[] = [];
    const step = tool({
      name: 'step',
      description: 'Waits.',
      parameters: { type: 'object' },
      execute: () => new Promise<string>((resolve) => waiting.push(() => resolve('went on'))),
    });
    const bo = agent({
      id: 'bo',
      provider: scriptedLLM([...Array.from({ length: 4 }, () => call('step')), { text: 'Arrived.' }]),
      tools: [step],
      taskStateStore: store,
    });
    const turn = bo.startTurn('Go.', { taskId: 'live', detached: true });
    const url = await inspect(where);
    await open(url);
    await page.getByRole('link', { name: /live/ }).click();
    for (const count of [1, 2, 3, 4]) {
      await page
        .locator('.event.tool')
        .nth(count - 1)
        .getByText('Running')
        .waitFor();
      waiting.shift()?.();
      await page
        .getByText(/went on/)
        .nth(count - 1)
        .waitFor();
    }
    await page.locator('.head').getByText('Completed').waitFor();
    await turn.result();
  }
});
