import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { agent, InMemoryStateStore } from 'millrace';
import { fileAuthStore, type McpAuthStore, mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import type { AuthorizationServer } from '../mcp/authorization-server.ts';
import { protectedServer } from '../mcp/protected-server.ts';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { RedisBench } from '../stores/redis/redis-bench.ts';

const programs = new ChildPrograms('tests/mcp/children');
afterAll(() => programs.clear());
const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

async function signIn(server: AuthorizationServer, store: McpAuthStore): Promise<void> {
  const auth = { redirectUrl: 'http://127.0.0.1:9/callback', store };
  const tools = mcpTools({ servers: { it: { url: server.url, auth } } });
  open.push(tools);
  const provider = scriptedLLM([{ toolCalls: [{ name: 'it__oauth_sign_in' }] }]);
  const one = agent({ id: 'a', provider, toolProviders: [tools], taskStateStore: new InMemoryStateStore() });
  const { questions } = await one.run('go');
  await tools.finishSignIn('it', await server.visit(String(Reflect.get(Object(questions[0]?.data), 'url'))));
}

const answered = (child: ChildProcess) => once(child, 'message').then(([message]) => message);

/** Both processes run a turn each, at once, with a token that has expired. */
async function playRounds(server: AuthorizationServer, where: string): Promise<void> {
  const both = [1, 2].map(() => programs.start('refreshing-turns', server.url, where));
  const printed = Promise.all(both.map(({ stdout }) => (stdout ? text(stdout) : '')));
  for (const message of await Promise.all(both.map(answered))) expect(message).toBe('connected');
  const tokens = () => server.asked.filter((path) => path === '/token').length;
  const before = tokens();
  for (let round = 1; round <= 5; round++) {
    server.expire();
    const ended = both.map(answered);
    for (const child of both) child.send('turn');
    for (const message of await Promise.all(ended))
      expect(message).toEqual({ status: 'completed', text: '0,1,2,3,4', questions: 0 });
    expect([tokens() - before, server.reused]).toEqual([round, 0]);
  }
  const exits = both.map((child) => once(child, 'exit'));
  for (const child of both) child.send('end');
  for (const [code] of await Promise.all(exits)) expect(code).toBe(0);
  expect(await printed).toEqual(['', '']);
}

it('R-06 two processes that share a folder refresh a token once, and both use it', async () => {
  const server = await protectedServer(open);
  const folder = join(mkdtempSync(join(tmpdir(), 'mcp-auth-')), 'store');
  await signIn(server, fileAuthStore(folder));
  await playRounds(server, folder);
});

describeRedis('the tokens of an MCP server in Redis', () => {
  const bench = new RedisBench();

  it('R-06 two processes that share a store without a lock of its own refresh a token once, and both use it', async () => {
    const server = await protectedServer(open);
    const redis = new Redis(bench.server.url);
    open.push({ close: async () => redis.disconnect() });
    await signIn(server, {
      load: async (key) => JSON.parse((await redis.get(`auth ${key}`)) ?? 'null'),
      save: async (key, value) => void (await redis.set(`auth ${key}`, JSON.stringify(value))),
      delete: async (key) => void (await redis.del(`auth ${key}`)),
    });
    await playRounds(server, bench.server.url);
  });
});
