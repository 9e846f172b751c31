import { disconnecting } from './fetch-server.ts';

// The chats of `fetch-server.ts` in Bun or Deno. Prints the address.
interface Served {
  readonly port?: number;
  readonly addr?: { readonly port: number };
}

const handler = disconnecting();
const listening = { port: 0, hostname: '127.0.0.1', fetch: handler, idleTimeout: 60, onListen: () => {} };
const deno = Reflect.get(globalThis, 'Deno');
const bun = Reflect.get(globalThis, 'Bun');
const server: Served = deno ? deno.serve(listening, handler) : bun.serve(listening);
console.log(`http://127.0.0.1:${server.port ?? server.addr?.port}`);
