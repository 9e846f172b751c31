import { describe, expect, it } from '@jest/globals';
import { type ToolPermissionsOptions, toolPermissions } from '../../../src/extensions/permissions/tool-permissions.ts';
import { question } from '../../core/dead-turn.ts';
import { plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';

const bench = turnBench();

async function ran(options: ToolPermissionsOptions) {
  const calls: string[] = [];
  const run = (name: string) => () => calls.push(name);
  const toolProviders = [
    plainTools({ read_file: run('read_file'), write_file: run('write_file'), send_mail: run('send_mail') }),
  ];
  const steps = [
    {
      toolCalls: [
        { name: 'read_file' },
        { name: 'write_file', arguments: { path: '/tmp/a' } },
        { name: 'write_file', arguments: { path: '/etc/passwd' } },
        { name: 'send_mail' },
      ],
    },
    { text: 'Done.' },
  ];
  const loop = bench.loop(steps, { toolProviders, extensions: [toolPermissions(options)] });
  const result = await loop.startTurn(question, { authContext: { role: 'guest' } }).result();
  return { calls, told: result.messages.flatMap((message) => (message.role === 'tool' ? [message.content] : [])) };
}

describe('toolPermissions', () => {
  it('S2-10 runs no call that canExecute denies, and tells the model why', async () => {
    const { calls, told } = await ran({
      canExecute: ({ call, authContext }) =>
        call.function.name !== 'send_mail' || authContext?.['role'] === 'owner' || 'only the owner sends mail',
    });
    expect(calls).toEqual(['read_file', 'write_file', 'write_file']);
    expect(told.at(-1)).toBe('Tool error: the tool "send_mail" may not be called like this: only the owner sends mail');
  });

  it('takes the first rule that fits', async () => {
    const inTmp = ({ arguments: args }: { readonly arguments: unknown }) => JSON.stringify(args).includes('/tmp/');
    const { calls, told } = await ran({
      rules: [
        { tools: ['write_*'], allow: true, when: async (request) => inTmp(request) },
        { tools: ['write_*'], allow: false, reason: 'write below /tmp' },
        { tools: ['read_file'], allow: true },
      ],
      otherwise: 'deny',
    });
    expect(calls).toEqual(['read_file', 'write_file']);
    expect(told.slice(2)).toEqual([
      'Tool error: the tool "write_file" may not be called like this: write below /tmp',
      'Tool error: the tool "send_mail" may not be called like this',
    ]);
  });

  it('refuses options that say nothing', () => {
    expect(() => toolPermissions({})).toThrow('neither rules nor canExecute');
  });
});
