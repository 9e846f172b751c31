import { type AuthorizationServer, authorizationServer } from './authorization-server.ts';
import { sdkServer } from './sdk-server.ts';

/** An MCP server of the SDK that wants a token, and what gives one. Both are pushed to `open`, to be closed from the last to the first. */
export async function protectedServer(open: {
  push(...made: { close(): Promise<void> }[]): unknown;
}): Promise<AuthorizationServer> {
  const sdk = await sdkServer({ version: 'v2', way: 'http' });
  const { url } = { url: '', ...sdk.options };
  const server = await authorizationServer(String(url));
  open.push(sdk, server);
  return server;
}
