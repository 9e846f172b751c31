// Agents as tools, as a tools file of the command line exports them.
import { agent, agentTools, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const count = tool({
  name: 'count',
  description: 'Counts.',
  parameters: { type: 'object', properties: {} },
  execute: () => '7',
});
const checker = agent({ name: 'checker', provider: scriptedLLM([{ text: 'It is right.' }]) });
const counter = agent({
  id: 'bo',
  name: 'counter',
  provider: scriptedLLM([
    { text: 'I count first.', toolCalls: [{ name: 'count' }] },
    { toolCalls: [{ name: 'checker', arguments: { message: 'Is 7 right?' } }] },
    { text: 'Seven.' },
  ]),
  tools: [count],
  toolProviders: [agentTools([checker])],
});

export default agentTools([counter]);
