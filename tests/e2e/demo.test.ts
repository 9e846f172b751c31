import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, describe, expect, it } from '@jest/globals';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import type { ReceivedSpan } from '../otlp-decode.ts';
import { startOtlpReceiver } from '../otlp-receiver.ts';
import { Command, millrace } from './command.ts';

const folder = temporaryFolder({});
afterAll(() => folder.remove());

const byStart = (one: ReceivedSpan, other: ReceivedSpan) => one.startMs - other.startMs;

describe('millrace demo', () => {
  it('kills a turn in the middle and goes on with it, and shows what the ledger says; in ASCII where TERM=dumb', async () => {
    const end = await millrace(['demo', '--delay-ms', '0'], { env: { TERM: 'dumb', TMPDIR: folder.path } });
    expect(end).toMatchObject({ exitCode: 0, stderr: '' });
    for (const shown of [
      'The model is a stand-in',
      '> What is 12 * 7, what time is it in Tokyo, which source files mention',
      '+ calculate     12 * 7 -> 84',
      '+ current_time  Asia/Tokyo -> ',
      'x search_files  shareTurn -> cut off',
      'x send_invitation  ann@example.org -> cut off',
      '- search_files shareTurn, attempt 2',
      'x send_invitation  ann@example.org -> OUTCOME_UNKNOWN',
      '-- iteration 2 -',
      '12 * 7 is 84.',
      'tool[search_files]',
      'docker compose up -d jaeger',
    ]) {
      expect(end.stdout).toContain(shown);
    }
    expect(end.stdout).toMatch(/^-- kill -9 \d+ -+$/m);
    expect(end.stdout).toMatch(/^ {2}calculate +finished +not run +recorded, so not repeated$/m);
    expect(end.stdout).toMatch(/^ {2}search_files +cut off +finished +safe to repeat: run again$/m);
    expect(end.stdout).toMatch(/^ {2}send_invitation +cut off +not run +unsafe to repeat: not run$/m);
    expect(end.stdout).toMatch(/agent\.execute +#+/m);
    expect(end.stdout).toMatch(/linked to the trace of the killed process, [0-9a-f]{32}$/m);
    expect(end.stdout).not.toContain('\u001b');
    expect(readdirSync(folder.path)).toEqual([]);
  });

  it('H-31 elsewhere it asks about the folder there, sends its spans where it is told to, and names the UI of that host', async () => {
    const receiver = await startOtlpReceiver();
    try {
      const end = await millrace(['demo', '--delay-ms', '0', '--otlp', receiver.url], { cwd: tmpdir() });
      expect(end.exitCode).toBe(0);
      expect(end.stdout).toContain('which files are in this');
      const [lost, root, ...others] = receiver.spans.filter((span) => span.name === 'agent.execute').sort(byStart);
      expect(others).toEqual([]);
      expect(lost?.attributes['millrace.outcome']).toBe('lost');
      expect(root?.links).toEqual([{ traceId: lost?.traceId, spanId: lost?.spanId }]);
      const { hostname } = new URL(receiver.url);
      expect(end.stdout).toContain(`http://${hostname}:16686/trace/${root?.traceId}`);
      expect(end.stdout).toContain(`linked to the trace of the killed process, ${root?.links[0]?.traceId}`);
    } finally {
      await receiver.close();
    }
  });

  it('a prompt that gives it nothing to be killed in is answered all the same', async () => {
    const end = await millrace(['demo', 'Hello', '--delay-ms', '0']);
    expect(end).toMatchObject({ exitCode: 0, stderr: '' });
    expect(end.stdout).toContain('Hello! I am a stand-in');
    expect(end.stdout).not.toMatch(/^── (kill|resumed|what the ledger says)/m);
  });

  it('stopped in the middle, it leaves neither a process nor a folder', async () => {
    const command = new Command(['demo', '--delay-ms', '200'], { env: { TMPDIR: folder.path } });
    await command.shows('iteration 1');
    command.child.kill('SIGINT');
    expect((await command.ended).exitCode).toBe(130);
    expect(readdirSync(folder.path)).toEqual([]);
  });
});
