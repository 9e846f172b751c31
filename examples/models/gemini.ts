import { agent, tool } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { z } from 'zod';

const clock = tool({ name: 'clock', description: 'Tells the time.', parameters: z.object({}), execute: () => Date() });
const provider = await createProvider('google:gemini-3.6-flash');
const assistant = agent({ provider, tools: [clock], reasoning: 'low' });
console.log((await assistant.run('What time is it?')).text);
