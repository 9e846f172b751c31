import { randomUUID } from 'node:crypto';
import type { AuthenticationInfo, TaskPushNotificationConfig } from '@a2a-js/sdk';
import { AgentLoopError, type Clock } from '../../../core/contracts/index.ts';
import type { PushEntry } from '../../../stores/push/push-store.ts';
import type { PushConfigs } from '../../kept-in-stores.ts';
import { malformed } from '../../protocol-errors.ts';
import type { PushDelivery } from './push-delivery.ts';
import type { PushOptions } from './push-sender.ts';
import { checkedTarget } from './push-target.ts';

/** A header that can be set with it: no line ends, no controls. */
const headerText = /^[\x20-\x7e]{1,4096}$/;
const schemeText = /^[\w!#$%&'*+.^`|~-]{1,64}$/;
const idText = /^[\w.:-]{1,128}$/;

/** Creates, returns and deletes push notification configurations, and starts their deliveries. */
export function pushRegistrations(push: PushOptions, delivery: PushDelivery, clock: Clock): PushConfigs {
  const { store, mostPerTask = 5 } = push;
  let last = 0;
  /** Never the same twice, so that registrations of one millisecond keep their order. */
  const registeredAt = () => {
    last = Math.max(last + 1, clock.now());
    return last;
  };
  const full = () => malformed(`A task has at most ${mostPerTask} push notification configurations; delete one first.`);
  return {
    async check(config, task) {
      await check(config, push);
      const others = task ? (await store.list(task.taskId)).filter(({ configId }) => configId !== config.id) : [];
      if (others.length >= mostPerTask) throw full();
    },
    async create({ taskId }, config, version) {
      await check(config, push);
      const entry = { ...entryOf(taskId, config, version), registeredAt: registeredAt() };
      if (!(await store.add(entry, mostPerTask))) throw full();
      await delivery.take(taskId);
      return configOf(entry);
    },
    async get({ taskId }, configId) {
      const entry = await store.get({ taskId, configId });
      return entry && configOf(entry);
    },
    async list({ taskId }) {
      const entries = await store.list(taskId);
      return [...entries].sort((one, other) => (one.registeredAt ?? 0) - (other.registeredAt ?? 0)).map(configOf);
    },
    async bytes({ taskId }) {
      const entries = await store.list(taskId);
      return entries.reduce((sum, entry) => sum + Buffer.byteLength(JSON.stringify(entry)), 0);
    },
    async delete({ taskId }, configId) {
      await store.delete({ taskId, configId });
      delivery.drop({ taskId, configId });
    },
  };
}

/** Rejects with what is wrong, in the protocol's words. */
async function check({ url, token, authentication, id }: TaskPushNotificationConfig, push: PushOptions): Promise<void> {
  // The codec of 0.3 passes on what the client left out, or gave as null.
  if (!isGiven(url)) throw malformed('The url of a push notification configuration is required.');
  if (id !== '' && !idText.test(id)) throw malformed('The id of a push notification configuration cannot be used.');
  if (token !== '' && !headerText.test(token))
    throw malformed('The token of a push notification cannot be sent in a header.');
  if (authentication) checkAuthentication(authentication);
  await checkedTarget(url, push).catch((thrown: unknown) => {
    throw AgentLoopError.isInstance(thrown) ? malformed(thrown.message) : thrown;
  });
}

function isGiven(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

function checkAuthentication({ scheme, credentials }: AuthenticationInfo): void {
  if (schemeText.test(scheme) && headerText.test(credentials)) return;
  throw malformed('The authentication of a push notification cannot be sent in a header.');
}

/** The id is the server's; one that the client names is that of the registration that it replaces. */
function entryOf(taskId: string, config: TaskPushNotificationConfig, version: string): PushEntry {
  const { url, token, authentication, id } = config;
  return {
    taskId,
    configId: id === '' ? randomUUID() : id,
    url,
    version,
    ...(token !== '' && { token }),
    ...(authentication && {
      authentication: { scheme: authentication.scheme, credentials: authentication.credentials },
    }),
  };
}

/** What the receiver is known by is not shown again. */
function configOf({ taskId, configId: id, url, token = '', authentication }: PushEntry): TaskPushNotificationConfig {
  const shown = authentication && { scheme: authentication.scheme, credentials: '' };
  return { tenant: '', taskId, id, url, token, authentication: shown };
}
