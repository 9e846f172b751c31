import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { testLimitMs } from '../eventually.ts';
import { installPacked } from '../packed-package.ts';

/** Only what `npm install millrace rxjs @opentelemetry/api@1.9` brings: no optional package. */
const project = temporaryFolder({});
let installed = '';
beforeAll(async () => {
  installed = await installPacked(project.path, ['rxjs', '@opentelemetry/api', 'ajv', 'p-limit']);
});
afterAll(() => project.remove());

function ran(code: string): unknown {
  writeFileSync(join(project.path, 'main.mjs'), code);
  const { stdout, stderr } = spawnSync(process.execPath, ['main.mjs'], { cwd: project.path, encoding: 'utf8' });
  expect(stderr).toBe('');
  return JSON.parse(stdout);
}

const missing = (names: string, install = names) => ({
  code: 'MISSING_PACKAGE',
  message: expect.stringMatching(new RegExp(`^The package "${names}" cannot be loaded.*run \`npm install ${install}`)),
});

it('the entry for A2A is imported without its packages, and names what to install', () => {
  const said = ran(`
    import { agent, InMemoryStateStore } from 'millrace';
    import { LmdbStateStore } from 'millrace/lmdb';
    import { a2aRequestHandler, a2aServer, remoteAgent } from 'millrace/a2a';
    import { demoLLM } from 'millrace/testing';
    const served = agent({ id: 'a', provider: demoLLM(), taskStateStore: new InMemoryStateStore() });
    const url = 'http://127.0.0.1:1';
    const tries = [
      () => a2aServer({ agent: served, auth: 'none' }),
      () => remoteAgent({ url, id: 'b' }),
      () => a2aRequestHandler({ agent: served, scopeOf: () => 'x', card: () => ({}) }),
      () => new LmdbStateStore({ path: 'turns' }),
    ];
    const said = [];
    for (const each of tries)
      said.push(await Promise.resolve().then(each).then(() => 'no error', ({ code, message }) => ({ code, message })));
    console.log(JSON.stringify(said));
  `);
  const [server, remote, handler] = [
    missing('@a2a-js/sdk', '@a2a-js/sdk express'),
    missing('@a2a-js/sdk'),
    missing('@a2a-js/sdk'),
  ];
  expect(said).toEqual([server, remote, handler, missing('lmdb')]);
});

it('millrace serve names what to install', () => {
  const agent = join(project.path, 'agent.mjs');
  writeFileSync(
    agent,
    "import { agent } from 'millrace'; import { demoLLM } from 'millrace/testing'; export default agent({ id: 'a', provider: demoLLM() });",
  );
  const args = [join(installed, 'dist/cli/main.js'), 'serve', '--agent', agent, '--port', '0', '--store', 'memory'];
  const { status, stderr } = spawnSync(process.execPath, args, {
    cwd: project.path,
    encoding: 'utf8',
    timeout: testLimitMs,
  });
  expect(stderr).toMatch(/The package "@a2a-js\/sdk" cannot be loaded.*run `npm install @a2a-js\/sdk express`/);
  expect(stderr).not.toMatch(/chunk/);
  expect(status).toBeGreaterThan(0);
});

it('millrace serve names the missing package of the model at its start', () => {
  const agent = join(project.path, 'litellm-agent.mjs');
  writeFileSync(
    agent,
    `import { agent, circuitBreaker } from 'millrace';
     import { LiteLLMProvider } from 'millrace/litellm';
     const provider = new LiteLLMProvider({ baseUrl: 'http://127.0.0.1:1/v1', model: 'demo' });
     export default agent({ id: 'a', provider: circuitBreaker()(provider) });`,
  );
  const args = [join(installed, 'dist/cli/main.js'), 'serve', '--agent', agent, '--port', '0', '--store', 'memory'];
  const { status, stderr } = spawnSync(process.execPath, args, {
    cwd: project.path,
    encoding: 'utf8',
    timeout: testLimitMs,
  });
  expect([status, stderr]).toEqual([expect.any(Number), expect.stringMatching(/run `npm install openai`/)]);
});
