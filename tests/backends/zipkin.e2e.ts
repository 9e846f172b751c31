import { execFile } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { ZipkinExporter } from '@opentelemetry/exporter-zipkin';
import { RealProcess } from '../real/real-process.ts';
import { freePort } from '../stores/redis/free-port.ts';
import { runTracedTurn, turnSpans, within, withParents } from './traced-turn.ts';

const version = '3.5.1';
const folder = resolve('node_modules/.cache/backends');
const jar = join(folder, `zipkin-server-${version}-exec.jar`);
let zipkin: RealProcess | undefined;
let url = '';

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  if (!existsSync(jar)) {
    const artifact = `-Dartifact=io.zipkin:zipkin-server:${version}:jar:exec`;
    await promisify(execFile)('mvn', ['-q', 'dependency:copy', artifact, `-DoutputDirectory=${folder}`]);
  }
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  zipkin = new RealProcess('java', ['-Xmx256m', '-jar', jar, `--server.port=${port}`], {
    QUERY_PORT: String(port),
    SELF_TRACING_ENABLED: 'false',
  });
  await zipkin.ready('Zipkin', async () => (await fetch(`${url}/health`)).ok);
}, 600_000);

afterAll(() => zipkin?.close());

interface ZipkinSpan {
  readonly id: string;
  readonly parentId?: string;
  readonly name: string;
  readonly tags?: Readonly<Record<string, string>>;
}

it('P-20 Zipkin shows the spans of a turn below their parents, and the failed tool as an error', async () => {
  await runTracedTurn({ exporter: new ZipkinExporter({ url: `${url}/api/v2/spans`, serviceName: 'backend-test' }) });
  const spans = await within(30_000, async () => {
    const answer = await fetch(`${url}/api/v2/traces?serviceName=backend-test`);
    const traces: readonly (readonly ZipkinSpan[])[] = JSON.parse(await answer.text());
    const all = traces.flat();
    return all.length >= turnSpans.length ? all : undefined;
  });
  // It shows names in lower case.
  const expected = turnSpans.map((line) => line.toLowerCase()).sort();
  expect(withParents(spans.map((span) => ({ ...span, parentId: span.parentId })))).toEqual(expected);
  const failed = spans.filter(({ tags }) => tags?.['error'] !== undefined);
  expect(failed.map(({ name }) => name)).toEqual(['tool[bad]']);
  expect(failed[0]?.tags).toMatchObject({ 'error.type': 'TOOL_FAILED', 'gen_ai.tool.name': 'bad' });
});
