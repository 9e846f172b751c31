import { AgentLoop } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { startModelServer } from 'millrace/testing';

const server = await startModelServer(); // A stand-in for a model, on real HTTP.
const llmProvider = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'demo' });
const loop = new AgentLoop({ agentId: 'assistant', llmProvider });

const turn = loop.startTurn([{ role: 'user', content: 'Hello! Who are you?' }]);
for await (const text of turn.text()) process.stdout.write(text);
console.log();
await server.close();
