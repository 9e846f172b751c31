import { agent, byRule, InMemoryMessageStore, inParallel, router, supervisor, team } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const host = agent({
  id: 'host',
  description: 'Talks.',
  provider: scriptedLLM([
    { text: 'Welcome!' },
    { toolCalls: [{ name: 'hand_off', arguments: { agentId: 'coder', note: 'They want a function.' } }] },
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

const messageStore = new InMemoryMessageStore();
const office = team({
  agents: [host, coder],
  routing: byRule([{ when: /\bbug\b/, agentId: 'coder' }]),
  handOff: true,
  messageStore,
});
office.on('message:received', ({ agentId, streamId }) =>
  console.log(`  (${agentId} answered, ${streamId.slice(0, 6)}…)`),
);
for (const text of ['Good morning.', 'There is a bug.', 'I need a function.', 'Thank you.']) {
  console.log(text, '→', (await office.ask(text)).text);
}
console.log('current:', (await office.currentAgent()).id);
await office.close();
const restarted = team({ agents: [host, coder], messageStore, contextId: office.contextId });
console.log('after a restart:', (await restarted.currentAgent()).id);

const yes = agent({ id: 'optimist', provider: scriptedLLM([{ text: 'Yes.' }]) });
const no = agent({ id: 'pessimist', provider: scriptedLLM([{ text: 'No.' }]) });
const panel = team({
  agents: [yes, no],
  routing: inParallel(['optimist', 'pessimist'], {
    join: (all) => all.map(({ agentId, text }) => `${agentId}: ${text}`).join(' '),
  }),
});
console.log('panel:', (await panel.ask('Will it rain?')).text);

const clerk = agent({ id: 'clerk', provider: scriptedLLM([{ text: 'weather' }]) });
const weather = agent({
  id: 'weather',
  description: 'Knows the sky.',
  provider: scriptedLLM([{ text: 'It will.' }, { text: 'Clouds from the west.' }]),
});
const desk = team({ agents: [weather, clerk], routing: router('clerk') });
console.log('desk:', (await desk.ask('Will it rain?')).text);

const lead = agent({
  id: 'lead',
  provider: scriptedLLM([
    { toolCalls: [{ name: 'weather', arguments: { message: 'What comes?' } }] },
    { text: 'Take an umbrella.' },
  ]),
});
const group = team({ agents: [weather, lead], routing: supervisor('lead') });
console.log('group:', (await group.ask('What shall I take?')).text);
