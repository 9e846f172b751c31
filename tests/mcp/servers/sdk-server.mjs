// An MCP server made with the official SDK, of version 1 (revisions up to 2025-11-25) or 2 (2026-07-28 as well): `sdk-server.mjs v1|v2 stdio|http`.
// Over HTTP it writes its port to stdout. What happens is noted in the file that the variable LEDGER names, a line each.
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { z } from 'zod';

const [version, way] = process.argv.slice(2);
const { LEDGER, LEGACY = 'stateless', PORT = '0', STATE_KEY = 'k'.repeat(32), TTL = '600' } = process.env;
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
  // In the words of the Python SDK, where a tool calls `ctx.elicit`.
  const oldWay =
    "Cannot send 'elicitation/create': this transport context has no back-channel for server-initiated requests.";
  if (process.env.OLD_WAY) server.registerTool('ask_old_way', {}, () => ({ ...text(oldWay), isError: true }));
  server.registerTool('wait', {}, async (...args) => {
    const ctx = args.at(-1);
    await progressOf(ctx)(1);
    note('wait begins');
    await new Promise((resolve) => signalOf(ctx).addEventListener('abort', resolve, { once: true }));
    note('wait cancelled');
    return text('never read');
  });
}

/** Questions of 2026-07-28: each round ends the request. */
function addQuestions(server, { inputRequired, acceptedContent, inputResponse }, codec) {
  const nameForm = { type: 'object', properties: { name: { type: 'string', minLength: 2 } }, required: ['name'] };
  const colours = { type: 'string', enum: ['red', 'green'], default: 'green' };
  const colourForm = { type: 'object', properties: { colour: colours, shade: { type: 'string', default: 'dark' } } };
  server.registerTool('ask_twice', {}, async (ctx) => {
    const { round = 0, name } = ctx.mcpReq.requestState() ?? {};
    const { inputResponses } = ctx.mcpReq;
    note(`ask_twice round ${round} ${JSON.stringify(inputResponses ?? {})}`);
    if (round === 2) return text(JSON.stringify({ name, ...acceptedContent(inputResponses, 'colour') }));
    const asked =
      round === 0
        ? { name: inputRequired.elicit({ message: 'Who are you?', requestedSchema: nameForm }) }
        : { colour: inputRequired.elicit({ message: 'Which colour?', requestedSchema: colourForm }) };
    const state = { round: round + 1, name: acceptedContent(inputResponses, 'name')?.name };
    return inputRequired({ inputRequests: asked, requestState: await codec.mint(state) });
  });
  server.registerTool('ask_all', {}, (ctx) => {
    const { inputResponses } = ctx.mcpReq;
    note(`ask_all ${inputResponses === undefined ? 'begins' : 'answered'}`);
    if (inputResponses !== undefined) {
      const first = acceptedContent(inputResponses, 'first')?.name;
      const second = inputResponse(inputResponses, 'second').action;
      const { content } = inputResponse(inputResponses, 'model').result;
      const { roots } = inputResponse(inputResponses, 'folders');
      return text(JSON.stringify({ first, second, said: content.text, roots: roots.length }));
    }
    const messages = [{ role: 'user', content: { type: 'text', text: 'Which animal?' } }];
    return inputRequired({
      inputRequests: {
        model: inputRequired.createMessage({ messages, maxTokens: 5 }),
        first: inputRequired.elicit({ message: 'First?', requestedSchema: nameForm }),
        folders: inputRequired.listRoots(),
        second: inputRequired.elicit({ message: 'Second?', requestedSchema: nameForm }),
      },
    });
  });
  server.registerTool('endless', {}, async () => {
    note('endless');
    return inputRequired({ requestState: await codec.mint({ round: 1 }) });
  });
  server.registerTool('sign_in', {}, (ctx) => {
    const answer = inputResponse(ctx.mcpReq.inputResponses, 'page');
    if (answer.kind === 'elicit') return text(answer.action);
    const page = inputRequired.elicitUrl({ message: 'Sign in', url: 'https://bank.test/login' });
    return inputRequired({ inputRequests: { page } });
  });
}

async function make() {
  if (version === 'v1') {
    const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
    const server = new McpServer(info);
    addTools(server);
    return server;
  }
  const sdk = await import('@modelcontextprotocol/server');
  const codec = sdk.createRequestStateCodec({ key: STATE_KEY, ttlSeconds: Number(TTL) });
  const verify = (state, ctx) => {
    note(`state ${state}`);
    return codec.verify(state, ctx);
  };
  const server = new sdk.McpServer(info, { requestState: { verify } });
  addTools(server);
  addQuestions(server, sdk, codec);
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
