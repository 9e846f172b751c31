import { InMemoryStateStore } from 'millrace';
import { assistant } from './model.ts';
import { routes } from './routes.ts';

/** A chat whose turns are cancelled when their client leaves, below `/cancel`, one whose turns continue, below `/continue`, and the states of their turns. */
export function disconnecting() {
  const stores = { cancel: new InMemoryStateStore(), continue: new InMemoryStateStore() };
  const handlers = {
    cancel: routes(assistant(stores.cancel), { onDisconnect: 'cancel' }).handler,
    continue: routes(assistant(stores.continue), { onDisconnect: 'continue' }).handler,
  };
  return async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    const which = pathname.includes('/cancel/') ? 'cancel' : 'continue';
    if (pathname.endsWith('/states')) return Response.json((await stores[which].list()).map(({ state }) => state));
    const url = new URL(request.url);
    url.pathname = pathname.replace(/^.*\/(cancel|continue)\//, '/');
    return handlers[which](new Request(url, request));
  };
}
