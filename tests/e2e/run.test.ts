import { describe, expect, it } from '@jest/globals';
import { modelServer, settingsOf } from '../cli/commands/model-servers.ts';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { startOtlpReceiver } from '../otlp-receiver.ts';
import { Command, millrace } from './command.ts';

it.each([
  ['data.json', '[]', 'it is not an ES module; name one (.mjs or .js)'],
  ['package.mjs', 'import "not-there-at-all";', 'is not installed; run `npm install not-there-at-all` beside the file'],
])('U-19 --tools %s says what to do', async (file, content, sentence) => {
  const folder = temporaryFolder({ [file]: content });
  try {
    const end = await millrace(['run', 'hi', '--tools', file], { cwd: folder.path });
    expect(end).toMatchObject({ exitCode: 2, stdout: '' });
    expect(end.stderr).toContain(sentence);
  } finally {
    folder.remove();
  }
});

describe('millrace run, as a process', () => {
  it('streams the text to stdout and the rest to stderr, and asks the model that the environment names', async () => {
    const server = await modelServer({ script: [{ text: 'Hello\nthere.' }] });
    const key = 'sk-very-secret-0123456789';
    const end = await millrace(['run', 'Hi'], { env: { ...settingsOf(server), OPENAI_API_KEY: key } });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Hello\nthere.\n' });
    expect(end.stderr).toMatch(/^ {2}1 iteration · 0 tool calls · \d+ tokens · .+\n$/);
    expect(server.headers[0]?.authorization).toBe(`Bearer ${key}`);
  });

  it('without settings: the stand-in answers with the built-in tools, and a line says so', async () => {
    const end = await millrace(['run', '-'], { stdin: 'What time is it in Tokyo?\n' });
    expect(end.exitCode).toBe(0);
    expect(end.stdout).toContain('In Tokyo it is ');
    expect(end.stderr).toContain('the built-in demo model answers; it is a small program, not a language model');
    expect(end.stderr).toContain('✓ current_time  Asia/Tokyo → ');
  });

  it('a wrong flag: exit code 2 on the spot', async () => {
    const end = await millrace(['run', 'Hi', '--nope']);
    expect(end).toMatchObject({ exitCode: 2, stdout: '' });
    expect(end.stderr).toContain("millrace: unknown option '--nope'");
  });

  it('a collector that is down costs a sentence, not the answer', async () => {
    const receiver = await startOtlpReceiver();
    await receiver.close();
    const server = await modelServer({ script: [{ text: 'Hello.' }] });
    const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_EXPORTER_OTLP_TIMEOUT: '300' };
    const end = await millrace(['run', 'Hi'], { env: { ...settingsOf(server), ...collector } });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Hello.\n' });
    expect(end.stderr).toContain(`6 of 6 spans did not reach ${receiver.url}/v1/traces: `);
  });

  it('--json loses nothing where the reader is slow', async () => {
    const server = await modelServer({ script: [{ text: 'word '.repeat(20_000) }] });
    const command = new Command(['run', 'Hi', '--json'], { env: settingsOf(server) });
    command.child.stdout?.pause();
    await server.whenReceived(1);
    await server.whenIdle();
    command.child.stdout?.resume();
    const { exitCode, stdout } = await command.ended;
    expect(exitCode).toBe(0);
    const events: Record<string, unknown>[] = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const texts = events.filter((event) => event['kind'] === 'artifact-update');
    expect(JSON.stringify(texts).match(/word/g)).toHaveLength(20_000);
    expect(events.at(-1)).toMatchObject({ final: true });
  });
});
