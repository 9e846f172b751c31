import { agent, tool } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { z } from 'zod';

const clock = tool({ name: 'clock', description: 'Tells the time.', parameters: z.object({}), execute: () => Date() });
const apiKey = process.env['LITELLM_MASTER_KEY'];
const server = { baseUrl: 'http://localhost:4000/v1', profile: 'litellm', apiKey } as const;
const provider = new LiteLLMProvider({ ...server, model: 'anthropic/claude-sonnet-5' });
const assistant = agent({ provider, tools: [clock], reasoning: 'low', cache: true });
console.log((await assistant.run('What time is it?')).text);
