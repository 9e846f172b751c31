import { homedir } from 'node:os';
import { join } from 'node:path';
import { isObject } from '../core/contracts/index.ts';
import { isHttp, type McpServerOptions } from '../mcp/mcp-options.ts';
import { fileAuthStore, type McpAuthStore } from '../mcp/sign-in/auth-options.ts';
import { authKey } from '../mcp/sign-in/sign-in-records.ts';
import { invalidConfig, isHttpUrl } from './arguments.ts';
import { type CommandHost, Interrupted, withInterruption } from './command-host.ts';
import { mcpServers } from './mcp-servers.ts';
import { type Environment, note } from './terminal.ts';

type Servers = Readonly<Record<string, McpServerOptions>>;

/** Where the command keeps tokens of MCP servers: `MILLRACE_MCP_TOKENS`, or a folder in the home of the user. */
function tokenStore(env: Environment): McpAuthStore {
  return fileAuthStore(env['MILLRACE_MCP_TOKENS'] || join(homedir(), '.millrace', 'mcp-tokens'));
}

/** The same servers; those that the user has signed in to use the tokens. What a server itself says of credentials is left as it is. */
export async function withLogins(servers: Servers, env: Environment): Promise<Servers> {
  const store = tokenStore(env);
  const made: Record<string, McpServerOptions> = {};
  for (const [name, server] of Object.entries(servers)) {
    const plain =
      isHttp(server) && server.headers === undefined && server.auth === undefined && isHttpUrl(String(server.url));
    const redirectUrl = plain ? redirectIn(await store.load(authKey(server.url, 'client'))) : undefined;
    made[name] = redirectUrl === undefined ? server : { ...server, auth: { redirectUrl, store } };
  }
  return made;
}

function redirectIn(kept: unknown): string | undefined {
  const client = isObject(kept) ? kept['client'] : undefined;
  const all = isObject(client) ? client['redirect_uris'] : undefined;
  const [first]: readonly unknown[] = Array.isArray(all) ? all : [];
  return typeof first === 'string' ? first : undefined;
}

export interface LoginFlags {
  readonly servers?: string;
}

/** `millrace mcp login`: signs in to a server by its address, or by its name in a file of servers. */
export async function login(which: string, { servers }: LoginFlags, host: CommandHost): Promise<void> {
  const { terminal } = host;
  const url = addressOf(which, servers, terminal.env);
  const { signInByBrowser } = await import('../mcp/sign-in/sign-in-by-browser.ts');
  await withInterruption(host, async (interruption) => {
    const store = tokenStore(terminal.env);
    const onAddress = (address: string) => void terminal.stdout.write(`Open this address to sign in:\n${address}\n`);
    try {
      const signedIn = await signInByBrowser({ url, store, onAddress, signal: interruption.signal });
      note(terminal, signedIn ? `signed in to ${new URL(url).host}` : `${new URL(url).host} wants no sign-in`);
    } catch (thrown) {
      throw interruption.exitCode === undefined ? thrown : new Interrupted(interruption.exitCode);
    }
  });
}

function addressOf(which: string, file: string | undefined, env: Environment): string {
  if (isHttpUrl(which)) return which;
  if (file === undefined) throw invalidConfig('millrace mcp login needs an address, or a name with --servers FILE');
  const server = mcpServers([file], env)[which];
  if (server === undefined || !isHttp(server)) throw invalidConfig(`--servers has no server "${which}" with a url`);
  return String(server.url);
}
