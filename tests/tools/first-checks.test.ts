import { describe, expect, it } from '@jest/globals';
import { AgentLoop, type Extension, type JSONSchema, LocalToolProvider, type ToolProvider, tool } from 'millrace';
import type { ArgumentChecks } from 'millrace/internals';
import { gate } from 'millrace/testing';
import { answerOf, deadTurn, firstCall, question } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';

const bench = turnBench();

/** Each draft has an engine of its own, which the first check by it loads: one draft for each test, and no other test in this file. */
function payTools(draft: string): ToolProvider {
  const { executeTool } = plainTools({ pay: () => 'paid' });
  const parameters: JSONSchema = { $schema: `https://json-schema.org/${draft}/schema`, type: 'object' };
  return {
    getTools: () => [{ type: 'function', function: { name: 'pay', description: 'Pays.', parameters } }],
    executeTool,
  };
}

const names = ['pay', 'pay', 'pay'];

/** What was recorded from the first call on. */
function recorded(): readonly string[] {
  const types = bench.store.read('t').map(({ type }) => type);
  return types.slice(types.findIndex((type) => type.startsWith('tool.')));
}

const together = [...Array(3).fill('tool.intent'), ...Array(3).fill('tool.result')];

describe('calls whose checks have to be loaded first', () => {
  it('start together where their schemas are those of tool(), and need a time limit', async () => {
    const $schema = 'https://json-schema.org/draft-07/schema';
    const parameters = { $schema, type: 'object', properties: { to: { type: 'string', pattern: '^A' } } } as const;
    const pay = tool({ name: 'pay', description: 'Pays.', parameters, execute: () => 'paid' });
    const options = { toolProviders: [new LocalToolProvider([pay])] };
    const calls = names.map((name) => ({ name, arguments: { to: 'Ada' } }));
    const loop = bench.loop([{ toolCalls: calls }, { text: 'Done.' }], options);
    await loop.startTurn(question, { taskId: 't' }).result();
    expect(recorded().slice(0, 6)).toEqual(together);
  });

  it('U-18 start together, once extensions were asked about all of them', async () => {
    const asked: number[] = [];
    const guard: Extension = {
      name: 'guard',
      beforeToolCall: () => void asked.push(bench.store.read('t').filter(({ type }) => type === 'tool.intent').length),
    };
    const options = { toolProviders: [payTools('draft/2020-12')], extensions: [guard] };
    const loop = bench.loop([{ toolCalls: names.map((name) => ({ name })) }, { text: 'Done.' }], options);
    await loop.startTurn(question, { taskId: 't' }).result();
    expect(recorded().slice(0, 6)).toEqual(together);
    expect(asked).toEqual([0, 0, 0]);
  });

  it('U-18 start together where a dead process left them', async () => {
    deadTurn(bench, [firstCall, answerOf(names)]);
    const config = bench.config(bench.model([{ text: 'Done.' }]), { toolProviders: [payTools('draft/2019-09')] });
    await AgentLoop.resume('t', config).result();
    expect(recorded().slice(0, 6)).toEqual(together);
  });

  it.each([
    ['of a response', false],
    ['that a dead process left', true],
  ])('U-18 %s are not waited for by a cancel', async (_, left) => {
    if (left) deadTurn(bench, [firstCall, answerOf(names)]);
    const never = gate();
    const argumentChecks: ArgumentChecks = Object.assign(() => () => ({ ok: true as const, value: {} }), {
      load: never.pass,
    });
    const options = { toolProviders: [payTools('draft-07')], argumentChecks };
    const config = bench.config(bench.model(left ? [] : [{ toolCalls: names.map((name) => ({ name })) }]), options);
    const turn = left ? AgentLoop.resume('t', config) : new AgentLoop(config).startTurn(question, { taskId: 't' });
    const ended = turn.result().catch((error) => error);
    await never.reached;
    await turn.cancel();
    expect(await ended).toMatchObject({ code: 'CANCELED' });
    expect(bench.store.read('t').filter(({ type }) => type === 'tool.intent')).toEqual([]);
  });
});
