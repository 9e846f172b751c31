import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { grpcTarget } from './fuzz/a2a-grpc.ts';
import { jsonRpcTarget, restTarget } from './fuzz/a2a-http.ts';
import { fuzz } from './fuzz/fuzz-run.ts';
import { mcpHttpTarget, mcpStdioTarget } from './fuzz/mcp.ts';

/** `FUZZ_SEED=7 FUZZ_REQUESTS=5000` draws others, and more. The long run is `npm run test:soak -- --fuzz`. */
const seed = Number(process.env['FUZZ_SEED'] ?? 1);
const requests = Number(process.env['FUZZ_REQUESTS'] ?? 400);

beforeEach(() => {
  // The transports of the A2A SDK print the errors that they send.
  jest.spyOn(console, 'error').mockImplementation(() => {});
});
afterEach(() => {
  jest.restoreAllMocks();
});

it.each([
  ['A2A over JSON-RPC', jsonRpcTarget],
  ['A2A over HTTP+JSON', restTarget],
  ['A2A over gRPC', grpcTarget],
  ['MCP over HTTP', mcpHttpTarget],
  ['MCP over stdio', mcpStdioTarget],
])(
  'H-19 %s: of many malformed requests none is answered as a failure of the server, or not at all',
  async (name, open) => {
    const report = await fuzz({ open, seed, requests });
    expect(report.faults).toEqual([]);
    expect(report).toMatchObject({ name, requests });
    expect(report.heapGrowth).toBeLessThan(15_000_000);
  },
);
