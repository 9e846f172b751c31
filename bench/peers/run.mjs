import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { bundle } from '../bundle.mjs';

const folder = fileURLToPath(new URL('.', import.meta.url));
if (!existsSync(`${folder}node_modules`)) {
  console.log('Installing what Millrace is measured beside…');
  spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder, stdio: 'inherit' });
}
const built = await bundle(
  ['peers/lane.mjs', 'peers/http-lane.mjs'],
  new URL('node_modules/.cache/bench/', import.meta.url),
);
const contenders = [
  'millrace',
  'millrace-journal',
  'millrace-agent',
  'pi',
  'pi-agent',
  'pi-0.73',
  'ai-sdk',
  'openai-agents',
  'langgraph',
  'mastra',
];
const works = ['one call', '10 iterations', '200 iterations', '50 tools', '20,000 deltas'];
const processes = 3;

async function measure(who, what) {
  const told = [];
  for (let n = 0; n < processes; n++) told.push(await measureOnce('lane', who, what));
  return told;
}

async function measureOnce(program, ...words) {
  const { stdout } = await promisify(execFile)(process.execPath, [`${built}${program}.mjs`, ...words]);
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

const middle = (told, name) => told.map((each) => each[name]).sort((a, b) => a - b)[told.length >> 1];

const asked = process.argv.slice(2);
const isAsked = (name) => asked.length === 0 || asked.includes(name);
for (const what of works.filter(isAsked)) {
  console.log(`\n${what}: CPU time as a ratio to the bare loop in the same process (least samples), µs a unit`);
  for (const who of contenders) {
    const told = await measure(who, what);
    const [ratio, least, micros] = ['ratio', 'least', 'micros'].map((name) => middle(told, name).toFixed(1));
    console.log(`  ${who.padEnd(18)} ${ratio}x (${least}x)  ${micros} µs`);
  }
}
if (isAsked('together')) {
  console.log('\n1,000 turns at once, three tool iterations each, a model that waits 10 ms');
  let base;
  for (const who of ['bare', ...contenders]) {
    const told = await measure(who, 'together');
    const micros = middle(told, 'micros');
    base ??= micros;
    const memory = `${middle(told, 'peakMiB').toFixed(0)} MiB`;
    console.log(
      `  ${who.padEnd(18)} ${(micros / base).toFixed(1)}x  ${micros.toFixed(0)} µs a turn, at most ${memory}`,
    );
  }
}

if (isAsked('http')) {
  const server = spawn(process.execPath, [`${folder}http-server.mjs`], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [port] = await once(server.stdout, 'data');
  const baseUrl = `http://127.0.0.1:${Number(port)}/v1`;
  console.log('\nAgainst a model server: CPU time for 1,000 tokens; turns in a second of CPU, 200 at once');
  for (const who of ['fetch', 'openai', 'millrace', 'pi', 'pi-0.73', 'ai-sdk']) {
    const tokens = [];
    const turns = [];
    for (let n = 0; n < processes; n++) {
      tokens.push({ ms: await measureOnce('http-lane', who, 'tokens', baseUrl) });
      turns.push({ rate: await measureOnce('http-lane', who, 'together', baseUrl) });
    }
    console.log(`  ${who.padEnd(18)} ${middle(tokens, 'ms').toFixed(1)} ms  ${middle(turns, 'rate').toFixed(0)} turns`);
  }
  server.stdin.end();
}
