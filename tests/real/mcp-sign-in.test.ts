import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { on, once } from 'node:events';
import { mkdirSync, mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from '@jest/globals';
import { AgentLoopError, agent } from 'millrace';
import { fileAuthStore, type McpTools, mcpTools } from 'millrace/mcp';
import { fleetBench, modelOf, says, until, user } from '../fleet/fleet-bench.ts';
import { protectedServer } from '../mcp/protected-server.ts';
import { kill } from '../stores/lmdb/child-programs.ts';
import { describeReal } from './real-part.ts';

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

const temporary = (name: string) => mkdtempSync(join(tmpdir(), name));

function addressIn(asked: unknown): string {
  return /http[^"\\]+\/authorize[^"\\]+/.exec(JSON.stringify(asked))?.[0] ?? '';
}

/** The program as one file of CommonJS, with nothing beside it but lmdb. */
function bundled(): string {
  const folder = temporary('mcp-bundle-');
  const file = join(folder, 'sign-in-turn.cjs');
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(join(process.cwd(), 'node_modules/lmdb'), join(folder, 'node_modules/lmdb'));
  const options = ['--bundle', '--platform=node', '--format=cjs', '--external:lmdb', '--log-level=error'];
  const program = 'tests/mcp/children/sign-in-turn.ts';
  execFileSync('node_modules/.bin/esbuild', [program, ...options, `--outfile=${file}`]);
  return file;
}

function started(program: string, args: readonly string[]): ChildProcess {
  const child = fork(program, args, { execArgv: [], stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  open.push({ close: () => kill(child) });
  return child;
}

it('P-08 a sign-in of a sub-agent outlives the process that asked, kill -9, in a bundle and under a budget', async () => {
  const server = await protectedServer(open);
  const args = [server.url, temporary('mcp-turns-'), join(temporary('mcp-auth-'), 'store')];
  const program = bundled();
  const first = started(program, args);
  const [asked] = await once(first, 'message');
  expect(asked).toMatchObject({
    status: 'auth-required',
    questions: [{ kind: 'auth', child: { agentId: 'worker' } }],
    spent: 20,
  });
  await kill(first);

  const answers = { [asked.questions[0].id]: await server.visit(addressIn(asked)) };
  const second = started(program, [...args, JSON.stringify(answers)]);
  const said: unknown[] = [];
  for await (const [message] of on(second, 'message', { close: ['disconnect'] })) said.push(message);
  expect(said).toMatchObject([
    // The turn counts what both processes used; the budget what its own did.
    { status: 'completed', text: expect.stringContaining('signed in'), total: { totalTokens: 40 }, spent: 20 },
    { text: 'It gave "3"' },
  ]);
  expect(server.asked.filter((path) => path === '/token')).toHaveLength(1);
});

describeReal(['redis'], 'a sign-in in a fleet', () => {
  const bench = fleetBench();

  it('P-08 suspends a turn with a retry plan, and another worker takes the answer', async () => {
    const server = await protectedServer(open);
    const store = fileAuthStore(join(temporary('mcp-auth-'), 'store'));
    const toolsOfWorker = (): McpTools => {
      const auth = { redirectUrl: 'http://127.0.0.1:9/callback', store };
      const tools = mcpTools({ servers: { it: { url: server.url, auth } } });
      open.push(tools);
      return tools;
    };
    // The model is away before the call and after it.
    let calls = 0;
    const provider = modelOf(({ messages }) => {
      if (++calls % 2 === 1) throw new AgentLoopError('PROVIDER_RATE_LIMIT', 'Slow down.', { retryable: true });
      const last = messages.at(-1);
      if (last?.role === 'tool') return says(String(last.content));
      const call = { id: 'c', type: 'function' as const, function: { name: 'it__oauth_sign_in', arguments: '{}' } };
      return { message: { role: 'assistant', content: null, toolCalls: [call] }, finishReason: 'tool_calls' };
    });
    const ada = () =>
      agent({ id: 'ada', provider, retry: null, enableTracing: false, toolProviders: [toolsOfWorker()] });
    const queue = bench.queue();
    const first = bench.work(queue, [ada()]);
    await queue.start(user('go'), { agentId: 'ada', taskId: 't', retryPlan: { attempts: 5, delayMs: 10 } });
    await until(async () => (await bench.store.describe('t'))?.state === 'auth-required');
    await bench.stop(first);

    const records = await bench.store.read('t');
    bench.work(queue, [ada()]);
    await queue.answer('t', { '1:0': await server.visit(addressIn(records)) });
    expect(await bench.ended('t')).toBe('completed');
    const all = await bench.store.read('t');
    expect(JSON.stringify(all.at(-2)) + JSON.stringify(all.at(-1))).toContain('The user is signed in to it');
    expect(all.filter((record) => record.type === 'turn.suspended' && record.reason === 'backoff')).toHaveLength(2);
    expect(server.asked.filter((path) => path === '/token')).toHaveLength(1);
  });
});
