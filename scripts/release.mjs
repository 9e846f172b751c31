// Makes a release: `npm run release -- 0.2.0 [--date YYYY-MM-DD] [--dry-run] [--publish]`. Sets the version, dates the entries under
// "Unreleased" in the changelog, runs the checks and packs. Publishes only with --publish; --dry-run only says what it would do.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { date: { type: 'string' }, 'dry-run': { type: 'boolean' }, publish: { type: 'boolean' } },
});
const [version = ''] = positionals;
const date = values.date ?? new Date().toISOString().slice(0, 10);
const stop = (message) => {
  console.error(message);
  process.exit(1);
};
const run = (command, ...args) => {
  console.log(`$ ${[command, ...args].join(' ')}`);
  if (!values['dry-run']) execFileSync(command, args, { stdio: 'inherit' });
};

if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) stop('Usage: npm run release -- VERSION, e.g. 0.2.0');
if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) stop(`--date must be YYYY-MM-DD, got ${date}`);
const changelog = readFileSync('CHANGELOG.md', 'utf8');
if (changelog.includes(`\n## ${version} `)) stop(`CHANGELOG.md has a section for ${version} already`);
const [, entries] = /\n## Unreleased\n([\s\S]*?)(?=\n## |$)/.exec(changelog) ?? [];
if (!entries?.trim()) stop('CHANGELOG.md has no entries under "## Unreleased"');
const changes = execFileSync('git', ['status', '--porcelain'], { encoding: 'utf8' }).trim();
if (changes && !values['dry-run']) stop(`Commit or remove what is changed first:\n${changes}`);

run('npm', 'version', version, '--no-git-tag-version');
console.log(`CHANGELOG.md: ## ${version} - ${date}`);
if (!values['dry-run']) {
  const dated = changelog.replace('\n## Unreleased\n', () => `\n## Unreleased\n\n## ${version} - ${date}\n`);
  writeFileSync('CHANGELOG.md', dated);
}
run('npm', 'test');
run('npm', 'run', 'check');
run('npm', 'run', 'check:tarball');
run('npm', 'pack');
if (values.publish) run('npm', 'publish', `millrace-${version}.tgz`);
else console.log('Not published: commit, tag, and repeat `npm publish` by hand, or run this with --publish.');
