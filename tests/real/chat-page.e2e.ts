import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import axe from 'axe-core';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { ChatServer } from '../chat/chat-server.ts';
import { newContext, startChromium } from './browser.ts';
import { describeReal } from './real-part.ts';

const slowText = Array.from({ length: 30 }, (_, index) => `word${index}`).join(' ');

describeReal(['chromium'], 'the chat page', () => {
  const server = new ChatServer();
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  let faults: string[] = [];

  beforeAll(async () => {
    await server.start();
    browser = await startChromium();
  });
  afterEach(() => context?.close());
  afterAll(async () => {
    await browser?.close();
    await server.close();
  });

  /** A browser of its own: no conversations, no key. */
  async function open(options: Parameters<Browser['newContext']>[0] = {}): Promise<void> {
    faults = [];
    context = await newContext(browser, { viewport: { width: 1280, height: 800 }, ...options });
    context.on('page', (each) => {
      each.on('pageerror', ({ message }) => faults.push(message));
      each.on('console', (message) => {
        if (message.type() === 'error') faults.push(message.text());
      });
    });
    page = await context.newPage();
    await page.goto(server.url);
    await page.getByText('What can I do for you?').waitFor();
  }

  const field = () => page.getByRole('textbox', { name: 'Message' });
  const ready = () => page.getByRole('button', { name: 'Send' }).waitFor();
  const texts = () => page.locator('.assistant .markdown').allInnerTexts();
  const wordShown = (word: string) => page.locator('.assistant .markdown', { hasText: word }).waitFor();

  async function say(text: string): Promise<void> {
    // A failure is shown a moment before the stream ends; until then Enter sends nothing.
    await ready();
    const before = await page.locator('.message.user').count();
    await field().fill(text);
    await page.keyboard.press('Enter');
    await page.locator('.message.user').nth(before).waitFor();
  }

  async function ask(text: string): Promise<void> {
    await say(text);
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    await ready();
  }

  it('streams Markdown, and says the whole answer to who cannot see', async () => {
    await open();
    await ask('Show me some markdown.');
    const answer = page.locator('.assistant').last();
    await answer.getByRole('heading', { name: 'Three ways to sort' }).waitFor();
    expect(await answer.locator('ol > li').count()).toBe(2);
    expect(await answer.locator('table tbody tr').count()).toBe(2);
    expect(await answer.locator('.code figcaption span').first().textContent()).toBe('ts');
    const link = answer.getByRole('link', { name: 'the manual' });
    expect(await link.getAttribute('rel')).toMatch(/noopener noreferrer/);
    expect(await link.getAttribute('target')).toBe('_blank');
    await page
      .getByRole('status')
      .getByText(/^Agent: .*Three ways to sort/)
      .waitFor();
    await ask('think about it');
    const thoughts = page.locator('.reasoning');
    expect(await thoughts.getByText('I compare the two').isVisible()).toBe(false);
    await thoughts.locator('summary').click();
    await thoughts.getByText('I compare the two').waitFor();
    expect(await page.title()).toBe('Show me some markdown. – Assistant');
    expect(faults).toEqual([]);
  });

  it('copies code and messages', async () => {
    await open({ permissions: ['clipboard-read', 'clipboard-write'] });
    await ask('Show me some markdown.');
    const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
    await page.getByRole('button', { name: 'Copy code' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    expect(await clipboard()).toMatch(/^const byAge = .*\nconsole\.log/);
    await page.getByRole('button', { name: 'Copy message' }).click();
    await expect(clipboard()).resolves.toMatch(/^## Three ways to sort/);
  });

  it('shows tools as they run, and unfolds arguments and results', async () => {
    await open();
    await say('What is the weather?');
    await page.locator('.tool.running').first().waitFor();
    await page.locator('.tool.done').waitFor();
    await ready();
    const [oslo, atlantis] = [page.locator('.tool').first(), page.locator('.tool').nth(1)];
    expect(await oslo.textContent()).toMatch(/weather\s*Done/);
    expect(await atlantis.textContent()).toMatch(/weather\s*Failed[\s\S]*The tool failed\./);
    await oslo.locator('summary').focus();
    await page.keyboard.press('Enter');
    await oslo.getByText('"city": "Oslo"').first().waitFor();
    await oslo.getByText('"celsius": 4').waitFor();
    expect(await page.content()).not.toContain('SECRET');
    await say('delegate this');
    await page.locator('.agent', { hasText: /researcher word0/ }).waitFor();
    expect(faults).toEqual([]);
  });

  it('V-02 lets a call be approved, also after a reload, and be rejected', async () => {
    await open();
    await say('Please refund order 17.');
    const question = page.getByRole('group', { name: /May the tool "refund_order" run/ });
    await question.getByText('"order": 17').waitFor();
    await page.reload();
    await question.waitFor();
    expect(await question.evaluate((group) => document.activeElement === group)).toBe(true);
    await page.getByRole('button', { name: 'Approve' }).click();
    await ready();
    expect(await page.locator('.tool').textContent()).toMatch(/refund_order\s*Done/);
    expect((await texts()).at(-1)).toBe('All is done.');
    expect(await page.locator('.message.assistant').count()).toBe(1);
    await say('Please refund order 18.');
    await page.getByRole('button', { name: 'Reject' }).click();
    await ready();
    expect(await page.locator('.tool').last().textContent()).toMatch(/refund_order\s*Rejected/);
    expect(await page.locator('.question').count()).toBe(0);
    expect(faults).toEqual([]);
  });

  it('asks for each of two approvals, and continues when both are given', async () => {
    await open();
    await say('Refund both.');
    await page.getByRole('button', { name: 'Approve' }).nth(1).waitFor();
    await page.getByRole('button', { name: 'Approve' }).first().click();
    await page.getByRole('button', { name: 'Reject' }).last().click();
    await ready();
    expect(await page.locator('.tool').allInnerTexts()).toEqual([
      expect.stringMatching(/Done/),
      expect.stringMatching(/Rejected/),
    ]);
  });

  it('is used without a mouse', async () => {
    await open();
    await page.keyboard.type('Book a seat.');
    await page.keyboard.press('Enter');
    const answer = page.getByRole('textbox', { name: 'Your answer' });
    await answer.waitFor();
    expect(await answer.evaluate((input) => document.activeElement === input)).toBe(true);
    await page.keyboard.type('Bergen');
    await page.keyboard.press('Enter');
    await page.getByRole('group', { name: 'Window or aisle?' }).waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await ready();
    await page.locator('.tool summary').focus();
    await page.keyboard.press('Space');
    await page.getByText('A seat at the window is booked to Bergen.').waitFor();
    await field().focus();
    await page.keyboard.type('Now wait');
    await page.keyboard.press('Enter');
    await page.locator('.tool.running').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.assistant .note', { hasText: 'Stopped.' }).waitFor();
    await ready();
    expect(await page.locator('.tool').last().textContent()).toBe('waitStopped');
    expect(await field().evaluate((element) => document.activeElement === element)).toBe(true);
    expect(faults).toEqual([]);
  });

  it('V-03 loses no word and repeats none where it is loaded again in the middle', async () => {
    await open();
    await say('slow please');
    for (const word of ['word0', 'word2', 'word3']) {
      await wordShown(word);
      await page.reload();
    }
    await wordShown('word29');
    await ready();
    expect((await texts()).join('').trim()).toBe(slowText);
    await page.reload();
    await wordShown('word29');
    expect((await texts()).join('').trim()).toBe(slowText);
    expect(await page.locator('.message').count()).toBe(2);
    expect(faults).toEqual([]);
  });

  it('shows in a second tab what happens in the first', async () => {
    await open();
    await ask('hello');
    const other = await context.newPage();
    await other.goto(page.url());
    await other.locator('.assistant').waitFor();
    await say('slow please');
    await other.locator('.assistant', { hasText: 'word3' }).waitFor();
    await other.getByRole('button', { name: 'Stop' }).click();
    await page.locator('.assistant .note', { hasText: 'Stopped.' }).waitFor();
    await other.locator('.assistant .note', { hasText: 'Stopped.' }).waitFor();
    await ready();
    expect(await other.locator('.message').count()).toBe(4);
    expect(faults).toEqual([]);
  });

  it('V-04 continues where the server was killed and is started again', async () => {
    await open();
    await say('slow please');
    await wordShown('word3');
    await server.kill();
    await page.getByText('Reconnecting…').waitFor();
    await server.start();
    await wordShown('word29');
    await ready();
    expect((await texts()).join('').trim()).toBe(slowText);
    expect(await page.getByText('Reconnecting…').count()).toBe(0);
  });

  it('R-43 keeps its text and says what it waits for, while the server is away and until another process continues', async () => {
    await server.kill();
    await server.start('', 10_000);
    await open();
    await say('slow please');
    await wordShown('word3');
    await server.kill();
    await page.getByText(/^Waiting \d+ s for the server$/).waitFor();
    const shown = (await texts()).join('');
    expect(shown).toContain('word3');
    const lengths = await page.evaluateHandle(() => {
      const seen: number[] = [];
      const look = () => seen.push(document.querySelector('.assistant .markdown')?.textContent?.length ?? 0);
      new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
      return seen;
    });
    await server.start();
    await page.getByText(/^Waiting \d+ s for a process that continues the answer$/).waitFor();
    await wordShown('word29');
    await ready();
    expect(Math.min(...(await lengths.jsonValue()))).toBeGreaterThanOrEqual(shown.length);
    expect(await page.getByText(/^Waiting/).count()).toBe(0);
  });

  it('stops a turn whose server was away as soon as it is there again', async () => {
    await open();
    await say('Now wait');
    await page.locator('.tool.running').waitFor();
    await server.kill();
    await page.getByText('Reconnecting…').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await server.start();
    await page.locator('.assistant .note', { hasText: 'Stopped.' }).waitFor();
    await ready();
  });

  it('sends what was said while the server was away, also after a reload of the page', async () => {
    await open();
    await ask('hello');
    await server.kill();
    await say('think about it');
    await page.getByText('Reconnecting…').waitFor();
    await server.start();
    await wordShown('The second one.');
    expect(await page.locator('.message').count()).toBe(4);
  });

  it('tries a failed answer again', async () => {
    await open();
    await say('Now fail');
    await page.getByRole('alert').getByText('Something went wrong.').waitFor();
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('alert').waitFor({ state: 'detached' });
    await page.getByRole('alert').waitFor();
    expect(await page.locator('.message').count()).toBe(2);
    await page.reload();
    await page.locator('.message.user').waitFor();
    await page.getByRole('alert').getByText('Something went wrong.').waitFor();
    await ask('hello');
    expect((await texts()).at(-1)).toBe('All is done.');
    expect(await page.content()).not.toContain('SECRET');
  });

  it('R-11 edits a message, and has one answered anew', async () => {
    await open();
    // A key may come before the next frame.
    await page.evaluate(() => {
      window.requestAnimationFrame = (callback) => Number(setTimeout(callback, 200));
    });
    await ask('list one');
    await ask('list two');
    await page.getByRole('button', { name: 'Answer again' }).click();
    await wordShown('list two (3)');
    await ready();
    await page.getByRole('button', { name: 'Edit message' }).first().click();
    const editor = page.getByRole('textbox', { name: 'Edited message' });
    await editor.waitFor();
    await page.keyboard.press('Escape');
    await editor.waitFor({ state: 'detached' });
    await page.keyboard.press('Enter');
    await editor.fill('list else');
    await page.keyboard.press('Enter');
    await wordShown('list else (4)');
    await ready();
    expect(await page.locator('.message').count()).toBe(2);
    await ask('list more');
    const all = ['list else (4)', 'list else, list else (4), list more (5)'];
    expect(await texts()).toEqual(all);
    await page.reload();
    await wordShown('list more (5)');
    expect(await texts()).toEqual(all);
    expect(faults).toEqual([]);
  });

  it('R-11 switches between the versions of a message, and continues the one that is shown', async () => {
    await open();
    await ask('enumerate one');
    await ask('enumerate two');
    await page.getByRole('button', { name: 'Edit message' }).first().click();
    const editor = page.getByRole('textbox', { name: 'Edited message' });
    await editor.fill('enumerate else');
    await page.keyboard.press('Enter');
    await wordShown('enumerate else (3)');
    await ready();
    const [earlier, later] = ['Earlier version', 'Later version'].map((name) => page.getByRole('button', { name }));
    await page.getByText('Version 2 / 2').waitFor();
    expect(await later?.isDisabled()).toBe(true);
    await earlier?.click();
    await page.getByText('Version 1 / 2').waitFor();
    const first = ['enumerate one (1)', 'enumerate one, enumerate one (1), enumerate two (2)'];
    expect(await texts()).toEqual(first);
    await ask('enumerate three');
    const whole = [...first, `enumerate one, ${first[0]}, enumerate two, ${first[1]}, enumerate three (4)`];
    expect(await texts()).toEqual(whole);
    await page.reload();
    await wordShown('enumerate three (4)');
    expect(await texts()).toEqual(whole);
    await later?.click();
    await page.getByText('Version 2 / 2').waitFor();
    expect(await texts()).toEqual(['enumerate else (3)']);
    await page.getByRole('button', { name: 'Answer again' }).click();
    await wordShown('enumerate else (5)');
    await page.getByText('Version 3 / 3').waitFor();
    await earlier?.click();
    await page.getByText('Version 2 / 3').waitFor();
    expect(await texts()).toEqual(['enumerate else (3)']);
    expect(faults).toEqual([]);
  });

  it('streams what is said while it loads what another tab has done', async () => {
    await open();
    await ask('hello');
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const isAsked = page.waitForRequest(/\/messages$/);
    await page.route(/\/messages$/, async (route) => {
      await held;
      await route.continue();
    });
    await page.evaluate(() => {
      new BroadcastChannel('millrace.chat').postMessage(location.hash.slice(1));
    });
    await isAsked;
    await say('slow please');
    await wordShown('word2');
    const loaded = page.waitForResponse(/\/messages$/);
    release();
    await loaded;
    await wordShown('word8');
    expect(await page.getByRole('button', { name: 'Stop' }).count()).toBe(1);
    await wordShown('word29');
    await ready();
    expect(await page.locator('.message').count()).toBe(4);
    expect((await texts()).at(-1)).toBe(Array.from({ length: 30 }, (_, index) => `word${index}`).join(' '));
    expect(faults).toEqual([]);
  });

  it('lists conversations, opens them, and stops the turn of one that is removed', async () => {
    await open();
    await ask('hello');
    await page.getByRole('button', { name: 'New conversation' }).click();
    await page.getByText('What can I do for you?').waitFor();
    await say('Now wait');
    await page.locator('.tool.running').waitFor();
    const list = page.getByRole('navigation', { name: 'Conversations' });
    expect(await list.locator('.chat').allInnerTexts()).toEqual(['Now wait', 'hello']);
    await list.getByRole('button', { name: 'hello', exact: true }).click();
    await page.locator('.assistant', { hasText: 'All is done.' }).waitFor();
    await page.goBack();
    await page.locator('.tool.running').waitFor();
    const [stopped] = await Promise.all([
      page.waitForResponse((response) => response.url().endsWith('/stop')),
      list.getByRole('button', { name: 'Remove Now wait from this list' }).click(),
    ]);
    expect(stopped.status()).toBe(204);
    await page.getByText('What can I do for you?').waitFor();
    await page.reload();
    expect(await list.locator('.chat').allInnerTexts()).toEqual(['hello']);
  });

  it('V-27 shows what is hostile as text', async () => {
    await open();
    const asked: string[] = [];
    context.on('request', (request) => asked.push(new URL(request.url()).origin));
    await ask('hostile, please: <img src=x onerror="window.hit = 20"> \u202eabc');
    await page.locator('.tool summary').click();
    await page.locator('.assistant').getByText('<script>window.hit = 1</script>').first().waitFor();
    for (const link of await page.locator('.assistant a').all()) {
      expect(await link.getAttribute('href')).toBe('https://attacker.example/pixel.png');
    }
    await page.getByText('␛[31mred').first().waitFor();
    await page.getByText('⟨U+202E⟩abc').first().waitFor();
    expect(await page.locator('.assistant :is(script, img, iframe, style, form, svg:not(.icon))').count()).toBe(0);
    expect(await page.evaluate(() => Reflect.get(window, 'hit'))).toBeUndefined();
    for (const text of ['huge', 'deep']) await ask(text);
    await page.locator('.assistant', { hasText: 'xxx end' }).waitFor();
    await page.reload();
    await page.locator('.assistant', { hasText: 'xxx end' }).waitFor();
    expect(new Set(asked)).toEqual(new Set([new URL(server.url).origin]));
    expect(faults).toEqual([]);
  });

  it('V-27 refuses inline scripts, and strings that become HTML', async () => {
    await open();
    const outcome = await page.evaluate(() => {
      const script = document.createElement('script');
      let refused = 'nothing';
      try {
        document.body.insertAdjacentHTML('beforeend', '<b>x</b>');
      } catch (error) {
        refused = error instanceof TypeError ? 'HTML' : 'other';
      }
      try {
        script.text = 'window.hit = 1';
        document.body.append(script);
      } catch {
        refused += ', script';
      }
      return [refused, Reflect.get(window, 'hit')];
    });
    expect(outcome).toEqual(['HTML, script', undefined]);
  });

  it.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 360],
    ['dark', 360],
  ] as const)('V-28 has no violation of axe: %s, %d pixels', async (colorScheme, width) => {
    await open({ colorScheme, viewport: { width, height: 740 }, bypassCSP: true });
    const violations = async (): Promise<readonly unknown[]> => {
      await page.evaluate(axe.source);
      return page.evaluate(async () => {
        const { violations: found } = await Reflect.get(window, 'axe').run();
        return found.map(({ id, nodes }: { id: string; nodes: { html: string }[] }) => [
          id,
          nodes.map(({ html }) => html),
        ]);
      });
    };
    expect(await violations()).toEqual([]);
    await ask('Show me some markdown.');
    await ask('What is the weather?');
    await ask('think about it');
    for (const summary of await page.locator('summary').all()) await summary.click();
    await say('Now fail');
    await page.getByRole('alert').waitFor();
    expect(await violations()).toEqual([]);
    await say('Please refund order 17.');
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    expect(await violations()).toEqual([]);
    const question = page.locator('.question');
    await question.evaluate((group) => {
      for (const shown of group.querySelectorAll('legend, pre')) shown.textContent = 'a_very_long_name_'.repeat(9);
    });
    expect(await question.evaluate((group) => group.scrollWidth - group.clientWidth)).toBe(0);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    if (width > 360) return;
    await page.getByRole('button', { name: 'Conversations' }).click();
    await page.getByRole('button', { name: 'New conversation' }).waitFor();
    expect(await violations()).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'New conversation' }).waitFor({ state: 'hidden' });
  });

  it('asks for a key where the server wants one, and keeps what was said', async () => {
    const guarded = new ChatServer();
    await guarded.start('the-key-of-ann');
    context = await newContext(browser);
    page = await context.newPage();
    try {
      await page.goto(guarded.url);
      await say('hello');
      await page.getByLabel('Your key for this server').fill('wrong');
      await page.keyboard.press('Enter');
      await page.getByLabel('Your key for this server').fill('the-key-of-ann');
      await page.keyboard.press('Enter');
      await page.locator('.assistant', { hasText: 'All is done.' }).waitFor();
      expect(await page.locator('.message').count()).toBe(2);
      await page.reload();
      await page.locator('.assistant', { hasText: 'All is done.' }).waitFor();
    } finally {
      await guarded.close();
    }
  });
});
