// Serves an agent over gRPC to the one key that it is given; tells its address, and at each message how much processor time it has used.

import { agent, InMemoryStateStore } from 'millrace';
import { a2aServer, apiKeyAuth } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';

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
