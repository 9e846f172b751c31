import { afterEach, expect, it } from '@jest/globals';
import { agent } from 'millrace';
import { mcpServer } from 'millrace/mcp';
import { gate } from 'millrace/testing';
import { McpWire } from './mcp-wire.ts';

const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

it.each(['2025-03-26', '2025-06-18', '2025-11-25'])(
  'H-18 the response stream of a cancelled MCP call ends: 10 of 10, in %s',
  async (version) => {
    let called = 0;
    const all = gate();
    const provider = {
      call: ({ signal }: { readonly signal?: AbortSignal }) =>
        new Promise<never>((_, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason));
          if (++called === 10) void all.pass();
        }),
    };
    const server = mcpServer({ agent: agent({ name: 'the clerk', provider }) });
    open.push(() => server.close());
    all.open();
    const wire = await McpWire.open((await server.listen()).url, version);
    const ids = Array.from({ length: 10 }, (_, index) => index + 1);
    const streams = await Promise.all(ids.map((id) => wire.call(id, 'Work.')));
    expect(streams.map(({ headers }) => headers.get('content-type'))).toEqual(ids.map(() => 'text/event-stream'));
    await all.reached;
    const bodies = streams.map((stream) => stream.text());
    for (const requestId of ids)
      await wire.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } });
    const texts = await Promise.all(bodies);
    expect(texts.every((text) => text.includes('The call was cancelled.'))).toBe(true);
  },
);
