import { Console } from 'node:console';
import { once } from 'node:events';
import { Writable } from 'node:stream';
import type { Command } from 'commander';
import type { McpServer } from '../../mcp/server/mcp-server.ts';
import type { McpTokenOptions } from '../../mcp/server/token-auth.ts';
import { invalidConfig, wholeNumber } from '../arguments.ts';
import { type CommandHost, Interrupted, type Interruption } from '../command-host.ts';
import { type LoginFlags, login } from '../mcp-login.ts';
import { type AgentFlags, checkReach, checkServeFlags, withServed } from '../served-agent.ts';
import { anyStore, type StoreFlags, storeSettings } from '../store.ts';
import { note, type OutputStream, type Terminal } from '../terminal.ts';
import type { TraceFlags } from '../trace-view.ts';
import { addLeaseFlag, addModelFlags, addOtlpFlag, addServedAgentFlags } from '../turn-flags.ts';

interface McpFlags extends AgentFlags, StoreFlags, Pick<TraceFlags, 'otlp'> {
  readonly port?: number;
  readonly host?: string;
  readonly keyEnv?: string;
  readonly issuer?: string;
  readonly audience?: string;
  readonly jwksUrl?: string;
  readonly scopes?: string;
}

const help = `
Examples:
  $ millrace mcp --agent ./clerk.mjs                 over stdio: the command for the configuration of an MCP client
  $ millrace mcp --agent ./clerk.mjs --port 8808     over HTTP, for clients of this machine
  $ millrace mcp login https://mcp.example.com/mcp   sign in to a server, for --mcp of other commands

An agent file exports an agent: export default agent({ name: 'clerk', … }). Without one the agent is made of the model and the tools of the other
options.

With MILLRACE_MCP_STATE_KEY, at least 32 random bytes, and a --store that lasts, another process with the same key can receive the answers to a question.`;

/** Adds `millrace mcp`: an agent as an MCP server, until its client leaves or it is interrupted. */
export function addMcpCommand(program: Command, host: CommandHost): void {
  const command = program
    .command('mcp')
    .option('--agent <file>', 'an ES module whose default export is an agent, or the options of one')
    .option('--port <number>', 'serve HTTP there; 0 takes a free port (default: stdio)', wholeNumber(0, 65_535))
    .option(
      '--host <name>',
      'the address to listen on; one that is not loopback needs --key-env or --issuer (default: 127.0.0.1)',
    )
    .option('--key-env <variable>', 'the environment variable that holds the key that clients must send')
    .option('--issuer <url>', 'accept access tokens of this authorization server; needs --audience and --jwks-url')
    .option('--audience <url>', 'the address of this server as clients know it, for which tokens are issued')
    .option('--jwks-url <url>', 'where the issuer publishes its keys')
    .option('--scopes <list>', 'what a token has to grant, separated by commas');
  addServedAgentFlags(addOtlpFlag(addLeaseFlag(addModelFlags(command))))
    .option('--store <where>', `where turns are kept: ${anyStore} (or MILLRACE_STORE; default: memory)`)
    .summary('serve an agent over MCP')
    .description('Serve an agent as an MCP server over HTTP, or over stdio, where stdout carries only the protocol.')
    .addHelpText('after', help)
    .action((flags: McpFlags) => serve(flags, host));
  command
    .command('login')
    .argument('<server>', 'the address of an MCP server, or its name in --servers')
    .option('--servers <file>', 'a JSON file of servers: { "mcpServers": { … } }')
    .summary('sign in to an MCP server')
    .description('Sign in to an MCP server by OAuth. Prints the address to open, and keeps the tokens for --mcp.')
    .action((server: string, flags: LoginFlags) => login(server, flags, host));
}

async function serve(flags: McpFlags, host: CommandHost): Promise<void> {
  const { terminal } = host;
  checkServeFlags(flags);
  const key = keyOf(flags, terminal);
  const auth = tokensOf(flags);
  const stateKey = terminal.env['MILLRACE_MCP_STATE_KEY'] || undefined;
  if (stateKey !== undefined && Buffer.byteLength(stateKey) < 32)
    throw invalidConfig('MILLRACE_MCP_STATE_KEY is too short; give at least 32 bytes');
  // What an MCP client starts may stand in any folder, so nothing is written there unless somebody says so.
  const settings = storeSettings({ store: flags.store ?? terminal.env['MILLRACE_STORE'] ?? 'memory' }, terminal.env);
  const stdout = flags.port === undefined ? takeStdout(host.stdout) : undefined;
  await withServed({ flags, settings, structured: false, host }, async ({ agent, stores, interruption }) => {
    const { mcpServer } = await import('../../mcp/server/mcp-server.ts');
    const server = mcpServer({ agent, keepUnanswered: stores.journals.durable, stateKey });
    interruption.signal.addEventListener('abort', () => void server.close(), { once: true });
    if (interruption.exitCode !== undefined) throw new Interrupted(interruption.exitCode);
    if (stdout) await server.serve({ stdin: host.stdin, stdout });
    else await listen(server, { flags, key, auth, host, interruption });
    await server.close();
    await server.agent.close();
  });
}

/** The key that clients have to send over HTTP. Refuses flags that nothing would read over stdio, and to be reached from elsewhere without a key. */
function keyOf({ port, host, keyEnv, issuer }: McpFlags, { env }: Terminal): string | undefined {
  if (port === undefined) {
    const unread =
      host !== undefined
        ? '--host'
        : keyEnv !== undefined
          ? '--key-env'
          : issuer !== undefined
            ? '--issuer'
            : undefined;
    if (unread === undefined) return undefined;
    throw invalidConfig(`${unread} needs --port; add --port, or leave it out`);
  }
  const key = keyEnv === undefined ? undefined : env[keyEnv];
  if (keyEnv !== undefined && !key) throw invalidConfig(`the environment variable ${keyEnv} of --key-env is not set`);
  if (host !== undefined)
    checkReach(
      host,
      key !== undefined || issuer !== undefined,
      'name a variable that holds a key with --key-env, or an --issuer',
    );
  return key;
}

/** The access tokens that clients have to send. */
function tokensOf({ issuer, audience, jwksUrl, scopes }: McpFlags): McpTokenOptions | undefined {
  if (issuer !== undefined && audience !== undefined && jwksUrl !== undefined)
    return { issuer, audience, jwksUrl, ...(scopes !== undefined && { scopes: scopes.split(',') }) };
  if ([issuer, audience, jwksUrl, scopes].every((each) => each === undefined)) return undefined;
  throw invalidConfig('access tokens need --issuer, --audience and --jwks-url; give all of them, or none');
}

interface Listening {
  readonly flags: McpFlags;
  readonly key: string | undefined;
  readonly auth: McpTokenOptions | undefined;
  readonly host: CommandHost;
  readonly interruption: Interruption;
}

async function listen(server: McpServer, { flags, key, auth, host, interruption }: Listening): Promise<void> {
  const { port = 0, host: address } = flags;
  const { url } = await server.listen({
    port,
    ...(address !== undefined && { host: address }),
    ...(key && { apiKeys: [key] }),
    auth,
  });
  void host.terminal.stdout.write(`${url}\n`);
  note(host.terminal, `serves ${server.agent.name} to MCP clients; Ctrl-C stops it`);
  if (!interruption.signal.aborted) await once(interruption.signal, 'abort');
}

/** Stdout for the protocol alone: what tools and modules print goes to stderr from now on. */
function takeStdout(stdout: OutputStream): Writable {
  const write = stdout.write.bind(stdout);
  if (stdout === process.stdout) {
    globalThis.console = new Console(process.stderr, process.stderr);
    process.stdout.write = process.stderr.write.bind(process.stderr);
  }
  return new Writable({
    decodeStrings: false,
    write: (chunk: string, _encoding, done) => void write(chunk, (error) => done(error)),
  });
}
