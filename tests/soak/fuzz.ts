// Malformed requests for all servers, for as many as it is told. What it takes and checks stands in README.md.
import { parseArgs } from 'node:util';
import { grpcTarget } from '../security/fuzz/a2a-grpc.ts';
import { jsonRpcTarget, restTarget } from '../security/fuzz/a2a-http.ts';
import { fuzz } from '../security/fuzz/fuzz-run.ts';
import { mcpHttpTarget, mcpStdioTarget } from '../security/fuzz/mcp.ts';

const { values } = parseArgs({
  options: {
    fuzz: { type: 'boolean' },
    requests: { type: 'string', default: '100000' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    only: { type: 'string', default: '' },
  },
});
const targets = [
  ['A2A over JSON-RPC', jsonRpcTarget, 0.3],
  ['A2A over HTTP+JSON', restTarget, 0.25],
  ['A2A over gRPC', grpcTarget, 0.15],
  ['MCP over HTTP', mcpHttpTarget, 0.15],
  ['MCP over stdio', mcpStdioTarget, 0.15],
] as const;
const seed = Number(values.seed);
const all = Number(values.requests);
if (!Number.isInteger(seed) || !(Number.isInteger(all) && all > 0)) {
  console.error('--seed and --requests must be whole numbers, --requests above 0.');
  process.exit(1);
}
const maxGrowth = 30_000_000;
/** The transports of the A2A SDK print the errors that they send. */
console.error = () => {};
console.log(`seed ${seed}: ${all} requests`);
let bad = 0;
for (const [name, open, share] of targets.filter(([each]) => each.includes(values.only))) {
  const startedAt = performance.now();
  const { requests, faults, heapGrowth } = await fuzz({
    open,
    seed,
    requests: Math.ceil(all * share),
    deadlineMs: 10_000,
  });
  const grown = heapGrowth > maxGrowth;
  bad += faults.length + (grown ? 1 : 0);
  for (const fault of faults) console.log(`VIOLATION ${fault}`);
  if (grown) console.log(`VIOLATION seed ${seed}: the heap grew by more than ${maxGrowth} bytes`);
  const seconds = Math.round((performance.now() - startedAt) / 1_000);
  console.log(
    `${name}: ${requests} requests in ${seconds} s, ${faults.length} faults, heap ${(heapGrowth / 1e6).toFixed(1)} MB`,
  );
}
process.exit(bad > 0 ? 1 : 0);
