'use client';

import { useChat } from '@ai-sdk/react';
import { isToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from 'ai';
import { useEffect, useState } from 'react';

export default function Page() {
  const [chat, setChat] = useState<{ readonly id: string; readonly messages: UIMessage[] }>();
  useEffect(() => {
    const id = localStorage.getItem('chat') ?? crypto.randomUUID();
    localStorage.setItem('chat', id);
    void load(id).then((messages) => setChat({ id, messages }));
  }, []);
  return chat ? <Chat {...chat} /> : <p>Loading…</p>;
}

async function load(id: string): Promise<UIMessage[]> {
  const response = await fetch(`/api/chat/${id}/messages`);
  return response.json();
}

function Chat(chat: { readonly id: string; readonly messages: UIMessage[] }) {
  const { messages, sendMessage, setMessages, addToolApprovalResponse, error } = useChat({
    ...chat,
    resume: true,
    // A refused message is not in the conversation.
    onError: () => void load(chat.id).then(setMessages),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const [text, setText] = useState('Refund order A-2, please');
  return (
    <main>
      {messages.map(({ id, role, parts }) => (
        <section key={id}>
          <b>{role === 'user' ? 'You' : 'Support'}</b>
          {parts.map((part, index) => {
            const key = `${id}-${index}`;
            if (part.type === 'text') return <p key={key}>{part.text}</p>;
            if (!isToolUIPart(part)) return null;
            const { approval } = part;
            return (
              <p key={key}>
                <code>{JSON.stringify(part.input)}</code> {part.state}
                {part.state === 'approval-requested' &&
                  approval &&
                  [true, false].map((approved) => (
                    <button
                      key={String(approved)}
                      type="button"
                      onClick={() => addToolApprovalResponse({ id: approval.id, approved })}
                    >
                      {approved ? 'Approve' : 'Reject'}
                    </button>
                  ))}
              </p>
            );
          })}
        </section>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          sendMessage({ text });
          setText('');
        }}
      >
        <input aria-label="Message" size={40} value={text} onChange={(event) => setText(event.target.value)} />
        <button type="submit">Send</button>
      </form>
    </main>
  );
}
