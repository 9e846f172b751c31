// Runs the examples as their reader would have them, on every Node that this package supports: esbuild takes the types off, or, where
// it is not installed, Node itself from 22.13 on. `millrace` is the package around this folder, or the one that is installed beside it.
//
//   node examples/run.mjs            all of them; fails where one fails or does not print what it shows
//   node examples/run.mjs smallest   one, on this terminal
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import * as module from 'node:module';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('.', import.meta.url));
const root = fileURLToPath(new URL('..', import.meta.url));
/** Below the root, so that `millrace` resolves to this package. */
const built = fileURLToPath(new URL('.build/', import.meta.url));
const timeoutMs = 60_000;

/** What each example has to print. */
const shows = new Map([
  ['smallest', [/I am a stand-in for a model/]],
  ['tools', [/start 1:0 current_time/, /done {2}1:1 count_words 3/, /In Tokyo it is/, /2 iterations, 2 tool calls/]],
  ['browser', [/^event: text$/m, /I am a stand-in for a model/, /^event: end$/m, /^after 1-0\.1: \d+ of \d+ events$/m]],
  ['cancel', [/tool: looking for millrace/, /tool: told to stop/, /turn: CANCELED/, /role: 'tool'/]],
  [
    'approval',
    [
      /done {2}1:0 refunded 900/,
      /state input-required \(final\)/,
      /asks {2}1:1/,
      /tool {2}refunded 12000/,
      /Both orders/,
    ],
  ],
  ['client-tool', [/input-required \{/, /kind: 'client-tool'/, /You are in Oslo/]],
  [
    'durable',
    [/^killed when "reserve"/m, /result charge: done/, /result .*OUTCOME_UNKNOWN/, /charge sale:1:1 attempt 2/],
  ],
  [
    'batch',
    [
      /^killed at 40 %$/m,
      /^completed: 60 rows, 2[4-9] of them of an earlier start/m,
      /^60 rows, 60 keys$/m,
      /^[0-5] of 60 /m,
    ],
  ],
  [
    'watch',
    [
      /asked: Window or aisle\?/,
      /worker packs shirt \d/,
      /worker: booked: window/,
      /^Your seat is at the window\.$/m,
      /turn: completed/,
    ],
  ],
  [
    'a2a',
    [
      /answer-1 begins {2}"I will refund it\."/,
      /"question":\{"id":"1:0"/,
      /^the customer service agrees\ntask, state 6$/m,
      /state 3 .*"reason":"stop"/,
      /m-1 again\ntask, state 3\ntrue/,
    ],
  ],
  [
    'hand-off-chat',
    [
      /billing: Your invoice is\s*$/m,
      /killed in the middle of the answer/,
      /billing.* is corrected\./,
      /billing: You are welcome\./,
      /current agent: billing/,
    ],
  ],
  ['shutdown', [/old process: SHUTDOWN/, /new process: The house stands/, /each step once: dig, pour, build/]],
  [
    'time-travel',
    [
      /then: +Take an umbrella/,
      /forked: +Sunglasses, for: Sun in Oslo/,
      /replayed: Take an umbrella/,
      /ran once/,
      /expected "Tells the weather of a city\."/,
    ],
  ],
  [
    'policies',
    [
      /\[void: PROVIDER_RATE_LIMIT\]/,
      /The answer to {2}\[void: PROVIDER_STREAM_CLOSED\]/,
      /I am a stand-in/,
      /^( {4}llm\.call\n){4}/m,
      /^again: /m,
      /main 3, backup 1; tokens of the second turn: 0/,
    ],
  ],
  [
    'stores',
    [/left open: turn-1/, /remembers: My name is Ada\. \| Hello Ada\./, /report\.md v2, 31 bytes/, /asked once/],
  ],
  ['own-store', [/^read again: Written down\.$/m, /^records: turn\.started, llm\.start, llm\.done, turn\.done$/m]],
  [
    'agent',
    [
      /sent {5}Write a note/,
      /below {4}researcher: Elephants/,
      /kept {5}sleep\.md, 17 bytes/,
      /I remember 6 messages/,
      /researcher below note/,
      /2 turns, 4 model calls/,
    ],
  ],
  [
    'team',
    [
      /bug\. → The bug is in line 7/,
      /function\. → const f/,
      /current: coder/,
      /panel: optimist: Yes\. pessimist: No\./,
      /desk: It will\./,
    ],
  ],
  [
    'long-conversation',
    [
      /iteration \d+: \d+ messages summed up/,
      /largest request below the window: true/,
      /read again: .*The end of 1\./,
      /history: 23 messages, whole: true/,
      /Nothing happened in ten chapters/,
      /the next turn begins with \d messages in place of 24/,
    ],
  ],
  [
    'limits',
    [
      /^LIMIT \(repeated_call\): .*raise maxRepeatedCalls/m,
      /^completed \(repeated_call\): I look again\./m,
      /the archive is read-only/,
      /took some tokens/,
    ],
  ],
  [
    'done-tool',
    [/user: Still on the list: milk/, /user: Go home when you are done\./, /^done: Home, with everything\./m],
  ],
  [
    'structured-output',
    [
      /tool {3}Tool error: .*arguments\.celsius/,
      /so far \{"city":"Oslo","celsius":4,"advice":"Take a "\}/,
      /Oslo, 4\.0 °C: Take a coat\./,
      /^Bergen, 7\.0 °C$/m,
    ],
  ],
  [
    'step-control',
    [
      /step 2: 0 calls, finished: true/,
      /tool: 3 letters about the flood, one from agent \*{4}/,
      /A critic says: The date/,
      /temperature 0 tools 0/,
    ],
  ],
  [
    'journal',
    [
      /^event {2}delta {2}artifact-update/m,
      /^record 6 {6}x\.lucky/m,
      /^record 11 {5}turn\.done/m,
      /^state {2}user, assistant, tool, user, assistant/m,
      /Yes, a six\. \{ lucky: true \}/,
    ],
  ],
  [
    'errors',
    [
      /thrown: INVALID_CONFIG maxIterations/,
      /TOOL_FAILED Tool error: RangeError: the book has no page 900/,
      /event: {2}failed length\nthe stream completes/,
      /failed: LENGTH/,
      /so far: 4 messages, 100 tokens/,
      /errors: NOT_FOUND/,
    ],
  ],
  [
    'vendors',
    [
      /thinks: +I have to look\./,
      /tool: +weather "\{\\"celsius\\":4\}"/,
      /says: +Four degrees: take a coat\./,
      /sent back: thinking, tool_use/,
      /to the letter: true/,
      /"cache_control":\{"type":"ephemeral"\}/,
    ],
  ],
  ['provider', [/\[void: PROVIDER_RATE_LIMIT\]/, /piece: of/, /whole: Pieces of eight! Squawk! \(2 requests\)/]],
  [
    'mcp',
    [
      /progress everything__trigger-long-running-operation .*"progress":2/,
      /input-required \[/,
      /prompt: 'May the tool "refund" run with these arguments\?/,
      /tool: The sum of 19 and 23 is 42\./,
      /tool: Order A7 is refunded\./,
      /^Summed up, waited, and refunded\.$/m,
    ],
  ],
  [
    'remote-agent',
    [
      /card: +shop - Helps with orders\./,
      /run: +Your order 7/,
      /asked: +input-required/,
      /result: +Order 7 is refunded/,
    ],
  ],
  [
    'command-line',
    [
      /1:0 {2}roll_dice needs approval/,
      /\[exit code 3\]/,
      /roll_dice says: 6 and 6\.\n\[exit code 0\]/,
      /completed · 2 iterations · 1 tool call/,
      /\$ millrace replay[^$]*6 and 6\./,
    ],
  ],
  ['tracing', [/^agent\.execute/m, /iteration\[2\]/, /tool\[current_time\]/, /tok$/m]],
]);

/** What takes the types off a source. */
async function typeRemover() {
  const esbuild = await import('esbuild').catch(() => undefined);
  if (esbuild) return (source) => esbuild.transformSync(source, { loader: 'ts', format: 'esm', target: 'node20' }).code;
  if (module.stripTypeScriptTypes) return (source) => module.stripTypeScriptTypes(source);
  console.error(
    `Node ${process.versions.node} does not take types off; run \`npm install --save-dev esbuild\`, or use Node 22.18 or newer.`,
  );
  process.exit(2);
}

const withoutTypes = await typeRemover();

/** Runs one example in a process of its own. */
function run(name, stdio) {
  const code = withoutTypes(readFileSync(`${folder}${name}.ts`, 'utf8'));
  mkdirSync(built, { recursive: true });
  writeFileSync(`${built}${name}.mjs`, code);
  return spawnSync(process.execPath, [`${built}${name}.mjs`], {
    cwd: root,
    encoding: 'utf8',
    stdio,
    timeout: timeoutMs,
  });
}

/** Why an example is not as it should be; undefined where it is. */
function complaintOf(name) {
  const expected = shows.get(name);
  if (expected === undefined) return 'examples/run.mjs does not say what it has to print';
  const { status, signal, stdout, stderr } = run(name, ['ignore', 'pipe', 'pipe']);
  const said = `${stdout}${stderr}`.trim();
  if (status !== 0) return `ended with ${status ?? signal}:\n${said}`;
  const missing = expected.find((pattern) => !pattern.test(stdout));
  return missing === undefined ? undefined : `did not print ${missing}:\n${said}`;
}

const names = readdirSync(folder)
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.slice(0, -3));
const [chosen] = process.argv.slice(2);

if (chosen === undefined) {
  for (const name of names) {
    const complaint = complaintOf(name);
    console.log(complaint === undefined ? `ok      ${name}` : `not ok  ${name} ${complaint}`);
    if (complaint !== undefined) process.exitCode = 1;
  }
  for (const name of shows.keys()) {
    if (names.includes(name)) continue;
    console.log(`not ok  ${name} is not there`);
    process.exitCode = 1;
  }
} else if (names.includes(chosen)) {
  process.exitCode = run(chosen, 'inherit').status ?? 1;
} else {
  console.error(`There is no example "${chosen}"; there are: ${names.join(', ')}.`);
  process.exitCode = 2;
}
