import { afterEach, describe, expect, it } from '@jest/globals';
import { apiKeyAuth, InMemoryPushStore } from 'millrace/a2a';
import { gate } from 'millrace/testing';
import { key, serverBench } from '../a2a/server/test-server.ts';

const on = serverBench();
let leaving = new AbortController();
afterEach(() => {
  leaving.abort();
  leaving = new AbortController();
});

/** The same path as Express matches it: in any case, with a slash at its end. */
const spellings = (path: string): readonly string[] => [
  path,
  `${path}/`,
  path.toUpperCase(),
  path.replace(/:(\w)/, (_, letter: string) => `:${letter.toUpperCase()}`),
];

const versions = [
  ['1.0', '', { role: 'ROLE_USER', parts: [{ text: 'Wait.' }] }, { returnImmediately: true }],
  ['0.3', '/v1', { role: 'ROLE_USER', content: [{ text: 'Wait.' }] }, { blocking: false }],
] as const;

describe.each(versions)(
  'requests over HTTP+JSON of A2A %s, however their path is written',
  (version, at, said, more) => {
    /** A server whose model answers once the test is over, and what it is asked. */
    async function served(limits: { readonly maxTurns?: number; readonly maxStreams?: number }) {
      const open = gate();
      on.after(() => open.open());
      let calls = 0;
      const provider = {
        call: async () => {
          calls += 1;
          await open.pass();
          return { message: { role: 'assistant' as const, content: 'Done.' } };
        },
      };
      const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
      const { url } = await on.serve({ agent: on.echo([], { provider }), auth, rateLimit: null, ...limits });
      const headers = { 'content-type': 'application/json', 'a2a-version': version, 'x-api-key': key };
      const ask = (path: string, init: RequestInit = {}) =>
        fetch(`${url}/a2a/rest${at}${path}`, { headers, signal: leaving.signal, ...init });
      const post = (path: string) => {
        const body = { message: { messageId: crypto.randomUUID(), ...said }, configuration: more };
        return ask(path, { method: 'POST', body: JSON.stringify(body) });
      };
      return { ask, post, calls: () => calls };
    }

    it('H-17 start no more turns than one caller may have', async () => {
      const { post, calls } = await served({ maxTurns: 1 });
      expect((await post('/message:send')).ok).toBe(true);
      for (const path of [...spellings('/message:send'), ...spellings('/message:stream')]) {
        const refused = await post(path);
        expect([path, refused.status, await refused.text()]).toEqual([
          path,
          429,
          expect.stringContaining('Too many of your tasks'),
        ]);
      }
      expect(calls()).toBe(1);
    });

    it('H-17 open no more streams than one caller may have', async () => {
      const { ask, post } = await served({ maxStreams: 1 });
      const { task } = JSON.parse(await (await post('/message:send')).text());
      const path = `/tasks/${task.id}:subscribe`;
      const first = await ask(path);
      expect([first.status, first.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
      const all = [path, `${path}/`, path.replace(':s', ':S'), path.replace(':subscribe', ':SUBSCRIBE')];
      for (const method of ['GET', 'POST'])
        for (const each of all) {
          const refused = await ask(each, { method });
          expect([each, refused.status, await refused.text()]).toEqual([
            each,
            429,
            expect.stringContaining('Too many streams'),
          ]);
        }
      for (const each of spellings('/message:stream')) expect([each, (await post(each)).status]).toEqual([each, 429]);
    });
  },
);

it('a webhook over HTTP+JSON of A2A 0.3 is of the task of its path, however that is written', async () => {
  const push = { store: new InMemoryPushStore(), allowHttp: true, allowPrivateTargets: true };
  const { url } = await on.serve({ agent: on.echo([]), push });
  const pushNotificationConfig = { id: 'x', url: 'http://127.0.0.1:9/x' };
  for (const path of ['/v1/tasks/one/pushNotificationConfigs', '/V1/TASKS/one/PUSHNOTIFICATIONCONFIGS/']) {
    const answer = await fetch(`${url}/a2a/rest${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'tasks/other', pushNotificationConfig }),
    });
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('another task than the path')]);
  }
});
