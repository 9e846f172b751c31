import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { visibleText } from '../../ui/visible-text.ts';
import type { Conversation } from './conversation.ts';
import { IconButton } from './icons.tsx';
import { AssistantMessage, Dots, FailureNote, UserMessage } from './message-view.tsx';
import type { Answer } from './question-view.tsx';
import { WaitNote } from './wait-note.tsx';

interface LogProps {
  readonly conversation: Conversation;
  readonly name: string;
  readonly suggestions: readonly string[];
  readonly send: (text: string) => void;
  readonly answer: Answer;
}

/** What was said, kept at its end as long as the reader is there. */
export function Log({ conversation, name, suggestions, send, answer }: LogProps) {
  const { messages, phase, failure, wait } = conversation;
  const { log, onScroll, isAway, toEnd } = useEnd(conversation);
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
          <Messages conversation={conversation} name={name} answer={answer} />
          {phase === 'busy' && messages.at(-1)?.role === 'user' && <Dots />}
          {wait && <WaitNote {...wait} />}
          {failure && !conversation.isRefused && (
            <FailureNote failure={failure} retry={() => void conversation.retry()} />
          )}
          {messages.length === 0 && phase === 'ready' && !failure && <Welcome suggestions={suggestions} send={send} />}
        </div>
      </section>
      {isAway && <IconButton class="to-end" name="down" label="To the end" onClick={toEnd} />}
    </div>
  );
}

/** How near the end the reader has to be to be kept there. Pixels. */
const nearEnd = 80;

/** Keeps an element scrolled to its end as it grows, until the reader scrolls away from it. A message of the user goes back to the end. */
function useEnd(conversation: Conversation) {
  const log = useRef<HTMLElement>(null);
  const isAtEnd = useRef(true);
  const [isAway, setAway] = useState(false);
  const said = conversation.messages.filter(({ role }) => role === 'user').length;
  useLayoutEffect(() => {
    isAtEnd.current = true;
  }, [said, conversation]);
  useLayoutEffect(() => {
    if (isAtEnd.current && log.current) log.current.scrollTop = log.current.scrollHeight;
  });
  return {
    log,
    isAway,
    onScroll() {
      const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = log.current ?? {};
      isAtEnd.current = scrollHeight - scrollTop - clientHeight < nearEnd;
      setAway(!isAtEnd.current);
    },
    toEnd: () => log.current?.scrollTo({ top: log.current.scrollHeight }),
  };
}

function Messages({ conversation, name, answer }: Pick<LogProps, 'conversation' | 'name' | 'answer'>) {
  const { messages, phase, questions, agents, version } = conversation;
  const last = messages.at(-1);
  const isOpen = phase === 'busy' || phase === 'asking';
  const isReady = phase === 'ready' && !conversation.isRefused;
  return messages.map((message) =>
    message.role === 'user' ? (
      <UserMessage
        key={message.id}
        message={message}
        edit={isReady ? (text) => void conversation.edit(message, text) : undefined}
        show={(version) => void conversation.show(version)}
      />
    ) : (
      <AssistantMessage
        key={message.id}
        message={message}
        isOpen={isOpen && message === last}
        questions={message === last ? questions : []}
        agents={message === last ? [...agents.values()] : []}
        version={message === last ? version : 0}
        name={name}
        answer={answer}
        again={isReady && message === last ? () => void conversation.again() : undefined}
      />
    ),
  );
}

function Welcome({ suggestions, send }: Pick<LogProps, 'suggestions' | 'send'>) {
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
