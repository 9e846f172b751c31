import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, expect, it } from '@jest/globals';
import { Command } from '../e2e/command.ts';
import { eventually } from '../eventually.ts';
import { describeReal, realPart } from './real-part.ts';

const client = fileURLToPath(new URL('mcp-python/client.py', import.meta.url));
const served = fileURLToPath(new URL('mcp-python/served.mjs', import.meta.url));
const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

const commands: Command[] = [];
afterEach(async () => {
  for (const { child, ended } of commands.splice(0)) {
    child.kill('SIGINT');
    await ended;
  }
});

/** What `client.py` prints. */
async function seenBy(kind: string, mode: string, target: readonly string[], LEDGER: string): Promise<unknown> {
  const { bin = 'python3' } = realPart('mcp-python');
  const { PATH, HOME } = process.env;
  const options = { env: { PATH, HOME, LEDGER, MILLRACE_STORE: 'memory' } };
  const { stdout } = await promisify(execFile)(bin, [client, kind, mode, ...target], options);
  return JSON.parse(stdout);
}

describeReal(['mcp-python'], 'millrace mcp with clients in Python', () => {
  const rows = ['mcp', 'fastmcp'].flatMap((kind) =>
    (['HTTP', 'stdio'] as const).flatMap((way) => [
      [kind, way, 'legacy', '2025-11-25'] as const,
      [kind, way, 'auto', '2026-07-28'] as const,
    ]),
  );

  it.each(rows)(
    'P-09 of %s over %s, mode "%s": tool, structured content, progress, question, error and cancel, by %s',
    async (kind, way, mode, revision) => {
      const ledger = join(mkdtempSync(join(tmpdir(), 'mcp-python-')), 'ledger');
      const target = [process.execPath, main, 'mcp', '--agent', served];
      if (way === 'HTTP') {
        const command = new Command([...target.slice(2), '--port', '0'], { env: { LEDGER: ledger } });
        commands.push(command);
        await command.shows('Ctrl-C stops it');
        target.splice(0, target.length, /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(command.shown)?.[0] ?? '');
      }
      const greeting = {
        content: [{ type: 'text', text: '{"said":"Hello."}' }],
        structuredContent: { said: 'Hello.' },
      };
      const seen = await seenBy(kind, mode, target, ledger);
      expect(seen).toMatchObject({
        revision,
        tools: [{ name: 'clerk', hasOutput: true }],
        greeting,
        approved: { structuredContent: { said: 'The tool says filed' } },
        asked: [
          { message: expect.stringContaining('file_it'), schema: { properties: { approved: { type: 'boolean' } } } },
        ],
        failed: {
          isError: true,
          content: [{ text: expect.stringMatching(/^The agent could not finish \([A-Z_]+\)\.$/) }],
        },
        after: greeting,
      });
      expect(Object(seen).progress).toEqual(expect.arrayContaining([expect.any(String)]));
      expect(JSON.stringify(seen)).not.toContain('a secret of the inside');
      await eventually(() => readFileSync(ledger, 'utf8') === 'the tool waits\nthe tool is cancelled\n');
    },
  );
});
