import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';

type ContextOptions = Parameters<Browser['newContext']>[0];

export function startChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'], timeout: 0 });
}

/** Only the time limit of the test ends what waits in its pages. */
export async function newContext(browser: Browser, options: ContextOptions = {}): Promise<BrowserContext> {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(0);
  return context;
}

/** In a context of its own. */
export async function newPage(browser: Browser, options: ContextOptions = {}): Promise<Page> {
  return (await newContext(browser, options)).newPage();
}
