import { AgentLoop, LocalToolProvider, tool } from 'millrace';
import { RedisStateStore } from 'millrace/redis';
import { echoParameters } from '../echo-tool.ts';
import { fakeModel } from '../fake-model.ts';
import type { Figure } from './figure.ts';
import { provider, result } from './stored-turn.ts';

const turns = 1_000;
/** So many times as many before it is measured: what is compiled and learned meanwhile is not a turn's. */
const warmUps = 4;

const toolProviders = [
  new LocalToolProvider([
    tool({
      name: 'echo',
      description: 'Answers.',
      parameters: echoParameters,
      needsApproval: true,
      execute: async () => result,
    }),
  ]),
];

/** Heap behind a full collection, before and behind 1,000 more turns that wait for an approval. */
export async function measureSuspended(port: number): Promise<readonly Figure[]> {
  const store = new RedisStateStore({ redis: `redis://127.0.0.1:${port}` });
  try {
    for (let n = 0; n < warmUps; n++) await suspendMany(store);
    const before = heapInUse();
    await suspendMany(store);
    const perTurn = (heapInUse() - before) / turns;
    const waiting = await store.list({ state: 'input-required', limit: 10 * turns });
    return [
      {
        figure: `process memory of a suspended turn (${waiting.length} wait)`,
        measured: `${Math.round(perTurn)} bytes`,
        target: 'none (< 64 bytes)',
        met: perTurn < 64 && waiting.length === (warmUps + 1) * turns,
      },
    ];
  } finally {
    await store.close();
  }
}

async function suspendMany(store: RedisStateStore): Promise<void> {
  for (let done = 0; done < turns; done += 100) {
    await Promise.all(Array.from({ length: 100 }, () => suspend(store)));
  }
}

async function suspend(store: RedisStateStore): Promise<void> {
  const llmProvider = provider(fakeModel({ iterations: 1, deltas: 0 }));
  const loop = new AgentLoop({ agentId: 'bench', llmProvider, toolProviders, taskStateStore: store });
  const turn = loop.startTurn([{ role: 'user', content: 'Hello' }]);
  turn.subscribe();
  await turn.settled;
}

function heapInUse(): number {
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}
