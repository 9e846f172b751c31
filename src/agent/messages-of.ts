import { invalidConfig, type MessageStore, shownValue, type TaskStateStore } from '../core/contracts/index.ts';
import { checkStore } from '../core/options/index.ts';
import { InMemoryMessageStore } from '../stores/messages/table-message-store.ts';

/** Those that were made because neither a `messageStore` nor a `taskStateStore` was given. */
const ofProcess = new WeakSet<MessageStore>();

/** Whether an agent that is given a `taskStateStore` later keeps its conversations there from then on. */
export function givesWay(messageStore: MessageStore): boolean {
  return ofProcess.has(messageStore);
}

/**
 * Where an agent keeps its conversations that is given no `messageStore`: beside its journals, so that both outlive the process or neither
 * does. Errors: `INVALID_CONFIG` where the journals are in a store that keeps no conversations.
 */
export function messagesOf(taskStateStore: TaskStateStore | undefined): MessageStore {
  if (!taskStateStore) {
    const messages = new InMemoryMessageStore();
    ofProcess.add(messages);
    return messages;
  }
  checkStore('taskStateStore', taskStateStore);
  if (taskStateStore.messages) {
    checkMessageStore('taskStateStore.messages', taskStateStore.messages);
    return taskStateStore.messages;
  }
  throw invalidConfig(
    'taskStateStore keeps turns and no conversations, so the agent would forget them with this process',
    'give messageStore too: new LmdbMessageStore({ path }), new RedisMessageStore({ redis }), one of your own, or new InMemoryMessageStore() to forget them',
  );
}

const methods: readonly (keyof MessageStore)[] = ['begin', 'append', 'load', 'list', 'setMetadata'];

/** Errors: `INVALID_CONFIG`, naming what is missing: stores that were written for 0.1 have no `list`, and their messages no ids. */
export function checkMessageStore(name: string, store: unknown): void {
  const isObject = typeof store === 'object' && store !== null;
  const missing = methods.filter((method) => !isObject || typeof Reflect.get(store, method) !== 'function');
  if (missing.length === 0) return;
  const what = isObject ? `it lacks ${missing.join(', ')}` : `it is ${shownValue(store)}`;
  const cure =
    missing.length === 1 && missing[0] === 'list'
      ? 'add list(contextId, query), which gives stored messages with id and createdAt; messageStoreContract examines it'
      : 'give new InMemoryMessageStore(), or leave it out';
  throw invalidConfig(`${name} must be a MessageStore; ${what}`, cure);
}
