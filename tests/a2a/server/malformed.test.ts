import { expect, it } from '@jest/globals';
import { InMemoryPushStore } from 'millrace/a2a';
import { answerOf, rpc, serverBench, wireMessage } from './test-server.ts';

const on = serverBench();

const part = { text: 'Hi' };
const current: readonly unknown[] = ['x', [7], [null], [{}], [{ raw: 7 }], [{ raw: null, url: 7 }], [part, [part]]];
const legacy: readonly unknown[] = [
  7,
  [null],
  [{}],
  [{ kind: 'text' }],
  [{ kind: 'file' }],
  [{ kind: 'file', file: { bytes: 7 } }],
];

it.each([
  ...current.map((parts) => ['1.0', 'SendMessage', { role: 'ROLE_USER', parts }] as const),
  ...legacy.map((parts) => ['0.3', 'message/send', { kind: 'message', role: 'user', parts }] as const),
])(
  'A2A %s: a message with parts that are none is the client’s mistake, in words of the server: case %#',
  async (version, method, message) => {
    const { url } = await on.serve({ agent: on.echo([]) });
    const params = { message: { messageId: 'm', ...message } };
    const answer = await (await rpc(url, method, params, { 'a2a-version': version })).json();
    expect(answer).toMatchObject({ error: { code: -32602, message: expect.stringMatching(/part/) } });
    expect(JSON.stringify(answer)).not.toMatch(/Cannot read|argument must|undefined \(/);
  },
);

it.each([
  ['tasks/cancel', { id: null }, /id of a task is required/],
  ['tasks/pushNotificationConfig/set', { pushNotificationConfig: {} }, /url of a push notification configuration/],
  ['tasks/pushNotificationConfig/set', { pushNotificationConfig: { url: null } }, /url of a push notification conf/],
])('H-19 A2A 0.3: %s with %j is the client’s mistake, naming the member', async (method, params, words) => {
  const push = { store: new InMemoryPushStore() };
  const { url } = await on.serve({ agent: on.echo([{ text: 'Hi.' }]), push });
  const sent = await answerOf(rpc(url, 'SendMessage', wireMessage('Hi')));
  const all = { taskId: sent.result.task.id, ...params };
  const answer = await answerOf(rpc(url, method, all, { 'a2a-version': '0.3' }));
  expect(answer).toMatchObject({ error: { code: -32602, message: expect.stringMatching(words) } });
});

it('says so over HTTP, too', async () => {
  const { url } = await on.serve({ agent: on.echo([]) });
  for (const parts of ['x', [null], [{ raw: 7 }]]) {
    const response = await fetch(`${url}/a2a/rest/message:send`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'A2A-Version': '1.0' },
      body: JSON.stringify({ message: { messageId: 'm', role: 'ROLE_USER', parts } }),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { status: 'INVALID_ARGUMENT', details: [{ reason: 'INVALID_PARAMS' }] },
    });
  }
});

it.each([{ messageId: { a: 1 } }, { content: [null] }, { extensions: 'x' }])(
  'H-19 A2A 0.3 over HTTP: a message with %j is the client’s mistake, naming the member',
  async (members) => {
    const { url } = await on.serve({ agent: on.echo([]) });
    const message = { messageId: 'm', role: 'ROLE_USER', content: [{ text: 'Hi' }], ...members };
    for (const path of ['send', 'stream']) {
      const response = await fetch(`${url}/a2a/rest/v1/message:${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'A2A-Version': '0.3' },
        body: JSON.stringify({ request: message }),
      });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        message: expect.stringContaining(`request.${Object.keys(members)}`),
      });
    }
  },
);

const ids = ['messageId', 'contextId', 'taskId'] as const;
const halves = ids.flatMap((id) => ['x\ud800', 'x\u001b[2J'].map((value) => [id, value] as const));

it.each(halves)(
  'a message whose %s is %j is refused by that name on all wires: stores and clients would get another id',
  async (id, value) => {
    const { url } = await on.serve({ agent: on.echo([]) });
    const refused = expect.stringContaining(`message.${id} must not have control characters or lone surrogates`);
    for (const [version, method, role] of [
      ['1.0', 'SendMessage', 'ROLE_USER'],
      ['0.3', 'message/send', 'user'],
    ] as const) {
      const message = { kind: 'message', messageId: 'm', role, parts: [{ kind: 'text', text: 'Hi' }], [id]: value };
      const answer = await answerOf(rpc(url, method, { message }, { 'a2a-version': version }));
      expect(answer).toMatchObject({ error: { code: -32602, message: refused } });
    }
    const response = await fetch(`${url}/a2a/rest/message:send`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'A2A-Version': '1.0' },
      body: JSON.stringify({ message: { messageId: 'm', role: 'ROLE_USER', parts: [part], [id]: value } }),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { message: refused } });
  },
);

it('takes ids of whole characters of any script as they are', async () => {
  const { url } = await on.serve({ agent: on.echo([{ text: 'Hi.' }]) });
  const message = { messageId: 'Grüße-😀', contextId: '会話 😀', role: 'ROLE_USER', parts: [part] };
  const { result } = await answerOf(rpc(url, 'SendMessage', { message }));
  expect(result.task.contextId).toBe(message.contextId);
  expect(result.task.history[0].messageId).toBe(message.messageId);
});

it('refuses a request with more values than it may have before the protocol’s codecs read them', async () => {
  const { url } = await on.serve({ agent: on.echo([{ text: 'Hi.' }]) });
  const metadata = (members: number) =>
    Object.fromEntries(Array.from({ length: members }, (_, index) => [`key-${index}`, index]));
  const sent = (members: number) => ({
    message: { messageId: `m${members}`, role: 'ROLE_USER', parts: [part] },
    metadata: metadata(members),
  });
  const refused = { message: 'The request has more than 20000 values; send large data as a file.' };
  expect(await answerOf(rpc(url, 'SendMessage', sent(100_000)))).toMatchObject({ error: { code: -32600, ...refused } });
  const response = await fetch(`${url}/a2a/rest/message:send`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'A2A-Version': '1.0' },
    body: JSON.stringify(sent(100_000)),
  });
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ error: { details: [{ reason: 'TOO_MANY_VALUES' }], ...refused } });
  expect(await answerOf(rpc(url, 'SendMessage', sent(19_000)))).toMatchObject({ result: { task: { status: {} } } });
});

it.each<[string, string, string, number, string]>([
  ['20,000 values', `{"a":[${'[],'.repeat(1_000_000)}1]}`, '', 400, 'The request has more than 20000 values'],
  ['500 levels', '['.repeat(1_000_000), '', 400, 'The request nests deeper than 500 levels.'],
  ['UTF-16', '{"a":1}', '; charset=utf-16', 415, 'The encoding of the request is not supported.'],
])('refuses a body before it is parsed: %s', async (_, body, charset, status, message) => {
  const { url } = await on.serve({ agent: on.echo([]) });
  const { parse } = JSON;
  const parsed: number[] = [];
  JSON.parse = (text: string, ...rest) => {
    parsed.push(text.length);
    return parse(text, ...rest);
  };
  try {
    const headers = { 'content-type': `application/json${charset}`, 'a2a-version': '1.0' };
    const response = await fetch(`${url}/a2a/jsonrpc`, { method: 'POST', headers, body });
    expect([response.status, await response.text()]).toEqual([status, expect.stringContaining(message)]);
  } finally {
    JSON.parse = parse;
  }
  expect(parsed).not.toContain(body.length);
});

it.each(['pageSize', 'historyLength', 'status'])('H-19 an object as %s is the client’s mistake', async (member) => {
  const { url } = await on.serve({ agent: on.echo([]) });
  for (const method of ['ListTasks', 'ListTaskPushNotificationConfigs', 'GetTask']) {
    const answer = await answerOf(rpc(url, method, { id: 'x', taskId: 'x', [member]: { toString: 'x' } }));
    expect(answer).toMatchObject({ error: { code: -32602, message: expect.stringContaining(member) } });
  }
});
