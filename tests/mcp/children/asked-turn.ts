// Runs a turn whose MCP server asks the user, and says so. The parent kills it then.
import { AgentLoop } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';

const [server = '', path = '', name = 'it__ask_twice'] = process.argv.slice(2);
const loop = new AgentLoop({
  agentId: 'assistant',
  llmProvider: scriptedLLM([{ toolCalls: [{ name }] }]),
  toolProviders: [mcpTools({ servers: { it: JSON.parse(server) } })],
  taskStateStore: new LmdbStateStore({ path }),
  leaseMs: 100,
});
const { status } = await loop.startTurn([{ role: 'user', content: 'go' }], { taskId: 't' }).result();
process.send?.(status);
setInterval(() => {}, 1_000);
