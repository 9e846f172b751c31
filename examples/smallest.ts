import { AgentLoop } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { startModelServer } from 'millrace/testing';

const server = await startModelServer(); // A stand-in for a model, on real HTTP.
const llmProvider = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'demo' });
const loop = new AgentLoop({ agentId: 'assistant', llmProvider });

for await (const event of loop.startTurn([{ role: 'user', content: 'Hello! Who are you?' }])) {
  if (event.kind !== 'artifact-update') continue;
  for (const part of event.artifact.parts) if (part.kind === 'text') process.stdout.write(part.text);
}
console.log();
await server.close();
