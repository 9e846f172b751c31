import { EventEmitter, once } from 'node:events';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import type { ModelServer, ScriptStep } from 'millrace/testing';
import { runInProcess } from '../run-in-process.ts';
import { type FakeScreen, fakeScreen } from '../screen.ts';
import { temporaryFolder } from '../tools/temporary-folder.ts';
import { modelServer, settingsOf } from './model-servers.ts';

const tools = fileURLToPath(new URL('questions-tools.mjs', import.meta.url));
const asking = (name: string, args: object = {}): ScriptStep => ({ toolCalls: [{ name, arguments: { ...args } }] });

/** The messages of the tool results that a request has. */
const results = (server: ModelServer, request: number): unknown => {
  const { messages } = server.requests[request] as { messages: { role: string; content: string }[] };
  return messages.filter(({ role }) => role === 'tool').map(({ content }) => content);
};

/** The first text that matches on stdout or stderr from now on; `shows` resolves at once where it is there already. */
async function shows(screen: FakeScreen, pattern: RegExp): Promise<void> {
  while (!pattern.test(screen.all())) {
    await Promise.race([once(screen.outStream, 'wrote'), once(screen.errorStream, 'wrote')]);
  }
}

describe('H-43 millrace chat asks in place, from a pipe', () => {
  it('the next line is the answer: y, n and why, text, a result; a line that is none is asked for again', async () => {
    const server = await modelServer({
      script: [
        asking('refund', { order: 7 }),
        { text: 'Refunded.' },
        asking('refund', { order: 8 }),
        { text: 'Not refunded.' },
        asking('book'),
        { text: 'Booked.' },
      ],
    });
    const stdin = 'Refund 7.\nplease\ny\nRefund 8.\nno, too late\nBook.\nwindow\n{"card":[1]}\n';
    const end = await runInProcess(['chat', '--tools', tools], { env: settingsOf(server), stdin });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Refunded.\nNot refunded.\nBooked.\n' });
    expect(end.stderr).toContain('  ? 1:0  refund needs approval\n');
    expect(end.stderr).toContain('\n         order: 7\n');
    expect(end.stderr).toContain('millrace: answer y to run it, or n, or n and a reason\n');
    expect(results(server, 1)).toEqual(['refunded 7']);
    expect(JSON.stringify(results(server, 3))).toContain('too late');
    expect(JSON.stringify(results(server, 5))).toContain('booked window with {\\"card\\":[1]}');
    server.assertDone();
  });

  it('the agent of a file asks too, lists its tools, and excludes the flags that it replaces', async () => {
    const agent = fileURLToPath(new URL('asking-agent.mjs', import.meta.url));
    const end = await runInProcess(['chat', '--agent', agent], { stdin: '/tools\nRefund.\ny\n' });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'So: refunded\n' });
    expect(end.stderr).toMatch(/refund +Refunds, if somebody says so/);
    expect(end.stderr).toContain('refund needs approval');
    const both = await runInProcess(['chat', '--agent', agent, '--tools', tools], { stdin: '' });
    expect(both).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--agent includes the model') });
  });

  it('the end of the input leaves the turn as it waits, exit code 3, with the command that answers', async () => {
    const folder = temporaryFolder({});
    const where = ['--tools', tools, '--store', `lmdb:${folder.path}`];
    try {
      const server = await modelServer({
        script: [asking('refund', { order: 7 }), { text: 'Done.' }, { text: 'Yes.' }],
      });
      const env = settingsOf(server);
      const left = await runInProcess(['chat', '--context-id', 'c', ...where], { env, stdin: 'Refund.\nmaybe\n' });
      expect(left).toMatchObject({ exitCode: 3, stdout: '' });
      expect(left.stderr).toMatch(/\n {2}millrace resume \w+ .*--answer '1:0=\{"approved":true\}'\n/);
      expect(left.stderr).toContain('\n  millrace chat --context-id c --tools ');

      const run = await runInProcess(['run', 'Well?', '--context-id', 'c', ...where], { env });
      expect(run).toMatchObject({ exitCode: 1, stdout: '' });
      expect(run.stderr).toMatch(
        /turn \w+ of the conversation "c" waits for an answer.*"millrace resume \w+ .*AGENT_BUSY/,
      );

      const chat = await runInProcess(['chat', '--context-id', 'c', ...where], { env, stdin: 'y\nIs it?\n' });
      expect(chat).toMatchObject({ exitCode: 0, stdout: 'Done.\nYes.\n' });
      expect(server.requests[2]?.['messages']).toMatchObject([
        { content: 'Refund.' },
        { role: 'assistant' },
        { role: 'tool', content: 'refunded 7' },
        { content: 'Done.' },
        { content: 'Is it?' },
      ]);
      server.assertDone();
    } finally {
      folder.remove();
    }
  });

  it('a question of a sub-agent is asked with the tool that asks, and its answer reaches it', async () => {
    const server = await modelServer({
      script: [
        asking('clerk', { message: 'Refund 9' }),

        { text: 'Done.' },
      ],
    });
    const nested = fileURLToPath(new URL('nested-tools.mjs', import.meta.url));
    const end = await runInProcess(['chat', '--tools', nested], { env: settingsOf(server), stdin: 'Refund 9.\ny\n' });
    expect(end).toMatchObject({ exitCode: 0, stdout: 'Done.\n' });
    expect(end.stderr).toContain('  ? 1:0  clerk → refund needs approval\n');
    expect(end.stderr).toContain('\n         order: 9\n');
    expect(results(server, 1)).toEqual(['It is refunded.']);
    server.assertDone();
  });
});

describe('H-43 a conversation', () => {
  it.each(['memory', 'lmdb'])(
    'of run --context-id: the second run is sent the messages of the first (%s)',
    async (kind) => {
      const folder = temporaryFolder({});
      const store = ['--store', kind === 'lmdb' ? `lmdb:${folder.path}` : kind];
      try {
        const server = await modelServer({
          script: [{ text: 'Hello, Ann.' }, { text: 'Ann.' }, { text: 'Still Ann.' }],
        });
        const env = settingsOf(server);
        const run = (prompt: string, ...args: readonly string[]) =>
          runInProcess(['run', prompt, ...args, ...store], { env });
        await run('I am Ann.', '--context-id', 'c');
        expect(await run('Who am I?', '--context-id', 'c')).toMatchObject({ exitCode: 0, stdout: 'Ann.\n' });
        if (kind === 'lmdb') {
          const tasks = JSON.parse((await runInProcess(['tasks', '--json', '--limit', '1', ...store])).stdout);
          const shown = await runInProcess(['show', tasks.taskId, ...store]);
          expect(shown.stdout).toContain('continues a conversation of 2 messages');
        }
        const before = kind === 'lmdb' ? ['I am Ann.', 'Hello, Ann.'] : [];
        expect(server.requests[1]?.['messages']).toMatchObject(
          [...before, 'Who am I?'].map((content) => ({ content })),
        );
        await run('Who am I?', '--context-id', 'other');
        expect(server.requests[2]?.['messages']).toMatchObject([{ content: 'Who am I?' }]);
      } finally {
        folder.remove();
      }
    },
  );

  it('is also that of a run without the flag, and of a turn that was resumed; a chat continues it', async () => {
    const folder = temporaryFolder({});
    const store = ['--store', `lmdb:${folder.path}`];
    try {
      const server = await modelServer({
        script: [asking('refund', { order: 7 }), { text: 'Done.' }, { text: 'Seven.' }],
      });
      const env = settingsOf(server);
      await runInProcess(['run', 'Refund.', '--task', 't', '--tools', tools, ...store], { env });
      const answer = ['--answer', '1:0={"approved":true}'];
      await runInProcess(['resume', 't', '--tools', tools, ...answer, ...store], { env });
      const { stdout } = await runInProcess(['show', 't', '--json', ...store]);
      const { contextId } = JSON.parse(stdout);
      const chat = await runInProcess(['chat', '--context-id', contextId, ...store], { env, stdin: 'Which one?\n' });
      expect(chat).toMatchObject({ exitCode: 0, stdout: 'Seven.\n' });
      expect(chat.stderr).toContain(`continues the conversation ${contextId}: 4 messages`);
      expect(server.requests[2]?.['messages']).toMatchObject([
        { content: 'Refund.' },
        { role: 'assistant' },
        { content: 'refunded 7' },
        { content: 'Done.' },
        { content: 'Which one?' },
      ]);
    } finally {
      folder.remove();
    }
  });
});

describe('H-43 millrace chat asks in place, in a terminal', () => {
  async function typing(script: readonly ScriptStep[], store = 'memory') {
    const server = await modelServer({ script });
    const stdin = new PassThrough();
    const signals = new EventEmitter();
    const env = { ...settingsOf(server), NO_COLOR: '1', MILLRACE_STORE: store };
    const screen = fakeScreen({ env, outTTY: true, errTTY: true });
    for (const stream of [screen.outStream, screen.errorStream]) {
      const write = stream.write.bind(stream);
      stream.write = (chunk: unknown) => {
        const room = write(chunk);
        stream.emit('wrote');
        return room;
      };
    }
    const ending = runInProcess(['chat', '--tools', tools], { env, stdin, signals, screen });
    return { server, stdin, signals, screen, ending };
  }

  it('Ctrl-C at the question cancels the turn and not the talk; the call never runs', async () => {
    const { server, stdin, screen, ending } = await typing([asking('refund', { order: 7 }), { text: 'As you like.' }]);
    stdin.write('Refund.\n');
    await shows(screen, /\(y, n, or n and why\)/);
    stdin.write('ye\u0003');
    await shows(screen, /millrace: cancelled\n/);
    stdin.write('Leave it.\n/quit\n');
    expect((await ending).exitCode).toBe(0);
    const sent = JSON.stringify(server.requests[1]?.['messages']);
    expect(sent).toContain('Leave it.');
    expect(sent).not.toContain('refunded');
    server.assertDone();
  });

  it('SIGTERM at the question leaves it: 143, and the turn waits in its store', async () => {
    const folder = temporaryFolder({});
    try {
      const { stdin, screen, signals, ending } = await typing([asking('refund', { order: 7 })], `lmdb:${folder.path}`);
      stdin.write('Refund.\n');
      await shows(screen, /\(y, n, or n and why\)/);
      signals.emit('SIGTERM', 'SIGTERM');
      expect((await ending).exitCode).toBe(143);
      const tasks = await runInProcess(['tasks', '--store', `lmdb:${folder.path}`]);
      expect(tasks.stdout).toContain('input-required');
    } finally {
      folder.remove();
    }
  });

  it('what steers a terminal in the arguments is written out, nothing of them is cut, and a y typed ahead does not count', async () => {
    const note = `\u001b[2J\u001b]0;t\u0007\u202edfp\u200b\r\nend ${'long '.repeat(40)}LAST`;
    const { server, stdin, screen, ending } = await typing([asking('refund', { order: 7, note }), { text: 'No.' }]);
    stdin.write('Refund.\n');
    await server.whenReceived(1);
    stdin.write('y\n');
    await shows(screen, /\(y, n, or n and why\)/);
    stdin.write('n\n');
    await server.whenReceived(2);
    stdin.write('/quit\n');
    await ending;
    const [, block = ''] = /(\? 1:0.*?LAST)/s.exec(screen.stderr()) ?? [];
    expect(block.replaceAll(/\n */g, '')).toContain('\\u001b[2J\\u001b]0;t\\u0007\\u202edfp\\u200b\\r\\nend');
    expect(block).toContain('LAST');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: their absence is the point.
    expect(block).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u200b\u202e]/);
    expect(JSON.stringify(results(server, 1))).not.toContain('refunded');
  });
});

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
    expect(stderr).toMatch(/^agent\.turn .*\n.*agent\.execute .*\n.*\n.*iteration\[1\] .*\n.*llm\.call /m);
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
    expect(server.requests[1]?.['messages']).toMatchObject([{ role: 'user', content: 'Count.\n\nStop.' }]);
  });
});
