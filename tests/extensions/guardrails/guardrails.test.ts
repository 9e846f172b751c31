import { describe, expect, it } from '@jest/globals';
import { guardrails, structuredOutput } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import type { GuardrailsOptions, OutputGuardrail } from 'millrace/types';
import { z } from 'zod';
import { answerOf, deadTurn, firstCall, question } from '../../core/dead-turn.ts';
import { plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';

const bench = turnBench();

function guarded(
  steps: readonly LLMStep[],
  options: GuardrailsOptions,
  config: { readonly maxIterations?: number } = {},
) {
  const ran: unknown[] = [];
  const model = bench.model(steps);
  const toolProviders = [plainTools({ remove: ({ arguments: args }) => ran.push(args) })];
  const extensions = [guardrails(options)];
  const loop = new AgentLoop(bench.config(model, { toolProviders, extensions, onLimit: 'stop', ...config }));
  return { ran, model, turn: loop.startTurn(question) };
}

const removes = (path: string): LLMStep => ({
  text: 'I tidy up.',
  toolCalls: [{ name: 'remove', arguments: { path } }],
});

describe('guardrails on the input', () => {
  it('fail a turn before the model is asked', async () => {
    const { turn } = guarded([], { input: [{ name: 'manners', check: async () => ({ block: 'be polite' }) }] });
    await expect(turn.result()).rejects.toMatchObject({
      code: 'GUARDRAIL',
      message: 'The guardrail "manners" stopped the turn: be polite',
    });
  });

  it('replace what the model reads, one after another', async () => {
    const shout = { name: 'shout', check: () => ({ replace: [{ role: 'user' as const, content: 'HOW MANY?' }] }) };
    const seen: unknown[] = [];
    const look = { name: 'look', check: (messages: readonly object[]) => void seen.push(...messages) };
    const { model, turn } = guarded([{ text: 'Two.' }], { input: [shout, look] });
    await turn.result();
    expect(seen).toEqual([{ role: 'user', content: 'HOW MANY?' }]);
    expect(model.calls[0]?.messages).toEqual(seen);
  });
});

describe('guardrails on the output', () => {
  const noNumbers = {
    name: 'no numbers',
    check: (text: string) => (/\d/.test(text) ? { retry: 'Write words.' } : undefined),
  };

  it('make the model answer anew', async () => {
    const { model, turn } = guarded([{ text: '2' }, { text: 'Two.' }], { output: [noNumbers] });
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(model.calls[1]?.messages.at(-1)).toEqual({ role: 'user', content: 'Write words.' });
  });

  it('fail the turn where it does not, counting over a crash', async () => {
    const retried = { role: 'user' as const, content: 'Write words.' };
    deadTurn(bench, [
      firstCall,
      answerOf('1'),
      { type: 'x.guardrails', hook: 'beforeFinish', effects: { messages: [retried] }, data: 1 },
    ]);
    const config = bench.config(bench.model([{ text: '2' }, { text: '3' }]), {
      extensions: [guardrails({ output: [noNumbers] })],
    });
    await expect(AgentLoop.resume('t', config).result()).rejects.toMatchObject({
      code: 'GUARDRAIL',
      message: 'The guardrail "no numbers" stopped the turn: Write words.',
    });
  });

  it('replace the text, asked once about each', async () => {
    let asked = 0;
    const mask = {
      name: 'mask',
      check(text: string) {
        asked++;
        return { replace: text.replace('Smith', '…') };
      },
    };
    const { turn } = guarded([{ text: 'It is Smith.' }], { output: [mask] });
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'It is ….' });
    expect(asked).toBe(1);
  });

  it('check the text as well with which a limit ends the turn', async () => {
    const options = { output: [{ name: 'quiet', check: () => ({ block: 'say nothing' }) }] };
    const { turn } = guarded([removes('/tmp/a')], options, { maxIterations: 1 });
    await expect(turn.result()).rejects.toMatchObject({ code: 'GUARDRAIL' });
  });
});

describe('guardrails on a value', () => {
  const schema = z.object({ apples: z.number() });
  const says = (apples: number): LLMStep => ({ toolCalls: [{ name: '__finish__', arguments: { apples } }] });
  const plausible: OutputGuardrail = {
    name: 'plausible',
    check: (_text, { value }) => (Reflect.get(Object(value), 'apples') < 0 ? { retry: 'Count again.' } : undefined),
  };

  it('make the model answer anew, and let pass what is in order', async () => {
    const model = bench.model([says(-1), says(2)]);
    const extensions = [structuredOutput({ schema }), guardrails({ output: [plausible] })];
    const result = await new AgentLoop(bench.config(model, { extensions })).startTurn(question).result();
    expect(result.value).toEqual({ apples: 2 });
    expect(model.calls[1]?.messages.at(-1)).toEqual({ role: 'user', content: 'Count again.' });
  });

  it('fail the turn where no value will do, asked once about each', async () => {
    const asked: unknown[] = [];
    const watching: OutputGuardrail = {
      name: 'plausible',
      check(text, context) {
        asked.push(context.value);
        return plausible.check(text, context);
      },
    };
    const model = bench.model([says(-1), says(-2)]);
    const extensions = [structuredOutput({ schema }), guardrails({ output: [watching], maxRetries: 1 })];
    const turn = new AgentLoop(bench.config(model, { extensions })).startTurn(question);
    await expect(turn.result()).rejects.toMatchObject({ code: 'GUARDRAIL' });
    expect(asked).toEqual([{ apples: -1 }, { apples: -2 }]);
  });
});

describe('guardrails on tool calls', () => {
  it('deny one, and change the arguments of another', async () => {
    const inTmp = {
      name: 'in tmp',
      check: ({ arguments: args }: { readonly arguments: unknown }) =>
        JSON.stringify(args).includes('/tmp') ? undefined : { deny: 'stay below /tmp' },
    };
    const moved = { name: 'moved', check: () => ({ replace: { path: '/tmp/b' } }) };
    const { ran, turn } = guarded([removes('/etc'), removes('/tmp/a'), { text: 'Done.' }], {
      toolCalls: [inTmp, moved],
    });
    const { messages } = await turn.result();
    expect(messages[1]).toMatchObject({ content: 'Tool error: stay below /tmp' });
    expect(ran).toEqual([{ path: '/tmp/b' }]);
  });

  it('fail the turn where they block', async () => {
    const { ran, turn } = guarded([removes('/')], { toolCalls: [{ name: 'root', check: () => ({ block: 'never' }) }] });
    await expect(turn.result()).rejects.toMatchObject({ code: 'GUARDRAIL', message: expect.stringContaining('never') });
    expect(ran).toEqual([]);
  });
});

describe('a guardrail that answers nonsense', () => {
  // What JavaScript lets pass: a verdict with a misspelt member must not let anything through.
  const check = (): undefined => Object({ blocked: 'no' });

  it.each<[string, GuardrailsOptions, readonly LLMStep[]]>([
    ['input', { input: [{ name: 'odd', check }] }, []],
    ['tool call', { toolCalls: [{ name: 'odd', check }] }, [removes('/')]],
    ['output', { output: [{ name: 'odd', check }] }, [{ text: 'Done.' }]],
  ])('fails the turn instead of letting the %s pass', async (_, options, steps) => {
    const { ran, turn } = guarded(steps, options);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: expect.stringContaining('the guardrail "odd" gave no verdict'),
    });
    expect(ran).toEqual([]);
  });
});
