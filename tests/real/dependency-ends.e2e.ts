import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { installPacked, pack } from '../packed-package.ts';
import { describeReal } from './real-part.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const folder = temporaryFolder({});
const modules = join(folder.path, 'node_modules');

afterAll(() => folder.remove());

function link(name: string, from: string): void {
  const path = join(modules, name);
  rmSync(path, { recursive: true, force: true });
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(join(from, 'node_modules', name), path);
}

const jsonSchema =
  "declare module 'json-schema' { export interface JSONSchema7 {} export type JSONSchema7Definition = JSONSchema7 | boolean; }";

describeReal(['ai-sdk-7'], 'declarations, without skipLibCheck', () => {
  beforeAll(async () => {
    await installPacked(folder.path);
    rmSync(join(modules, '@ai-sdk'), { recursive: true, force: true });
    // The declarations of @ai-sdk/provider import it, and bring none.
    writeFileSync(join(folder.path, 'json-schema.d.ts'), jsonSchema);
  });

  /** What the compiler says of a program that uses every entry, and of one that gives a vendor's model. */
  async function said(source: string): Promise<string> {
    writeFileSync(join(folder.path, 'program.ts'), source);
    const options = ['--strict', '--noEmit', '--target', 'es2023', '--module', 'nodenext', '--types', 'node'];
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const compiled = run(process.execPath, [tsc, ...options, 'program.ts', 'json-schema.d.ts'], { cwd: folder.path });
    return compiled.then(
      () => '',
      ({ stdout }: { readonly stdout: string }) => stdout,
    );
  }

  const ofVendor = `
    import { anthropic } from '@ai-sdk/anthropic';
    import type { LanguageModelV3 } from '@ai-sdk/provider';
    import { AISDKProvider } from 'millrace/ai-sdk';
    export const provider = new AISDKProvider({ model: anthropic('claude-x'), modelFor: anthropic });
    export const ofInterface = (model: LanguageModelV3) => new AISDKProvider({ model });
  `;

  it.each([
    ['3', root],
    ['4', join(root, 'tests/ai-sdk-7')],
  ])('P-18 compile with @ai-sdk/provider %s, whose models they accept', async (version, from) => {
    link('@ai-sdk/provider', from);
    link('@ai-sdk/anthropic', from);
    const source = version === '3' ? ofVendor : ofVendor.replaceAll('LanguageModelV3', 'LanguageModelV4');
    expect(await said(source)).toBe('');
  });

  it('P-18 compile without @ai-sdk/provider, and name no package of the AI SDK', async () => {
    rmSync(join(modules, '@ai-sdk'), { recursive: true, force: true });
    expect(
      await said(`
        import { type AISDKModel, AISDKProvider } from 'millrace/ai-sdk';
        export const provider = (model: AISDKModel) => new AISDKProvider({ model });
        // @ts-expect-error: a model of an interface that is not known
        export const of = (model: AISDKModel) => new AISDKProvider({ model: { ...model, specificationVersion: 'v2' } });
      `),
    ).toBe('');
    const declarations = join(modules, 'millrace/dist/providers/ai-sdk');
    const files = readdirSync(declarations).filter((file) => file.endsWith('.d.ts'));
    expect(files.length).toBeGreaterThan(4);
    const grep = ['-l', "from '@ai-sdk/", ...files.map((file) => join(declarations, file))];
    expect(() => execFileSync('grep', grep)).toThrow(expect.objectContaining({ status: 1 }));
  });
});

describe('the API of OpenTelemetry', () => {
  const traced = `
    import { AgentLoop } from 'millrace';
    import { startTracing } from 'millrace/otel';
    import { scriptedLLM } from 'millrace/testing';
    import { InMemorySpanExporter } from '@opentelemetry/sdk-trace-node';
    const exporter = new InMemorySpanExporter();
    const kept = [];
    const tracing = startTracing({ exporter: { export: (spans, done) => { kept.push(...spans); exporter.export(spans, done); }, shutdown: async () => {} } });
    await new AgentLoop({ agentId: 'a', llmProvider: scriptedLLM([{ text: 'ok' }]) }).startTurn([{ role: 'user', content: 'Hi' }]).result();
    await tracing.shutdown();
    console.log(JSON.stringify(kept.map(({ name }) => name).sort()));
  `;
  const packages = ['core', 'exporter-trace-otlp-proto', 'resources', 'sdk-trace-node'];

  // The SDK declares that it needs an API before 1.10.0, which npm overrides on request only.
  it.each([
    ['1.9.1', []],
    ['1.10.0', ['--force']],
  ] as const)('P-18 %s: one copy is installed, and spans are recorded', async (version, forced) => {
    const project = temporaryFolder({});
    writeFileSync(join(project.path, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
    writeFileSync(join(project.path, 'traced.js'), traced);
    const own = (await import('../../package.json', { with: { type: 'json' } })).default.devDependencies;
    const sdk = packages.map((name) => `@opentelemetry/${name}`);
    const exact = Object.entries(own).flatMap(([name, is]) => (sdk.includes(name) ? [`${name}@${is}`] : []));
    const flags = ['--no-audit', '--no-fund', '--silent', '--ignore-scripts'];
    const wanted = [await pack(project.path), `@opentelemetry/api@${version}`, ...exact];
    await run('npm', ['install', ...flags, ...forced, ...wanted], { cwd: project.path });
    const installed = readdirSync(join(project.path, 'node_modules'), { recursive: true, encoding: 'utf8' });
    const copies = installed.filter((path) => /(^|\/)@opentelemetry\/api$/.test(path));
    const { stdout } = await run(process.execPath, ['traced.js'], { cwd: project.path });
    const manifest = join(project.path, 'node_modules/@opentelemetry/api/package.json');
    const { version: found } = JSON.parse(readFileSync(manifest, 'utf8'));
    project.remove();
    expect(copies).toEqual(['@opentelemetry/api']);
    expect(found).toBe(version);
    expect(JSON.parse(stdout)).toEqual(['agent.execute', 'iteration[1]', 'llm.call']);
  });
});
