import { describe, expect, it } from '@jest/globals';
import { chatPage } from 'millrace/chat';
import { answersOf, eventsOf, newId, parsedList, questionsIn, titleOf, withChat } from 'millrace/internals';

const get = (page: (request: Request) => Response, path: string, method = 'GET') =>
  page(new Request(`https://app.example${path}`, { method }));

describe('chatPage', () => {
  it('serves the page, its script and its style at one address, wherever that is', async () => {
    const page = chatPage({ title: 'Ann & "Bo" <b>', suggestions: ['<i>"'], api: '/api/chat/' });
    for (const path of ['/', '/help/chat', '/help/chat/']) {
      const html = await get(page, path).text();
      expect(html).toContain('<title>Ann &amp; &quot;Bo&quot; &lt;b&gt;</title>');
      expect(html).toContain('data-api="/api/chat"');
      expect(html).toContain('data-suggestions="[&quot;&lt;i&gt;\\&quot;&quot;]"');
      expect(html).not.toContain('data-access-key');
      const [, script = ''] = /<script type="module" src="([^"]+)">/.exec(html) ?? [];
      const [, style = ''] = /<link rel="stylesheet" href="([^"]+)">/.exec(html) ?? [];
      for (const [address, type] of [
        [script, 'text/javascript; charset=utf-8'],
        [style, 'text/css; charset=utf-8'],
      ] as const) {
        const response = get(page, `${path}${address}`);
        expect(response.headers.get('content-type')).toBe(type);
        expect(response.headers.get('cache-control')).toContain('immutable');
        expect((await response.text()).length).toBeGreaterThan(1_000);
      }
    }
  });

  it('V-27 lets the page run its own script only, and load nothing of other origins', async () => {
    const response = get(chatPage(), '/');
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).toContain("connect-src 'self';");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toMatch(/unsafe|https:|\*/);
    const html = await response.text();
    expect(html).not.toMatch(/<script(?![^>]* src=)|<style|https?:| on\w+=/);
    expect(get(chatPage({ api: 'https://api.example/chat' }), '/').headers.get('content-security-policy')).toContain(
      "connect-src 'self' https://api.example;",
    );
  });

  it('V-29 is at most 100 KB, minified', async () => {
    const page = chatPage();
    const sizes = await Promise.all(
      ['/', '/?script', '/?style'].map(async (path) => (await get(page, path).text()).length),
    );
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(100_000);
  });

  it('answers GET and HEAD', async () => {
    const head = get(chatPage(), '/', 'HEAD');
    expect([head.status, await head.text()]).toEqual([200, '']);
    const post = get(chatPage(), '/', 'POST');
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });

  it.each([
    [{ api: 'api/chat' }, /api must be the path .*, not "api\/chat"/],
    [{ api: '//other.example' }, /api must be/],
    [{ api: 'javascript:x' }, /api must be/],
    [{ title: 7 }, /title must be a string, not 7/],
    [{ suggestions: 'a' }, /suggestions must be an array of strings, not "a"/],
    [{ accessKey: 'secret' }, /accessKey must be true or false/],
    [{ agent: 1 }, /chatPage has no option "agent"; the options are: api, title/],
  ])('refuses %j', (options, message) => {
    const refuse: (options: object) => unknown = chatPage;
    expect(() => refuse(options)).toThrow(message);
  });
});

describe('the list of conversations', () => {
  it('titles a chat by its first message, keeps the newest in front and 200 at most', () => {
    const list = withChat([], { id: 'a', text: '  First\nsecond line', at: 1 });
    const more = withChat(withChat(list, { id: 'b', text: 'Other', at: 2 }), { id: 'a', text: 'More', at: 3 });
    expect(more).toEqual([
      { id: 'a', title: 'First', at: 3 },
      { id: 'b', title: 'Other', at: 2 },
    ]);
    const many = Array.from({ length: 300 }, (_, at) => ({ id: `${at}`, title: 't', at }));
    expect(withChat(many, { id: 'new', text: 'x', at: 1 })).toHaveLength(200);
    expect(titleOf('𝒳'.repeat(100))).toBe(`${'𝒳'.repeat(59)}…`);
  });

  it('takes what the storage has as far as it is a list', () => {
    const good = { id: 'a', title: 't', at: 1 };
    expect(parsedList(JSON.stringify([good, { id: '' }, null, 7]))).toEqual([good]);
    for (const text of [null, '', '{', '{}', '7']) expect(parsedList(text)).toEqual([]);
    expect(newId()).toMatch(/^[\da-f]{32}$/);
    expect(newId()).not.toBe(newId());
  });
});

describe('the questions of a message', () => {
  it('are those of approvals and of other parts, each once, and are answered by their ids', () => {
    const approval = { id: 't/1:0', descriptor: { toolName: 'refund', prompt: 'May it?', input: { order: 1 } } };
    const other = { id: 't/1:1', callId: 't/1:1', kind: 'input', prompt: 'Where?' };
    const parts = [
      { type: 'dynamic-tool', toolCallId: 't/1:0', toolName: 'helper', state: 'approval-requested', approval },
      { type: 'dynamic-tool', toolCallId: 't/1:2', toolName: 'x', state: 'output-available', approval: { id: 'y' } },
      { type: 'data-question', id: 't/1:1', data: other },
      { type: 'data-question', id: 't/1:1', data: other },
      { type: 'data-question', data: 'broken' },
    ];
    expect(questionsIn(parts)).toEqual([
      { id: 't/1:0', callId: 't/1:0', kind: 'approval', toolName: 'refund', prompt: 'May it?', data: { order: 1 } },
      other,
    ]);
    expect(answersOf('c', 't', new Map([['t/1:1', 'Oslo']]))).toMatchObject({ id: 'c', answers: { 't/1:1': 'Oslo' } });
  });
});

describe('the reader of server-sent events', () => {
  it('gives the data of each event, however it is cut, and skips heartbeats', async () => {
    const bytes = new TextEncoder().encode('data: {"a":\ndata: "ä"}\n\n: \n\ndata: [DONE]\r\n\r\ndata: cut');
    for (const size of [1, 2, 3, 7, 100]) {
      const body = new ReadableStream({
        start(controller) {
          for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
          controller.close();
        },
      });
      const found: string[] = [];
      for await (const data of eventsOf(new Response(body))) found.push(data);
      expect(found).toEqual(['{"a":\n"ä"}', '[DONE]']);
    }
  });
});
