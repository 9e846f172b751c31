import { createHash, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { InMemoryStateStore } from 'millrace';
import { InMemoryPushStore, type PushOptions } from 'millrace/a2a';
import { gate, scriptedLLM } from 'millrace/testing';
import { answerOf, clientOf, message, rpc, serverBench, wireMessage } from './test-server.ts';
import { type Received, Webhook } from './webhook.ts';

const on = serverBench();

async function webhook(): Promise<Webhook> {
  const hook = await Webhook.start();
  on.after(() => hook.close());
  return hook;
}

const local = { allowPrivateTargets: true, allowHttp: true, intervalMs: 0 };

function push(more: Partial<PushOptions> = {}): PushOptions {
  return { store: new InMemoryPushStore(), ...local, ...more };
}

const isDone = (received: readonly Received[]) => received.some(({ body }) => body.includes('TASK_STATE_COMPLETED'));

function withHook(url: string, more: object = {}): object {
  return { ...wireMessage('Hi'), configuration: { taskPushNotificationConfig: { url, ...more } } };
}

describe('push notifications', () => {
  it('go to the address that came with a message, with its token, in order, to the end', async () => {
    const hook = await webhook();
    const { url } = await on.serve({ agent: on.echo([{ text: ['Hel', 'lo.'] }]), push: push() });
    const authentication = { scheme: 'Bearer', credentials: 'secret' };
    await rpc(url, 'SendMessage', withHook(hook.url, { token: 'known', authentication }));
    await hook.until(isDone);
    const bodies = hook.received.map(({ body }) => JSON.parse(body));
    expect(Object.keys(bodies[0])).toEqual(['task']);
    expect(bodies.at(-1)).toMatchObject({ statusUpdate: { status: { state: 'TASK_STATE_COMPLETED' } } });
    const text = bodies.flatMap(
      ({ artifactUpdate }) => artifactUpdate?.artifact.parts.map((part: { text: string }) => part.text) ?? [],
    );
    const [{ task }] = bodies;
    const before = (task.artifacts ?? []).flatMap(({ parts }: { parts: { text: string }[] }) =>
      parts.map((part) => part.text),
    );
    expect([...before, ...text].join('')).toContain('Hello.');
    for (const { headers } of hook.received) {
      expect(headers).toMatchObject({
        'content-type': 'application/a2a+json',
        'x-a2a-notification-token': 'known',
        authorization: 'Bearer secret',
      });
    }
    expect(new Set(hook.received.map(({ headers }) => headers['x-millrace-delivery'])).size).toBe(hook.received.length);
  });

  it('are registered once by a message that comes twice, and not sent again from the start', async () => {
    const hook = await webhook();
    const store = new InMemoryPushStore();
    const { url } = await on.serve({ agent: on.echo([{ text: 'Hello.' }]), push: push({ store, mostPerTask: 1 }) });
    const sent = withHook(hook.url);
    const { result } = await answerOf(rpc(url, 'SendMessage', sent));
    await hook.until(isDone);
    const { length } = hook.received;
    expect((await answerOf(rpc(url, 'SendMessage', sent))).result.task.id).toBe(result.task.id);
    expect(store.list(result.task.id)).toHaveLength(1);
    expect(await store.claim({ owner: 'x', leaseMs: 1, limit: 9 })).toEqual([]);
    expect(hook.received).toHaveLength(length);
  });

  it('R-03 that a task has no room for are refused before the message that brings them is received', async () => {
    const hook = await webhook();
    const held = gate();
    const journal = new InMemoryStateStore();
    const provider = scriptedLLM([{ gate: held.pass(), text: 'Hello.' }]);
    const agent = on.echo([], { provider, taskStateStore: journal });
    const { url } = await on.serve({ agent, push: push({ mostPerTask: 1 }) });
    const configuration = { returnImmediately: true, taskPushNotificationConfig: { url: hook.url } };
    const { result } = await answerOf(rpc(url, 'SendMessage', { ...wireMessage('Hi'), configuration }));
    const taskId: string = result.task.id;
    const more = { messageId: 'more', role: 'ROLE_USER', taskId, parts: [{ text: 'And more.' }] };
    const refused = await answerOf(rpc(url, 'SendMessage', { message: more, configuration }));
    expect(refused.error.message).toContain('at most 1 push notification');
    held.open();
    await hook.until(isDone);
    expect(JSON.stringify(journal.read(taskId))).not.toContain('And more.');
  });

  it('are the whole task for who registered in 0.3', async () => {
    const hook = await webhook();
    const { url } = await on.serve({ agent: on.echo([{ text: 'Hello.' }]), push: push() });
    const params = {
      message: { kind: 'message', messageId: 'm-0.3', role: 'user', parts: [{ kind: 'text', text: 'Hi' }] },
      configuration: { pushNotificationConfig: { url: hook.url, token: 'known' }, blocking: true },
    };
    await rpc(url, 'message/send', params, { 'a2a-version': '0.3' });
    await hook.until((received) => received.some(({ body }) => body.includes('"completed"')));
    expect(JSON.parse(hook.received.at(-1)?.body ?? '')).toMatchObject({
      kind: 'task',
      status: { state: 'completed' },
      artifacts: [{ artifactId: 'answer-1', parts: [{ kind: 'text', text: 'Hello.' }] }],
    });
  });

  it('are sent again, with the same id, until they are taken', async () => {
    const hook = await webhook();
    hook.answers.push({ status: 500 }, { status: 302, headers: { location: `${hook.url}/else` } });
    const { url } = await on.serve({ agent: on.echo([{ text: 'Hello.' }]), push: push() });
    await rpc(url, 'SendMessage', withHook(hook.url));
    await hook.until(isDone);
    const ids = hook.received.map(({ headers }) => headers['x-millrace-delivery']);
    expect(ids[0]).toBe(ids[1]);
    expect(ids[1]).toBe(ids[2]);
    expect(ids[3]).not.toBe(ids[2]);
  });

  it('go on, after the process that delivered them is gone, in another, where it was', async () => {
    const hook = await webhook();
    const stores = { store: new InMemoryPushStore(), journal: new InMemoryStateStore() };
    const held = gate();
    const provider = {
      call: async () => {
        await held.pass();
        return { message: { role: 'assistant' as const, content: 'Never.' } };
      },
    };
    const agent = on.echo([], { provider, taskStateStore: stores.journal });
    const first = await on.serve({ agent, push: push({ store: stores.store }) });
    const configuration = { returnImmediately: true, taskPushNotificationConfig: { url: hook.url } };
    await rpc(first.url, 'SendMessage', { ...wireMessage('Hi'), configuration });
    await held.reached;
    await hook.until(({ length }) => length > 0);
    const taskId = JSON.parse(hook.received[0]?.body ?? '').task.id;
    while (stores.store.list(taskId)[0]?.cursor === undefined) await new Promise(setImmediate);
    await first.server.close();
    const second = on.echo([{ text: 'Hello.' }], { taskStateStore: stores.journal });
    await on.serve({ agent: second, push: push({ store: stores.store }) });
    await hook.until(isDone);
    const tasks = hook.received.filter(({ body }) => 'task' in JSON.parse(body));
    expect(tasks).toHaveLength(1);
    expect(hook.received.map(({ body }) => body).join()).not.toContain('Never');
    held.open();
  });

  it('are signed with a key whose public half the server shows', async () => {
    const hook = await webhook();
    const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const signing = { key, algorithm: 'ES256', keyId: 'k1' };
    const { url } = await on.serve({ agent: on.echo([{ text: 'Hello.' }]), push: push({ signing }) });
    await rpc(url, 'SendMessage', withHook(hook.url));
    await hook.until(isDone);
    const [{ headers, body } = { headers: {}, body: '' }] = hook.received;
    const keys = createRemoteJWKSet(new URL(`${url}/.well-known/jwks.json`));
    const { payload } = await jwtVerify(String(headers['x-millrace-signature']), keys, {
      audience: new URL(hook.url).origin,
    });
    expect(payload['request_body_sha256']).toBe(createHash('sha256').update(body).digest('hex'));
    expect(payload.jti).toBe(headers['x-millrace-delivery']);
    const published = await answerOf(fetch(`${url}/.well-known/jwks.json`));
    expect(Object.keys(published.keys[0]).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y']);
  });

  it('are registered, shown and removed, under ids of the server, without their secrets', async () => {
    const hook = await webhook();
    const { url } = await on.serve({ agent: on.echo([{ text: 'Hello.' }]), push: push({ mostPerTask: 2 }) });
    const client = await clientOf(url);
    const task = await client.sendMessage(message('Hi'));
    const taskId = 'id' in task ? task.id : '';
    const authentication = { scheme: 'Basic', credentials: 'c2VjcmV0' };
    const config = { tenant: '', id: '', taskId, url: hook.url, token: 't', authentication };
    const made = await client.createTaskPushNotificationConfig(config);
    expect(made.id).toMatch(/^[0-9a-f-]{36}$/);
    const key = { tenant: '', taskId, id: made.id };
    expect(await client.getTaskPushNotificationConfig(key)).toMatchObject({
      url: hook.url,
      authentication: { scheme: 'Basic', credentials: '' },
    });
    await client.createTaskPushNotificationConfig(config);
    await expect(client.createTaskPushNotificationConfig(config)).rejects.toThrow('at most 2');
    const list = { tenant: '', taskId, pageSize: 0, pageToken: '' };
    expect((await client.listTaskPushNotificationConfig(list)).configs).toHaveLength(2);
    await client.deleteTaskPushNotificationConfig(key);
    expect((await client.listTaskPushNotificationConfig(list)).configs).toHaveLength(1);
    await expect(client.getTaskPushNotificationConfig(key)).rejects.toThrow();
  });

  it.each([
    ['http://example.com/hook', 'https'],
    ['https://127.0.0.1/hook', 'public internet'],
    ['https://localhost/hook', 'public internet'],
    ['https://[::1]/hook', 'public internet'],
    ['https://[::ffff:10.0.0.1]/hook', 'public internet'],
    ['https://169.254.169.254/latest/meta-data', 'public internet'],
    ['https://0x7f.1/hook', 'public internet'],
    ['https://user:password@example.com/', 'credentials'],
    ['hook', 'absolute address'],
  ])('are not registered for %s, and nothing starts', async (target, why) => {
    const agent = on.echo([]);
    const { url } = await on.serve({ agent, push: { store: new InMemoryPushStore() } });
    const refused = await answerOf(rpc(url, 'SendMessage', withHook(target)));
    expect(refused.error).toMatchObject({ code: -32602, message: expect.stringContaining(why) });
    expect((await answerOf(rpc(url, 'ListTasks', {}))).result.tasks).toEqual([]);
  });

  it('are said not to be there where the server has no store for them', async () => {
    const { url } = await on.serve({ agent: on.echo([]) });
    const refused = await answerOf(rpc(url, 'SendMessage', withHook('https://example.com')));
    expect(refused.error.code).toBe(-32003);
  });
});
