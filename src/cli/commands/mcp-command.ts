import { Console } from 'node:console';
import { once } from 'node:events';
import { Writable } from 'node:stream';
import type { Command } from 'commander';
import type { Agent } from '../../agent/agent.ts';
import { AgentLoopError } from '../../core/errors.ts';
import type { McpServer } from '../../mcp/server/mcp-server.ts';
import { wholeNumber } from '../arguments.ts';
import type { CommandHost } from '../command-host.ts';
import { Interruption } from '../interruption.ts';
import { modelSettings } from '../model-settings.ts';
import { note } from '../notes.ts';
import { openStore } from '../open-store.ts';
import type { OutputStream } from '../output.ts';
import { openSession } from '../session.ts';
import { storeSettings } from '../store-settings.ts';
import { wantsExport } from '../trace-view.ts';
import { addNewTurnFlags, type NewTurnFlags } from '../turn-flags.ts';

interface McpFlags extends NewTurnFlags {
  readonly agent?: string;
  readonly port?: number;
  readonly host: string;
  readonly keyEnv?: string;
}

const help = `
Examples:
  $ millrace mcp --agent ./clerk.mjs                 over stdio: this is what an MCP client is told to start
  $ millrace mcp --agent ./clerk.mjs --port 8808     over HTTP, for clients of this machine

An agent file exports an agent: export default agent({ name: 'clerk', … }). Without one the agent is the model and the tools of the other
options. Turns are kept in memory unless --store or the agent say where.`;

/** Adds `millrace mcp`: an agent as an MCP server, until its client leaves or it is interrupted. */
export function addMcpCommand(program: Command, host: CommandHost): void {
  addNewTurnFlags(program.command('mcp'))
    .summary('offer an agent as an MCP server')
    .description('Offer an agent as an MCP server over stdio, whose stdout carries the protocol alone, or over HTTP.')
    .option('--agent <file>', 'an ES module whose default export is an agent (default: one of the model and the tools)')
    .option('--port <number>', 'serve HTTP there; 0 takes a free port (default: stdio)', wholeNumber(0, 65_535))
    .option('--host <name>', 'which address to listen on; one that others reach needs --key-env', '127.0.0.1')
    .option('--key-env <variable>', 'the environment variable that holds the key which clients have to send')
    .addHelpText('after', help)
    .action((flags: McpFlags) => serve(flags, host));
}

async function serve(flags: McpFlags, host: CommandHost): Promise<void> {
  const isStdio = flags.port === undefined;
  const stdout = isStdio ? takeStdout(host.stdout) : undefined;
  const interruption = new Interruption(host.signals, host.exitAtOnce);
  try {
    const { agent, close } = await openAgent(flags, host);
    try {
      const { mcpServer } = await import('../../mcp/server/mcp-server.ts');
      const server = mcpServer({ agent });
      const leave = () => void server.close();
      interruption.signal.addEventListener('abort', leave, { once: true });
      if (stdout) await server.serve({ stdin: host.stdin, stdout });
      else await listen(server, { flags, host, interruption });
      await server.close();
      await server.agent.close();
    } finally {
      await close();
    }
  } finally {
    interruption.close();
  }
}

interface Listening {
  readonly flags: McpFlags;
  readonly host: CommandHost;
  readonly interruption: Interruption;
}

async function listen(server: McpServer, { flags, host, interruption }: Listening): Promise<void> {
  const { terminal } = host;
  const { port = 0, host: address, keyEnv } = flags;
  const key = keyEnv === undefined ? undefined : terminal.env[keyEnv];
  if (keyEnv !== undefined && !key)
    throw new AgentLoopError('INVALID_CONFIG', `the environment variable ${keyEnv} of --key-env is not set`);
  const { url } = await server.listen({ port, host: address, ...(key && { apiKeys: [key] }) });
  void terminal.stdout.write(`${url}\n`);
  note(terminal, `serves ${server.agent.name} to MCP clients; Ctrl-C stops it`);
  if (!interruption.signal.aborted) await once(interruption.signal, 'abort');
}

interface OpenAgent {
  readonly agent: Agent;
  readonly close: () => Promise<void>;
}

async function openAgent(flags: McpFlags, host: CommandHost): Promise<OpenAgent> {
  return flags.agent === undefined ? agentOfFlags(flags, host) : agentOfFile(flags.agent, flags, host);
}

/** What is started by an MCP client may stand in any folder, so nothing is written there unless somebody says so. */
function storeOf(flags: McpFlags, { terminal }: CommandHost) {
  return storeSettings({ store: flags.store ?? terminal.env['MILLRACE_STORE'] ?? 'memory' }, terminal.env);
}

async function agentOfFile(file: string, flags: McpFlags, host: CommandHost): Promise<OpenAgent> {
  const { loadAgent } = await import('../load-agent.ts');
  const settings = storeOf(flags, host);
  const store = await openStore(settings);
  try {
    const agent = await loadAgent(file, store.durable ? { taskStateStore: store.store } : {});
    return { agent, close: () => store.close() };
  } catch (thrown) {
    await store.close();
    throw thrown;
  }
}

async function agentOfFlags(flags: McpFlags, host: CommandHost): Promise<OpenAgent> {
  const { terminal } = host;
  const session = await openSession({
    model: modelSettings(flags, terminal.env),
    store: storeOf(flags, host),
    flags,
    terminal,
    traced: flags.trace === true || wantsExport(flags, terminal.env),
    standInDelayMs: 0,
  });
  const { agent } = await import('../../agent/agent.ts');
  const { agentId, llmProvider, ...config } = session.config;
  const { system: systemPrompt, maxIterations } = flags;
  const made = agent({
    ...config,
    name: agentId,
    provider: llmProvider,
    ...(systemPrompt !== undefined && { systemPrompt }),
    ...(maxIterations !== undefined && { maxIterations }),
  });
  return { agent: made, close: () => session.close() };
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
