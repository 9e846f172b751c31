import { afterEach, beforeEach, expect } from '@jest/globals';
import { type AgentLoopConfig, LocalToolProvider, tool } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { AgentLoop } from 'millrace/internals';
import { TemporaryStores } from '../../stores/lmdb/temporary-stores.ts';
import { type Exchange, type RawServer, sendStream, startRawServer } from '../raw-server.ts';
import type { VendorWire } from './vendor-wires.ts';

/** Asks whoever is behind the turn, so that the turn ends and another process goes on with it. */
const seat = tool({
  name: 'seat',
  description: 'Books a seat.',
  parameters: { type: 'object', properties: { row: { type: 'number' } } },
  execute: (_, context) => `booked ${String(context.ask({ prompt: 'Window?' }))}`,
});

/** Registers a server that stands in for the vendors, and stores, both closed after each test. */
export function vendorBench() {
  const stores = new TemporaryStores();
  let server: RawServer;
  beforeEach(async () => {
    server = await startRawServer();
  });
  afterEach(async () => {
    await server.close();
    await stores.clear();
  });

  async function configOf(wire: VendorWire, more: Partial<AgentLoopConfig> = {}): Promise<AgentLoopConfig> {
    return {
      agentId: 'agent',
      llmProvider: await createProvider(wire.model, { apiKey: 'key-of-a-test', baseUrl: server.baseUrl }),
      toolProviders: [new LocalToolProvider([seat])],
      ...more,
    };
  }

  /** Answers requests with these streams, one after the other, and keeps the requests. */
  function answerWith(streams: readonly string[]): Exchange[] {
    const left = [...streams];
    const seen: Exchange[] = [];
    server.answer((exchange) => {
      seen.push(exchange);
      sendStream(exchange, left.shift() ?? '');
    });
    return seen;
  }

  /** A turn that asks in its first iteration, and goes on in another loop, with another provider, from the store alone. */
  async function askedAndResumed(wire: VendorWire, streams: readonly string[]): Promise<readonly Exchange[]> {
    const seen = answerWith(streams);
    const path = stores.path();
    const first = stores.open({ path });
    const loop = new AgentLoop(await configOf(wire, { taskStateStore: first }));
    const asked = await loop.startTurn([{ role: 'user', content: 'Book.' }], { taskId: 't' }).result();
    expect(asked.status).toBe('input-required');
    await first.close();

    const again = stores.open({ path });
    const config = await configOf(wire, { taskStateStore: again });
    const turn = AgentLoop.resume('t', config, { answers: { '1:0': 'A1' } });
    expect((await turn.result()).text).toBe('Booked.');
    return seen;
  }

  return {
    get server() {
      return server;
    },
    configOf,
    answerWith,
    askedAndResumed,
  };
}
