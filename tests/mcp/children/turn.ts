// Runs a turn with three calls of an MCP server that takes effect and does not answer. The parent kills it once all of them have.
import { AgentLoop } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';

const [server = '', ledger = '', path = ''] = process.argv.slice(2);
const names = ['slow_read', 'slow_drop', 'slow_send'];
const tools = mcpTools({
  servers: { odd: { command: process.execPath, args: [server], env: { LEDGER: ledger, HOLD: '1' } } },
});
const loop = new AgentLoop({
  agentId: 'assistant',
  llmProvider: scriptedLLM([{ toolCalls: names.map((name) => ({ name: `odd__${name}` })) }]),
  toolProviders: [tools],
  taskStateStore: new LmdbStateStore({ path }),
  leaseMs: 100,
});
const turn = loop.startTurn([{ role: 'user', content: 'go' }], { taskId: 't' });
turn.subscribe({ error: () => {} });
process.send?.('started');
