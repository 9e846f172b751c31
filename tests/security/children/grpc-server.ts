// Serves an agent over gRPC to the one key that it is given; tells its address, and at each message how much processor time it has used.
import { a2aServer, apiKeyAuth } from '../../../src/a2a/index.ts';
import { agent } from '../../../src/agent/agent.ts';
import { InMemoryStateStore } from '../../../src/stores/memory/in-memory-state-store.ts';
import { scriptedLLM } from '../../../src/testing/scripted-llm.ts';

const [key = ''] = process.argv.slice(2);
const server = await a2aServer({
  agent: agent({ id: 'echo', description: 'Says it again.', provider: scriptedLLM([]) }),
  store: new InMemoryStateStore(),
  auth: apiKeyAuth({ keys: [{ id: 'alice', key }] }),
  rateLimit: null,
  grpc: { port: 0 },
});
const { grpcAddress } = await server.listen({ port: 0 });
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.((user + system) / 1_000);
});
process.send?.(grpcAddress);
