// Serves an agent whose tool hangs in the first life of the server, and answers in the next. Says where it listens, and when the tool runs.
import { a2aServer } from '../../../../src/a2a/index.ts';
import { agent } from '../../../../src/agent/agent.ts';
import { LmdbStateStore } from '../../../../src/stores/lmdb/lmdb-state-store.ts';
import { scriptedLLM } from '../../../../src/testing/scripted-llm.ts';
import { LocalToolProvider } from '../../../../src/tools/local-tools.ts';
import { tool } from '../../../../src/tools/tool.ts';

const [path = '', port = '0'] = process.argv.slice(2);
const isFirst = port === '0';

const work = tool({
  name: 'work',
  description: 'Works.',
  parameters: { type: 'object' },
  idempotent: true,
  onInDoubt: 'retry',
  execute: () => {
    if (!isFirst) return 'worked';
    process.send?.('working');
    return new Promise<string>(() => {});
  },
});
const begin = { text: 'Let me work.', toolCalls: [{ name: 'work', arguments: {} }] };
const end = { text: ['The work ', 'is done.'] };
const served = agent({
  id: 'worker',
  description: 'Works.',
  // A busy machine may take the turn from its process, which then asks again.
  provider: scriptedLLM(Array(10).fill(isFirst ? begin : end)),
  toolProviders: [new LocalToolProvider([work])],
  taskStateStore: new LmdbStateStore({ path }),
  leaseMs: 500,
  enableTracing: false,
});
const server = await a2aServer({ agent: served, recoverEveryMs: 50 });
const address = await server.listen({ port: Number(port) });
process.send?.(address.port);
