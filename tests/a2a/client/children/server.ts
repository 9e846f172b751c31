// Serves an agent whose tool hangs in the first life of the server, and answers in the next. Says where it listens, and when the tool runs.

import { agent, LocalToolProvider, tool } from 'millrace';
import { a2aServer } from 'millrace/a2a';
import { LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';

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
