import { afterEach, describe, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { JsonCounter } from 'millrace/internals';
import { openAIHandler } from 'millrace/openai';
import { scriptedLLM } from 'millrace/testing';
import { agUiHandler, uiMessageHandler } from 'millrace/ui';

const nested = (levels: number, inside = '') => `${'['.repeat(levels)}${inside}${']'.repeat(levels)}`;
const items = (count: number, item = '1') => `[${Array.from({ length: count }, () => item).join()}]`;

describe('JsonCounter', () => {
  it.each<[string, string, 'depth' | 'values' | undefined]>([
    ['500 levels', nested(500), undefined],
    ['501 levels', nested(501), 'depth'],
    ['501 levels of objects', `${'{"a":'.repeat(501)}1`, 'depth'],
    ['501 levels that end where others begin', `[${'[],'.repeat(501)}1]`, undefined],
    ['20,000 values', items(19_999), undefined],
    ['20,001 values', items(20_000), 'values'],
    ['20,000 values in spaces', items(19_999, ' \n{ } '), undefined],
    ['20,001 values in spaces', items(20_000, ' \n[ ] '), 'values'],
    ['20,001 members', `{${Array.from({ length: 20_000 }, (_, i) => `"${i}":"x"`).join()}}`, 'values'],
    ['brackets and commas in a string', JSON.stringify('[,{"'.repeat(30_000)), undefined],
    ['strings that end in backslashes', `["\\\\","\\"","${'\\\\'.repeat(3)}",${items(19_995)}]`, undefined],
    ['more values after them', `["\\\\","\\"","${'\\\\'.repeat(3)}",${items(19_996)}]`, 'values'],
  ])('counts as JSON.parse would find it, however the bytes are cut: %s', (_, text, fault) => {
    const bytes = Buffer.from(text);
    for (const size of [1, 2, 3, 7, 4_096, bytes.length]) {
      const counter = new JsonCounter();
      let found: unknown;
      for (let at = 0; at < bytes.length && found === undefined; at += size)
        found = counter.add(bytes.subarray(at, at + size));
      expect([size, found]).toEqual([size, fault]);
    }
  });
});

const closing: { close(): void }[] = [];
afterEach(() => {
  for (const each of closing.splice(0)) each.close();
});

/** A body in pieces of 64 KiB, and how much of it was read. */
function pieces(text: string) {
  const bytes = Buffer.from(text);
  let read = 0;
  const body = new ReadableStream({
    pull(controller) {
      if (read >= bytes.length) return controller.close();
      controller.enqueue(bytes.subarray(read, read + 65_536));
      read += 65_536;
    },
  });
  return { body, read: () => read };
}

describe.each(['uiMessageHandler', 'agUiHandler', 'openAIHandler'])('the body of a post to %s', (name) => {
  const handlerFor = (user: string | undefined) => {
    const one = agent({ id: 'x', provider: scriptedLLM([]), taskStateStore: new InMemoryStateStore() });
    const options = { scopeOf: () => user, recoverEveryMs: 0 };
    const handler =
      name === 'openAIHandler'
        ? openAIHandler({ agents: [one], ...options })
        : (name === 'agUiHandler' ? agUiHandler : uiMessageHandler)({ agent: one, ...options });
    closing.push(handler);
    return handler;
  };
  const post = async (user: string | undefined, text: string) => {
    const { body, read } = pieces(text);
    const headers = { 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body, duplex: 'half' as const };
    const response = await handlerFor(user)(new Request('http://x/v1/responses', init));
    return { status: response.status, read: read(), answer: await response.text() };
  };
  const large = `{"messages":${items(3_000_000)}}`;

  it('is not read for a caller who is not known', async () => {
    const { status, read } = await post(undefined, large);
    expect(status).toBe(401);
    // A stream reads its first piece by itself.
    expect(read).toBeLessThanOrEqual(65_536);
  });

  it.each([
    ['values', large],
    ['levels', `{"messages":${nested(1_000_000)}}`],
  ])('is read no further than the limit of %s', async (_, text) => {
    const { status, read, answer } = await post('ann', text);
    expect([status, answer]).toEqual([
      400,
      expect.stringContaining('The body nests too deep, or has too many values.'),
    ]);
    expect(read).toBeLessThanOrEqual(3 * 65_536);
  });
});
