import { agent } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { startModelServer } from 'millrace/testing';

const server = await startModelServer(); // A stand-in for a model, over real HTTP: no key needed.
const provider = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'demo' });
const assistant = agent({ name: 'assistant', provider });

const turn = assistant.startTurn('Hello! Who are you?');
for await (const text of turn.text()) process.stdout.write(text);
console.log();
await server.close();
