import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { openResources } from 'millrace/testing';

function portOf(server: Server): number {
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('The server has no port.');
  return address.port;
}

describe('openResources', () => {
  it('counts a timer until it is cleared', async () => {
    const ledger = openResources();
    expect(ledger.left()).toEqual({});
    const timer = setTimeout(() => undefined, 60_000);
    expect(ledger.left()).toEqual({ Timeout: 1 });
    clearTimeout(timer);
    expect(await ledger.settle()).toEqual({});
  });

  it('counts a server and both ends of a connection, and waits until they are closed', async () => {
    const ledger = openResources();
    const accepted: Socket[] = [];
    const server = createServer((socket) => accepted.push(socket)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = connect(portOf(server), '127.0.0.1');
    await Promise.all([once(client, 'connect'), once(server, 'connection')]);
    const open = ledger.left();
    client.end();
    accepted[0]?.resume();
    server.close();
    expect(open).toMatchObject({ TCPServerWrap: 1, TCPSocketWrap: 2 });
    await ledger.assertNone();
    expect(ledger.left()).toEqual({});
  });

  it('says what is left when the time is over', async () => {
    const ledger = openResources();
    const timers = [setTimeout(() => undefined, 60_000), setTimeout(() => undefined, 60_000)];
    expect(await ledger.settle({ withinMs: 0 })).toEqual({ Timeout: 2 });
    await expect(ledger.assertNone({ withinMs: 0 })).rejects.toThrow('Still open: 2 Timeout');
    for (const timer of timers) clearTimeout(timer);
  });

  it('does not count what was open before, nor what does not keep the process alive', () => {
    const before = setTimeout(() => undefined, 60_000);
    const ledger = openResources();
    const loose = setTimeout(() => undefined, 60_000);
    loose.unref();
    expect(ledger.left()).toEqual({});
    clearTimeout(before);
    clearTimeout(loose);
  });
});
