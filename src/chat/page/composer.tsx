import type { RefObject } from 'preact';
import { useState } from 'preact/hooks';
import type { Conversation } from './conversation.ts';
import { Icon } from './icons.tsx';
import { MessageField } from './message-field.tsx';

export interface ComposerProps {
  readonly conversation: Conversation;
  readonly field: RefObject<HTMLTextAreaElement | null>;
  readonly send: (text: string) => void;
  readonly stop: () => void;
}

const placeholders = {
  loading: 'Write a message',
  ready: 'Write a message',
  busy: 'Write a message',
  asking: 'Answer above to continue',
} as const;

/** The field for a message, and what sends it. Text stays while a turn runs. */
export function Composer({ conversation: { phase, isStopping }, field, send, stop }: ComposerProps) {
  const [text, setText] = useState('');
  const isBusy = phase === 'busy' || phase === 'asking';
  const submit = () => {
    if (text.trim() === '' || phase !== 'ready') return;
    send(text.trim());
    setText('');
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <MessageField
        field={field}
        label="Message"
        placeholder={placeholders[phase]}
        text={text}
        setText={setText}
        submit={submit}
      />
      {isBusy ? (
        <button type="button" class="round stop" onClick={stop} disabled={isStopping} title="Stop (Escape)">
          <Icon name="stop" />
          <span class="visually-hidden">Stop</span>
        </button>
      ) : (
        <button
          type="submit"
          class="round send"
          disabled={text.trim() === '' || phase !== 'ready'}
          title="Send (Enter)"
        >
          <Icon name="up" />
          <span class="visually-hidden">Send</span>
        </button>
      )}
    </form>
  );
}
