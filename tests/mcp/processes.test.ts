import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import { mcpTools } from 'millrace/mcp';
import { openResources } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { thrownBy } from '../tools/thrown.ts';
import { toolContext } from '../tools/tool-context.ts';
import { type OddServer, oddServer } from './odd-server.ts';

let odd: OddServer | undefined;
afterEach(() => odd?.tools.close());

function isAlive(pid: number): boolean {
  try {
    // One that has ended stays as a zombie where nobody collects it.
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
}

function pidOf({ ledger }: OddServer, what: string): number {
  return Number(
    ledger()
      .find((line) => line.startsWith(what))
      ?.slice(what.length),
  );
}

describe('the processes of MCP servers', () => {
  it('end with close, and nothing stays open', async () => {
    odd = oddServer();
    // What is loaded with the first server stays.
    await odd.tools.connect();
    await odd.tools.close();
    const resources = openResources();
    odd = oddServer();
    await odd.call('echo', { text: 'a' });
    const pid = pidOf(odd, 'started');
    expect(isAlive(pid)).toBe(true);
    await odd.tools.close();
    expect(isAlive(pid)).toBe(false);
    await resources.assertNone();
    expect(await thrownBy(() => odd?.tools.connect())).toMatchObject({ code: 'SHUTDOWN' });
  });

  it('end also where they are deaf to everything, with what they have started', async () => {
    odd = oddServer({ env: { STUBBORN: '1' }, closeGraceMs: 150 });
    await odd.call('echo', { text: 'a' });
    const { ledger } = odd;
    await eventually(() => ledger().some((line) => line.startsWith('grandchild')));
    const pids = [pidOf(odd, 'started'), pidOf(odd, 'grandchild')];
    await odd.tools.close();
    expect(ledger()).toContain('deaf to SIGTERM');
    expect(pids.filter(isAlive)).toEqual([]);
  });

  it('that cannot be started do not keep others from being used, unless they are required', async () => {
    const missing = { command: 'no-such-program-anywhere' };
    const warnings: unknown[] = [];
    const warn = (_message: string, fields?: object) => warnings.push(fields);
    const logger = { debug: warn, info: warn, warn, error: warn };
    const broken = { command: process.execPath, args: ['-e', 'console.error("no config"); process.exit(3)'] };
    const some = mcpTools({ servers: { missing, broken }, logger });
    expect(await some.getTools(toolContext())).toEqual([]);
    expect(warnings).toEqual([
      {
        server: 'missing',
        why: expect.stringMatching(
          /"missing" cannot be used: it cannot be reached \(there is no program "no-such-program-anywhere"\)/,
        ),
      },
      {
        server: 'broken',
        why: expect.stringMatching(/"broken" cannot be used: it went away .*, and wrote: no config/),
      },
    ]);
    await some.close();
    const needed = mcpTools({ servers: { missing: { ...missing, required: true } } });
    expect(await thrownBy(() => needed.connect())).toMatchObject({ code: 'TOOL_FAILED', retryable: true });
    await needed.close();
  });

  it('are not started any more once their tools are closed', async () => {
    const started = join(mkdtempSync(join(tmpdir(), 'mute-')), 'started');
    const args = ['-e', `require('node:fs').writeFileSync(${JSON.stringify(started)}, ''); process.stdin.resume()`];
    const tools = mcpTools({ servers: { mute: { command: process.execPath, args, required: true } } });
    const connecting = thrownBy(() => tools.connect());
    // By then it waits for the package that it loads.
    await Promise.resolve();
    await tools.close();
    expect(await connecting).toMatchObject({ code: 'SHUTDOWN' });
    expect(existsSync(started)).toBe(false);
  });

  it('R-35 that say late that they speak 2026-07-28, and refuse what is older, are started once more', async () => {
    const noted = join(mkdtempSync(join(tmpdir(), 'slow-')), 'started');
    const slow = {
      command: process.execPath,
      args: ['--input-type=module', '-e', slowModern, noted],
      connectTimeoutMs: 8_000,
      required: true,
      prefix: '',
    };
    const tools = mcpTools({ servers: { slow } });
    expect((await tools.getTools(toolContext())).map(({ function: { name } }) => name)).toEqual(['add']);
    expect(readFileSync(noted, 'utf8')).toBe('discover,initialize,;discover,');
    await tools.close();
  });

  it('that say nothing when they start are given up', async () => {
    const mute = {
      command: process.execPath,
      args: ['-e', 'process.stdin.resume()'],
      connectTimeoutMs: 300,
      required: true,
    };
    const tools = mcpTools({ servers: { mute } });
    const error = await thrownBy(() => tools.connect());
    expect(error.message).toBe(
      'the MCP server "mute" cannot be used: it did not answer within 300 ms (connectTimeoutMs)',
    );
    await tools.close();
  });
});

/** Lets its first request decide what it speaks; its first process answers that only once `initialize` comes. */
const slowModern = `
import { appendFileSync, existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
const file = process.argv[1];
const isFirst = !existsSync(file);
if (!isFirst) appendFileSync(file, ';');
const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
const common = { resultType: 'complete', ttlMs: 60000, cacheScope: 'private' };
const serverInfo = { name: 's', version: '1' };
const known = { supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, serverInfo, ...common, _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo } };
let held;
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (method === 'server/discover') {
    appendFileSync(file, 'discover,');
    if (isFirst) held = id;
    else send({ id, result: known });
  } else if (method === 'initialize') {
    appendFileSync(file, 'initialize,');
    send({ id: held, result: known });
    send({ id, error: { code: -32602, message: 'Unsupported protocol version' } });
  } else if (method === 'tools/list')
    send({ id, result: { tools: [{ name: 'add', description: 'a', inputSchema: { type: 'object' } }], ...common, _meta: known._meta } });
  else if (id !== undefined) send({ id, error: { code: -32601, message: 'no' } });
});`;
