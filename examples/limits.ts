import {
  AgentLoop,
  budget,
  InMemoryStateStore,
  LocalToolProvider,
  limits,
  TurnError,
  tool,
  toolPermissions,
} from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const search = tool({
  name: 'search',
  description: 'Searches the archive.',
  parameters: { type: 'object', properties: { words: { type: 'string' } }, required: ['words'] },
  readOnly: true,
  execute: ({ words }) => `nothing found for ${words}`,
});
const remove = tool({
  name: 'remove',
  description: 'Removes a file.',
  parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
  execute: ({ path }) => `removed ${path}`,
});

// A model that does not know when to stop.
const searches = { text: 'I look again.', toolCalls: [{ name: 'search', arguments: { words: 'gold' } }] };
const shared = budget({ maxTokens: 20_000 });

function agent(steps: Parameters<typeof scriptedLLM>[0], onLimit: 'fail' | 'stop'): AgentLoop {
  return new AgentLoop({
    agentId: 'archivist',
    llmProvider: scriptedLLM(steps),
    toolProviders: [new LocalToolProvider([search, remove])],
    taskStateStore: new InMemoryStateStore(),
    extensions: [
      toolPermissions({ rules: [{ tools: ['remove'], allow: false, reason: 'the archive is read-only' }] }),
      shared.extension(),
      limits({ maxWallTimeMs: 60_000, maxToolCalls: 20, maxRepeatedCalls: 3, onLimit }),
    ],
  });
}

const messages = [{ role: 'user', content: 'Find the gold.' }] as const;

try {
  await agent([searches, searches, searches, searches], 'fail').startTurn(messages).result();
} catch (error) {
  if (!(error instanceof TurnError)) throw error;
  console.log(`${error.code} (${error.reason}): ${error.message}`);
}

const stopped = await agent([searches, searches, searches, searches], 'stop').startTurn(messages).result();
console.log(`${stopped.status} (${stopped.reason}): ${stopped.text}`);

const denied = await agent(
  [{ toolCalls: [{ name: 'remove', arguments: { path: 'gold.txt' } }] }, { text: 'I may not.' }],
  'fail',
)
  .startTurn(messages)
  .result();
console.log(denied.messages[1]?.content);
console.log(`all turns together took ${shared.used.totalTokens > 0 ? 'some' : 'no'} tokens of the budget`);
