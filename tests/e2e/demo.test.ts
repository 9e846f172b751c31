import { tmpdir } from 'node:os';
import { describe, expect, it } from '@jest/globals';
import { startOtlpReceiver } from '../../src/testing/otlp-receiver.ts';
import { millrace } from './command.ts';

describe('millrace demo', () => {
  it('shows a turn from question to trace without a terminal, in ASCII where TERM=dumb', async () => {
    const end = await millrace(['demo', '--delay-ms', '0'], { env: { TERM: 'dumb' } });
    expect(end).toMatchObject({ exitCode: 0, stderr: '' });
    for (const shown of [
      'The model is a stand-in',
      '> What is 12 * 7, what time is it in Tokyo, and which source files mention',
      '-- iteration 2 -',
      '+ calculate     12 * 7 -> 84',
      '+ current_time  Asia/Tokyo -> ',
      '+ search_files  shareTurn -> ',
      '12 * 7 is 84.',
      'tool[calculate]',
      'docker compose up -d jaeger',
    ]) {
      expect(end.stdout).toContain(shown);
    }
    expect(end.stdout).toMatch(/^agent\.execute +#+/m);
    expect(end.stdout).toMatch(/llm\.call .*\d+->\d+ tok/);
    expect(end.stdout).not.toContain('\u001b');
  });

  it('elsewhere it asks about the folder there, and sends its spans where it is told to', async () => {
    const receiver = await startOtlpReceiver();
    try {
      const end = await millrace(['demo', '--delay-ms', '0', '--otlp', receiver.url], { cwd: tmpdir() });
      expect(end.exitCode).toBe(0);
      expect(end.stdout).toContain('which files are in this');
      expect(end.stdout).toContain(`/trace/${receiver.spans[0]?.traceId}`);
      expect(receiver.spans.filter((span) => span.name === 'agent.execute')).toHaveLength(1);
    } finally {
      await receiver.close();
    }
  });
});
