import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { type Browser, chromium, type Page } from 'playwright-core';
import { ChatSite } from './chat-site.ts';
import { describeReal } from './real-part.ts';

describeReal(['chromium'], 'the chat page', () => {
  let browser: Browser;
  let site: ChatSite;
  let page: Page;

  beforeAll(async () => {
    site = await ChatSite.start();
    browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
  });
  afterAll(async () => {
    await browser?.close();
    await site?.close();
  });
  afterEach(() => page?.close());

  async function open(): Promise<string[]> {
    const faults: string[] = [];
    page = await browser.newPage({ viewport: { width: 400, height: 700 } });
    page.on('pageerror', ({ message }) => faults.push(message));
    await page.goto(site.url);
    return faults;
  }

  /** Resolves once it is shown. */
  async function say(text: string): Promise<void> {
    const before = await page.locator('article').count();
    await page.getByRole('textbox', { name: 'Message' }).fill(text);
    await page.keyboard.press('Enter');
    await page.locator('article').nth(before).waitFor();
  }

  const done = () => page.getByRole('button', { name: 'Send' }).waitFor();
  const texts = () => page.locator('.text').allInnerTexts();
  const tools = () => page.locator('.tool').allInnerTexts();

  const long = 'What is the weather in Oslo? What is the weather in Bergen? What is the weather in Narvik?';

  it('shows texts and tool calls as they come, and says the answer to who cannot see', async () => {
    const faults = await open();
    await say('What is the weather in Oslo?');
    await page.locator('.tool.running').waitFor();
    await done();
    expect(await page.locator('.tool.done').count()).toBe(1);
    expect((await texts()).at(-1)).toMatch(/In Oslo it is 4 °C/);
    await page
      .getByRole('status')
      .getByText(/^Agent: .*In Oslo it is 4 °C/)
      .waitFor();
    await page.getByRole('heading', { name: 'Millrace' }).waitFor();
    expect(faults).toEqual([]);
  });

  it('loses no word and repeats none where it is loaded again in the middle', async () => {
    await open();
    await say(long);
    await done();
    const whole = { texts: await texts(), tools: (await tools()).length };
    await page.getByRole('button', { name: 'New conversation' }).click();
    await page.getByText('What can I do for you?').waitFor();
    await say(long);
    for (const selector of ['article', '.tool.running', '.tool.done', '.text >> nth=1']) {
      await page.locator(selector).first().waitFor();
      await page.reload();
    }
    await done();
    expect({ texts: await texts(), tools: (await tools()).length }).toEqual(whole);
  });

  it('lets a call be approved, also after it was loaded again, and be rejected', async () => {
    await open();
    await say('Refund order 17.');
    await page.getByRole('group', { name: /May the tool "refund_order" run/ }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Approve' }).click();
    await done();
    expect((await texts()).at(-1)).toMatch(/Order 17 is refunded/);
    await say('Refund order 18.');
    await page.getByRole('button', { name: 'Reject' }).click();
    await done();
    expect((await tools()).at(-1)).toMatch(/^refund_order\s*rejected/);
    expect(await page.locator('.question').count()).toBe(0);
    expect((await texts()).join()).not.toMatch(/Order 18 is refunded/);
  });

  it('is answered without a mouse', async () => {
    await open();
    await say('Book a seat on a train.');
    await page.getByRole('textbox', { name: 'Your answer' }).waitFor();
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.type('Bergen');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'window' }).waitFor();
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await done();
    expect((await texts()).at(-1)).toMatch(/A seat at the window is booked to Bergen/);
  });

  it('stops a turn', async () => {
    await open();
    await say('What is the weather in Oslo?');
    await page.locator('.tool.running').waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('Stopped.', { exact: true }).first().waitFor();
    await done();
    expect(await tools()).toEqual([expect.stringMatching(/^weather\s*stopped/)]);
    await say('Refund order 17.');
    await page.getByRole('button', { name: 'Approve' }).waitFor();
  });

  it('ends a turn whose conversation is left', async () => {
    await open();
    await say('What is the weather in Oslo?');
    await page.locator('.tool.running').waitFor();
    const canceled = page.waitForResponse((response) => response.request().postData()?.includes('CancelTask') === true);
    await page.getByRole('button', { name: 'New conversation' }).click();
    expect(await (await canceled).json()).toMatchObject({ result: { status: { state: 'TASK_STATE_CANCELED' } } });
  });

  it('breaks names that are too long for a narrow screen', async () => {
    await open();
    await page.setViewportSize({ width: 320, height: 600 });
    await say('Refund order 17.');
    const question = page.getByRole('group', { name: /May the tool "refund_order" run/ });
    await question.waitFor();
    const overflow = await question.evaluate((group) => {
      for (const shown of group.querySelectorAll('legend, .tool-name'))
        shown.textContent = 'a_very_long_name_'.repeat(5);
      return group.scrollWidth - group.clientWidth;
    });
    expect(overflow).toBe(0);
  });

  it('goes on where the server was killed and is started again', async () => {
    await open();
    await say(long);
    await page.locator('.tool.running').first().waitFor();
    await site.killServer();
    await page.getByText('Reconnecting…').waitFor();
    await site.startServer();
    await done();
    expect((await texts()).at(-1)).toMatch(/In Oslo it is .* In Bergen it is .* In Narvik it is/s);
    expect(await page.getByText('Reconnecting…').isVisible()).toBe(false);
  });

  it('stops a turn whose server was away as soon as it is there again', async () => {
    await open();
    await say(long);
    await page.locator('.tool.running').first().waitFor();
    await site.killServer();
    await page.getByText('Reconnecting…').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await site.startServer();
    await page.getByText('Stopped.', { exact: true }).first().waitFor();
    await done();
  });
});
