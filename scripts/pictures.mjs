// Takes the pictures of the docs again, into docs/pictures: the chat page, the inspector, and what the command prints on a terminal. Needs
// `npm run build`, chromium, and `script` of util-linux, which lends the command a terminal.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { crc32, deflateSync, inflateSync } from 'node:zlib';
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
  keep('chat', await page.screenshot());
  server.kill('SIGTERM');
  await once(server, 'exit');
}

async function takeInspector(browser, taskId) {
  const { child: server, url } = await serving([command, 'inspect', '--store', store], /http:\/\/127\.0\.0\.1:\S+/);
  const page = await browser.newPage({ viewport: { width: 1000, height: 660 }, colorScheme: 'light' });
  await page.goto(url);
  await page.locator('a.task.row').first().waitFor();
  await page.locator(`a[href*="${taskId}"]`).click();
  await page.locator('.bar').first().waitFor();
  keep('inspector', await page.screenshot());
  server.kill('SIGTERM');
  await once(server, 'exit');
}

async function takeTerminal(browser, name, lines) {
  const page = await browser.newPage({ viewport: { width: 900, height: 200 } });
  await page.setContent(pageOf(lines));
  keep(name, await page.locator('pre').screenshot());
}

/** Writes a picture with a palette of at most 256 colors, a third as large as the browser's. */
function keep(name, png) {
  const chunks = chunksOf(png);
  const header = chunks.find(({ type }) => type === 'IHDR').data;
  const [columns, rows, channels] = [header.readUInt32BE(0), header.readUInt32BE(4), header[9] === 6 ? 4 : 3];
  const pixels = unfiltered(
    inflateSync(Buffer.concat(chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data))),
    {
      rows,
      bytes: columns * channels,
      channels,
    },
  );
  const counts = new Map();
  // Neighbors of a color that differ in the last bits are one.
  const colorAt = (at) => ((pixels[at] & 0xf8) << 16) | ((pixels[at + 1] & 0xf8) << 8) | (pixels[at + 2] & 0xf8);
  for (let at = 0; at < pixels.length; at += channels) counts.set(colorAt(at), (counts.get(colorAt(at)) ?? 0) + 1);
  const palette = [...counts]
    .sort((one, other) => other[1] - one[1])
    .slice(0, 256)
    .map(([color]) => color);
  const near = new Map(palette.map((color, index) => [color, index]));
  const indexOf = (color) => {
    if (!near.has(color)) near.set(color, nearest(palette, color));
    return near.get(color);
  };
  const lines = Buffer.alloc(rows * (columns + 1));
  const exact = palette.map(() => undefined);
  for (let at = 0, to = 0; at < pixels.length; at += channels, to++) {
    const index = indexOf(colorAt(at));
    exact[index] ??= [pixels[at], pixels[at + 1], pixels[at + 2]];
    lines[Math.floor(to / columns) * (columns + 1) + 1 + (to % columns)] = index;
  }
  const head = Buffer.from(header);
  head[9] = 3;
  const colors = Buffer.from(exact.flatMap((color) => color ?? [0, 0, 0]));
  const parts = [chunkOf('IHDR', head), chunkOf('PLTE', colors), chunkOf('IDAT', deflateSync(lines, { level: 9 }))];
  writeFileSync(
    join(pictures, `${name}.png`),
    Buffer.concat([png.subarray(0, 8), ...parts, chunkOf('IEND', Buffer.alloc(0))]),
  );
}

function chunksOf(png) {
  const chunks = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    chunks.push({ type: png.toString('latin1', at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) });
    at += length + 12;
  }
  return chunks;
}

function chunkOf(type, data) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

/** The lines of a PNG without the filters that each begins with (RFC 2083, 6). */
function unfiltered(data, { rows, bytes, channels }) {
  const pixels = Buffer.alloc(rows * bytes);
  for (let row = 0; row < rows; row++) {
    const filter = data[row * (bytes + 1)];
    for (let at = 0; at < bytes; at++) {
      const here = row * bytes + at;
      const left = at < channels ? 0 : pixels[here - channels];
      const up = row === 0 ? 0 : pixels[here - bytes];
      const corner = row === 0 || at < channels ? 0 : pixels[here - bytes - channels];
      const [toLeft, toUp, toCorner] = [
        Math.abs(up - corner),
        Math.abs(left - corner),
        Math.abs(left + up - 2 * corner),
      ];
      const paeth = toLeft <= toUp && toLeft <= toCorner ? left : toUp <= toCorner ? up : corner;
      const guess = [0, left, up, (left + up) >> 1, paeth][filter];
      pixels[here] = data[row * (bytes + 1) + 1 + at] + guess;
    }
  }
  return pixels;
}

function nearest(palette, color) {
  const parts = (of) => [of >> 16, (of >> 8) & 0xff, of & 0xff];
  const [red, green, blue] = parts(color);
  const distance = (of) => {
    const [r, g, b] = parts(of);
    return (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
  };
  return palette.reduce((best, each, index) => (distance(each) < distance(palette[best]) ? index : best), 0);
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
  await takeInspector(browser, taskId);
  await takeChat(browser);
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
