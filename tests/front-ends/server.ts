import { appendFileSync, readFileSync } from 'node:fs';
import { LmdbStateStore } from 'millrace/lmdb';
import { RedisStateStore } from 'millrace/redis';
import { assistant } from './model.ts';
import { listening, serverOf } from './node-server.ts';
import { routes } from './routes.ts';

// The server of the page, to be killed: server <folder or address of the store> <file of the page's script> <file of effects> <port>.
const [path = '', script = '', effects = '', port = '0'] = process.argv.slice(2);
const store = path.startsWith('redis:') ? new RedisStateStore({ redis: path }) : new LmdbStateStore({ path });
const agent = assistant(store, () => appendFileSync(effects, 'effect\n'));
const { handler } = routes(agent, { recoverEveryMs: 1_000 });
const html =
  '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body></body><script type="module" src="/page.js"></script>';

const server = serverOf((request) => {
  const { pathname } = new URL(request.url);
  if (pathname === '/') return new Response(html, { headers: { 'content-type': 'text/html' } });
  if (pathname === '/page.js')
    return new Response(readFileSync(script), { headers: { 'content-type': 'text/javascript' } });
  return handler(request);
});
process.send?.(await listening(server, Number(port)));
