import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Content, LocalToolProvider, type Message, type ToolCall, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import { describeRedis } from '../redis/describe-redis.ts';
import { storeTypes, withStores } from './every-store.ts';

const text = fc.string({ unit: 'binary', maxLength: 20 });
const json = fc.dictionary(text, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }).map((value) => {
  // JSON has no -0, and no key of it is a prototype.
  const plain: Record<string, unknown> = JSON.parse(JSON.stringify(value));
  return plain;
});
const base = {
  id: text,
  createdAt: fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(1e13) }).map((date) => date.toISOString()),
  metadata: json,
};
const optional = { requiredKeys: [] };
const content: fc.Arbitrary<Content> = fc.oneof(
  text,
  fc.array(
    fc.oneof(
      fc.record({ type: fc.constant('text' as const), text }),
      fc.record({ type: fc.constant('image_url' as const), image_url: fc.record({ url: text }) }),
      fc.record({ type: fc.constant('file' as const), file: fc.record({ filename: text, file_id: text }, optional) }),
    ),
    { maxLength: 3 },
  ),
);
const call: fc.Arbitrary<ToolCall> = fc.record({
  id: text,
  type: fc.constant('function' as const),
  function: fc.record({ name: text, arguments: text }),
});
const message: fc.Arbitrary<Message> = fc.oneof(
  fc.record(
    { role: fc.constantFrom('system' as const, 'developer' as const), content, ...base },
    { requiredKeys: ['role', 'content'] },
  ),
  fc.record({ role: fc.constant('user' as const), content, ...base }, { requiredKeys: ['role', 'content'] }),
  fc.record(
    {
      role: fc.constant('assistant' as const),
      content: fc.option(content),
      toolCalls: fc.array(call, { maxLength: 2 }),
      reasoning: text,
      ...base,
    },
    { requiredKeys: ['role', 'content'] },
  ),
  fc.record(
    {
      role: fc.constant('tool' as const),
      toolCallId: text,
      content,
      status: fc.constantFrom('ok' as const, 'error' as const),
      ...base,
    },
    { requiredKeys: ['role', 'toolCallId', 'content'] },
  ),
);

async function callsTools(): Promise<readonly Message[]> {
  const parameters = { type: 'object' } as const;
  const broken = () => {
    throw new Error('It broke.');
  };
  const turn = new AgentLoop({
    agentId: 'a',
    llmProvider: scriptedLLM([{ toolCalls: [{ name: 'works' }, { name: 'breaks' }] }, { text: 'Well.' }]),
    toolProviders: [
      new LocalToolProvider([
        tool({ name: 'works', description: 'Works.', parameters, execute: () => 'Fine.' }),
        tool({ name: 'breaks', description: 'Breaks.', parameters, execute: broken }),
      ]),
    ],
    enableTracing: false,
  }).startTurn([{ role: 'user', content: 'Go.' }]);
  return (await turn.result()).messages;
}

for (const type of storeTypes) {
  const define = type === 'redis' ? describeRedis : describe;
  define(`messages in a store of type ${type}`, () => {
    it('S4-01 come back as they were given, whatever they hold', async () => {
      await withStores(type, async (writer, reader) => {
        let turn = 0;
        const comesBack = async (messages: readonly Message[]): Promise<void> => {
          const contextId = `c-${turn++}`;
          await writer.append(contextId, 't', messages);
          const loaded = await reader.load(contextId);
          expect(loaded.messages).toEqual(messages);
          expect(JSON.stringify(loaded.messages)).toBe(JSON.stringify(messages));
        };
        await fc.assert(fc.asyncProperty(fc.array(message, { maxLength: 6 }), comesBack), { numRuns: 60 });
      });
    });

    it('S4-03 of tools keep the status ok and error that a return and a throw gave them', async () => {
      await withStores(type, async (writer, reader) => {
        const messages = await callsTools();
        await writer.append('c', 't', messages);
        const loaded = (await reader.load('c')).messages;
        expect(loaded).toEqual(messages);
        // A tool message without a status is ok.
        const statuses = loaded.flatMap((said) => (said.role === 'tool' ? [said.status ?? 'ok'] : []));
        expect(statuses).toEqual(['ok', 'error']);
      });
    });

    it('S4-04 are those of their context, in order and with its metadata; another context sees none of them', async () => {
      await withStores(type, async (writer, reader) => {
        const first: Message = { role: 'user', content: 'First' };
        const second: Message = { role: 'assistant', content: 'Second' };
        await writer.append('c', 'turn-1', [first]);
        await writer.append('other', 'turn-1', [{ role: 'user', content: 'Theirs' }]);
        await writer.append('c', 'turn-2', [second]);
        await writer.setMetadata('c', { title: 'Ours' });
        expect(await reader.load('c')).toMatchObject({ messages: [first, second], metadata: { title: 'Ours' } });
        const other = await reader.load('other');
        expect({ messages: other.messages, metadata: other.metadata }).toEqual({
          messages: [{ role: 'user', content: 'Theirs' }],
          metadata: {},
        });
      });
    });
  });
}
