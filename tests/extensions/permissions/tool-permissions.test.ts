import { describe, expect, it } from '@jest/globals';
import { doneTool, type Extension, structuredOutput, toolOutputCache, toolPermissions } from 'millrace';
import type { LLMStep } from 'millrace/testing';
import type { ToolPermissionsOptions } from 'millrace/types';
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

  describe('of the tools of the engine', () => {
    const onlyLook: ToolPermissionsOptions = {
      rules: [
        { tools: ['look'], allow: true },
        { tools: ['*'], allow: false },
      ],
      canExecute: () => false,
      otherwise: 'deny',
    };
    const done = { text: 'Over.', toolCalls: [{ name: 'done' }] };
    const look = { toolCalls: [{ name: 'look' }] };
    const turn = (steps: readonly LLMStep[], extensions: readonly Extension[]) => {
      const toolProviders = [plainTools({ look: () => 'x'.repeat(6_000) })];
      return bench.loop(steps, { toolProviders, extensions }).startTurn(question).result();
    };

    it('lets the model end the turn, which nobody says of tools in general', async () => {
      const output = structuredOutput({ schema: { type: 'object', properties: { n: { type: 'number' } } } });
      const finish = { toolCalls: [{ name: '__finish__', arguments: { n: 2 } }] };
      const extensions = [toolPermissions(onlyLook), output];
      await expect(turn([finish], extensions)).resolves.toMatchObject({ value: { n: 2 } });
      await expect(turn([done], [toolPermissions(onlyLook), doneTool()])).resolves.toMatchObject({ reason: 'done' });
    });

    it('lets the model read again what was shortened', async () => {
      const read = { toolCalls: [{ name: 'read_tool_output', arguments: { id: 'call_1_0', length: 3 } }] };
      const extensions = [toolPermissions(onlyLook), toolOutputCache({ keepLast: 1 })];
      const { messages } = await turn([look, look, read, { text: 'Read.' }], extensions);
      expect(messages.at(-2)?.content).toContain('xxx');
    });

    it('goes by rules that name one', async () => {
      const rules = [{ tools: ['done'], allow: false, reason: 'go on' }];
      const extensions = [toolPermissions({ rules }), doneTool()];
      const { reason, messages } = await turn([done, { text: 'Going on.' }], extensions);
      expect(reason).toBe('stop');
      expect(messages.at(-2)?.content).toBe('Tool error: the tool "done" may not be called like this: go on');
    });

    it('takes no tool for one of them by its name', async () => {
      const toolProviders = [plainTools({ done: () => 'mine' })];
      const loop = bench.loop([done, { text: 'Going on.' }], {
        toolProviders,
        extensions: [toolPermissions({ rules: [], otherwise: 'deny' })],
      });
      const { messages } = await loop.startTurn(question).result();
      expect(messages.at(-2)?.content).toContain('may not be called');
    });
  });

  it('refuses options that say nothing', () => {
    expect(() => toolPermissions({})).toThrow('neither rules nor canExecute');
    for (const rule of [{ tools: [7] }, { tools: 'x' }, { allow: 'no' }, { when: 'always' }, { reason: 7 }]) {
      const rules = [{ tools: ['x'], allow: false, ...rule }];
      const refused = () => Reflect.apply(toolPermissions, undefined, [{ rules }]);
      expect(refused).toThrow('rules must be an array of { tools: ["name"], allow: true or false }');
    }
  });
});
