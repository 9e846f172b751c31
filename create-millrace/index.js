#!/usr/bin/env node
// npm create millrace my-agent -- --framework hono: copies a quick start into a new folder. No dependencies, no prompts.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const pathOf = (path) => fileURLToPath(new URL(path, import.meta.url));
/** The packed templates; in a checkout, the examples. */
const templates = [pathOf('templates'), pathOf('../examples/quick-starts')].find((path) => existsSync(path));
const frameworks = readdirSync(templates).sort();
const usage = `Usage: npm create millrace FOLDER [-- --framework ${frameworks.join('|')}]   (default: node)`;
/** Files that a quick start creates when it runs. */
const made = new Set(['node_modules', '.millrace', '.next', 'package-lock.json', 'next-env.d.ts']);

function stop(sentence) {
  console.error(sentence);
  process.exit(1);
}

function given() {
  const options = { framework: { type: 'string', default: 'node' }, help: { type: 'boolean', short: 'h' } };
  try {
    return parseArgs({ allowPositionals: true, options });
  } catch (error) {
    return stop(`${error.message}\n${usage}`);
  }
}

const {
  values: { framework, help },
  positionals: [folder, ...others],
} = given();
if (help) {
  console.log(usage);
  process.exit(0);
}
if (folder === undefined || others.length > 0) stop(usage);
if (!frameworks.includes(framework))
  stop(`There is no template for "${framework}"; --framework accepts ${frameworks.join(', ')}.`);
const target = resolve(folder);
if (existsSync(target) && !statSync(target).isDirectory())
  stop(`${folder} is a file; name a folder that is new or empty.`);
if (existsSync(target) && readdirSync(target).length > 0)
  stop(`${folder} is not empty; name a folder that is new or empty.`);

mkdirSync(target, { recursive: true });
cpSync(join(templates, framework), target, { recursive: true, filter: (path) => !made.has(basename(path)) });
// npm does not pack a .gitignore.
writeFileSync(join(target, '.gitignore'), 'node_modules/\n.millrace/\n.next/\nnext-env.d.ts\n');
const description = join(target, 'package.json');
const { name: _, ...rest } = JSON.parse(readFileSync(description, 'utf8'));
const name = basename(target)
  .toLowerCase()
  .replace(/[^a-z0-9]+/g, '-')
  .replace(/^-|-$/g, '');
writeFileSync(description, `${JSON.stringify({ name: name || 'my-agent', ...rest }, null, 2)}\n`);

const place = relative(process.cwd(), target);
console.log(`Created ${place === '' ? 'the project here' : place}. Next:

${place === '' ? '' : `  cd ${/^[\w./-]+$/.test(place) ? place : JSON.stringify(place)}\n`}  npm install
  npm run dev     # http://localhost:3000
  npm test        # a turn with a scripted model
  npm run chat    # the agent in the terminal`);
