import type { Message, MessageStore } from '../../core/contracts/index.ts';
import type { Pair, PromiseGroup } from '../contract/define-contract.ts';

export interface MessageStoreUnderTest extends Pair<MessageStore> {
  newContextId(): string;
}

export type MessageCases = PromiseGroup<MessageStoreUnderTest>;

/** A turn of two messages. */
export function turnOf(text: string): readonly Message[] {
  return [
    { role: 'user', content: text },
    { role: 'assistant', content: `${text}, you say` },
  ];
}

/** The texts of messages. */
export function textsOf(messages: readonly Message[]): readonly unknown[] {
  return messages.map(({ content }) => content);
}

/** A message of each role, with every member that a message can have. */
export const allMembers: readonly Message[] = [
  { role: 'system', content: 'Be brief.', id: 's-1' },
  { role: 'developer', content: [{ type: 'text', text: 'Be kind.' }] },
  {
    role: 'user',
    id: 'u-1',
    createdAt: '2026-01-02T03:04:05.678Z',
    metadata: { tags: ['a', 'b'], nested: { deep: [null, true, 1.5, 'x'] }, empty: {}, none: [] },
    content: [
      { type: 'text', text: 'What is this? "quotes" \\ \n\t\u0000 äöü 漢字 🐘 \u2028 \ud800' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
      { type: 'file', file: { filename: 'a.txt', file_data: 'data:text/plain;base64,QQ==' } },
      { type: 'file', file: { file_id: 'f-1' } },
    ],
  },
  {
    role: 'assistant',
    content: null,
    reasoning: 'Let me look.',
    toolCalls: [
      { id: 'call-1', type: 'function', function: { name: 'look', arguments: '{"at": 1e2}' } },
      { id: 'call-2', type: 'function', function: { name: 'fail', arguments: '' } },
    ],
  },
  { role: 'tool', toolCallId: 'call-1', content: 'An elephant.', status: 'ok' },
  { role: 'tool', toolCallId: 'call-2', content: [{ type: 'text', text: 'It broke.' }], status: 'error' },
  { role: 'tool', toolCallId: 'call-3', content: '' },
  { role: 'assistant', id: 'a-2', content: 'An elephant.', createdAt: '2026-01-02T03:04:06Z', metadata: { '': 0 } },
];
