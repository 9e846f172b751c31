import type { Message } from './api.ts';

/** What was said and not answered by the server yet, so that a page that is loaded again sends it, under the same id. */
export interface Outbox {
  of(chat: string): Message | undefined;
  keep(chat: string, message: Message): void;
  remove(chat: string): void;
}

/** In the storage of the tab: another tab does not send it too. A full storage keeps nothing. */
export function tabOutbox(): Outbox {
  const item = (chat: string) => `millrace.chat.unsent.${chat}`;
  return {
    of(chat) {
      const kept = sessionStorage.getItem(item(chat));
      return kept === null ? undefined : JSON.parse(kept);
    },
    keep(chat, message) {
      try {
        sessionStorage.setItem(item(chat), JSON.stringify(message));
      } catch {
        // The conversation works without.
      }
    },
    remove(chat) {
      sessionStorage.removeItem(item(chat));
    },
  };
}
