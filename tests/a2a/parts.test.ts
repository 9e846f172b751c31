import type { Part } from '@a2a-js/sdk';
import { describe, expect, it } from '@jest/globals';
import { a2aBench, call, refusal, send } from './bench.ts';
import { data, message, text } from './messages.ts';

const says = () => ({ text: 'Seen.' });
const png = Buffer.from('\x89PNG');

function raw(mediaType: string, filename = '', value: Buffer = png): Part {
  return { content: { $case: 'raw', value }, mediaType, filename, metadata: undefined };
}

function url(value: string, mediaType = ''): Part {
  return { content: { $case: 'url', value }, mediaType, filename: '', metadata: undefined };
}

async function contentOf(parts: readonly Part[]) {
  const { handler, model } = a2aBench({ steps: [says] });
  await send(handler, message(parts));
  return model.calls[0]?.messages.at(-1)?.content;
}

describe('the parts of a message reach the model', () => {
  it('a text as it is, data as JSON', async () => {
    expect(await contentOf([text('Hi')])).toBe('Hi');
    expect(await contentOf([text('Look:'), data({ a: [1] })])).toEqual([
      { type: 'text', text: 'Look:' },
      { type: 'text', text: '{"a":[1]}' },
    ]);
  });

  it('pictures by content or by address, other files by content', async () => {
    const address = `data:image/png;base64,${png.toString('base64')}`;
    expect(await contentOf([raw('image/png')])).toEqual([{ type: 'image_url', image_url: { url: address } }]);
    for (const picture of [url('https://x.org/a', 'image/webp'), url('https://x.org/a.png?v=1')])
      expect(await contentOf([picture])).toEqual([{ type: 'image_url', image_url: { url: picture.content?.value } }]);
    expect(await contentOf([raw('application/pdf', 'a.pdf')])).toEqual([
      { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${png.toString('base64')}` } },
    ]);
  });

  it.each([
    ['a type that is no input mode of the agent', raw('video/mp4')],
    ['bytes of no type', raw('')],
    ['a document by address, which nobody fetches', url('https://x.org/a.pdf', 'application/pdf')],
    ['an address of no type', url('https://x.org/a')],
    ['an address that is not of the web', url('file:///etc/passwd.png')],
    ['an address without encryption', url('http://169.254.169.254/a.png')],
  ])('but not %s', async (_, part) => {
    const { handler, model } = a2aBench({ steps: [says] });
    expect(await refusal(send(handler, message([part])))).toMatch(/^ContentTypeNotSupportedError: /);
    expect(model.calls).toEqual([]);
  });
});

it('shows a client what it sent, with types, names and metadata', async () => {
  const { handler } = a2aBench({ steps: [says] });
  const parts: Part[] = [
    { ...text('Look'), mediaType: 'text/markdown', metadata: { lang: 'en' } },
    data(null),
    data({ deep: { list: [1, 'two', null] } }),
    raw('image/png', 'cat.png'),
    raw('application/pdf', 'a.pdf'),
    url('https://x.org/a.png', 'image/png'),
  ];
  const sent = message(parts, { metadata: { from: 'here' }, extensions: ['urn:x'], referenceTaskIds: ['t'] });
  const { id, contextId } = await send(handler, sent);
  const { history } = await handler.getTask({ tenant: '', id }, call());
  expect(history[0]).toEqual({ ...sent, taskId: id, contextId });
});
