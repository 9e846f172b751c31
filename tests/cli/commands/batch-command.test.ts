import { EventEmitter } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type ModelServerOptions, startModelServer } from 'millrace/testing';
import { keysIn, linesIn, temporaryFolder } from '../../batch/echoing.ts';
import { runInProcess } from '../run-in-process.ts';

const open: { close(): Promise<void> }[] = [];

afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

interface Bench {
  readonly folder: string;
  readonly out: string;
  readonly prompts: string;
  readonly model: Awaited<ReturnType<typeof startModelServer>>;
  /** The arguments for the file of the prompts. */
  readonly args: readonly string[];
}

async function bench(lines: string, options: ModelServerOptions = {}): Promise<Bench> {
  const model = await startModelServer(options);
  open.push(model);
  const folder = temporaryFolder();
  const prompts = join(folder, 'prompts.jsonl');
  writeFileSync(prompts, lines);
  const out = join(folder, 'results.jsonl');
  const store = ['--store', `lmdb:${join(folder, 'store')}`];
  const args = ['batch', prompts, '--out', out, '--base-url', model.baseUrl, '--model', 'demo', ...store];
  return { folder, out, prompts, model, args };
}

const asking = fileURLToPath(new URL('asking-agent.mjs', import.meta.url));

const hello = (count: number) => Array.from({ length: count }, (_, index) => `Say ${index + 1}.\n`).join('');
const refusal = { status: 401, body: { error: { message: 'no such key' } } };

describe('millrace batch', () => {
  it('writes a row for each line, says what it came to, and runs nothing again', async () => {
    const { args, out, model } = await bench('{"key":"a","prompt":"Hello."}\n\n"Bye."\n');
    const first = await runInProcess(args);
    expect([first.exitCode, first.stdout]).toEqual([0, '']);
    expect(first.stderr).toMatch(/^millrace: 2 completed; \d+ tokens, .*; rows in .*results\.jsonl$/m);
    expect(linesIn(out)).toMatchObject([{ status: 'completed' }, { status: 'completed' }]);
    expect(keysIn(out)).toEqual(['3', 'a']);
    const second = await runInProcess(args);
    expect(second.exitCode).toBe(0);
    expect(second.stderr).toContain('2 completed, 2 of them in earlier starts');
    expect(model.received).toBe(2);
  });

  it('reads stdin, also lines of text', async () => {
    const { args, out } = await bench('');
    const { exitCode } = await runInProcess(['batch', '-', ...args.slice(2)], { stdin: hello(3) });
    expect([exitCode, keysIn(out)]).toEqual([0, ['1', '2', '3']]);
  });

  it('lists failures with their cause, exits with 1, and prints the command that runs them again', async () => {
    const { args, out } = await bench('Hello.\nBye.\n', { script: [refusal, { text: 'Bye.' }, { text: 'Hi.' }] });
    const { exitCode, stderr } = await runInProcess([...args, '--concurrency', '1']);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^✗ 1: PROVIDER_AUTH .*no such key/m);
    expect(stderr).toContain('1 completed, 1 failed (PROVIDER_AUTH 1)');
    const [, command = ''] = /run the failed ones again with "(millrace .*)"$/m.exec(stderr) ?? [];
    expect(command).toMatch(
      /^millrace batch .*prompts\.jsonl --out .* --concurrency 1 .* --store lmdb:.* --retry-failed$/,
    );
    const again = await runInProcess(command.split(' ').slice(1));
    expect([again.exitCode, linesIn(out).map(({ status }) => status)]).toEqual([0, ['completed', 'completed']]);
  });

  it('stops cleanly on Ctrl-C with code 130; the command that it prints continues', async () => {
    const script = [
      { text: 'One.' },
      { text: 'Two.', gate: new Promise(() => {}) },
      { text: 'Two.' },
      { text: 'Three.' },
    ];
    const { args, out, model } = await bench(hello(3), { script });
    const signals = new EventEmitter();
    const running = runInProcess([...args, '--concurrency', '1'], { signals });
    await model.whenReceived(2);
    signals.emit('SIGINT', 'SIGINT');
    const { exitCode, stderr } = await running;
    expect([exitCode, keysIn(out)]).toEqual([130, ['1']]);
    const [, command = ''] = /stopped; continue with "(millrace .*)"$/m.exec(stderr) ?? [];
    const second = await runInProcess(command.split(' ').slice(1));
    expect([second.exitCode, keysIn(out)]).toEqual([0, ['1', '2', '3']]);
    model.assertDone();
  });

  it('starts no more once the budget is used up, exits with 1, and says how to continue', async () => {
    const { args, out, model } = await bench(hello(9));
    const { exitCode, stderr } = await runInProcess([...args, '--concurrency', '1', '--budget-tokens', '1']);
    expect([exitCode, keysIn(out), model.received]).toEqual([1, ['1'], 1]);
    expect(stderr).toMatch(/the budget is used up; continue with a larger one: "millrace batch .*--budget-tokens 1/);
  });

  it('starts no more after --max-failures, exits with 1, and says how to continue', async () => {
    const { args, out, model } = await bench(hello(9), { script: [refusal, refusal] });
    const { exitCode, stderr } = await runInProcess([...args, '--concurrency', '1', '--max-failures', '2']);
    expect([exitCode, keysIn(out), model.received]).toEqual([1, ['1', '2'], 2]);
    expect(stderr).toMatch(/stopped by --max-failures; .*"millrace batch .*--max-failures 2.* --retry-failed"/);
  });

  it.each([
    ['"x"\n{"key":', /prompts\.jsonl:2 is not JSON/],
    ['{"key":"a","prompt":"x"}\n"y"\n{"key":"a","prompt":"z"}', /line 1 and line 3 have the same key "a"/],
    ['\n\n', /prompts\.jsonl has no prompts/],
  ])('checks the whole file before anything runs: %j', async (lines, message) => {
    const { args, model } = await bench(lines);
    const { exitCode, stderr } = await runInProcess(args);
    expect([exitCode, model.received]).toEqual([2, 0]);
    expect(stderr).toMatch(message);
  });

  it('refuses a missing file, the file of the prompts as --out, and results of something else', async () => {
    const { args, prompts, out, model } = await bench('Hello.\n');
    expect(await runInProcess(['batch', 'none.jsonl', '--out', out])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('there is no file none.jsonl'),
    });
    expect(await runInProcess(['batch', prompts, '--out', prompts])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('--out names the file of the prompts'),
    });
    writeFileSync(out, 'notes\n');
    expect(await runInProcess(args)).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('results.jsonl:1 is not a row of a batch'),
    });
    expect([readFileSync(out, 'utf8'), model.received]).toEqual(['notes\n', 0]);
  });

  it('runs the agent of a file', async () => {
    const { folder, prompts, out } = await bench('Hello.\n');
    const file = join(folder, 'agent.mjs');
    writeFileSync(
      file,
      `export default { id: 'own', provider: { call: async () => ({ message: { role: 'assistant', content: 'From the file.' }, finishReason: 'stop' }) } };\n`,
    );
    const { exitCode } = await runInProcess(['batch', prompts, '--agent', file, '--out', out]);
    expect([exitCode, linesIn(out)]).toEqual([0, [expect.objectContaining({ text: 'From the file.' })]]);
  });

  it('prints the command that answers a turn of the agent of a file; started again, it takes the result', async () => {
    const { folder, out, prompts } = await bench('Refund.\n');
    const args = ['batch', prompts, '--out', out, '--agent', asking, '--store', `lmdb:${join(folder, 'store')}`];
    const { stderr } = await runInProcess(args);
    expect(linesIn(out)).toMatchObject([{ status: 'suspended' }]);
    const [, command = ''] = /answer it with "millrace (.*)", then start the batch again$/m.exec(stderr) ?? [];
    expect(command).toContain(`--agent ${asking}`);
    const answered = await runInProcess([...command.split(' '), '--answer', '1:0={"approved":true}']);
    expect([answered.exitCode, answered.stdout.trim()]).toEqual([0, 'So: refunded']);
    const again = await runInProcess(args);
    expect(again.exitCode).toBe(0);
    expect(linesIn(out)).toMatchObject([{ status: 'completed', text: 'So: refunded' }]);
    const both = await runInProcess([...command.split(' '), '--model', 'demo']);
    expect([both.exitCode, both.stderr]).toEqual([2, expect.stringContaining('--agent includes the model')]);
  });

  it('draws a bar on a terminal, and takes it away', async () => {
    const { args } = await bench(hello(3));
    const { exitCode, stderr } = await runInProcess(args, { stdin: new PassThrough() });
    expect(exitCode).toBe(0);
    expect(stderr).toMatch(/░{20} 0 % · 0 of 3 done · 0 running · 0 waiting · 0\.0\/s/);
    expect(stderr).toContain('\u001b[1A\u001b[J');
  });
});
