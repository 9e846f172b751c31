import { invalidConfig } from '../core/invalid-config.ts';
import type { TaskStateStore } from '../stores/interfaces.ts';
import { InMemoryMessageStore } from '../stores/messages/in-memory-message-store.ts';
import type { MessageStore } from '../stores/messages/message-store.ts';

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
  if (taskStateStore.messages) return taskStateStore.messages;
  throw invalidConfig(
    'taskStateStore keeps turns and no conversations, so the agent would forget them with this process',
    'give messageStore too: new LmdbMessageStore({ path }), new RedisMessageStore({ redis }), one of your own, or new InMemoryMessageStore() to forget them',
  );
}
