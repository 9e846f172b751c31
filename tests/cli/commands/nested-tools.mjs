// An agent as a tool, whose own tool asks.
import { agent, agentTools, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import asking from './questions-tools.mjs';

const clerk = agent({
  name: 'clerk',
  provider: scriptedLLM([{ toolCalls: [{ name: 'refund', arguments: { order: 9 } }] }, { text: 'It is refunded.' }]),
  tools: [tool(asking[0])],
});

export default agentTools([clerk]);
