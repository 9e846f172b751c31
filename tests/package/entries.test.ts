import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The source files that a module of the build was made of. */
function sourcesOf(module: string): readonly string[] {
  // One that was made of other packages alone has none.
  if (!existsSync(`${module}.map`)) return [];
  const { sources }: { readonly sources: readonly string[] } = JSON.parse(readFileSync(`${module}.map`, 'utf8'));
  return sources.map((source) => relative(root, join(dirname(module), source)));
}

/** What a program prints, as JSON. It runs in the checkout, where the package knows itself by its name. */
async function printedBy<T>(program: string): Promise<T> {
  const args = ['--enable-source-maps', '--no-warnings', '--input-type=module', '--eval', program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  return JSON.parse(stdout);
}

/** The modules of the build that an import loads. */
function loadedBy(entry: string): Promise<readonly string[]> {
  return printedBy(`
    import { Session } from 'node:inspector';
    const session = new Session();
    const loaded = [];
    session.connect();
    session.on('Debugger.scriptParsed', ({ params }) => loaded.push(params.url));
    session.post('Debugger.enable');
    await import('${entry}');
    const own = loaded.filter((url) => url.startsWith('${new URL('../../dist/', import.meta.url).href}'));
    console.log(JSON.stringify(own.map((url) => decodeURIComponent(new URL(url).pathname))));
  `);
}

describe('the entries of the build', () => {
  it('W-20 the root loads at most 30 files, none of a durable store, the command or a protocol', async () => {
    const loaded = await loadedBy('millrace');
    expect(loaded).toContain(join(root, 'dist/index.js'));
    expect(loaded.length).toBeLessThanOrEqual(30);
    const sources = loaded.flatMap(sourcesOf);
    expect(sources).toContain('src/tasks/agent-loop.ts');
    // A folder of stores with an entry of its own has an index.ts.
    const isEntry = (file: string) => {
      const [folder] = /^src\/stores\/\w+(?=\/)/.exec(file) ?? [];
      return folder !== undefined && existsSync(join(root, folder, 'index.ts'));
    };
    expect(sources.filter((file) => /^src\/(a2a|cli|mcp|testing)\//.test(file) || isEntry(file))).toEqual([]);
  });

  it('W-21 no source file is in two modules, so that a class is one in all entries', () => {
    const modules = readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.js'))
      .map((file) => join(root, 'dist', file));
    const sources = modules.flatMap(sourcesOf).filter((file) => file.startsWith('src/'));
    expect(sources).toContain('src/core/contracts/errors.ts');
    expect(sources.filter((file, at) => sources.indexOf(file) < at)).toEqual([]);
  });

  it('W-21 errors and turns of all entries are of the classes of the root and of rxjs', async () => {
    const found = await printedBy<Readonly<Record<string, boolean>>>(`
      import { Observable } from 'rxjs';
      import { AgentLoop, AgentLoopError } from 'millrace';
      import { a2aRequestHandler } from 'millrace/a2a';
      import { createProvider } from 'millrace/ai-sdk';
      import { LiteLLMProvider } from 'millrace/litellm';
      import { LmdbStateStore } from 'millrace/lmdb';
      import { mcpTools } from 'millrace/mcp';
      import { operatorTurn } from 'millrace/operators';
      import { startTracing } from 'millrace/otel';
      import { PostgresStateStore } from 'millrace/postgres';
      import { RedisStateStore } from 'millrace/redis';
      import { S3ArtifactStore } from 'millrace/s3';
      import { scriptedLLM } from 'millrace/testing';
      import { createRequire } from 'node:module';
      const found = {};
      const refused = async (entry, action) => {
        found[entry] = await Promise.resolve().then(action).then(() => false, (error) => error instanceof AgentLoopError);
      };
      await refused('root', () => new AgentLoop({}));
      await refused('a2a', () => a2aRequestHandler({}));
      await refused('ai-sdk', () => createProvider('x'));
      await refused('litellm', () => new LiteLLMProvider({}));
      await refused('lmdb', () => new LmdbStateStore({ path: '' }));
      await refused('mcp', () => mcpTools({}));
      await refused('otel', () => startTracing({ endpoint: 'x' }));
      await refused('postgres', () => new PostgresStateStore({ postgres: 'redis://127.0.0.1:1' }));
      await refused('redis', () => new RedisStateStore({ redis: 'redis://127.0.0.1:1', ttl: 0 }));
      await refused('s3', () => new S3ArtifactStore({}));
      const turn = new AgentLoop({ agentId: 'a', llmProvider: scriptedLLM([{ text: 'Hi.' }]) }).startTurn([{ role: 'user', content: 'Hi.' }]);
      found.turn = turn instanceof Observable;
      await turn.result();
      found.operators = typeof operatorTurn === 'function';
      const provider = new LiteLLMProvider({ baseUrl: 'http://127.0.0.1:1', model: 'm' });
      found.stream = provider.stream({ messages: [] }) instanceof Observable;
      const required = createRequire(import.meta.url)('millrace');
      found.required = required.AgentLoopError === AgentLoopError;
      console.log(JSON.stringify(found));
    `);
    expect(Object.keys(found)).toHaveLength(14);
    expect(Object.entries(found).filter(([, isSame]) => !isSame)).toEqual([]);
  });

  it('W-21 with source maps the stack of a configuration error starts in src/core', async () => {
    const top = await printedBy<string>(`
      import { AgentLoop } from 'millrace';
      try {
        new AgentLoop({});
      } catch (error) {
        console.log(JSON.stringify(error.stack.split('\\n    at ')[1]));
      }
    `);
    expect(top).toMatch(/src\/core\/[a-z-]+\/[a-z-]+\.ts:\d+:\d+\)$/);
  });

  it('each exported class of an entry has the name that it is exported by', async () => {
    const { exports }: { readonly exports: Readonly<Record<string, unknown>> } = JSON.parse(
      readFileSync(join(root, 'package.json'), 'utf8'),
    );
    const entries = Object.keys(exports).filter((path) => !path.endsWith('.json'));
    const names = await printedBy<readonly (readonly [entry: string, exported: string, own: string])[]>(`
      const found = [];
      for (const path of ${JSON.stringify(entries)}) {
        for (const [name, value] of Object.entries(await import('millrace' + path.slice(1))))
          if (typeof value === 'function' && /^class\\b/.test(String(value))) found.push([path, name, value.name]);
      }
      console.log(JSON.stringify(found));
    `);
    expect(names.length).toBeGreaterThan(20);
    expect(names.filter(([, exported, own]) => exported !== own)).toEqual([]);
  });

  it('the factory of stores makes the classes of the entries', async () => {
    const made = await printedBy<readonly boolean[]>(`
      import { StoreFactory } from 'millrace';
      const redis = StoreFactory.createStateStore({ type: 'redis', redis: 'redis://127.0.0.1:1' });
      const { RedisStateStore } = await import('millrace/redis');
      const { LmdbStateStore } = await import('millrace/lmdb');
      let thrown;
      try {
        StoreFactory.createStateStore({ type: 'lmdb', path: '' });
      } catch (error) {
        thrown = error;
      }
      console.log(JSON.stringify([redis instanceof RedisStateStore, typeof LmdbStateStore, thrown?.code]));
    `);
    expect(made).toEqual([true, 'function', 'INVALID_CONFIG']);
  });
});
