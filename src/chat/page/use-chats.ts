import { useCallback, useEffect, useState } from 'preact/hooks';
import { type ListedChat, newId, parsedList, withChat } from './chat-list.ts';

/** Chats that this page has made up: the server does not know them before something is said. */
const unknown = new Set<string>();

export function isKnown(chat: string): boolean {
  return !unknown.delete(chat);
}

function newChat(): string {
  const id = newId();
  unknown.add(id);
  return id;
}

export interface Chats {
  readonly list: readonly ListedChat[];
  /** The chat of the address: its part after `#`. */
  readonly current: string;
  open(id: string): void;
  create(): void;
  /** Something was said in a chat. */
  said(id: string, text: string): void;
  remove(id: string): void;
}

/** The conversations of this browser, and which is open. Other tabs see changes of the list at once. */
export function useChats(api: string): Chats {
  const item = `millrace.chats ${api}`;
  const read = () => parsedList(localStorage.getItem(item));
  const [list, setList] = useState(read);
  const [current, setCurrent] = useState(ofAddress);
  useEffect(() => {
    const onStorage = ({ key }: StorageEvent) => {
      if (key === item || key === null) setList(read());
    };
    const onAddress = () => setCurrent(ofAddress());
    addEventListener('storage', onStorage);
    addEventListener('hashchange', onAddress);
    return () => {
      removeEventListener('storage', onStorage);
      removeEventListener('hashchange', onAddress);
    };
  }, [item]);
  const write = useCallback(
    (next: readonly ListedChat[]) => {
      setList(next);
      try {
        localStorage.setItem(item, JSON.stringify(next));
      } catch {
        // A full storage: the list lasts as long as the page.
      }
    },
    [item],
  );
  const open = useCallback((id: string) => {
    location.hash = id;
    setCurrent(id);
  }, []);
  return {
    list,
    current,
    open,
    create: () => open(newChat()),
    said: (id, text) => write(withChat(read(), { id, text, at: Date.now() })),
    remove: (id) => write(read().filter((chat) => chat.id !== id)),
  };
}

/** A page without one gets a new one, which a reload keeps. */
function ofAddress(): string {
  const given = /^#([\w-]{1,128})$/.exec(location.hash)?.[1];
  if (given !== undefined) return given;
  const id = newChat();
  history.replaceState(null, '', `#${id}`);
  return id;
}
