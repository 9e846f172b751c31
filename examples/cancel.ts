import { once } from 'node:events';
import { AgentLoop, LocalToolProvider, TurnError, tool } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { startModelServer } from 'millrace/testing';

// Works until its signal aborts, and then cleans up.
const searchArchive = tool({
  name: 'search_archive',
  description: 'Searches the archive, which takes long.',
  parameters: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
  async execute({ query }, { signal, progress }) {
    progress(`looking for ${query}`);
    if (!signal.aborted) await once(signal, 'abort');
    console.log('tool: told to stop');
    signal.throwIfAborted();
  },
});

const server = await startModelServer();
const loop = new AgentLoop({
  agentId: 'assistant',
  llmProvider: new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'demo' }),
  toolProviders: [new LocalToolProvider([searchArchive])],
  abortGraceMs: 1_000,
});

const turn = loop.startTurn([{ role: 'user', content: 'Search the archive for "millrace".' }]);
const subscription = turn.subscribe((event) => {
  if (event.kind === 'internal:tool-start') console.log(`tool: started with ${JSON.stringify(event.arguments)}`);
  if (event.kind !== 'internal:tool-progress') return;
  console.log(`tool: ${event.update}`);
  subscription.unsubscribe(); // It was the last subscriber, so the turn is cancelled.
});

const outcome = await turn.result().catch((error: unknown) => error);
if (!(outcome instanceof TurnError)) throw new Error('the turn was not cancelled');
console.log(`turn: ${outcome.code}, ${outcome.reason}`);
// The partial result can be the history of the next turn: every call has one result.
console.log(outcome.result.messages.at(-1));
await server.close();
