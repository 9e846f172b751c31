import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder({});
});
afterEach(() => folder.remove());

function create(...args: readonly string[]) {
  const program = resolve('create-millrace/index.js');
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    cwd: folder.path,
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

const text = (path: string) => readFileSync(join(folder.path, path), 'utf8');

it('makes a plain Node.js project of its own name, and prints the next commands', () => {
  const { status, stdout } = create('My Agent');
  expect(status).toBe(0);
  expect(stdout).toMatch(/^Created My Agent\. Next:\n\n {2}cd "My Agent"\n {2}npm install\n {2}npm run dev /);
  const { name, scripts, dependencies } = JSON.parse(text('My Agent/package.json'));
  expect(name).toBe('my-agent');
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(['dev', 'test', 'chat']));
  expect(Object.keys(dependencies)).not.toContain('hono');
  expect(text('My Agent/.gitignore')).toContain('.millrace/\n');
  const source = resolve('examples/quick-starts/node/agent.ts');
  expect(text('My Agent/agent.ts')).toBe(readFileSync(source, 'utf8'));
});

it('makes one behind a framework, in an empty folder that is there', () => {
  mkdirSync(join(folder.path, 'here'));
  expect(create('here', '--framework', 'hono').status).toBe(0);
  expect(text('here/server.ts')).toContain("from 'hono'");
});

it('refuses a folder that is not empty, and changes nothing there', () => {
  writeFileSync(join(folder.path, 'mine.txt'), 'mine');
  const { status, stderr } = create('.');
  expect([status, stderr]).toEqual([1, '. is not empty; name a folder that is new or empty.\n']);
  expect(readdirSync(folder.path)).toEqual(['mine.txt']);
  const file = create('mine.txt');
  expect([file.status, file.stderr]).toEqual([1, 'mine.txt is a file; name a folder that is new or empty.\n']);
});

it.each([
  [[], /^Usage: npm create millrace FOLDER \[-- --framework bun\|deno\|express\|/],
  [['one', 'two'], /^Usage: /],
  [['one', '--framework', 'rails'], /^There is no template for "rails"; --framework accepts bun, deno, express, /],
  [['one', '--framework', '../../scripts'], /^There is no template for /],
  [['one', '--what'], /^Unknown option '--what'.*\nUsage: /],
])('refuses %j in words, and makes nothing', (args, sentence) => {
  const { status, stderr } = create(...args);
  expect([status, stderr]).toEqual([1, expect.stringMatching(sentence)]);
  expect(existsSync(join(folder.path, 'one'))).toBe(false);
});
