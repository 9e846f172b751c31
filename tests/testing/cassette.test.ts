import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { replay } from 'millrace';
import { AgentLoop, isSecretName, withoutSecrets } from 'millrace/internals';
import { type LLMStep, loadCassette, recordTurn } from 'millrace/testing';
import { question } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { configOf, randomScript } from '../core/random-turns.ts';
import { turnBench } from '../core/turn-bench.ts';

const bench = turnBench();
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cassettes-'));
});
afterEach(() => rm(folder, { recursive: true }));

const secrets = ['hunter22', 'sk-live-1234567890', 'abc.def-ghi.jkl', 'topsecretvalue', 'ghp_0123456789abcdef'];

/** A turn full of secrets, and what it was asked. */
async function tellSecrets(taskId: string) {
  const login = { user: 'ann', password: 'hunter22', note: 'key sk-live-1234567890', maxTokens: 7 };
  const steps: readonly LLMStep[] = [
    {
      text: 'I use Bearer abc.def-ghi.jkl now.',
      toolCalls: [{ name: 'login', arguments: login, id: `call_${taskId}` }],
    },
    { text: 'The token=topsecretvalue works, ann.' },
  ];
  const toolProviders = [plainTools({ login: () => '{"ok":true,"accessToken":"ghp_0123456789abcdef"}' })];
  const turn = bench
    .loop(steps, { toolProviders })
    .startTurn(question, { taskId, metadata: { 'x-api-key': 'hunter22' } });
  await turn.result();
  await turn.settled;
  return toolProviders;
}

describe('recordTurn', () => {
  it('writes a turn that replays, without its secrets', async () => {
    const toolProviders = await tellSecrets('t');
    const path = join(folder, 'deep', 'log in.jsonl');
    const cassette = await recordTurn('t', path, { store: bench.store });
    const text = await readFile(path, 'utf8');
    for (const secret of secrets) expect(text).not.toContain(secret);
    expect(text).toContain('[redacted]');
    expect(text).toContain('\\"user\\":\\"ann\\"');
    expect(text).toContain('maxTokens');
    expect(cassette.taskId).toBe('log-in');
    expect(await loadCassette(path)).toEqual(cassette);
    for (const config of [{}, { toolProviders }]) {
      const result = await replay(cassette, config).result();
      expect(result).toMatchObject({ status: 'completed', text: 'The token=[redacted] works, ann.', toolCalls: 1 });
    }
  });

  it('takes out what the caller names, too', async () => {
    await tellSecrets('t');
    const redact = (text: string) => text.replaceAll('ann', 'NAME');
    const cassette = await recordTurn('t', join(folder, 'c.jsonl'), { store: bench.store, redact });
    expect(JSON.stringify(cassette.records)).not.toContain('ann');
    expect(await replay(cassette).result()).toMatchObject({ text: 'The token=[redacted] works, NAME.' });
  });

  it('gives the same file each time that the same turn is recorded', async () => {
    const files: string[] = [];
    for (const taskId of ['t', 'u']) {
      await tellSecrets(taskId);
      bench.clock.advance(12_345);
      const path = join(folder, 'same.jsonl');
      await recordTurn(taskId, path, { store: bench.store });
      files.push(await readFile(path, 'utf8'));
    }
    expect(files[0]).toBe(files[1]);
  });

  it('records any turn, and the cassette replays', async () => {
    let count = 0;
    const property = fc.asyncProperty(randomScript, async (script) => {
      const taskId = `t${count++}`;
      const turn = new AgentLoop(configOf(script, bench)).startTurn(question, { taskId, detached: true });
      await turn.settled;
      const cassette = await recordTurn(taskId, join(folder, 'any.jsonl'), { store: bench.store });
      expect(await replay(cassette).result()).toMatchObject({ deviations: [], records: cassette.records });
      const was = await turn.result().catch(({ result }) => result);
      expect(await replay(cassette).result()).toMatchObject({ status: was.status, text: was.text });
    });
    await fc.assert(property, { numRuns: 20 });
  });

  it('refuses tasks that there are not, files that cannot be, and a redact that gives no texts', async () => {
    await expect(recordTurn('nobody', join(folder, 'c.jsonl'), bench)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await tellSecrets('t');
    await writeFile(join(folder, 'file'), '');
    const nowhere = recordTurn('t', join(folder, 'file', 'c.jsonl'), bench);
    await expect(nowhere).rejects.toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining('c.jsonl') });
    // @ts-expect-error: no text
    const broken = recordTurn('t', join(folder, 'c.jsonl'), { store: bench.store, redact: () => 7 });
    await expect(broken).rejects.toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining('redact') });
  });
});

describe('loadCassette', () => {
  it('says which file there is not, and which line is wrong', async () => {
    const path = join(folder, 'c.jsonl');
    await expect(loadCassette(path)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining(path),
    });
    await tellSecrets('t');
    await recordTurn('t', path, { store: bench.store });
    const lines = (await readFile(path, 'utf8')).split('\n');
    await writeFile(path, lines.map((line, index) => (index === 3 ? line.slice(1) : line)).join('\n'));
    await expect(loadCassette(path)).rejects.toMatchObject({ message: expect.stringMatching(/^Line 4 of .*c\.jsonl/) });
  });
});

describe('what counts as a secret', () => {
  it.each([
    'apiKey',
    'API_KEY',
    'x-api-key',
    'Authorization',
    'password',
    'accessToken',
    'client_secret',
    'Set-Cookie',
  ])('is what stands under %s', (name) => expect(isSecretName(name)).toBe(true));

  it.each(['maxTokens', 'promptTokens', 'keyboard', 'author', 'tokenizer', 'secretary'])('is not %s', (name) =>
    expect(isSecretName(name)).toBe(false),
  );

  it.each([
    ['curl -H "Authorization: Bearer abcdefgh12345"', 'curl -H "Authorization: Bearer [redacted]"'],
    ['redis://ann:hunter22@host:6379', 'redis://[redacted]@host:6379'],
    ['https://x.org/?api_key=0123456789&q=1', 'https://x.org/?api_key=[redacted]&q=1'],
    ['On {"password":"hunter2"} x', 'On {"password":"[redacted]"} x'],
    ['“password=hunter2”, slow', '“password=[redacted]”, slow'],
    ['[1, {"token": "x"}]', '[1,{"token":"[redacted]"}]'],
    ['{ "a": 1 }', '{ "a": 1 }'],
    ['a basic answer, a risk-free one', 'a basic answer, a risk-free one'],
  ])('in %j', (text, clean) => expect(withoutSecrets(text, (each) => each)).toBe(clean));
});
