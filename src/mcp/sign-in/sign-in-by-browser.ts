import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { AgentLoopError } from '../../core/contracts/index.ts';
import { ServerLink } from '../server-link.ts';
import { type McpAuthStore, type McpOAuthOptions, memoryAuthStore } from './auth-options.ts';
import { isSame, SignInNeeded, StoredSignIn } from './stored-sign-in.ts';

interface BrowserSignIn {
  readonly url: string;
  /** Gets the tokens once the sign-in has succeeded, in place of those that it had. */
  readonly store: McpAuthStore;
  readonly options?: Omit<McpOAuthOptions, 'redirectUrl' | 'store'>;
  /** Called with the address that the user has to open. */
  readonly onAddress: (address: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Signs the user in to a server, and waits for the browser on a free port of the loopback interface. Resolves with `false` where the server
 * wants no sign-in. Rejects with `TOOL_FAILED` where the server cannot be used or the sign-in fails; with the reason of `signal`.
 */
export async function signInByBrowser({ url, store, options, onAddress, signal }: BrowserSignIn): Promise<boolean> {
  // A sign-in that fails leaves what there was.
  const draft = memoryAuthStore();
  const listener = createServer();
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const redirectUrl = `http://127.0.0.1:${port}/callback`;
  const server = { url, auth: { ...options, redirectUrl, store: draft } };
  const link = new ServerLink({ name: new URL(url).hostname, server, reconnect: {}, onToolsChanged: () => {} });
  try {
    const needed = await link.connected().then(
      () => undefined,
      (error: unknown) => {
        if (error instanceof SignInNeeded) return error;
        throw error;
      },
    );
    if (!needed) return false;
    await needed.signIn.begin();
    onAddress(needed.signIn.authorizationUrl ?? '');
    await callbackOf(listener, {
      redirectUrl,
      state: needed.signIn.state,
      signal,
      finish: (back) => link.finishSignIn(back),
    });
    await link.connected();
    const kept = { ...server, auth: { ...server.auth, store } };
    await new StoredSignIn({ sdk: await link.sdk(), server: kept, auth: kept.auth, onToken: () => {} }).adopt(draft);
    return true;
  } finally {
    listener.closeAllConnections();
    listener.close();
    await link.close();
  }
}

interface CallbackOptions {
  readonly redirectUrl: string;
  readonly state: string;
  readonly signal: AbortSignal;
  /** Returns why it failed. */
  readonly finish: (callback: string) => Promise<string | undefined>;
}

/** Waits for the browser to come back with the state of this sign-in. Other requests are refused: any page can send them. */
function callbackOf(
  listener: ReturnType<typeof createServer>,
  { redirectUrl, state, signal, finish }: CallbackOptions,
): Promise<void> {
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<string | undefined> => {
    const callback = new URL(request.url ?? '/', redirectUrl);
    const isOurs = request.method === 'GET' && callback.href.startsWith(`${redirectUrl}?`);
    if (!isOurs || !isSame(callback.searchParams.get('state') ?? '', state)) {
      response.writeHead(404).end();
      return 'not ours';
    }
    const why = await finish(callback.href);
    response.writeHead(why === undefined ? 200 : 400, {
      'content-type': 'text/plain; charset=utf-8',
      connection: 'close',
    });
    response.end(
      why === undefined ? 'You are signed in. You can close this page.' : 'The sign-in failed. See the terminal.',
    );
    await once(response, 'close');
    if (why !== undefined) throw new AgentLoopError('TOOL_FAILED', `The sign-in failed: ${why}.`);
    return undefined;
  };
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    listener.on('request', (request, response) => {
      answer(request, response).then((other) => other ?? resolve(), reject);
    });
  });
}
