// How a server keeps up with many streams at once: node bench/a2a.mjs [clients] (default 500). Build first.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const clients = Number(process.argv[2] ?? 500);
const server = fork(fileURLToPath(new URL('a2a/server-child.mjs', import.meta.url)));
const [{ url }] = await once(server, 'message');
const body = (index) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: index,
    method: 'SendStreamingMessage',
    params: { message: { messageId: `load-${index}`, role: 'ROLE_USER', parts: [{ text: String(index) }] } },
  });
const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };

/** The text and the last state of one stream, and when its first text came. */
async function stream(index) {
  const startedAt = performance.now();
  const response = await fetch(`${url}/a2a/jsonrpc`, { method: 'POST', headers, body: body(index) });
  let rest = '';
  const seen = { text: '', state: '', events: 0, firstMs: 0, ms: 0 };
  for await (const chunk of response.body) {
    const blocks = (rest + Buffer.from(chunk).toString()).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) take(seen, block, startedAt);
  }
  return { ...seen, ms: performance.now() - startedAt };
}

function take(seen, block, startedAt) {
  if (!block.startsWith('data: ')) return;
  const { result } = JSON.parse(block.slice('data: '.length));
  seen.events++;
  const { artifactUpdate, statusUpdate } = result;
  if (artifactUpdate) {
    if (!artifactUpdate.append) seen.text = '';
    if (seen.text === '') seen.firstMs = performance.now() - startedAt;
    seen.text += artifactUpdate.artifact.parts?.[0]?.text ?? '';
  }
  if (statusUpdate) seen.state = statusUpdate.status.state;
}

const startedAt = performance.now();
const ends = await Promise.all(Array.from({ length: clients }, (_, index) => stream(index)));
const ms = performance.now() - startedAt;
server.send('usage');
const [{ expected, cpuMs, rssMiB }] = await once(server, 'message');
server.kill();

const lost = ends.filter(({ text, state }) => text !== expected || state !== 'TASK_STATE_COMPLETED').length;
const sorted = ends.map(({ firstMs }) => firstMs).sort((a, b) => a - b);
const events = ends.reduce((sum, each) => sum + each.events, 0);
const at = (share) => Math.round(sorted[Math.floor((sorted.length - 1) * share)]);
console.log(
  [
    `${clients} streams at once, ${events} events in ${Math.round(ms)} ms: ${lost} with something lost`,
    `first text after ${at(0.5)} ms (half), ${at(0.99)} ms (99 %), ${at(1)} ms (all)`,
    `the server: ${Math.round(cpuMs)} ms of one core, ${Math.round((cpuMs * 1000) / events)} µs an event, ${rssMiB} MiB`,
  ].join('\n'),
);
process.exitCode = lost === 0 ? 0 : 1;
