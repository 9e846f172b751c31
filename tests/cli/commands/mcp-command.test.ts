import { EventEmitter, once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { eventually } from '../../eventually.ts';
import { runInProcess } from '../run-in-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-mcp-'));

describe('millrace mcp', () => {
  it('is over with Ctrl-C while an MCP server of its own does not answer, and leaves nothing of it running', async () => {
    const started = join(folder, 'pid');
    const script = `require('node:fs').writeFileSync('${started}', String(process.pid)); setInterval(() => {}, 1000)`;
    const signals = new EventEmitter();
    const run = runInProcess(['mcp', '--mcp', `${process.execPath} -e "${script}"`], { signals });
    await eventually(() => existsSync(started) && readFileSync(started, 'utf8') !== '');
    signals.emit('SIGINT', 'SIGINT');
    expect(await run).toMatchObject({ exitCode: 130, stdout: '' });
    expect(() => process.kill(Number(readFileSync(started, 'utf8')), 0)).toThrow('ESRCH');
  });

  it.each([[['--port', '0']], [[]]])('is over with a signal that came while its agent was loaded: %j', async (args) => {
    const file = join(folder, `slow-${args.length}.mjs`);
    const name = `loading-${args.length}`;
    writeFileSync(
      file,
      `process.emit('${name}');
      await new Promise((resolve) => process.once('${name}-over', resolve));
      export default { name: 'slow', provider: { call() {} } };`,
    );
    const signals = new EventEmitter();
    const module: EventEmitter = process;
    const loading = once(module, name);
    const run = runInProcess(['mcp', '--agent', file, ...args], { signals, stdin: new PassThrough() });
    await loading;
    signals.emit('SIGTERM', 'SIGTERM');
    module.emit(`${name}-over`);
    expect(await run).toMatchObject({ exitCode: 143, stdout: '' });
  });

  it.each([
    [['--host', '127.0.0.1'], /--host needs --port/],
    [['--key-env', 'PATH'], /--key-env needs --port/],
  ])('refuses %j, which nothing would read over stdio', async (args, message) => {
    const end = await runInProcess(['mcp', ...args]);
    expect(end).toMatchObject({ exitCode: 2, stdout: '', stderr: expect.stringMatching(message) });
  });
});
