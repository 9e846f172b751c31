import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { RealProcess } from '../real/real-process.ts';
import { freePort } from '../stores/redis/free-port.ts';
import { runTracedTurn, turnSpans, within, withParents } from './traced-turn.ts';

const version = '20.26.1';
const folder = resolve('node_modules/.cache/backends', `phoenix-${version}`);
const run = promisify(execFile);
const working = mkdtempSync(join(tmpdir(), 'millrace-phoenix-'));
let phoenix: RealProcess | undefined;
let url = '';

beforeAll(async () => {
  const whole = join(folder, 'whole');
  if (!existsSync(whole)) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(resolve(folder, '..'), { recursive: true });
    await run('python3', ['-m', 'venv', folder]);
    await run(join(folder, 'bin/pip'), ['install', '--quiet', `arize-phoenix==${version}`], { timeout: 600_000 });
    writeFileSync(whole, '');
  }
  const [port, grpc] = [await freePort(), await freePort()];
  url = `http://127.0.0.1:${port}`;
  phoenix = new RealProcess(join(folder, 'bin/phoenix'), ['serve'], {
    PHOENIX_WORKING_DIR: working,
    PHOENIX_HOST: '127.0.0.1',
    PHOENIX_PORT: String(port),
    PHOENIX_GRPC_PORT: String(grpc),
    PHOENIX_TELEMETRY_ENABLED: 'false',
  });
  await phoenix.ready('Phoenix', async () => (await fetch(`${url}/healthz`)).ok);
}, 900_000);

afterAll(async () => {
  await phoenix?.close();
  rmSync(working, { recursive: true, force: true });
});

interface PhoenixSpan {
  readonly name: string;
  readonly context: { readonly span_id: string };
  readonly parent_id: string | null;
  readonly span_kind: string;
  readonly status_code: string;
  readonly attributes: Readonly<Record<string, unknown>>;
}

it('P-20 Phoenix shows the spans of a turn: kinds, tokens, session, what was said, and the failed tool', async () => {
  await runTracedTurn({ endpoint: url });
  const spans = await within(60_000, async () => {
    const answer = await fetch(`${url}/v1/projects/default/spans?limit=100`);
    const { data }: { readonly data: readonly PhoenixSpan[] } = JSON.parse(await answer.text());
    return data.length >= turnSpans.length ? data : undefined;
  });
  const shown = spans.map((span) => ({ ...span, id: span.context.span_id, parentId: span.parent_id ?? undefined }));
  expect(withParents(shown)).toEqual(turnSpans);
  const kinds = new Map(spans.map(({ name, span_kind }) => [name.replace(/\[.*/, ''), span_kind]));
  expect(Object.fromEntries(kinds)).toEqual({
    'agent.turn': 'AGENT',
    'agent.execute': 'CHAIN',
    hook: 'CHAIN',
    iteration: 'CHAIN',
    'llm.call': 'LLM',
    'tools.execute': 'CHAIN',
    tool: 'TOOL',
  });
  const calls = spans.filter(({ name }) => name === 'llm.call');
  for (const { attributes } of calls) {
    expect(attributes).toMatchObject({
      'llm.token_count.prompt': 30,
      'llm.token_count.completion': 4,
      'llm.token_count.total': 34,
      'session.id': 'session-1',
    });
  }
  const turn = spans.find(({ name }) => name === 'agent.turn');
  expect(turn?.attributes).toMatchObject({ 'input.value': 'Try both.', 'output.value': 'Done.' });
  const failed = spans.filter(({ status_code }) => status_code === 'ERROR');
  expect(failed.map(({ name }) => name)).toEqual(['tool[bad]']);
});
