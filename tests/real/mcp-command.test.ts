import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { modelServer } from '../cli/commands/model-servers.ts';
import { runInProcess } from '../cli/run-in-process.ts';
import { Command } from '../e2e/command.ts';
import { ModernWire } from '../mcp/server/modern-wire.ts';
import { freePort } from '../stores/redis/free-port.ts';

const dist = fileURLToPath(new URL('../../dist/', import.meta.url));
const odd = fileURLToPath(new URL('../mcp/servers/odd-server.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'millrace-mcp-'));

/** A file with an agent that prints whatever it can, and whose tool needs approval. */
function agentFile(): string {
  const file = join(folder, 'clerk.mjs');
  const from = (path: string) => JSON.stringify(pathToFileURL(join(dist, path)).href);
  writeFileSync(
    file,
    `import { agent, tool } from ${from('index.js')};
    import { scriptedLLM } from ${from('testing/index.js')};
    console.log('the module is loaded');
    export default agent({
      name: 'clerk',
      provider: scriptedLLM([{ toolCalls: [{ name: 'file_it' }] }, { text: 'Filed.' }, { text: 'Hello.' }]),
      tools: [tool({
        name: 'file_it', description: 'Files.', parameters: { type: 'object' }, needsApproval: true,
        execute() { console.log('a tool prints'); process.stdout.write('{"jsonrpc":'); return 'ok'; },
      })],
    });`,
  );
  return file;
}

describe('millrace mcp', () => {
  it('serves an agent over stdio, with nothing but the protocol on stdout', async () => {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [join(dist, 'cli/main.js'), 'mcp', '--agent', agentFile()],
      stderr: 'pipe',
    });
    const errors: Error[] = [];
    let stderr = '';
    transport.stderr?.on('data', (chunk) => {
      stderr += chunk;
    });
    const client = new Client({ name: 'test', version: '1' }, { capabilities: { elicitation: {} } });
    client.onerror = (error) => errors.push(error);
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { approved: true } }));
    await client.connect(transport);
    const result = await client.callTool({ name: 'clerk', arguments: { message: 'File it.' } });
    expect(result).toMatchObject({ content: [{ type: 'text', text: 'Filed.' }] });
    await client.close();
    expect(errors).toEqual([]);
    expect(stderr).toMatch(/the module is loaded[\s\S]*a tool prints/);
  });

  it('serves it over HTTP until it is interrupted', async () => {
    const command = new Command(['mcp', '--agent', agentFile(), '--port', '0']);
    await command.shows('Ctrl-C stops it');
    const url = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(command.shown)?.[0] ?? '';
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['clerk']);
    await client.close();
    command.child.kill('SIGINT');
    expect(await command.ended).toMatchObject({ exitCode: 0, stdout: `the module is loaded\n${url}\n` });
  });

  it('P-11 takes the access tokens of an --issuer for its --audience, with all --scopes', async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256');
    const key = { ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' };
    const keys = createServer((_request, response) => response.end(JSON.stringify({ keys: [key] })));
    await once(keys.listen(0, '127.0.0.1'), 'listening');
    const issuer = `http://127.0.0.1:${(keys.address() as AddressInfo).port}`;
    const port = await freePort();
    const audience = `http://127.0.0.1:${port}/mcp`;
    const token = (scope: string, aud = audience) =>
      new SignJWT({ scope, sub: 'alice' })
        .setProtectedHeader({ alg: 'ES256', kid: 'k' })
        .setIssuer(issuer)
        .setAudience(aud)
        .setExpirationTime('1m')
        .sign(privateKey);
    const flags = ['--issuer', issuer, '--audience', audience, '--jwks-url', `${issuer}/jwks`, '--scopes', 'call,file'];
    const command = new Command(['mcp', '--agent', agentFile(), '--port', String(port), ...flags]);
    await command.shows('Ctrl-C stops it');
    const ask = (authorization?: string) =>
      fetch(audience, { method: 'POST', headers: authorization === undefined ? {} : { authorization } });
    const anonymous = await ask();
    expect(anonymous.status).toBe(401);
    const metadata = /resource_metadata="([^"]+)"/.exec(anonymous.headers.get('www-authenticate') ?? '')?.[1] ?? '';
    expect(await (await fetch(metadata)).json()).toMatchObject({
      resource: audience,
      authorization_servers: [issuer],
      scopes_supported: ['call', 'file'],
    });
    expect((await ask(`Bearer ${await token('call file', 'http://127.0.0.1:1/mcp')}`)).status).toBe(401);
    expect((await ask(`Bearer ${await token('call')}`)).status).toBe(403);
    const headers = { authorization: `Bearer ${await token('call file')}` };
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL(audience), { requestInit: { headers } }));
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['clerk']);
    await client.close();
    command.child.kill('SIGINT');
    expect(await command.ended).toMatchObject({ exitCode: 0 });
    keys.closeAllConnections();
    await once(keys.close(), 'close');
  });

  it('P-10 takes the answer to a question of a process that was killed, and again after a second kill', async () => {
    const file = join(folder, 'durable.mjs');
    const from = (path: string) => JSON.stringify(pathToFileURL(join(dist, path)).href);
    writeFileSync(
      file,
      `import { agent, tool } from ${from('index.js')};
      import { scriptedLLM } from ${from('testing/index.js')};
      const step = ({ messages }) => messages.at(-1).role === 'tool'
        ? { text: 'It said: ' + messages.at(-1).content }
        : { toolCalls: [{ name: 'file_it' }] };
      export default agent({
        name: 'the clerk',
        provider: scriptedLLM([step, step, step]),
        tools: [tool({
          name: 'file_it', description: 'Files.', parameters: { type: 'object' }, needsApproval: true, idempotent: true, onInDoubt: 'retry',
          async execute() {
            if (process.env.HANG) { console.error('the tool runs'); await new Promise(() => {}); }
            return 'filed';
          },
        })],
      });`,
    );
    const args = [
      'mcp',
      '--agent',
      file,
      '--port',
      '0',
      '--store',
      `lmdb:${join(folder, 'turns')}`,
      '--lease-ms',
      '500',
    ];
    const start = async (env: Record<string, string> = {}) => {
      const key = { MILLRACE_MCP_STATE_KEY: 'a key that has more than 32 bytes in it' };
      const command = new Command(args, { env: { ...key, ...env } });
      await command.shows('Ctrl-C stops it');
      return { command, wire: new ModernWire(/http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(command.shown)?.[0] ?? '') };
    };
    const kill = async ({ child, ended }: Command) => {
      child.kill('SIGKILL');
      await ended;
    };
    const first = await start();
    const asked = await first.wire.call({ arguments: { message: 'File it.' } });
    await kill(first.command);
    const [id = ''] = Object.keys(asked.result?.inputRequests ?? {});
    const retry = {
      arguments: { message: 'File it.' },
      inputResponses: { [id]: { action: 'accept' as const, content: { approved: true } } },
      requestState: asked.result?.requestState,
    };
    const second = await start({ HANG: '1' });
    const lost = second.wire.call(retry).catch(() => 'lost');
    await second.command.shows('the tool runs');
    await kill(second.command);
    expect(await lost).toBe('lost');
    const third = await start();
    expect((await third.wire.call(retry)).result).toMatchObject({ content: [{ text: 'It said: filed' }] });
    third.command.child.kill('SIGINT');
    expect(await third.command.ended).toMatchObject({ exitCode: 0 });
  });

  it('refuses a key for states that can be guessed', async () => {
    const end = await runInProcess(['mcp'], { env: { MILLRACE_MCP_STATE_KEY: 'short' } });
    expect(end).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/MILLRACE_MCP_STATE_KEY is too short/) });
  });

  it.each([
    [['--agent', 'nowhere.mjs'], /^millrace: The agent file "nowhere.mjs" cannot be found; check the path\n/],
    [
      ['--port', '0', '--host', '0.0.0.0'],
      /--host 0\.0\.0\.0 lets others reach the server; name a variable that holds a key with --key-env/,
    ],
    [
      ['--issuer', 'https://a.test', '--audience', 'https://b.test', '--jwks-url', 'https://a.test/keys'],
      /--issuer needs --port/,
    ],
    [['--port', '0', '--scopes', 'call'], /access tokens need --issuer, --audience and --jwks-url/],
    [['--port', '0', '--key-env', 'NO_SUCH_KEY'], /variable NO_SUCH_KEY of --key-env is not set/],
  ])('refuses %j with one sentence', async (args, message) => {
    const end = await runInProcess(['mcp', ...args]);
    expect(end).toMatchObject({ exitCode: 2, stdout: '', stderr: expect.stringMatching(message) });
  });
});

describe('millrace run --mcp', () => {
  it('adds the tools of MCP servers, and says how to go on with what they ask', async () => {
    const calls = [{ name: 'odd__echo', arguments: { text: 'hello' } }, { name: 'odd__ask' }];
    const { baseUrl } = await modelServer({ script: [{ toolCalls: calls }] });
    const server = `odd=${process.execPath} ${odd}`;
    const store = `lmdb:${join(folder, 'store')}`;
    const args = ['--base-url', baseUrl, '--model', 'm', '--store', store, '--mcp', server];
    const asked = await runInProcess(['run', 'Go.', '--task', 't', ...args]);
    expect(asked.exitCode).toBe(3);
    expect(asked.stderr).toContain('Who are you?');
    expect(asked.stderr).toContain(`--mcp '${server}'`);
    const { baseUrl: next } = await modelServer({ script: [{ text: 'Good.' }] });
    const answer = ['--answer', '1:1={"name":"Ada"}', ...args.with(1, next)];
    const ended = await runInProcess(['resume', 't', ...answer]);
    expect(ended).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('Good.') });
  });

  it('says in one sentence which server cannot be used', async () => {
    const end = await runInProcess(['run', 'Go.', '--mcp', 'no-such-program-anywhere']);
    expect(end).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/"no-such-program-anywhere" cannot be used/),
    });
  });
});
