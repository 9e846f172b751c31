import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { describeReal } from './real-part.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = temporaryFolder({});
const installed = join(folder.path, 'node_modules', 'millrace');

/** The package as `npm install` of its tarball leaves it, in a project that has what the checkout has besides. */
beforeAll(() => {
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder.path];
  const [{ filename }] = JSON.parse(
    execFileSync('npm', pack, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
  );
  const modules = join(folder.path, 'node_modules');
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['-xzf', join(folder.path, filename), '-C', installed, '--strip-components=1']);
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (!name.startsWith('.') || name === '.bin') symlinkSync(join(root, 'node_modules', name), join(modules, name));
  }
  execFileSync('cp', ['-r', join(installed, 'examples'), join(folder.path, 'examples')]);
});
afterAll(() => folder.remove());

function run(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, { cwd: folder.path, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** An agent with tools of its own, and its turns and its team, are accepted where no tools are known. */
const assignments = `
import { type Agent, agent, agentTools, type LLMProvider, type Team, team, tool, type Turn } from 'millrace';
declare const provider: LLMProvider;
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const;
const weather = tool({ name: 'weather', description: 'Weather.', parameters, execute: () => 'sun' });
const typed = agent({ name: 'typed', provider, tools: [weather] });
const plain = agent({ name: 'plain', provider });
const crew = team({ id: 'crew', agents: [typed, plain], handOff: true });
export const agents: readonly Agent[] = [typed, plain, crew.asAgent()];
export const turns: readonly Turn[] = [typed.startTurn('Hello'), plain.startTurn('Hello')];
export const teams: readonly Team[] = [crew];
agentTools([typed, plain]);
typed.on('internal:tool-start', (event) => event.toolName === 'weather' && event.arguments);
`;

/** What a compiler says of all declarations, and of these assignments, where only the needed packages are installed. */
function compiled(tsc: string): string {
  const bare = temporaryFolder({});
  const modules = join(bare.path, 'node_modules');
  mkdirSync(modules);
  execFileSync('cp', ['-r', installed, join(modules, 'millrace')]);
  const { dependencies, peerDependencies, peerDependenciesMeta, exports } = JSON.parse(
    readFileSync(join(installed, 'package.json'), 'utf8'),
  );
  const needed = Object.keys({ ...dependencies, ...peerDependencies }).filter((name) => !peerDependenciesMeta[name]);
  for (const name of [...needed, '@types/node']) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(root, 'node_modules', name), join(modules, name));
  }
  const entries = Object.entries<{ readonly types?: string }>(exports).filter(([, { types }]) => types);
  expect(entries.length).toBeGreaterThan(10);
  const imports = entries.map(([name], at) => `export * as e${at} from 'millrace${name.slice(1)}';`);
  writeFileSync(join(bare.path, 'all.ts'), imports.join('\n') + assignments);
  writeFileSync(join(bare.path, 'package.json'), '{ "type": "module" }');
  const options = ['--strict', '--noEmit', '--target', 'es2022', '--module', 'nodenext', '--types', 'node'];
  const args = [join(root, tsc), ...options, 'all.ts'];
  const { stdout } = spawnSync(process.execPath, args, { cwd: bare.path, encoding: 'utf8' });
  bare.remove();
  return stdout;
}

describeReal(['vendors'], 'the package', () => {
  it.each(['5.4', '5.9'])('has declarations that compile with TypeScript %s', (version) => {
    expect(compiled(`tests/vendors/node_modules/typescript-${version}/bin/tsc`)).toBe('');
  });
});

describe('the package', () => {
  it('H-42 has every file that its examples name: imports, and links of their page', () => {
    const files = readdirSync(join(installed, 'examples'), { recursive: true, encoding: 'utf8' });
    const named = files
      .filter((file) => /\.(ts|mjs|md)$/.test(file))
      .flatMap((file) => {
        const text = readFileSync(join(installed, 'examples', file), 'utf8');
        const found = text.matchAll(/(?:from |import\(?)['"](\.{1,2}\/[^'"]+)['"]|\]\(([^):#]+)/g);
        return [...found].map(([, imported, linked = '']) => join(dirname(file), imported ?? linked));
      });
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((path) => !existsSync(join(installed, 'examples', path)))).toEqual([]);
  });

  it('H-42 has every file that its scripts, its command and its entries name', () => {
    const { exports, bin } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
    const entries = Object.values<string | Record<string, string>>(exports).flatMap((entry) =>
      typeof entry === 'string' ? [entry] : Object.values(entry),
    );
    expect([...entries, ...Object.values<string>(bin)].filter((path) => !existsSync(join(installed, path)))).toEqual(
      [],
    );
  });

  it('brings a source map for each module, with all sources in it but those of other packages', () => {
    const files = readdirSync(join(installed, 'dist'), { recursive: true, encoding: 'utf8' });
    const modules = files.filter((file) => file.endsWith('.js'));
    expect(modules.length).toBeGreaterThan(20);
    const unmapped = modules.filter((module) => !files.includes(`${module}.map`));
    const codeOf = (module: string) => readFileSync(join(installed, 'dist', module), 'utf8');
    for (const module of unmapped) expect(codeOf(module)).not.toContain('\n//# sourceMappingURL');
    // A module that only exports what others have is of no source.
    const ownCode = (module: string) =>
      codeOf(module)
        .replaceAll(/^(?:import|export) (?:\{[^}]*\}(?: from)?)? ?(?:"[^"]*")?;?$/gm, '')
        .trim();
    const written = unmapped.filter((module) => ownCode(module) !== '').sort();
    // What esbuild adds to old modules, and a package that the command brings.
    expect(written).toEqual([expect.stringMatching(/^chunks\/chunk-/), expect.stringMatching(/^chunks\/openai-/)]);
    for (const module of modules.filter((name) => !unmapped.includes(name))) {
      const { sources, sourcesContent }: { readonly sources: readonly string[]; readonly sourcesContent: unknown[] } =
        JSON.parse(readFileSync(join(installed, 'dist', `${module}.map`), 'utf8'));
      const isOwn = sources.map((source) => !source.includes('/node_modules/'));
      expect(isOwn.includes(true)).toBe(true);
      expect(sourcesContent).toEqual(isOwn.map((own) => (own ? expect.any(String) : null)));
    }
  });

  it('brings at most 650 files, each declaration with all that it imports', () => {
    const entries = readdirSync(installed, { recursive: true, withFileTypes: true });
    const files = entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => relative(installed, join(parentPath, name)));
    expect(files.length).toBeLessThanOrEqual(650);
    const declarations = files.filter((file) => file.endsWith('.d.ts'));
    const missing = declarations.flatMap((file) => {
      const text = readFileSync(join(installed, file), 'utf8');
      const imported = [...text.matchAll(/from '(\.{1,2}\/[^']+)\.ts'/g)];
      return imported.map(([, path]) => join(dirname(file), `${path}.d.ts`)).filter((path) => !files.includes(path));
    });
    expect(declarations.length).toBeGreaterThan(100);
    expect(missing).toEqual([]);
  });

  it('has declarations that compile where they are checked, and no optional package is installed', () => {
    expect(compiled('node_modules/typescript/bin/tsc')).toBe('');
  });

  it('runs no script where it is installed', () => {
    const { scripts } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
    // npm 11 lists `prepare` of a tarball among the scripts to be approved; `postprepare` runs in a checkout only.
    expect(['preinstall', 'install', 'postinstall', 'prepare'].filter((name) => name in scripts)).toEqual([]);
    expect(scripts).toMatchObject({ postprepare: 'npm run build', prepack: 'npm run build' });
  });

  it('H-42 brings every example, each of which runs as a copy and prints what it shows', () => {
    const sources = readdirSync(join(installed, 'examples')).filter((file) => file.endsWith('.ts'));
    const names = sources.map((file) => file.replace(/\.ts$/, ''));
    expect(names).toEqual(expect.arrayContaining(['smallest', 'durable', 'a2a', 'mcp', 'command-line', 'tracing']));
    const { stdout } = spawnSync(process.execPath, ['examples/run.mjs'], { cwd: folder.path, encoding: 'utf8' });
    // What is not ok is told with why.
    expect(stdout.trim().split(/\n(?=ok|not ok)/)).toEqual(names.map((name) => `ok      ${name}`));
  }, 600_000);

  it('runs one example on its terminal', () => {
    expect(run(process.execPath, 'examples/run.mjs', 'smallest')).toMatch(/I am a stand-in for a model/);
  });

  it('H-42 serves the chat page, with the tools of the examples', async () => {
    const main = join(installed, 'dist', 'cli', 'main.js');
    const { PATH = '' } = process.env;
    const args = ['serve', '--port', '0', '--store', 'memory', '--tools', 'examples/served-tools.mjs'];
    const server = spawn(process.execPath, [main, ...args], { cwd: folder.path, env: { PATH } });
    let said = '';
    const ended = new Promise((resolve) => server.on('close', resolve));
    const listens = new Promise<void>((resolve) => {
      server.stdout.on('data', (chunk) => {
        said += chunk;
        if (said.includes('Ctrl-C stops it')) resolve();
      });
    });
    await Promise.race([listens, ended]);
    const [, url = ''] = /page {2}(http:\/\/127\.0\.0\.1:\d+\/chat)/.exec(said) ?? [];
    const html = await (await fetch(url)).text();
    const [, script = ''] = /src="([^"]+)"/.exec(html) ?? [];
    const { headers } = await fetch(new URL(script, url));
    server.kill('SIGTERM');
    await ended;
    expect(html).toContain('<title>Millrace</title>');
    expect(headers.get('content-type')).toContain('text/javascript');
  });
});
