import { agent, tool } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { z } from 'zod';

const clock = tool({ name: 'clock', description: 'Tells the time.', parameters: z.object({}), execute: () => Date() });
const provider = await createProvider('vllm:qwen3.8', { baseUrl: 'http://localhost:8000/v1', reasoningTag: 'think' });
const assistant = agent({ provider, tools: [clock], reasoning: 'low' });
console.log((await assistant.run('What time is it?')).text);
