import { describe, expect, it } from '@jest/globals';
import { build } from 'esbuild';

describe('agents and teams', () => {
  it('S4-56 bring no transport, no user interface and no storage but memory', async () => {
    const { metafile } = await build({
      entryPoints: ['src/agent/agent.ts', 'src/agent/team.ts', 'src/agent/agent-tools.ts'],
      bundle: true,
      format: 'esm',
      outdir: 'unused',
      metafile: true,
      packages: 'external',
      platform: 'node',
      write: false,
    });
    const files = Object.keys(metafile.inputs);
    const modules = Object.values(metafile.inputs).flatMap(({ imports }) => imports);
    expect(files).toEqual(expect.arrayContaining(['src/agent/agent.ts', 'src/tasks/agent-loop.ts']));
    const outside =
      /^src\/(a2a|cli|worker|testing|observability\/tracing|stores\/(redis|lmdb)|providers\/(litellm|openai))/;
    expect(files.filter((file) => outside.test(file))).toEqual([]);
    const packages = modules.filter(({ external, kind }) => external && kind === 'import-statement');
    const allowed = ['rxjs', '@opentelemetry/api', 'p-limit', 'node:crypto', 'node:util'];
    expect([...new Set(packages.map(({ path }) => path))].filter((path) => !allowed.includes(path))).toEqual([]);
  });
});
