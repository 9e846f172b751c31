import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = mkdtempSync(join(tmpdir(), 'millrace-command-'));
const tools = join(folder, 'tools.mjs');
writeFileSync(
  tools,
  `export default [{
  name: 'roll_dice',
  description: 'Rolls dice.',
  parameters: { type: 'object', properties: { count: { type: 'integer', minimum: 1 } }, required: ['count'] },
  needsApproval: true,
  execute: () => [6, 6],
}];`,
);

// In a shell this is `npx millrace`. Without the address of a model the stand-in answers.
const command = fileURLToPath(new URL('./dist/cli/main.js', import.meta.resolve('millrace/package.json')));
const isOfModel = (name: string) => name.startsWith('OPENAI_') || name.startsWith('LITELLM_');
const ownEnv = Object.fromEntries(Object.entries(process.env).filter(([name]) => !isOfModel(name)));
const env = { ...ownEnv, MILLRACE_STORE: `lmdb:${folder}` };

/** Runs the command, and shows what a terminal would. */
function millrace(...args: readonly string[]): void {
  const shown = args.map((arg) => (/[ {]/.test(arg) ? `'${arg}'` : arg)).join(' ');
  const { stdout, stderr, status } = spawnSync(process.execPath, [command, ...args], { encoding: 'utf8', env });
  const output = `${stderr}${stdout}`.trim();
  console.log(`$ millrace ${shown}\n${output}\n[exit code ${status}]\n`.replaceAll(folder, 'FOLDER'));
}

millrace('run', 'Please roll 2 dice.', '--task', 'dice', '--tools', tools);
millrace('resume', 'dice', '--tools', tools, '--answer', '1:0={"approved":true}');
millrace('show', 'dice');
millrace('replay', 'dice', '--tools', tools);
rmSync(folder, { recursive: true });
