// Before `npm pack`: the quick starts of the repository become templates. After it, with --remove, they go.
import { execFileSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const templates = fileURLToPath(new URL('templates', import.meta.url));
const quickStarts = fileURLToPath(new URL('../examples/quick-starts/', import.meta.url));

rmSync(templates, { recursive: true, force: true });
if (!process.argv.includes('--remove')) {
  // Without what was installed or made there.
  const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: quickStarts,
    encoding: 'utf8',
  })
    .trim()
    .split('\n');
  for (const file of tracked) cpSync(`${quickStarts}${file}`, `${templates}/${file}`);
}
