import assert from 'node:assert/strict';
import type { OwnTask, PushConfigs } from 'millrace/a2a';
import { a2aBench, call, refusal, send } from '../bench.ts';
import { message, request } from '../messages.ts';
import { cardAt } from '../serving.ts';
import type { Rule } from './rule.ts';

const says = () => ({ text: 'Hi.' });
const none = { extensions: [] };
const extended = { capabilities: { ...none, extendedAgentCard: true } };
const pushes = { capabilities: { ...none, pushNotifications: true } };

function config(taskId: string, id = '') {
  return { tenant: '', id, taskId, url: 'https://x.org/hook', token: '', authentication: undefined };
}

function keptConfigs() {
  const kept = new Map<string, ReturnType<typeof config>>();
  const asked: OwnTask[] = [];
  const push: PushConfigs = {
    check: async () => {},
    async create(task, made) {
      asked.push(task);
      const stored = { ...config(task.taskId, made.id || `config-${kept.size + 1}`), url: made.url };
      kept.set(stored.id, stored);
      return stored;
    },
    get: async (_, id) => kept.get(id),
    list: async () => [...kept.values()],
    delete: async (_, id) => void kept.delete(id),
  };
  return { push, asked, kept };
}

export const capabilityRules: readonly Rule[] = [
  {
    where: '1.0 §3.3.4',
    must: 'streams MUST be refused by an agent whose card does not declare them',
    async check() {
      const { handler } = a2aBench({ steps: [says], card: { capabilities: none } });
      const { id } = await send(handler, 'Hi');
      assert.match(
        await refusal(handler.sendMessageStream(request(message('Hi')), call())),
        /^UnsupportedOperationError/,
      );
      assert.match(await refusal(handler.resubscribe({ tenant: '', id }, call())), /^UnsupportedOperationError/);
    },
  },
  {
    where: '1.0 §3.3.4',
    must: 'push notifications MUST be refused by an agent whose card does not declare them, in every method',
    async check() {
      const { handler } = a2aBench({ steps: [says] });
      const { id: taskId } = await send(handler, 'Hi');
      const named = { tenant: '', taskId, id: 'c' };
      const works = [
        handler.createTaskPushNotificationConfig(config(taskId), call()),
        handler.getTaskPushNotificationConfig(named, call()),
        handler.listTaskPushNotificationConfigs({ tenant: '', taskId, pageSize: 1, pageToken: '' }, call()),
        handler.deleteTaskPushNotificationConfig(named, call()),
        send(handler, 'Hi', { taskPushNotificationConfig: config('') }),
      ];
      for (const work of works) assert.match(await refusal(work), /^PushNotificationNotSupportedError/);
    },
  },
  {
    where: '1.0 §3.1.7',
    must: 'a configuration MUST be kept for the caller’s own task only, and be found, listed and deleted',
    async check() {
      const { push, kept } = keptConfigs();
      const { handler } = a2aBench({ steps: [says], card: pushes, handler: { push } });
      const { id: taskId } = await send(handler, 'Hi', { user: 'ann' });
      const [ann, bob] = [call({ user: 'ann' }), call({ user: 'bob' })];
      const made = await handler.createTaskPushNotificationConfig(config(taskId), ann);
      const named = { tenant: '', taskId, id: made.id };
      assert.deepEqual(await handler.getTaskPushNotificationConfig(named, ann), made);
      const all = { tenant: '', taskId, pageSize: 10, pageToken: '' };
      assert.deepEqual(await handler.listTaskPushNotificationConfigs(all, ann), { configs: [made], nextPageToken: '' });
      for (const work of [
        handler.createTaskPushNotificationConfig(config(taskId), bob),
        handler.getTaskPushNotificationConfig(named, bob),
        handler.listTaskPushNotificationConfigs(all, bob),
        handler.deleteTaskPushNotificationConfig(named, bob),
        handler.getTaskPushNotificationConfig({ ...named, id: 'another' }, ann),
      ])
        assert.match(await refusal(work), /^TaskNotFoundError/);
      await handler.deleteTaskPushNotificationConfig(named, ann);
      await handler.deleteTaskPushNotificationConfig(named, ann);
      assert.equal(kept.size, 0);
    },
  },
  {
    where: '1.0 §3.2.2',
    must: 'a configuration that comes with a message MUST be kept for the task that it starts',
    async check() {
      const { push, asked } = keptConfigs();
      const { handler } = a2aBench({ steps: [says], card: pushes, handler: { push } });
      const { id } = await send(handler, 'Hi', { taskPushNotificationConfig: config('') });
      assert.deepEqual(
        asked.map(({ taskId }) => taskId),
        [id],
      );
    },
  },
  {
    where: '1.0 §3.1.11',
    must: 'the extended card MUST be refused where the public one does not declare it',
    async check() {
      const { handler } = a2aBench();
      const work = handler.getAuthenticatedExtendedAgentCard({ tenant: '' }, call({ user: 'ann' }));
      assert.match(await refusal(work), /^UnsupportedOperationError/);
    },
  },
  {
    where: '1.0 §3.1.11',
    must: 'an extended card that is declared and not configured MUST be answered with its own error',
    async check() {
      const { handler } = a2aBench({ card: extended });
      const work = handler.getAuthenticatedExtendedAgentCard({ tenant: '' }, call({ user: 'ann' }));
      assert.match(await refusal(work), /^ExtendedAgentCardNotConfiguredError/);
    },
  },
  {
    where: '1.0 §3.1.11',
    must: 'the extended card MUST be given to callers who have authenticated, and to nobody else',
    async check() {
      const extendedCard = () => ({ ...cardAt('http://x'), name: 'More' });
      const { handler } = a2aBench({ card: extended, handler: { extendedCard } });
      const card = await handler.getAuthenticatedExtendedAgentCard({ tenant: '' }, call({ user: 'ann' }));
      assert.equal(card.name, 'More');
      const nobody = handler.getAuthenticatedExtendedAgentCard({ tenant: '' }, call());
      assert.match(await refusal(nobody), /Authentication is required/);
    },
  },
];
