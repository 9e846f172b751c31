import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { agent, InMemoryStateStore, type LLMProvider, tool } from 'millrace';
import { a2aServer, InMemoryPushStore } from 'millrace/a2a';
import type { Random } from '../../crash/random.ts';

/** Asks for an approval where it is told to refund, and answers at once otherwise. */
export const readyModel: LLMProvider = {
  call: async ({ messages }) => {
    const last = messages.at(-1);
    if (last?.role !== 'user' || JSON.stringify(last.content) !== '"Refund"')
      return { message: { role: 'assistant', content: 'Done.' } };
    const call = { id: 'r', type: 'function' as const, function: { name: 'refund', arguments: '{}' } };
    return { message: { role: 'assistant', content: null, toolCalls: [call] } };
  },
};

const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  parameters: { type: 'object', properties: {} },
  needsApproval: true,
  execute: () => 'refunded',
});

/** An A2A server over all its bindings, with a receiver of notifications. */
export interface Attacked {
  readonly url: string;
  readonly grpcAddress: string;
  /** Where notifications may go. */
  readonly hook: string;
  /** The id of a task: one that waits for an answer, one that is over, or none. */
  taskId(random: Random): string;
  /** Remembers the task that an answer shows. */
  saw(answer: string): void;
  close(): Promise<void>;
}

export async function attackedServer(): Promise<Attacked> {
  const store = new InMemoryStateStore({ maxEndedTasks: 100 });
  const served = agent({
    id: 'clerk',
    description: 'Files.',
    provider: readyModel,
    tools: [refund],
    taskStateStore: store,
  });
  const hooks = createServer(
    (request, response) => void request.resume().once('end', () => response.writeHead(204).end()),
  );
  hooks.listen(0, '127.0.0.1');
  await once(hooks, 'listening');
  const push = { store: new InMemoryPushStore(), allowHttp: true, allowPrivateTargets: true };
  const server = await a2aServer({
    agent: served,
    push,
    rateLimit: null,
    maxStreams: 1_000,
    grpc: { port: 0 },
    closeMs: 2_000,
    toolEvents: true,
  });
  const { url, grpcAddress = '' } = await server.listen({ port: 0 });
  const seen = ['none', 'none'];
  return {
    url,
    grpcAddress,
    hook: `http://127.0.0.1:${(hooks.address() as AddressInfo).port}/hook`,
    taskId: (random) => (random.chance(0.8) ? (seen.at(-random.int(1, seen.length)) ?? 'none') : crypto.randomUUID()),
    saw(answer) {
      const id = /"id":"([0-9a-f-]{36})"/.exec(answer)?.[1];
      if (id !== undefined) seen.push(id);
      if (seen.length > 8) seen.shift();
    },
    async close() {
      await server.close();
      hooks.closeAllConnections();
      hooks.close();
      await once(hooks, 'close');
    },
  };
}
