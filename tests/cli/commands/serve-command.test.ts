import { EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { startOtlpReceiver } from '../../../src/testing/otlp-receiver.ts';
import { runInProcess } from '../run-in-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-serve-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** An agent file that is never loaded, and what resolves once somebody loads it. */
function endlessAgent(): { readonly file: string; readonly loading: Promise<void> } {
  const file = join(folder, `${crypto.randomUUID()}.mjs`);
  const loading = new Promise<void>((resolve) => Object.assign(globalThis, { [file]: resolve }));
  writeFileSync(file, `globalThis[${JSON.stringify(file)}](); await new Promise(() => {}); export default {};`);
  return { file, loading };
}

describe('Ctrl-C while a server starts', () => {
  it.each([
    ['serve', 'SIGINT', 130],
    ['serve', 'SIGTERM', 143],
    ['mcp', 'SIGINT', 130],
  ] as const)('ends millrace %s while the agent file is loaded, by %s', async (command, signal, exitCode) => {
    const { file, loading } = endlessAgent();
    const signals = new EventEmitter();
    const ended = runInProcess([command, '--port', '0', '--agent', file], { signals });
    await loading;
    signals.emit(signal, signal);
    expect(await ended).toEqual({ exitCode, stdout: '', stderr: '' });
    expect(signals.eventNames()).toEqual([]);
  });

  it.each(['serve', 'mcp'])('ends millrace %s with a word on where its spans went', async (command) => {
    const receiver = await startOtlpReceiver();
    const { file, loading } = endlessAgent();
    const signals = new EventEmitter();
    const ended = runInProcess([command, '--port', '0', '--agent', file, '--otlp', receiver.url], { signals });
    await loading;
    signals.emit('SIGINT', 'SIGINT');
    expect((await ended).stderr).toBe(`millrace: 0 spans sent to ${receiver.url}/v1/traces\n`);
    await receiver.close();
  });

  it.each(['serve', 'mcp'])('ends millrace %s while the store does not answer', async (command) => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const signals = new EventEmitter();
    const asked = once(silent, 'connection');
    const ended = runInProcess([command, '--port', '0', '--store', `redis://127.0.0.1:${port}`], { signals });
    const [socket] = await asked;
    signals.emit('SIGINT', 'SIGINT');
    expect(await ended).toEqual({ exitCode: 130, stdout: '', stderr: '' });
    socket.destroy();
    silent.close();
  });
});

describe('the keys of callers', () => {
  it.each([
    [
      { MILLRACE_CLIENT_KEYS: 'alice=short-key' },
      'the key of alice in MILLRACE_CLIENT_KEYS is too short; take a random one',
    ],
    [{ MILLRACE_CLIENT_KEYS: 'short-key' }, 'the key of client in MILLRACE_CLIENT_KEYS is too short'],
    [{ MILLRACE_CLIENT_KEYS: `a=${'x'.repeat(16)},a=${'y'.repeat(16)}` }, 'MILLRACE_CLIENT_KEYS names a caller twice'],
  ])('are refused in words of the command line: case %#', async (env, sentence) => {
    const { exitCode, stderr } = await runInProcess(['serve', '--port', '0'], { env });
    expect(stderr.replace(/\s+/g, ' ')).toContain(sentence);
    expect(stderr).not.toContain('short-');
    expect(exitCode).toBe(2);
  });
});
