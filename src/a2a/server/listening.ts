import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AgentLoopError, invalidConfig } from '../../core/contracts/index.ts';

/** Listens, and gives where. Errors: `UNAVAILABLE`, with the reason; `INVALID_CONFIG`. */
export function bind(server: Server, port: number, host: string): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause) => reject(unbound(cause, port, host)));
    server.listen({ port, host }, () => {
      server.removeAllListeners('error');
      const address = server.address();
      if (typeof address === 'object' && address !== null) resolve(address);
      else reject(invalidConfig('the server has no port', 'listen on one'));
    });
  });
}

function unbound(cause: Error, port: number, host: string): AgentLoopError {
  const code = 'code' in cause ? cause.code : undefined;
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: 'another process listens there; use another port',
    EACCES: 'this process lacks the permission; use a port ≥ 1024',
    EADDRNOTAVAIL: 'this machine has no such address; use another host',
    ENOTFOUND: 'this machine has no such address; use another host',
  };
  const why = reasons[String(code)] ?? cause.message;
  return new AgentLoopError('UNAVAILABLE', `The server cannot listen on port ${port} of ${host}: ${why}.`, { cause });
}

/** Takes no more connections; resolves once there are none. */
export function unbind(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}

/** An address as it stands in a URL; for all addresses of the machine, the loopback. */
export function shownHost(host: string): string {
  if (host === '0.0.0.0' || host === '::' || host === '') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}
