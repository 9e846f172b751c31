import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ToolContext, ToolResult } from 'millrace';
import { type McpServerOptions, type McpTools, mcpTools } from 'millrace/mcp';
import { toolCall, toolContext } from '../tools/tool-context.ts';

const file = fileURLToPath(new URL('servers/sdk-server.mjs', import.meta.url));

type SdkVersion = 'v1' | 'v2';

/** How a server of the official SDK is used, and where it notes what happens. */
export interface SdkServer {
  readonly options: McpServerOptions;
  ledger(): readonly string[];
  close(): Promise<void>;
}

interface SdkServerOptions {
  readonly version: SdkVersion;
  readonly way: 'stdio' | 'http';
  readonly env?: Readonly<Record<string, string>>;
}

/** A server of the official SDK: over HTTP it runs from now on, over stdio each client starts its own. */
export async function sdkServer({ version, way, env = {} }: SdkServerOptions): Promise<SdkServer> {
  const LEDGER = join(mkdtempSync(join(tmpdir(), 'mcp-sdk-')), 'ledger');
  const ledger = () => readFileSync(LEDGER, { encoding: 'utf8', flag: 'a+' }).trim().split('\n');
  const args = [file, version, way];
  if (way === 'stdio') {
    const options = { command: process.execPath, args, env: { LEDGER, ...env } };
    return { options, ledger, close: () => Promise.resolve() };
  }
  const child: ChildProcess = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'], LEDGER, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [port] = await once(child.stdout ?? child, 'data');
  return {
    options: { url: `http://127.0.0.1:${Number(port)}/mcp` },
    ledger,
    close: async () => {
      const ended = once(child, 'exit');
      child.stdin?.end();
      await ended;
    },
  };
}

/** The tools of one server, called `it`. */
export function toolsOf({ options }: SdkServer, more: Partial<McpServerOptions> = {}): McpTools {
  return mcpTools({ servers: { it: { ...options, ...more, required: true } }, reconnect: { initialMs: 1, maxMs: 1 } });
}

/** Runs a tool as the engine does. */
export async function callOf(
  tools: McpTools,
  name: string,
  context: Partial<ToolContext> & { readonly arguments?: object } = {},
): Promise<ToolResult> {
  await tools.getTools(toolContext());
  const args = context.arguments ?? {};
  const call = toolCall(`it__${name}`, args);
  return tools.executeTool(call, toolContext({ call, ...context, arguments: args }));
}
