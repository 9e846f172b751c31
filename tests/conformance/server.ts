// The server that the conformance suite of MCP tests: an agent over HTTP. Writes its address to stdout, and ends with stdin.
import { agent } from 'millrace';
import { mcpServer } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';

// No scenario runs a turn: the suite knows the name of no tool of an agent.
const clerk = agent({ id: 'clerk', name: 'clerk', description: 'Files things.', provider: scriptedLLM([]) });
const server = mcpServer({ agent: clerk });
// The suite leaves its sessions open.
const { url } = await server.listen({ maxSessions: 1_000, maxSessionsPerCaller: 1_000 });
process.stdout.write(`${url}\n`);
process.stdin.resume().once('end', () => void server.close());
