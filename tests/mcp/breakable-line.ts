import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface BreakableLine {
  readonly port: number;
  /** How often connections were broken. */
  readonly breaks: number;
  /** Breaks the connections that there are; new ones can be made. */
  break(): void;
  close(): Promise<void>;
}

/** A way to a port of the loopback that can be broken. */
export async function breakableLine(to: number): Promise<BreakableLine> {
  const sockets = new Set<Socket>();
  let breaks = 0;
  const server = createServer((near) => {
    const far = connect(to, '127.0.0.1');
    for (const [from, onward] of [[near, far] as const, [far, near] as const]) {
      sockets.add(from);
      from.pipe(onward);
      from.on('error', () => onward.destroy());
      from.once('close', () => {
        sockets.delete(from);
        onward.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const destroyAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    get breaks() {
      return breaks;
    },
    break() {
      if (breaks > 0) return;
      breaks++;
      destroyAll();
    },
    close: async () => {
      destroyAll();
      server.close();
      await once(server, 'close');
    },
  };
}
