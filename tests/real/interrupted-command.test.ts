import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { modelServer, settingsOf } from '../cli/commands/model-servers.ts';
import { Command, open } from '../e2e/command.ts';

const tools = fileURLToPath(new URL('../cli/commands/some-tools.mjs', import.meta.url));

describe('millrace run, interrupted', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)(
    'S4-38 %s in the middle of an answer closes its socket, settles and exits with %p',
    async (signal, code) => {
      const server = await modelServer({ script: [{ text: 'It is a long story', stallAfter: 2 }] });
      const command = new Command(['run', 'Hi'], { env: settingsOf(server) });
      await command.shows('It is');
      command.child.kill(signal);
      const end = await command.ended;
      expect(end).toMatchObject({ exitCode: code, stdout: 'It is\n' });
      expect(end.stderr).toMatch(/^millrace: cancelled$/m);
      await server.whenIdle();
      expect(server.aborted).toBe(1);
    },
  );

  it('the first Ctrl-C waits for a tool that ignores it and says so, the second exits at once', async () => {
    const server = await modelServer({ script: [{ toolCalls: [{ name: 'stubborn' }] }] });
    const command = new Command(['run', 'Hi', '--tools', tools], { env: settingsOf(server) });
    await command.shows('stubborn');
    command.child.kill('SIGINT');
    await command.shows('stopping; Ctrl-C again does not wait');
    // Within half a second of the first it is an echo.
    const pressing = setInterval(() => command.child.kill('SIGINT'), 50);
    const end = await command.ended.finally(() => clearInterval(pressing));
    expect(end.exitCode).toBe(130);
    expect(end.stderr).not.toContain('cancelled');
  });

  it('a reader of stdout who leaves ends the turn without a word', async () => {
    let leave = () => {};
    const left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const gate = (chunk: number) => (chunk < 2 ? undefined : left);
    const server = await modelServer({ script: [{ text: 'one two three four', gate }] });
    const command = new Command(['run', 'Hi'], { env: settingsOf(server) });
    await command.shows('one two');
    command.child.stdout?.destroy();
    leave();
    const end = await command.ended;
    expect(end.exitCode).toBe(141);
    expect(end.stderr).not.toMatch(/EPIPE|^millrace/m);
  });
});

describe('millrace chat, interrupted', () => {
  it('ends in the middle of a turn, and leaves the lines behind it unread', async () => {
    const server = await modelServer({ script: [{ text: 'one two', stallAfter: 1 }] });
    const command = new Command(['chat'], { env: settingsOf(server), stdin: 'Hi\nnever asked\n' });
    await command.shows('one');
    command.child.kill('SIGINT');
    expect(await command.ended).toMatchObject({ exitCode: 130, stdout: 'one\n' });
    expect(server.received).toBe(1);
  });

  it('ends while it waits for a line', async () => {
    const server = await modelServer({ script: [{ text: 'Hello.' }] });
    const command = new Command(['chat'], { env: settingsOf(server), stdin: open });
    command.child.stdin?.write('Hi\n');
    await command.shows('1 iteration');
    command.child.kill('SIGTERM');
    expect(await command.ended).toMatchObject({ exitCode: 143, stdout: 'Hello.\n' });
  });
});
