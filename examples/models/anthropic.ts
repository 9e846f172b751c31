import { agent, tool } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { z } from 'zod';

const clock = tool({ name: 'clock', description: 'Tells the time.', parameters: z.object({}), execute: () => Date() });
const provider = await createProvider('anthropic:claude-opus-4-8');
const assistant = agent({ provider, tools: [clock], reasoning: 'low', cache: true });
console.log((await assistant.run('What time is it?')).text);
