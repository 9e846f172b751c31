import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { estimateTokens, foldRecords, type Message, windowHistory } from 'millrace';
import { AgentLoop, summaryMessage } from 'millrace/internals';
import type { WindowOptions } from 'millrace/types';
import { plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';
import { cleanHistory } from './context/random-history.ts';

const bench = turnBench();
const toolProviders = [plainTools({ look: () => 1 })];
const system: Message = { role: 'system', content: 'Be brief.' };
const user: Message = { role: 'user', content: 'And now?' };

/** Talk in pairs, each of a question and an answer. */
const talk = (count: number): readonly Message[] =>
  Array.from({ length: count }, (_, index) =>
    index % 2 === 0
      ? { role: 'user', content: `question ${index}` }
      : { role: 'assistant', content: `answer ${index}` },
  );

/** A conversation in which each answer asked for two tools at once. */
const work = (batches: number): readonly Message[] =>
  Array.from({ length: batches }, (_, batch): readonly Message[] => [
    { role: 'user', content: `task ${batch}` },
    {
      role: 'assistant',
      content: null,
      toolCalls: ['a', 'b'].map((id) => ({
        id: `${batch}${id}`,
        type: 'function',
        function: { name: 'look', arguments: '{}' },
      })),
    },
    { role: 'tool', toolCallId: `${batch}a`, content: 'found' },
    { role: 'tool', toolCallId: `${batch}b`, content: 'nothing' },
  ]).flat();

interface Sending {
  readonly options?: WindowOptions;
  readonly streaming?: boolean;
}

/** What the only call of a turn sends that begins with these messages, and what the turn's history is at its end. */
async function sentOf(messages: readonly Message[], { options, streaming = true }: Sending = {}) {
  const model = bench.model([{ text: 'Good.' }], { streaming });
  const extensions = [windowHistory(options)];
  const config = bench.config(model, { extensions, toolProviders, systemPrompt: 'You are a clerk.' });
  const { taskId } = await new AgentLoop(config).startTurn(messages).result();
  const [{ messages: sent, tools } = { messages: [], tools: [] }] = model.calls;
  return { sent, tools, history: foldRecords(bench.store.read(taskId)).messages };
}

describe('windowHistory', () => {
  it('lets a summary go where there is room for one message only', async () => {
    const summary = summaryMessage({ upTo: 4, summary: 'They talked.' });
    const { sent } = await sentOf([summary, ...talk(4), user], { options: { maxMessages: 1 } });
    expect(sent.slice(1)).toEqual([user]);
    const two = await sentOf([summary, ...talk(4), user], { options: { maxMessages: 2 } });
    expect(two.sent.slice(1)).toEqual([summary, user]);
  });

  it('S0-13 sends the last 50 messages by default, beside the system message, and keeps the history whole', async () => {
    const messages = talk(81);
    const { sent, history } = await sentOf(messages);
    expect(sent).toEqual([{ role: 'system', content: 'You are a clerk.' }, ...messages.slice(-50)]);
    expect(history).toEqual([...messages, { role: 'assistant', content: 'Good.' }]);
  });

  it('S0-14 starts every request with the system message of the history, outside the count', async () => {
    const messages = [system, ...talk(80), user];
    const model = bench.model([{ toolCalls: [{ name: 'look' }] }, { text: 'Good.' }]);
    const config = bench.config(model, { extensions: [windowHistory()], toolProviders });
    await new AgentLoop(config).startTurn(messages).result();
    expect(model.calls).toHaveLength(2);
    for (const call of model.calls) {
      expect(call.messages[0]).toEqual(system);
      expect(call.messages).toHaveLength(51);
      expect(call.messages.filter(({ role }) => role === 'system')).toHaveLength(1);
    }
  });

  it('S4-43 cuts at a tool boundary: the last messages, and fewer where a call would be torn from its results', async () => {
    const messages = [...work(3), user];
    const four = await sentOf(messages, { options: { maxMessages: 4 } });
    expect(four.sent.slice(1)).toEqual([...messages.slice(9, 12), user]);
    const three = await sentOf(messages, { options: { maxMessages: 3 } });
    expect(three.sent.slice(1)).toEqual([user]);
  });

  it('S0-15 never sends a result without its call, nor a call without its result', async () => {
    await fc.assert(
      fc.asyncProperty(cleanHistory, fc.integer({ min: 1, max: 12 }), async (history, maxMessages) => {
        const { sent } = await sentOf([...history, user], { options: { maxMessages } });
        const open = new Set<string>();
        for (const message of sent) {
          if (message.role === 'tool') expect(open.delete(message.toolCallId)).toBe(true);
          else expect([...open]).toEqual([]);
          if (message.role === 'assistant') for (const { id } of message.toolCalls ?? []) open.add(id);
        }
        expect([...open]).toEqual([]);
        expect(sent.filter(({ role }) => role !== 'system').length).toBeLessThanOrEqual(maxMessages);
        expect(sent.at(-1)).toEqual(user);
      }),
      { numRuns: 60 },
    );
  });

  it('S0-16 sends the same to a provider that streams and to one that only answers calls', async () => {
    const messages = [system, ...talk(80)];
    const streamed = await sentOf(messages);
    const called = await sentOf(messages, { streaming: false });
    expect(called.sent).toEqual(streamed.sent);
    expect(called.sent).toHaveLength(51);
  });

  it('S4-44 sends the longest end within maxTokens, system message and tools counted, cut at a tool boundary', async () => {
    const messages = [system, ...work(12), user];
    const instructions: Message = { role: 'system', content: 'You are a clerk.\n\nBe brief.' };
    const tokensOf = (sent: readonly Message[]) => sent.reduce((sum, message) => sum + estimateTokens(message), 0);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 80, max: 450 }), async (maxTokens) => {
        const { sent, tools = [] } = await sentOf(messages, { options: { maxTokens } });
        const ofTools = tools.reduce((sum, tool) => sum + estimateTokens(JSON.stringify(tool.function)), 0);
        expect(tokensOf(sent) + ofTools).toBeLessThanOrEqual(maxTokens);
        expect(sent[0]).toEqual(instructions);
        const ends = messages.map((_, at) => messages.slice(at)).filter(([first]) => first?.role !== 'tool');
        const fitting = ends.find((end) => {
          const rest = end.filter(({ role }) => role !== 'system');
          return rest.length <= 50 && tokensOf([instructions, ...rest]) + ofTools + 4 * tools.length <= maxTokens;
        });
        expect(sent.slice(1)).toEqual(fitting?.filter(({ role }) => role !== 'system'));
      }),
      { numRuns: 40 },
    );
  });

  it.each([
    [{ maxMessages: 0 }, 'windowHistory: maxMessages must be a whole number of at least 1, not 0.'],
    [{ maxTokens: 1.5 }, 'windowHistory: maxTokens must be a whole number of at least 1, not 1.5.'],
  ])('refuses %j, in words', (options, message) => {
    expect(() => windowHistory(options)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG', message }));
  });
});
