import { connect } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import type { RouteAgent } from 'millrace/a2a';
import { openAIHandler } from 'millrace/openai';
import { uiMessageHandler } from 'millrace/ui';
import { eventually } from '../../eventually.ts';
import { rpc, serverBench, wireMessage } from './test-server.ts';

const on = serverBench();
const routes = [
  { path: '/v1', handlerOf: ({ agent, ...callers }: RouteAgent) => openAIHandler({ ...callers, agents: [agent] }) },
  { path: '/talk', handlerOf: (served: RouteAgent) => uiMessageHandler(served) },
];

async function served() {
  const lines: { readonly level: string; readonly message: string; readonly fields: object }[] = [];
  const log =
    (level: string) =>
    (message: string, fields: object = {}) =>
      void lines.push({ level, message, fields });
  const logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') };
  const { url } = await on.serve({ agent: on.echo([{ text: 'Hi.' }], { logger }), logger, routes });
  const requests = () => lines.flatMap(({ message, fields }) => (message === 'request' ? [fields] : []));
  return { url, lines, requests };
}

describe('the log of requests', () => {
  it('has operations, and no ids or tenants, however a path is written', async () => {
    const { url, requests } = await served();
    const operations = {
      '/a2a/rest/tasks/secret': '/a2a/rest/tasks/…',
      '/a2a/rest/TASKS/secret:cancel': '/a2a/rest/TASKS/…:cancel',
      '/a2a/rest/secret/tasks/secret:subscribe/': '/a2a/rest/…/tasks/…:subscribe/',
      '/a2a/rest/v1/tasks/secret/pushNotificationConfigs/secret': '/a2a/rest/v1/tasks/…/pushNotificationConfigs/…',
      '/v1/responses/resp_secret/cancel': '/v1/responses/…/cancel',
      '/v1/models/secret': '/v1/models/…',
      '/talk/secret/stop': '/talk/…/stop',
      '/secret/unknown': '/…/…',
    };
    for (const path of Object.keys(operations)) await (await fetch(url + path, { method: 'POST' })).text();
    await (await rpc(url, 'SendMessage', wireMessage('secret'))).text();
    const wanted = [...Object.values(operations), 'SendMessage'];
    await eventually(() => requests().length === wanted.length);
    expect(requests()).toMatchObject(wanted.map((operation) => ({ operation })));
  });

  it.each(['/v1/responses', '/talk', '/a2a/jsonrpc'])(
    'has a client that leaves in the middle of its body at %s as a request that did not finish',
    async (path) => {
      const { url, lines, requests } = await served();
      const socket = connect(Number(new URL(url).port), '127.0.0.1');
      const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000`;
      const isReached = new Promise((resolve) => socket.once('data', resolve));
      // The server says that it reads the body.
      socket.write(`${head}\r\nExpect: 100-continue\r\n\r\n`);
      await isReached;
      socket.write('{"model":');
      socket.end();
      socket.destroySoon();
      await eventually(() => requests().length === 1);
      // What the handler logs comes before the answer to a later request.
      await fetch(`${url}/healthz`);
      expect(requests()).toMatchObject([{ finished: false }]);
      expect(lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
    },
  );
});
