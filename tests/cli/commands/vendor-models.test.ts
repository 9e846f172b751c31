import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { wires } from '../../providers/ai-sdk/vendor-wires.ts';
import { type RawServer, sendJson, sendStream, startRawServer } from '../../providers/raw-server.ts';
import { runInProcess } from '../run-in-process.ts';

const tools = fileURLToPath(new URL('some-tools.mjs', import.meta.url));
const asking = fileURLToPath(new URL('asking-tools.mjs', import.meta.url));
const key = 'sk-very-secret-0123456789';
const keys = { ANTHROPIC_API_KEY: key, GEMINI_API_KEY: key, OPENAI_API_KEY: key };

let server: RawServer;

beforeEach(async () => {
  server = await startRawServer();
});

afterEach(() => server.close());

describe.each(wires)('%s', (_, wire) => {
  it('millrace run asks the vendor, and runs what it calls', async () => {
    const streams = [wire.call('c1', 'add', '{"a":2,"b":3}'), wire.text('It is 5.')];
    server.answer((exchange) => sendStream(exchange, streams.shift() ?? ''));
    const args = ['run', 'What is 2 + 3?', '--model', wire.model, '--base-url', server.baseUrl, '--tools', tools];
    const end = await runInProcess(args, { env: keys });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'It is 5.\n' });
    expect(end.stderr).toMatch(/✓ add +a: 2, b: 3 → 5/);
  });

  it('millrace chat says whom it asks, and goes on with what was said', async () => {
    const bodies: string[] = [];
    server.answer((exchange) => {
      bodies.push(JSON.stringify(exchange.body));
      sendStream(exchange, wire.text('Fine.'));
    });
    const args = ['chat', '--model', wire.model, '--base-url', server.baseUrl];
    const end = await runInProcess(args, { env: keys, stdin: 'How are you?\nReally?\n' });
    expect(end).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/Fine\.\s+Fine\./) });
    expect(bodies[1]).toMatch(/How are you\?.*Fine\..*Really\?/);
  });

  it('a refused key is one sentence without the key', async () => {
    server.answer((exchange) => sendJson(exchange, wire.error('authentication_error', `bad ${key}`), 401));
    const args = ['run', 'Hi', '--model', wire.model, '--base-url', server.baseUrl];
    const { exitCode, stdout, stderr } = await runInProcess(args, { env: keys });
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^millrace: .*answered HTTP 401 "bad \[redacted\]".*\(PROVIDER_AUTH\)$/m);
    expect(stdout + stderr).not.toContain(key);
  });

  it('no key is one sentence, and exit code 2', async () => {
    const end = await runInProcess(['run', 'Hi', '--model', wire.model]);
    expect(end).toMatchObject({ exitCode: 2, stdout: '' });
    expect(end.stderr).toMatch(/^millrace: model \S+ needs a key: set \S+.*\n$/);
  });

  it('millrace resume goes on with the same vendor', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-vendor-'));
    const env = { ...keys, MILLRACE_STORE: `lmdb:${folder}` };
    const streams = [wire.call('c1', 'add', '{"a":2,"b":3}'), wire.text('It is 5.')];
    const bodies: string[] = [];
    server.answer((exchange) => {
      bodies.push(JSON.stringify(exchange.body));
      sendStream(exchange, streams.shift() ?? '');
    });
    const model = ['--model', wire.model, '--base-url', server.baseUrl, '--tools', asking];
    try {
      const asked = await runInProcess(['run', 'What is 2 + 3?', '--task', 't', ...model], { env });
      expect(asked).toMatchObject({ exitCode: 3, stderr: expect.stringContaining(`--model ${wire.model}`) });
      const end = await runInProcess(['resume', 't', '--answer', '1:0={"approved":true}', ...model], { env });
      expect(end).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('It is 5.') });
      expect(bodies[1]).toContain('c1');
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
