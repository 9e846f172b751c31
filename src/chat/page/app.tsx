import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Api } from './api.ts';
import { Composer } from './composer.tsx';
import type { Conversation } from './conversation.ts';
import { Icon } from './icons.tsx';
import { AssistantMessage, announcementOf, Dots, FailureNote, UserMessage } from './message-view.tsx';
import { Sidebar } from './sidebar.tsx';
import { useChats } from './use-chats.ts';
import { useConversation } from './use-conversation.ts';
import { visibleText } from './visible-text.ts';

export interface PageSettings {
  readonly api: string;
  readonly title: string;
  readonly suggestions: readonly string[];
  /** Whether a key can be given where the API answers 401. */
  readonly asksForKey: boolean;
}

export function App({ api: base, title, suggestions, asksForKey }: PageSettings) {
  const api = useMemo(() => new Api(base), [base]);
  const chats = useChats(base);
  const conversation = useConversation(chats.current, api);
  const [isListShown, showList] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const menu = useRef<HTMLButtonElement>(null);
  const listed = chats.list.find(({ id }) => id === chats.current)?.title;
  useEffect(() => {
    document.title = listed === undefined ? title : `${visibleText(listed)} – ${title}`;
  }, [listed, title]);
  // Where the list covers the page, the focus stays with it.
  useEffect(() => {
    if (!isListShown) field.current?.focus();
  }, [chats.current]);
  const focusField = () => field.current?.focus();
  const send = (text: string) => {
    chats.said(chats.current, text);
    void conversation.send(text);
    focusField();
  };
  const stop = () => {
    void conversation.stop();
    focusField();
  };
  const go = (action: () => void) => {
    showList(false);
    action();
    focusField();
  };
  const remove = (id: string) => {
    // Nobody could stop it from here on.
    void api.stop(id).catch(() => {});
    chats.remove(id);
    if (id === chats.current) chats.create();
    document.querySelector<HTMLElement>('.new')?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Escape') return;
    if (isListShown) {
      showList(false);
      menu.current?.focus();
    } else if (conversation.phase === 'busy') stop();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: a key of the whole page
    <div class={isListShown ? 'app with-list' : 'app'} onKeyDown={onKeyDown}>
      <Sidebar
        chats={chats.list}
        current={chats.current}
        open={(id) => go(() => chats.open(id))}
        create={() => go(chats.create)}
        remove={remove}
      />
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: Escape does the same */}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: what covers the page beside the list */}
      <div class="veil" onClick={() => showList(false)} />
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
        {!conversation.isConnected && <p class="connection">Reconnecting…</p>}
      </header>
      <main>
        <Log conversation={conversation} name={title} suggestions={suggestions} send={send} focusField={focusField} />
        <div class="foot">
          {conversation.isRefused ? (
            <SignIn asksForKey={asksForKey} api={api} conversation={conversation} />
          ) : (
            <Composer
              key={chats.current}
              phase={conversation.phase}
              isStopping={conversation.isStopping}
              field={field}
              send={send}
              stop={stop}
            />
          )}
        </div>
      </main>
      <p class="visually-hidden" role="status">
        {announcementOf(conversation)}
      </p>
    </div>
  );
}

interface LogProps {
  readonly conversation: Conversation;
  readonly name: string;
  readonly suggestions: readonly string[];
  readonly send: (text: string) => void;
  readonly focusField: () => void;
}

/** How near the end the reader has to be to be kept there. Pixels. */
const nearEnd = 80;

function Log({ conversation, name, suggestions, send, focusField }: LogProps) {
  const { messages, phase, questions, failure, version } = conversation;
  const log = useRef<HTMLElement>(null);
  const isAtEnd = useRef(true);
  const [isAway, setAway] = useState(false);
  const said = messages.filter(({ role }) => role === 'user').length;
  useLayoutEffect(() => {
    isAtEnd.current = true;
  }, [said, conversation]);
  useLayoutEffect(() => {
    if (isAtEnd.current && log.current) log.current.scrollTop = log.current.scrollHeight;
  });
  const onScroll = () => {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = log.current ?? {};
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < nearEnd;
    setAway(!isAtEnd.current);
  };
  const answer = (id: string, given: unknown) => {
    void conversation.answer(id, given);
    focusField();
  };
  const last = messages.at(-1);
  const isOpen = phase === 'busy' || phase === 'asking';
  const toEnd = () => log.current?.scrollTo({ top: log.current.scrollHeight });
  return (
    <div class="log-frame">
      <section
        class="log"
        ref={log}
        role="log"
        aria-live="off"
        aria-label="Conversation"
        tabIndex={0}
        onScroll={onScroll}
      >
        <div class="column">
          {messages.map((message) =>
            message.role === 'user' ? (
              <UserMessage key={message.id} message={message} />
            ) : (
              <AssistantMessage
                key={message.id}
                message={message}
                isOpen={isOpen && message === last}
                questions={message === last ? questions : []}
                agents={message === last ? [...conversation.agents.values()] : []}
                version={message === last ? version : 0}
                name={name}
                answer={answer}
              />
            ),
          )}
          {phase === 'busy' && last?.role === 'user' && <Dots />}
          {failure && !conversation.isRefused && (
            <FailureNote failure={failure} retry={() => void conversation.retry()} />
          )}
          {messages.length === 0 && phase === 'ready' && !failure && (
            <Welcome name={name} suggestions={suggestions} send={send} />
          )}
        </div>
      </section>
      {isAway && (
        <button type="button" class="to-end" onClick={toEnd} title="To the end">
          <Icon name="down" />
          <span class="visually-hidden">To the end</span>
        </button>
      )}
    </div>
  );
}

function Welcome({ suggestions, send }: Pick<LogProps, 'name' | 'suggestions' | 'send'>) {
  return (
    <div class="welcome">
      <p>What can I do for you?</p>
      <ul>
        {suggestions.map((text) => (
          <li key={text}>
            <button type="button" class="quiet" onClick={() => send(text)}>
              {visibleText(text)}
            </button>
          </li>
        ))}
      </ul>
    </div>
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
