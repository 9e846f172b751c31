import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { realPart } from './real-part.ts';

const run = promisify(execFile);
const { bin = '' } = realPart('mcp-conformance');
export const revisions = ['2026-07-28', '2025-11-25'] as const;

interface Scenario {
  readonly revision: string;
  readonly name: string;
}

/** The scenarios that a list of a YAML file names: below `client:`, a line each. */
function scenariosIn(file: string): readonly string[] {
  const [, list = ''] = /^client:\n((?:[ ]+.*\n|\n|#.*\n)*)/m.exec(readFileSync(file, 'utf8')) ?? [];
  return [...list.matchAll(/^ +- ([\w/-]+)/gm)].map(([, name = '']) => name);
}

/** Scenarios that are not passed, with the reasons in the file. */
export const clientBaseline = scenariosIn('tests/conformance/client-baseline.yml');

/** All scenarios that the revisions require of a client. None where the suite is missing. */
export const requiredOfClients: readonly Scenario[] =
  bin === ''
    ? []
    : revisions.flatMap((revision) =>
        scenariosIn(join(dirname(bin), '../requirements', `${revision}.yaml`)).map((name) => ({ revision, name })),
      );

/** What the suite writes about the server at an address. Ends with a line about failures that the file does not expect. */
export function saidOfServer(url: string, what: readonly string[]): Promise<string> {
  return said(['server', '--url', url, ...what]);
}

/** What the suite writes about a client, a file that Node runs. */
export function saidOfClient(client: string, { revision, name }: Scenario): Promise<string> {
  const command = `${process.execPath} ${client}`;
  return said(['client', '--command', command, '--scenario', name, '--spec-version', revision, '--verbose']);
}

async function said(suite: readonly string[]): Promise<string> {
  return run('npx', ['-y', '-p', 'node@22', 'node', bin, ...suite], { maxBuffer: 64 * 1_048_576 }).then(
    ({ stdout, stderr }) => stdout + stderr,
    (error: { readonly stdout?: string; readonly stderr?: string }) => `${error.stdout}${error.stderr}`,
  );
}
