import { describe, expect, it } from '@jest/globals';
import type { Message } from 'millrace';
import { goldenRequests, history, pixel } from './request-of-call.ts';
import { anthropic, google, isV4, openai } from './vendor-wires.ts';

const { requestOf } = goldenRequests();

describe('pictures, files and marks', () => {
  const messages: Message[] = [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Look' },
        { type: 'image_url', image_url: { url: 'https://example.com/a.png', detail: 'low' } },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } },
        { type: 'file', file: { filename: 'note.txt', file_data: 'data:text/plain;base64,SGVsbG8=' } },
      ],
    },
  ];

  it('Anthropic: blocks, a picture by address as an address', async () => {
    const { body } = await requestOf(anthropic, { messages });
    expect(body['messages']).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } },
          {
            type: 'document',
            source: { type: 'text', media_type: 'text/plain', data: 'Hello' },
            title: 'note.txt',
          },
        ],
      },
    ]);
  });

  it('Google: parts with data, or with the address', async () => {
    const { body } = await requestOf(google, { messages });
    expect(body['contents']).toEqual([
      {
        role: 'user',
        parts: [
          { text: 'Look' },
          { fileData: { mimeType: isV4 ? 'image/png' : 'image/jpeg', fileUri: 'https://example.com/a.png' } },
          { inlineData: { mimeType: 'image/png', data: pixel } },
          { inlineData: { mimeType: 'text/plain', data: 'SGVsbG8=' } },
        ],
      },
    ]);
  });

  it('OpenAI: as they are, with how close to look', async () => {
    const { body } = await requestOf(openai, { messages });
    expect(body['input']).toEqual([
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'Look' },
          { type: 'input_image', image_url: 'https://example.com/a.png', detail: 'low' },
          { type: 'input_image', image_url: `data:image/png;base64,${pixel}` },
          { type: 'input_file', filename: expect.any(String), file_data: 'data:text/plain;base64,SGVsbG8=' },
        ],
      },
    ]);
  });

  it('marks for the prompt cache: on the instructions, the last message and the last one of the request before', async () => {
    const mark = { cacheControl: { type: 'ephemeral', ttl: '1h' } };
    const params = { messages: [...history, { role: 'user' as const, content: 'Well?' }] };
    const { body } = await requestOf(anthropic, params, { cacheMarks: { anthropic: mark } });
    const marked = { cache_control: { type: 'ephemeral', ttl: '1h' } };
    expect(body['system']).toEqual([{ type: 'text', text: 'Be brief.', ...marked }]);
    const [first, , last] = Array.isArray(body['messages']) ? body['messages'] : [];
    expect(first.content).toEqual([{ type: 'text', text: 'How is Oslo?', ...marked }]);
    expect(last.content.at(-1)).toEqual({ type: 'text', text: 'Well?', ...marked });
    expect(JSON.stringify(body).match(/cache_control/g)).toHaveLength(3);
  });

  it('a mark of the caller, in the metadata of a message', async () => {
    const metadata = { providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } };
    const { body } = await requestOf(anthropic, {
      messages: [
        { role: 'system', content: 'S', metadata },
        { role: 'user', content: 'U', metadata },
      ],
    });
    const marked = { cache_control: { type: 'ephemeral' } };
    expect(body['system']).toEqual([{ type: 'text', text: 'S', ...marked }]);
    expect(body['messages']).toEqual([{ role: 'user', content: [{ type: 'text', text: 'U', ...marked }] }]);
  });
});
