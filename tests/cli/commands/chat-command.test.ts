import { EventEmitter } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { runInProcess } from '../run-in-process.ts';
import { modelServer, settingsOf } from './model-servers.ts';

describe('millrace chat, from a pipe', () => {
  it('runs a turn a line; each has what was said before', async () => {
    const server = await modelServer({ script: [{ text: 'Hello, Ann.' }, { text: 'Ann.' }] });
    const stdin = 'I am Ann.\n\nWho am I?\n/quit\nnever asked\n';
    const end = await runInProcess(['chat'], { env: settingsOf(server), stdin });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Hello, Ann.\nAnn.\n' });
    expect(server.requests[1]).toMatchObject({
      messages: [
        { role: 'user', content: 'I am Ann.' },
        { role: 'assistant', content: 'Hello, Ann.' },
        { role: 'user', content: 'Who am I?' },
      ],
    });
    server.assertDone();
  });

  it('answers its commands on stderr', async () => {
    const server = await modelServer({ script: [{ text: 'Hello.' }] });
    const stdin = '/help\n/tools\n/trace\n/sing\nHi\n/trace\n';
    const { exitCode, stdout, stderr } = await runInProcess(['chat'], { env: settingsOf(server), stdin });
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: 'Hello.\n' });
    for (const shown of [
      '  /trace  the spans of the last turn\n',
      '  search_files  Searches',
      'millrace: there is no turn to show yet\n',
      'millrace: /sing is not a command; /help lists them\n',
    ]) {
      expect(stderr).toContain(shown);
    }
    expect(stderr).toMatch(/^agent\.execute .*\n.*iteration\[1\] .*\n.*llm\.call /m);
  });

  it('goes on after a turn that failed, keeps what was shown of it, and exits with 1', async () => {
    const server = await modelServer({ script: [{ text: 'It is a', closeAfter: 3 }, { text: 'Sorry.' }] });
    const end = await runInProcess(['chat'], { env: settingsOf(server), stdin: 'What is it?\nGo on.\n' });
    expect(end).toMatchObject({ exitCode: 1, stdout: 'It is a\nSorry.\n' });
    expect(end.stderr).toContain('(PROVIDER_STREAM_CLOSED)');
    expect(server.requests[1]).toMatchObject({
      messages: [{ content: 'What is it?' }, { content: 'It is a [interrupted]' }, { content: 'Go on.' }],
    });
  });
});

describe('millrace chat, in a terminal', () => {
  it('greets, prompts, answers, and leaves with Ctrl-D', async () => {
    const server = await modelServer({ script: [{ text: 'Hello.' }] });
    const stdin = new PassThrough();
    const ending = runInProcess(['chat'], { env: { ...settingsOf(server), NO_COLOR: '1' }, stdin });
    stdin.write('Hi\n');
    await server.whenReceived(1);
    stdin.write('\u0004');
    const { exitCode, stdout, stderr } = await ending;
    expect(exitCode).toBe(0);
    expect(stderr).toContain(`millrace chat · m at 127.0.0.1:${server.port} · 5 tools · /help\n`);
    expect(stdout).toContain('❯ ');
    expect(stdout).toContain('Hello.\n');
  });

  it('Ctrl-C stops the answer and not the talk, which goes on with what was shown', async () => {
    const server = await modelServer({ script: [{ text: 'one two', stallAfter: 1 }, { text: 'Fine.' }] });
    const stdin = new PassThrough();
    const signals = new EventEmitter();
    const ending = runInProcess(['chat'], { env: { ...settingsOf(server), NO_COLOR: '1' }, stdin, signals });
    stdin.write('Count.\n');
    await server.whenReceived(1);
    signals.emit('SIGINT', 'SIGINT');
    await server.whenIdle();
    stdin.write('Stop.\n/quit\n');
    const { exitCode, stderr, stdout } = await ending;
    expect(exitCode).toBe(0);
    expect(stderr).toContain('millrace: cancelled\n');
    expect(stdout).toContain('Fine.\n');
    expect(server.requests[1]?.['messages']).toMatchObject([{ role: 'user' }]);
  });
});
