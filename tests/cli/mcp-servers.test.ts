import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { mcpServers } from 'millrace/internals';
import { mcpTools } from 'millrace/mcp';
import { thrownBy } from '../tools/thrown.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-mcp-'));

function fileOf(content: unknown): string {
  const file = join(folder, `servers-${Math.random()}.json`);
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return file;
}

/** As it stands in a file. */
function variable(name: string): string {
  return `\${${name}}`;
}

describe('--mcp', () => {
  it.each([
    ['npx -y @modelcontextprotocol/server-filesystem@2026.8.31 .', 'filesystem', ['-y', expect.anything(), '.']],
    ['uvx mcp-server-git', 'git', ['mcp-server-git']],
    ['node "./my server/index.js" \'a b\' c\\ d', 'my_server', ['./my server/index.js', 'a b', 'c d']],
    ['notes=/usr/bin/env x=1', 'notes', ['x=1']],
    ['github-mcp-server stdio', 'github', ['stdio']],
  ])('takes the command %s', (spec, name, args) => {
    expect(mcpServers([spec], {})).toEqual({ [name]: { command: expect.any(String), args, required: true } });
  });

  it.each([
    ['https://mcp.linear.app/mcp', 'linear'],
    ['http://127.0.0.1:8808/mcp', 'ip-127-0-0-1-8808'],
    ['http://[::1]:8808/mcp', 'ip-1-8808'],
    ['https://10.0.0.7/mcp', 'ip-10-0-0-7'],
    ['http://localhost:3001/mcp', 'localhost-3001'],
    ['https://api.example.co.uk/', 'example'],
    ['https://mcp.com/', 'mcp'],
    ['mine=https://example.com/a=b', 'mine'],
  ])('takes the address %s', (spec, name) => {
    const url = spec.slice(spec.indexOf('http'));
    expect(mcpServers([spec], {})).toEqual({ [name]: { url, required: true } });
  });

  it.each([
    ['node -e "require(\'x\').serve()"', 'node'],
    ['deno eval "serve()"', 'deno'],
    ['python3 -c "import x; x.serve()"', 'python3'],
    ['python -m mcp_server_time', 'time'],
    ['node --require ./setup.cjs /opt/notes/dist/index.js', 'notes'],
    ['node index.js', 'index'],
    ['uvx --from git+https://github.com/oraios/serena serve', 'serena'],
    ['docker run -i --rm -e TOKEN=sesame mcp/github:1.2', 'github'],
    ['docker run -i --rm --env TOKEN --unknown-flag A=sesame ghcr.io/acme/weather-mcp', 'weather'],
    ['pnpm dlx @acme/mcp-server-kanban@latest', 'kanban'],
    ['uv tool run --index-url https://me:sesame@h.test mcp-server-git', 'git'],
    ['./....', 'server'],
    ['npx a-package-whose-name-is-longer-than-any-should-be', 'a-package-whose-name-is-long'],
  ])('gives a short name without values: %s', (spec, name) => {
    const names = Object.keys(mcpServers([spec], {}));
    expect(names).toEqual([name]);
    expect(() => mcpTools({ servers: mcpServers([spec, spec], {}) })).not.toThrow();
  });

  it('can be given again: each server has a name of its own', () => {
    const twice = ['npx server-files /a', 'npx server-files /b', 'other=npx server-files /c'];
    expect(Object.keys(mcpServers(twice, {}))).toEqual(['files', 'files-2', 'other']);
  });

  it('takes a file of servers, with variables of the environment', async () => {
    const file = fileOf({
      mcpServers: {
        far: {
          type: 'http',
          url: 'https://far.test/mcp',
          headers: { Authorization: `Bearer ${variable('FAR_KEY')}` },
          timeoutMs: 5,
        },
        near: { command: 'near', env: { TOKEN: variable('env:FAR_KEY') }, required: false },
        off: { command: 'off', disabled: true },
      },
    });
    expect(mcpServers([file], { FAR_KEY: 'sesame' })).toEqual({
      far: { url: 'https://far.test/mcp', headers: { Authorization: 'Bearer sesame' }, timeoutMs: 5, required: true },
      near: { command: 'near', env: { TOKEN: 'sesame' }, required: false },
    });
    expect((await thrownBy(() => mcpServers([file], {}))).message).toMatch(/needs the environment variable FAR_KEY/);
  });

  it.each([
    ['  ', /--mcp is empty/],
    ['run "half', /a quote \("\) has no end/],
    ['nowhere.json', /nowhere\.json" cannot be read/],
    [fileOf('{'), /is not JSON/],
    [fileOf({ tools: [] }), /holds no servers/],
    [fileOf({ mcpServers: { old: { type: 'sse', url: 'https://a.test' } } }), /type "sse"/],
    [fileOf({ mcpServers: { a: 'npx' } }), /server "a" that is not an object/],
  ])('refuses %j', async (spec, message) => {
    const error = await thrownBy(() => mcpServers([spec], {}));
    expect(error).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) });
  });
});
