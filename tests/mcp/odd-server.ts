import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger, ToolContext, ToolResult } from 'millrace';
import { type McpProcessOptions, type McpTools, mcpTools } from 'millrace/mcp';
import { testLimitMs } from '../eventually.ts';
import { toolCall, toolContext } from '../tools/tool-context.ts';

const file = fileURLToPath(new URL('servers/odd-server.mjs', import.meta.url));

export interface OddServer {
  readonly tools: McpTools;
  /** What the server has noted so far. */
  ledger(): readonly string[];
  /** Runs one of its tools, as the engine does. */
  call(name: string, args?: object, context?: Partial<ToolContext>): Promise<ToolResult>;
}

/** The odd server of the tests, as the one server `odd`. Whoever makes it closes its `tools`. */
export function oddServer(options: Partial<McpProcessOptions> = {}, logger?: Logger): OddServer {
  const ledger = join(mkdtempSync(join(tmpdir(), 'odd-')), 'ledger');
  const { env, ...rest } = options;
  const tools = mcpTools({
    servers: {
      odd: {
        command: process.execPath,
        args: [file],
        env: { LEDGER: ledger, ...env },
        connectTimeoutMs: testLimitMs,
        ...rest,
      },
    },
    reconnect: { initialMs: 50 },
    ...(logger && { logger }),
  });
  return {
    tools,
    ledger: () => readFileSync(ledger, 'utf8').trim().split('\n'),
    async call(name, args = {}, context = {}) {
      await tools.getTools(toolContext());
      const call = toolCall(`odd__${name}`, args);
      return tools.executeTool(call, toolContext({ call, arguments: args, ...context }));
    },
  };
}
