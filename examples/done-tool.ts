import { AgentLoop, DoneSignal, doneTool, LocalToolProvider, requireFinishedWork, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const open = new Set(['bread', 'milk']);
const buy = tool({
  name: 'buy',
  description: 'Buys a thing of the list.',
  parameters: { type: 'object', properties: { thing: { type: 'string' } }, required: ['thing'] },
  execute({ thing }) {
    open.delete(thing);
    return `bought ${thing}`;
  },
});
// A tool can end the turn too.
const goHome = tool({
  name: 'go_home',
  description: 'Goes home.',
  parameters: { type: 'object', properties: {} },
  execute: () => new DoneSignal(open.size === 0 ? 'Home, with everything.' : 'Home, too early.'),
});

const model = scriptedLLM([
  { text: 'I buy the bread.', toolCalls: [{ name: 'buy', arguments: { thing: 'bread' } }] },
  { text: 'That is all.' },
  { text: 'And the milk.', toolCalls: [{ name: 'buy', arguments: { thing: 'milk' } }] },
  { text: 'Now that is all.' },
  { text: 'I go home.', toolCalls: [{ name: 'go_home' }] },
]);

const loop = new AgentLoop({
  agentId: 'shopper',
  llmProvider: model,
  toolProviders: [new LocalToolProvider([buy, goHome])],
  extensions: [
    requireFinishedWork({ prompt: () => (open.size > 0 ? `Still on the list: ${[...open].join(', ')}` : undefined) }),
    doneTool({ required: true, nudge: 'Go home when you are done.' }),
  ],
});

const { text, reason, messages } = await loop.startTurn([{ role: 'user', content: 'Do the shopping.' }]).result();
for (const { role, content } of messages) console.log(`${role}:`, content);
console.log(`${reason}: ${text}`);
