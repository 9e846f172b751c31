import { EventEmitter } from 'node:events';
import { mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from '@jest/globals';
import { withLogins } from 'millrace/internals';
import { mcpTools } from 'millrace/mcp';
import { eventually } from '../../eventually.ts';
import { protectedServer } from '../../mcp/protected-server.ts';
import { toolContext } from '../../tools/tool-context.ts';
import { runInProcess } from '../run-in-process.ts';
import { fakeScreen } from '../screen.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

/** The command, once it has printed the address to open. */
async function loggingIn(url: string) {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-login-'));
  const env = { MILLRACE_MCP_TOKENS: folder };
  const [screen, signals] = [fakeScreen({ env }), new EventEmitter()];
  const ended = runInProcess(['mcp', 'login', url], { env, screen, signals });
  const printed = () => /http\S+authorize\S+/.exec(screen.stdout())?.[0];
  await eventually(() => printed() !== undefined);
  const address = printed() ?? '';
  return { env, folder, signals, ended, address };
}

it('P-08 millrace mcp login takes what the browser brings, and --mcp uses the tokens', async () => {
  const server = await protectedServer(open);
  const { env, ended, address, folder } = await loggingIn(server.url);
  const callback = await server.visit(address);
  const forged = new URL(callback);
  forged.searchParams.set('state', 'forged');
  expect((await fetch(forged)).status).toBe(404);
  expect(readdirSync(folder)).toEqual([]);
  expect(await (await fetch(callback)).text()).toContain('You are signed in');
  const { exitCode, stdout, stderr } = await ended;
  expect({ exitCode, stderr }).toMatchObject({
    exitCode: 0,
    stderr: expect.stringContaining('signed in to 127.0.0.1'),
  });
  for (const secret of server.secrets) expect(stdout + stderr).not.toContain(secret);

  const tools = mcpTools({ servers: await withLogins({ it: { url: server.url } }, env) });
  open.push(tools);
  const names = (await tools.getTools(toolContext())).map((each) => each.function.name);
  expect(names).toContain('it__add');
});

it('P-08 millrace mcp login that is interrupted, or fails, keeps nothing', async () => {
  const server = await protectedServer(open);
  const stopped = await loggingIn(server.url);
  stopped.signals.emit('SIGINT', 'SIGINT');
  expect((await stopped.ended).exitCode).toBe(130);
  const failed = await loggingIn(server.url);
  const callback = new URL(await server.visit(failed.address));
  callback.searchParams.set('code', 'guess');
  expect((await fetch(callback)).status).toBe(400);
  const { exitCode, stderr } = await failed.ended;
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('invalid_grant') });
  expect([...readdirSync(stopped.folder), ...readdirSync(failed.folder)]).toEqual([]);
});

it('P-11 millrace mcp needs all that access tokens need', async () => {
  const { exitCode, stderr } = await runInProcess(['mcp', '--port', '0', '--issuer', 'https://login.example.com']);
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--audience') });
});
