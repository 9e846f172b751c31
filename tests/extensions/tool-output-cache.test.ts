import { describe, expect, it } from '@jest/globals';
import { foldRecords, type Message, textOf, toolOutputCache } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { ScriptedLLMStep } from 'millrace/testing';
import { callOf, deadTurn, firstCall, intentOf, question, resultOf } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';

const bench = turnBench();
const page = `${'a'.repeat(3_000)}${'z'.repeat(3_000)}`;
const look: ScriptedLLMStep = { toolCalls: [{ name: 'look' }] };
const read = (args: object): ScriptedLLMStep => ({ toolCalls: [{ name: 'read_tool_output', arguments: args }] });
const answered: Message = { role: 'assistant', content: 'I see.' };
const toolProviders = [plainTools({ look: () => page })];

/** Plays a turn with the extension. Gives the model, which knows what it was asked, and the id of the task. */
async function play(
  steps: readonly ScriptedLLMStep[],
  options = { keepLast: 1 },
  messages: readonly Message[] = question,
) {
  const model = bench.model(steps);
  const config = bench.config(model, { toolProviders, extensions: [toolOutputCache(options)] });
  const { taskId } = await new AgentLoop(config).startTurn(messages).result();
  return { model, taskId };
}

const outputs = (messages: readonly Message[] = []) =>
  messages.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content));
const names = (tools: readonly { readonly function: { readonly name: string } }[] = []) =>
  tools.map((tool) => tool.function.name);

describe('toolOutputCache', () => {
  it('S2-14 shortens old large outputs at the start of each iteration, and leaves the history whole', async () => {
    const { model, taskId } = await play([look, look, look, { text: 'Done.' }]);
    const sent = model.calls.map(({ messages }) => outputs(messages).map((output) => output === page));
    expect(sent).toEqual([[], [true], [false, true], [false, false, true]]);
    const [short = ''] = outputs(model.calls[2]?.messages);
    expect(short.length).toBeLessThanOrEqual(2_000);
    expect(short).toMatch(/^a+\n\[… \d+ characters left out; .*\n]?z+$/s);
    expect(outputs(foldRecords(bench.store.read(taskId)).messages)).toEqual([page, page, page]);
  });

  it('S2-50 offers the model to read the full output again, page by page, by the reference in the short form', async () => {
    const { model } = await play([
      look,
      look,
      ({ messages }) => {
        const [, args = '{}'] = /read_tool_output\((.*?)\)/.exec(outputs(messages)[0] ?? '') ?? [];
        return {
          toolCalls: [{ name: 'read_tool_output', arguments: { ...JSON.parse(args), offset: 2_900, length: 200 } }],
        };
      },
      read({ id: 'call_1_0' }),
      read({ id: 'call_1_0', offset: 4_000 }),
      { text: 'Done.' },
    ]);
    expect(model.calls.map(({ tools }) => names(tools))).toEqual([
      ['look'],
      ['look'],
      ...Array(4).fill(['look', 'read_tool_output']),
    ]);
    expect(outputs(model.calls[3]?.messages).at(-1)).toBe(
      `[characters 2900 to 3100 of 6000; continue with offset 3100]\n${'a'.repeat(100)}${'z'.repeat(100)}`,
    );
    expect(outputs(model.calls[4]?.messages).at(-1)).toBe(
      `[characters 0 to 4000 of 6000; continue with offset 4000]\n${page.slice(0, 4_000)}`,
    );
    expect(outputs(model.calls[5]?.messages).at(-1)).toBe(`[characters 4000 to 6000 of 6000]\n${page.slice(4_000)}`);
  });

  it('reads outputs of earlier turns, also where ids come twice', async () => {
    const batch = (content: string): readonly Message[] => [
      { role: 'assistant', content: null, toolCalls: [callOf('look')] },
      { role: 'tool', toolCallId: 'id-0', content },
    ];
    const earlier = [...question, ...batch(page), ...batch(page.toUpperCase()), answered, ...question];
    const { model } = await play([read({ id: 'id-0#2', length: 3 }), { text: 'Done.' }], { keepLast: 0 }, earlier);
    expect(outputs(model.calls[0]?.messages)[1]).toContain('read_tool_output({"id":"id-0#2"})');
    expect(outputs(model.calls[1]?.messages).at(-1)).toBe('[characters 0 to 3 of 6000; continue with offset 3]\nAAA');
  });

  it.each([
    [{ id: 'nothing' }, 'there is no output "nothing" in this conversation'],
    [{}, 'id must be the text'],
    [{ id: 'call_1_0', offset: -1 }, 'offset must be a whole number from 0'],
    [{ id: 'call_1_0', length: 0 }, 'length must be a whole number from 1 to 16000'],
  ])('tells the model what is wrong with %j', async (args, words) => {
    const { model } = await play([look, look, read(args), { text: 'Done.' }]);
    const last = model.calls[3]?.messages.at(-1);
    expect(last).toMatchObject({ role: 'tool', status: 'error' });
    expect(textOf(last?.content)).toContain(words);
  });

  it('gives what is no text with the first page', async () => {
    const image = { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${'A'.repeat(3_000)}` } };
    const earlier: readonly Message[] = [
      { role: 'assistant', content: null, toolCalls: [callOf('look')] },
      { role: 'tool', toolCallId: 'id-0', content: [{ type: 'text', text: 'a chart' }, image] },
      answered,
      ...question,
    ];
    const { model } = await play([read({ id: 'id-0' }), { text: 'Done.' }], { keepLast: 0 }, earlier);
    expect(model.calls[0]?.messages[1]?.content).toContain('1 attachment left out');
    expect(model.calls[1]?.messages.at(-1)?.content).toEqual([
      { type: 'text', text: '[characters 0 to 7 of 7]\na chart' },
      image,
    ]);
  });

  it('sends the same, and knows the same outputs, where another process goes on', async () => {
    const { model: whole } = await play([look, look, { text: 'Done.' }]);
    const call = { ...callOf('look'), id: 'call_1_0' };
    deadTurn(bench, [
      firstCall,
      {
        type: 'llm.done',
        iteration: 1,
        attempt: 1,
        message: { role: 'assistant', content: null, toolCalls: [call] },
        calls: [{ callId: '1:0', call }],
        finishReason: 'tool_calls',
      },
      intentOf(0),
      resultOf(0, page),
    ]);
    const model = bench.model([{ toolCalls: [{ name: 'look', id: 'call_2_0' }] }, { text: 'Done.' }]);
    const config = bench.config(model, { toolProviders, extensions: [toolOutputCache({ keepLast: 1 })] });
    await AgentLoop.resume('t', config).result();
    expect(model.calls.map(({ messages, tools }) => ({ messages, tools }))).toEqual(
      whole.calls.slice(1).map(({ messages, tools }) => ({ messages, tools })),
    );
  });
});
