import { AgentLoop, cacheResponses, composePolicies, fallback, InMemoryCacheStore, retry, timeout } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { recordSpans, startModelServer } from 'millrace/testing';

// Two models: the first is busy, then twice breaks the connection in the middle of its answer; the second works.
const broken = { text: 'The answer to this is', closeAfter: 3 };
const main = await startModelServer({
  script: [{ status: 429, headers: { 'retry-after': '0' } }, broken, broken],
});
const backup = await startModelServer();
const spans = recordSpans();

const llmProvider = composePolicies(
  cacheResponses({ store: new InMemoryCacheStore() }),
  fallback({ to: new LiteLLMProvider({ baseUrl: backup.baseUrl, model: 'backup' }) }),
  retry({ maxRetries: 2, initialDelayMs: 100 }),
  timeout({ firstChunkMs: 5_000, betweenChunksMs: 5_000 }),
)(new LiteLLMProvider({ baseUrl: main.baseUrl, model: 'main' }));
const loop = new AgentLoop({ agentId: 'assistant', llmProvider });
const question = [{ role: 'user' as const, content: 'Hello!' }];

for await (const event of loop.startTurn(question)) {
  if (event.kind === 'internal:llm-attempt-discarded') console.log(`  [void: ${event.reason}]`);
  if (event.kind === 'artifact-update')
    for (const part of event.artifact.parts) process.stdout.write(part.kind === 'text' ? part.text : '');
}
console.log(`\n${spans.tree()}`);

const { text, usage } = await loop.startTurn(question).result();
console.log(`again: ${text}`);
console.log(
  `requests: main ${main.received}, backup ${backup.received}; tokens of the second turn: ${usage.totalTokens}`,
);

await Promise.all([main.close(), backup.close(), spans.dispose()]);
