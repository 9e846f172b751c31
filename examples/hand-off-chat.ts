import { fork } from 'node:child_process';
import { on, once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, type Team, team } from 'millrace';
import { LmdbMessageStore, LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';

// A chat with a desk that hands over to billing. This file is two programs: the first is killed while billing answers; the second
// continues that answer, and takes the next message.
const [folder = mkdtempSync(join(tmpdir(), 'millrace-chat-')), isFirst] = process.argv.slice(2);
const taskStateStore = new LmdbStateStore({ path: join(folder, 'journal') });
const messageStore = new LmdbMessageStore({ path: join(folder, 'messages') });

type Script = Parameters<typeof scriptedLLM>[0];

/** Instead of a real model: its answers arrive word by word. */
function desk(scripts: { readonly desk: Script; readonly billing: Script }): Team {
  const shared = { leaseMs: 500 };
  return team({
    agents: [
      agent({ ...shared, id: 'desk', description: 'Answers first.', provider: scriptedLLM(scripts.desk) }),
      agent({ ...shared, id: 'billing', description: 'Knows invoices.', provider: scriptedLLM(scripts.billing) }),
    ],
    handOff: true,
    taskStateStore,
    messageStore,
    contextId: 'visitor-7',
  });
}

/** Shows one turn as it streams, with the agent that speaks. */
async function show(turn: ReturnType<Team['startTurn']>): Promise<void> {
  for await (const event of turn) {
    if (event.kind !== 'artifact-update') continue;
    const text = event.artifact.parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
    if (text !== '') console.log(`  ${event.agentId}${event.append ? ' …' : ':'} ${text}`);
    process.send?.(text);
  }
}

if (isFirst) {
  const chat = desk({
    desk: [
      { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'billing', note: 'They ask about an invoice.' } }] },
    ],
    billing: [{ text: ['Your invoice ', 'is '], never: true }],
  });
  console.log('you: My invoice is wrong.');
  await show(chat.startTurn('My invoice is wrong.', { taskId: 'message-1' }));
} else {
  const first = fork(import.meta.filename, [folder, 'first']);
  for await (const [text] of on(first, 'message')) if (String(text).endsWith('is ')) break;
  first.kill('SIGKILL');
  await once(first, 'exit');
  console.log('(killed in the middle of the answer)');

  // The next process: it knows the turn from the stores only.
  const chat = desk({
    desk: [],
    billing: [{ text: ['Your invoice ', 'is corrected.'] }, { text: 'You are welcome.' }],
  });
  await show(await chat.resume('message-1', { onBusy: 'wait' }));
  console.log('you: Thank you.');
  await show(chat.startTurn('Thank you.'));
  console.log(`(current agent: ${(await chat.currentAgent()).id})`);
  await chat.close();
  await Promise.all([taskStateStore.close(), messageStore.close()]);
  rmSync(folder, { recursive: true });
}
