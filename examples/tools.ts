import { AgentLoop, LocalToolProvider, tool } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { startModelServer } from 'millrace/testing';
import { z } from 'zod';

// A Standard Schema (here Zod) types and checks the arguments.
const currentTime = tool({
  name: 'current_time',
  description: 'Tells the time in a time zone.',
  parameters: z.object({ zone: z.string().describe('An IANA zone, such as Asia/Tokyo.') }),
  readOnly: true,
  execute: ({ zone }) => new Date().toLocaleTimeString('en-GB', { timeZone: zone }),
});

// A JSON Schema does too, and needs no library.
const countWords = tool({
  name: 'count_words',
  description: 'Counts the words of a string.',
  parameters: {
    type: 'object',
    properties: { text: { type: 'string', minLength: 1 } },
    required: ['text'],
    additionalProperties: false,
  },
  readOnly: true,
  execute({ text }) {
    // The model reads the error, and can correct itself.
    if (text.length > 10_000) throw new RangeError('the text is too long; send at most 10,000 characters');
    return text.split(/\s+/).filter((word) => word !== '').length;
  },
});

const server = await startModelServer();
const loop = new AgentLoop({
  agentId: 'assistant',
  llmProvider: new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'demo' }),
  toolProviders: [new LocalToolProvider([currentTime, countWords])],
});

const turn = loop.startTurn([
  { role: 'user', content: 'What time is it in Tokyo? How many words has "kill it anywhere"?' },
]);
turn.subscribe((event) => {
  if (event.kind === 'internal:tool-start') console.log('start', event.callId, event.toolName, event.arguments);
  if (event.kind === 'internal:tool-complete') console.log('done ', event.callId, event.toolName, event.content);
});
const { text, iterations, toolCalls, usage } = await turn.result();
console.log(`\n${text}\n\n${iterations} iterations, ${toolCalls} tool calls, ${usage.totalTokens} tokens`);
await server.close();
