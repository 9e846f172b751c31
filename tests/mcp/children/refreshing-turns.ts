// Shares the tokens of an MCP server with other processes, in a folder or in Redis. For each message it runs a turn with five calls at once, and says how it ended.
import { Redis } from 'ioredis';
import { agent, InMemoryStateStore } from 'millrace';
import { fileAuthStore, type McpAuthStore, mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';

const [url = '', where = ''] = process.argv.slice(2);
const redis = where.startsWith('redis:') ? new Redis(where) : undefined;

/** As an application writes one: with no lock. */
function redisStore(client: Redis): McpAuthStore {
  return {
    load: async (key) => {
      const text = await client.get(`auth ${key}`);
      return text === null ? undefined : JSON.parse(text);
    },
    save: async (key, value) => void (await client.set(`auth ${key}`, JSON.stringify(value))),
    delete: async (key) => void (await client.del(`auth ${key}`)),
  };
}

const auth = {
  redirectUrl: 'http://127.0.0.1:9/callback',
  store: redis ? redisStore(redis) : fileAuthStore(where),
};
const tools = mcpTools({ servers: { it: { url, auth } } });
const toolCalls = [0, 1, 2, 3, 4].map((a) => ({ name: 'it__add', arguments: { a, b: 0 } }));

async function turn(): Promise<void> {
  const provider = scriptedLLM([
    { toolCalls },
    ({ messages }) => ({
      text: messages
        .slice(-5)
        .map(({ content }) => content)
        .join(),
    }),
  ]);
  const taskStateStore = new InMemoryStateStore();
  const one = agent({ id: 'a', provider, toolProviders: [tools], taskStateStore, toolConcurrency: 8 });
  const { status, text, questions } = await one.run('Add.');
  process.send?.({ status, text, questions: questions.length });
}

process.on('message', (what) => {
  if (what === 'turn') return void turn();
  void tools.close().then(() => {
    redis?.disconnect();
    process.disconnect();
  });
});
void tools.connect().then(() => process.send?.('connected'));
