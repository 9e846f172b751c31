import { expect, it } from '@jest/globals';
import { rpc, serverBench } from './test-server.ts';

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
