// Takes the pictures of the docs again, into docs/pictures: the chat page, and what the command prints on a terminal. Needs
// `npm run build`, chromium, and `script` of util-linux, which lends the command a terminal.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const root = fileURLToPath(new URL('..', import.meta.url));
const pictures = join(root, 'docs', 'pictures');
const folder = mkdtempSync(join(tmpdir(), 'millrace-'));
const store = `lmdb:${join(folder, 'store')}`;
/** What the tools of the command search: the files that are in the repository, without what is built from them. */
const searched = join(folder, 'searched');
const command = join(root, 'dist/cli/main.js');
const width = 100;
const { OPENAI_BASE_URL: _url, OPENAI_API_KEY: _key, NO_COLOR: _color, ...env } = process.env;

const escapeCode = String.fromCharCode(27);

/** The lines that a terminal shows after what was printed: text moves the cursor, and some sequences move it up, clear below it, or color. */
function screenOf(printed) {
  const lines = [[]];
  let [row, column, style] = [0, 0, ''];
  for (const [part, sequence, argument, letter] of printed
    .replaceAll(escapeCode, '␛')
    .matchAll(/(␛\[([\d;?]*)([A-Za-z]))|[^␛]/gu)) {
    if (sequence === undefined && part === '\n') row += 1;
    else if (sequence === undefined && part === '\r') column = 0;
    else if (letter === 'A') row = Math.max(0, row - Number(argument || 1));
    else if (letter === 'J') lines.splice(row, Number.POSITIVE_INFINITY, (lines[row] ?? []).slice(0, column));
    else if (letter === 'm') style = styleAfter(style, argument);
    else if (sequence === undefined) {
      lines[row] ??= [];
      lines[row][column] = { text: part, style };
      column += 1;
    }
    for (let at = 0; at <= row; at++) lines[at] ??= [];
  }
  return lines;
}

const styles = { 1: 'bold', 2: 'dim', 31: 'red', 32: 'green', 33: 'yellow', 34: 'blue', 35: 'magenta', 36: 'cyan' };

function styleAfter(style, codes) {
  let after = new Set(style.split(' ').filter(Boolean));
  for (const code of codes.split(';').map(Number)) {
    if (code === 0) after = new Set();
    else if (code === 22) for (const name of ['bold', 'dim']) after.delete(name);
    else if (code === 39) after = new Set([...after].filter((name) => ['bold', 'dim'].includes(name)));
    else if (styles[code] !== undefined) after.add(styles[code]);
  }
  return [...after].join(' ');
}

function pageOf(lines) {
  const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const body = lines.map((line) =>
    Array.from(line, (cell) => (cell === undefined ? ' ' : `<i class="${cell.style}">${escaped(cell.text)}</i>`)).join(
      '',
    ),
  );
  return `<!doctype html><meta charset="utf-8"><style>
    body { margin: 0; background: #16181d; }
    pre { display: inline-block; margin: 0; padding: 16px 20px; color: #d7dae0; font: 13px/1.45 'DejaVu Sans Mono', monospace; }
    i { font-style: normal; } .bold { font-weight: bold; color: #fff; } .dim { color: #8b919d; } .red { color: #ff7b72; }
    .green { color: #7ee787; } .yellow { color: #e3b341; } .blue { color: #79c0ff; } .magenta { color: #d2a8ff; } .cyan { color: #76d9e6; }
  </style><pre>${body.join('\n').trimEnd()}</pre>`;
}

/** What the command shows on a terminal, with the line that starts it. */
function terminal(...args) {
  const line = [process.execPath, command, ...args].map((word) => `'${word}'`).join(' ');
  const { stdout } = spawnSync('script', ['-qec', `stty cols ${width} rows 60; ${line}`, '/dev/null'], {
    env: { ...env, TERM: 'xterm-256color' },
    cwd: searched,
    encoding: 'utf8',
  });
  return screenOf(stdout);
}

const textOf = (line) => Array.from(line, (cell) => cell?.text ?? ' ').join('');

/** The lines from the first that matches `from` to the one before the next that matches `to`, or to the end. */
function between(lines, from, to) {
  const start = lines.findIndex((line) => from.test(textOf(line)));
  const length = lines.slice(start + 1).findIndex((line) => to.test(textOf(line)));
  if (start < 0) throw new Error(`nothing printed matches ${from}`);
  return lines.slice(start, length < 0 ? undefined : start + 1 + length);
}

async function serving(args, pattern) {
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...env, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const found = pattern.exec(line);
    if (found === null) continue;
    child.stdout.resume();
    return { child, url: found[0] };
  }
  throw new Error(`${args.join(' ')} has ended`);
}

async function takeChat(browser) {
  const serve = [command, 'serve', '--tools', 'examples/served-tools.mjs', '--port', '0', '--store', store];
  const { child: server, url } = await serving(serve, /http:\/\/127\.0\.0\.1:\d+\/chat/);
  const page = await browser.newPage({ viewport: { width: 1000, height: 720 }, colorScheme: 'light' });
  await page.goto(url);
  for (const text of ['What is the weather in Oslo? What is the weather in Bergen?', 'Refund order 17.']) {
    await page.getByRole('textbox', { name: 'Message' }).fill(text);
    await page.keyboard.press('Enter');
    if (text.startsWith('What'))
      await page
        .getByText(/In Bergen it is/)
        .last()
        .waitFor();
    if (text.startsWith('What')) await page.getByRole('button', { name: 'Send' }).waitFor();
  }
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  await page.screenshot({ path: join(pictures, 'chat.png') });
  server.kill('SIGTERM');
  await once(server, 'exit');
}

async function takeTerminal(browser, name, lines) {
  const page = await browser.newPage({ viewport: { width: 900, height: 200 } });
  await page.setContent(pageOf(lines));
  await page.locator('pre').screenshot({ path: join(pictures, `${name}.png`) });
}

mkdirSync(pictures, { recursive: true });
mkdirSync(searched);
for (const name of ['README.md', 'src']) cpSync(join(root, name), join(searched, name), { recursive: true });
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
try {
  const question = 'What is 12 * 7, what time is it in Tokyo, and which source files mention shareTurn?';
  const turn = terminal('run', question, '--trace', '--store', store);
  await takeTerminal(browser, 'trace', between(turn, /^ +0 .* m?s *$/, /^$/));
  const [, taskId] = /"taskId":"([^"]+)"/.exec(terminal('tasks', '--json', '--store', store).map(textOf).join('\n'));
  await takeTerminal(browser, 'timeline', terminal('show', taskId, '--store', store));
  await takeTerminal(browser, 'demo', between(terminal('demo'), /^❯/, /trace of the resumed turn/));
  await takeChat(browser);
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
