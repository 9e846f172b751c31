import { agent, byRule, inParallel, supervisor, team } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const host = agent({
  id: 'host',
  description: 'Talks.',
  provider: scriptedLLM([
    { text: 'Welcome!' },
    { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'coder', message: 'They want a function.' } }] },
  ]),
});
const coder = agent({
  id: 'coder',
  description: 'Writes code.',
  provider: scriptedLLM([
    { text: 'The bug is in line 7.' },
    { text: 'const f = () => 7;' },
    { text: 'You are welcome.' },
  ]),
});

const office = team({
  agents: [host, coder],
  routing: byRule([{ when: /\bbug\b/, agentId: 'coder' }]),
  handOff: true,
});
office.on('message:received', ({ agentId, streamId }) =>
  console.log(`  (${agentId} answered, ${streamId.slice(0, 6)}…)`),
);
for (const text of ['Good morning.', 'There is a bug.', 'I need a function.', 'Thank you.']) {
  console.log(text, '→', (await office.ask(text)).text);
}
console.log('current:', office.getAgent().id);
await office.close();

const yes = agent({ id: 'optimist', provider: scriptedLLM([{ text: 'Yes.' }]) });
const no = agent({ id: 'pessimist', provider: scriptedLLM([{ text: 'No.' }]) });
const panel = team({
  agents: [yes, no],
  routing: inParallel(['optimist', 'pessimist'], (all) =>
    all.map(({ agentId, text }) => `${agentId}: ${text}`).join(' '),
  ),
});
console.log('panel:', (await panel.ask('Will it rain?')).text);

const router = agent({ id: 'router', provider: scriptedLLM([{ text: 'weather' }]) });
const weather = agent({ id: 'weather', description: 'Knows the sky.', provider: scriptedLLM([{ text: 'It will.' }]) });
const desk = team({ agents: [weather, router], routing: supervisor('router') });
console.log('desk:', (await desk.ask('Will it rain?')).text);
