// Makes a release: `npm run release -- 0.2.0 [--date YYYY-MM-DD] [--dry-run] [--publish]`. Sets the version, dates the entries under
// "Unreleased" in the changelog, runs the checks, packs, commits and tags. Publishes only with --publish, and last; --dry-run only says
// what it would do. Where a step before the tag fails, the files are again as they were.
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { date: { type: 'string' }, 'dry-run': { type: 'boolean' }, publish: { type: 'boolean' } },
});
const [version = ''] = positionals;
const date = values.date ?? new Date().toISOString().slice(0, 10);
const tag = `v${version}`;
const tarball = `millrace-${version}.tgz`;
const stop = (message) => {
  console.error(message);
  process.exit(1);
};
const run = (command, ...args) => {
  console.log(`$ ${[command, ...args].join(' ')}`);
  if (!values['dry-run']) execFileSync(command, args, { stdio: 'inherit' });
};
const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).trim();
/** The package that makes projects, and those that it makes: they name the version too. */
const projects = git('ls-files', 'create-millrace/package.json', 'examples/quick-starts/*/package.json')
  .split('\n')
  .filter(Boolean);
const edited = ['package.json', 'package-lock.json', 'CHANGELOG.md', 'src/version.ts', ...projects];
const published = [
  tarball,
  ...projects.filter((file) => file.startsWith('create-')).map((file) => `./${dirname(file)}`),
];

if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) stop('Usage: npm run release -- VERSION, e.g. 0.2.0');
if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) stop(`--date must be YYYY-MM-DD, got ${date}`);
const changelog = readFileSync('CHANGELOG.md', 'utf8');
if (changelog.includes(`\n## ${version} `)) stop(`CHANGELOG.md has a section for ${version} already`);
const [, entries] = /\n## Unreleased\n([\s\S]*?)(?=\n## |$)/.exec(changelog) ?? [];
if (!entries?.trim()) stop('CHANGELOG.md has no entries under "## Unreleased"');
if (git('tag', '--list', tag)) stop(`The tag ${tag} exists already`);
const changes = git('status', '--porcelain');
if (changes && !values['dry-run']) stop(`Commit or remove what is changed first:\n${changes}`);
const head = git('rev-parse', 'HEAD');

try {
  run('npm', 'version', version, '--no-git-tag-version');
  console.log(`CHANGELOG.md: ## ${version} - ${date}`);
  if (!values['dry-run']) {
    const dated = changelog.replace('\n## Unreleased\n', () => `\n## Unreleased\n\n## ${version} - ${date}\n`);
    writeFileSync('CHANGELOG.md', dated);
    const source = readFileSync('src/version.ts', 'utf8');
    writeFileSync(
      'src/version.ts',
      source.replace(/'[^']*';$/m, () => `'${version}';`),
    );
    for (const file of projects) {
      const named = readFileSync(file, 'utf8').replace(/(?<="version": ")[^"]*/, version);
      writeFileSync(file, named.replace(/(?<="millrace": ")[^"]*/, `^${version}`));
    }
  }
  run('npm', 'test');
  run('npm', 'run', 'check');
  run('npm', 'run', 'check:tarball');
  // A caller who turns scripts off would pack what was built before.
  run('npm', 'pack', '--ignore-scripts=false');
  run('git', 'commit', '--quiet', '--message', `release: ${version}`, '--', ...edited);
  run('git', 'tag', tag);
} catch (error) {
  git('reset', '--quiet', '--soft', head);
  git('checkout', '--quiet', head, '--', ...edited);
  rmSync(tarball, { force: true });
  stop(`Not released, nothing is changed: ${error.message}`);
}
const commands = published.map((path) => `npm publish ${path}`);
if (!values.publish) {
  console.log(`Not published. Push the commit and ${tag}, and run: ${commands.join(' && ')}`);
} else {
  for (const [index, path] of published.entries()) {
    try {
      run('npm', 'publish', path);
    } catch (error) {
      const left = commands.slice(index).join(' && ');
      stop(`Committed and tagged ${tag}, but not published: ${error.message}. Run again: ${left}`);
    }
  }
  console.log(`Published. Push the commit and ${tag}.`);
}
