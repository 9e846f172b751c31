// An MCP server made with the official SDK, of version 1 (revisions up to 2025-11-25) or 2 (2026-07-28 as well): `sdk-server.mjs v1|v2 stdio|http`.
// Over HTTP it writes its port to stdout. What happens is noted in the file that the variable LEDGER names, a line each.
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { z } from 'zod';

const [version, way] = process.argv.slice(2);
const { LEDGER, LEGACY = 'stateless', PORT = '0' } = process.env;
const note = (line) => LEDGER && appendFileSync(LEDGER, `${line}\n`);
const text = (said) => ({ content: [{ type: 'text', text: said }] });
const info = { name: 'sdk-server', version };
note(`started ${process.pid}`);

/** What the SDKs of both versions call a request's progress and cancellation. */
const signalOf = (ctx) => ctx.mcpReq?.signal ?? ctx.signal;
const progressOf = (ctx) => (progress) => {
  const { _meta } = ctx.mcpReq ?? ctx;
  const params = { progressToken: _meta?.progressToken, progress, total: 3 };
  return (ctx.mcpReq?.notify ?? ctx.sendNotification)({ method: 'notifications/progress', params });
};

function addTools(server) {
  const numbers = { a: z.number(), b: z.number() };
  server.registerTool(
    'add',
    { inputSchema: version === 'v1' ? numbers : z.object(numbers), annotations: { readOnlyHint: true } },
    ({ a, b }) => text(String(a + b)),
  );
  server.registerTool('steps', {}, async (...args) => {
    const progress = progressOf(args.at(-1));
    for (let step = 1; step <= 3; step++) await progress(step);
    return text('all steps');
  });
  server.registerTool('wait', {}, async (...args) => {
    const ctx = args.at(-1);
    await progressOf(ctx)(1);
    note('wait begins');
    await new Promise((resolve) => signalOf(ctx).addEventListener('abort', resolve, { once: true }));
    note('wait cancelled');
    return text('never read');
  });
}

async function make() {
  if (version === 'v1') {
    const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
    const server = new McpServer(info);
    addTools(server);
    return server;
  }
  const { McpServer } = await import('@modelcontextprotocol/server');
  const server = new McpServer(info);
  addTools(server);
  return server;
}

async function requestListener() {
  if (version === 'v2') {
    const { createMcpHandler } = await import('@modelcontextprotocol/server');
    const { toNodeHandler } = await import('@modelcontextprotocol/node');
    return toNodeHandler(createMcpHandler(make, { legacy: LEGACY }));
  }
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
  const sessions = new Map();
  return async (request, response) => {
    let transport = sessions.get(request.headers['mcp-session-id']);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      await (await make()).connect(transport);
    }
    await transport.handleRequest(request, response);
  };
}

if (way === 'http') {
  const server = createServer(await requestListener());
  server.listen(Number(PORT), '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
  process.stdin.on('end', () => process.exit(0)).resume();
} else if (version === 'v2') {
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  await serveStdio(make, { legacy: LEGACY === 'stateless' ? 'serve' : LEGACY });
} else {
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  await (await make()).connect(new StdioServerTransport());
}
