import { agent, tool } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { z } from 'zod';

const clock = tool({ name: 'clock', description: 'Tells the time.', parameters: z.object({}), execute: () => Date() });
const provider = await createProvider('openai:gpt-6-sol');
const assistant = agent({ provider, tools: [clock], reasoning: 'low' });
console.log((await assistant.run('What time is it?')).text);
