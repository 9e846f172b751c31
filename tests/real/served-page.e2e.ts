import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { AgentFolder, ServeProcess } from '../a2a/server/serve-process.ts';
import { newContext, startChromium } from './browser.ts';
import { describeReal } from './real-part.ts';

const tools = ['--tools', 'examples/served-tools.mjs'];

describeReal(['chromium', 'a2a'], 'the page of millrace serve', () => {
  let folder: AgentFolder;
  let browser: Browser;
  let page: Page;
  let server: ServeProcess;
  let url: string;

  beforeAll(async () => {
    folder = new AgentFolder();
    browser = await startChromium();
    await start('0');
  });
  afterEach(() => page?.context().close());
  afterAll(async () => {
    await browser?.close();
    await server?.end('SIGKILL');
    folder?.remove();
  });

  async function start(port: string): Promise<void> {
    server = new ServeProcess([...tools, '--store', folder.store, '--lease-ms', '2000', '--port', port]);
    url = await server.url();
  }

  async function open(): Promise<void> {
    page = await (await newContext(browser)).newPage();
    await page.goto(`${url}/chat`);
    await page.getByRole('heading', { name: 'Millrace' }).waitFor();
  }

  async function say(text: string): Promise<void> {
    await page.getByRole('textbox', { name: 'Message' }).fill(text);
    await page.keyboard.press('Enter');
  }

  const ready = () => page.getByRole('button', { name: 'Send' }).waitFor();
  const lastText = () => page.locator('.assistant .markdown').last().textContent();

  it('shows tools, approves a call and answers questions', async () => {
    expect(server.output).toContain(`page  ${url}/chat`);
    await open();
    await say('What is the weather in Oslo?');
    await page.locator('.tool.running').waitFor();
    await page.locator('.tool.done').waitFor();
    await ready();
    expect(await lastText()).toMatch(/In Oslo it is 4 °C/);
    await say('Refund order 17.');
    await page.getByRole('button', { name: 'Approve' }).click();
    await ready();
    expect(await lastText()).toMatch(/Order 17 is refunded/);
    await say('Book a seat on a train.');
    await page.getByRole('textbox', { name: 'Your answer' }).fill('Bergen');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'window' }).click();
    await ready();
    expect(await lastText()).toMatch(/A seat at the window is booked to Bergen/);
  });

  it.each(['SIGKILL', 'SIGINT'] as const)('continues on the next server after %s', async (signal) => {
    await open();
    await say('What is the weather in Oslo? What is the weather in Bergen? What is the weather in Narvik?');
    await page.locator('.tool.running').first().waitFor();
    const code = await server.end(signal);
    if (signal === 'SIGINT') expect(code).toBe(0);
    await page.getByText('Reconnecting…').waitFor();
    await start(new URL(url).port);
    await page.locator('.markdown', { hasText: /In Narvik it is/ }).waitFor();
    await ready();
    expect(await lastText()).toMatch(/In Oslo it is .* In Bergen it is .* In Narvik it is/s);
  });

  it.each<[string, readonly string[], Readonly<Record<string, string>>]>([
    ['--no-page', ['--no-page'], {}],
    ['--open', ['--open'], {}],
    ['client keys', [], { MILLRACE_CLIENT_KEYS: 'alice=the-key-of-alice-0123' }],
  ])('is not there with %s', async (_, flags, env) => {
    const other = new ServeProcess([...tools, '--store', 'memory', ...flags], env);
    const address = await other.url();
    const statuses = await Promise.all(
      ['/chat', '/chat/api/c/messages'].map(async (path) => (await fetch(`${address}${path}`)).status),
    );
    expect(statuses).toEqual([404, 404]);
    expect(other.output).not.toContain('page  ');
    expect(await other.end('SIGINT')).toBe(0);
  });
});
