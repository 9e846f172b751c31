import type { RefObject } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { visibleText } from '../../ui/visible-text.ts';
import { Api } from './api.ts';
import { Composer } from './composer.tsx';
import type { Conversation } from './conversation.ts';
import { Icon } from './icons.tsx';
import { Log } from './log.tsx';
import { announcementOf } from './message-view.tsx';
import type { Answer } from './question-view.tsx';
import { Sidebar } from './sidebar.tsx';
import { type Chats, useChats } from './use-chats.ts';
import { useConversation } from './use-conversation.ts';

export interface PageSettings {
  readonly api: string;
  readonly title: string;
  readonly suggestions: readonly string[];
  /** Whether a key can be given where the API answers 401. */
  readonly asksForKey: boolean;
}

export function App({ api: base, title, suggestions, asksForKey }: PageSettings) {
  const { api, chats, conversation, send, remove } = useChat(base);
  const [isListShown, showList] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const menu = useRef<HTMLButtonElement>(null);
  useTitle(title, chats);
  // Where the list covers the page, the focus stays with it.
  useEffect(() => {
    if (!isListShown) field.current?.focus();
  }, [chats.current]);
  /** Closes the list, acts, and leaves the focus where the user writes. */
  const go = (action: () => void) => {
    showList(false);
    action();
    field.current?.focus();
  };
  const stop = () => go(() => void conversation.stop());
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Escape') return;
    if (isListShown) {
      showList(false);
      menu.current?.focus();
    } else if (conversation.phase === 'busy') stop();
  };
  const say = (text: string) => go(() => send(text));
  const answer: Answer = (id, given) => go(() => void conversation.answer(id, given));
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: a key of the whole page
    <div class={isListShown ? 'app with-list' : 'app'} onKeyDown={onKeyDown}>
      <Sidebar
        chats={chats.list}
        current={chats.current}
        open={(id) => go(() => chats.open(id))}
        create={() => go(chats.create)}
        remove={(id) => {
          remove(id);
          document.querySelector<HTMLElement>('.new')?.focus();
        }}
      />
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: Escape does the same */}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: what covers the page beside the list */}
      <div class="veil" onClick={() => showList(false)} />
      <Bar {...{ title, menu, isListShown, showList }} isConnected={conversation.isConnected} />
      <main>
        <Log conversation={conversation} name={title} suggestions={suggestions} send={say} answer={answer} />
        <div class="foot">
          {conversation.isRefused ? (
            <SignIn asksForKey={asksForKey} api={api} conversation={conversation} />
          ) : (
            <Composer key={chats.current} conversation={conversation} field={field} send={say} stop={stop} />
          )}
        </div>
      </main>
      <p class="visually-hidden" role="status">
        {announcementOf(conversation)}
      </p>
    </div>
  );
}

/** The chats of an API, the conversation of the one that is open, and what changes both. */
function useChat(base: string) {
  const api = useMemo(() => new Api(base), [base]);
  const chats = useChats(base);
  const conversation = useConversation(chats.current, api);
  return {
    api,
    chats,
    conversation,
    send(text: string) {
      chats.said(chats.current, text);
      void conversation.send(text);
    },
    remove(id: string) {
      // Nobody could stop it from here on.
      void api.stop(id).catch(() => {});
      chats.remove(id);
      if (id === chats.current) chats.create();
    },
  };
}

function useTitle(title: string, { list, current }: Chats): void {
  const listed = list.find(({ id }) => id === current)?.title;
  useEffect(() => {
    document.title = listed === undefined ? title : `${visibleText(listed)} – ${title}`;
  }, [listed, title]);
}

interface BarProps {
  readonly title: string;
  readonly menu: RefObject<HTMLButtonElement | null>;
  readonly isListShown: boolean;
  readonly showList: (isShown: boolean) => void;
  readonly isConnected: boolean;
}

function Bar({ title, menu, isListShown, showList, isConnected }: BarProps) {
  return (
    <header class="bar">
      <button
        type="button"
        class="icon-button menu"
        ref={menu}
        aria-expanded={isListShown}
        aria-controls="conversations"
        onClick={() => showList(!isListShown)}
        title="Conversations"
      >
        <Icon name="menu" />
        <span class="visually-hidden">Conversations</span>
      </button>
      <h1>{visibleText(title)}</h1>
      {!isConnected && <p class="connection">Reconnecting…</p>}
    </header>
  );
}

interface SignInProps {
  readonly asksForKey: boolean;
  readonly api: Api;
  readonly conversation: Conversation;
}

function SignIn({ asksForKey, api, conversation }: SignInProps) {
  const key = useRef<HTMLInputElement>(null);
  if (!asksForKey) return <p class="note sign-in">Sign in, then load this page again.</p>;
  const useKey = (event: Event) => {
    event.preventDefault();
    api.useKey(key.current?.value.trim() ?? '');
    void conversation.open();
  };
  return (
    <form class="field sign-in" onSubmit={useKey}>
      <input
        ref={key}
        type="password"
        required
        aria-label="Your key for this server"
        placeholder="Your key for this server"
        autoComplete="off"
      />
      <button type="submit" class="main">
        Continue
      </button>
    </form>
  );
}
