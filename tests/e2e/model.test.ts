import { describe, expect, it } from '@jest/globals';
import { modelServer } from '../cli/commands/model-servers.ts';
import { runInProcess } from '../cli/run-in-process.ts';
import { Command } from './command.ts';

describe('millrace model', () => {
  it('serves the stand-in at the address it prints, until it is interrupted', async () => {
    const command = new Command(['model', '--port', '0', '--delay-ms', '0']);
    await command.shows('Ctrl-C stops it.');
    const baseUrl = /http:\/\/127\.0\.0\.1:\d+\/v1/.exec(command.shown)?.[0] ?? '';
    const args = ['run', 'What time is it in Oslo?', '--base-url', baseUrl, '--model', 'demo'];
    expect(await runInProcess(args)).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('In Oslo it is ') });
    command.child.kill('SIGINT');
    expect((await command.ended).exitCode).toBe(0);
    await expect(fetch(`${baseUrl}/models`)).rejects.toThrow();
  });

  it('a busy port is one sentence and exit code 1', async () => {
    const server = await modelServer({});
    const end = await runInProcess(['model', '--port', String(server.port)]);
    expect(end).toMatchObject({ exitCode: 1, stdout: '' });
    expect(end.stderr).toMatch(new RegExp(`^millrace: .*${server.port}.*\n$`));
  });
});
