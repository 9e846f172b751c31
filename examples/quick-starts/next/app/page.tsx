'use client';

import { type UseChatHelpers, useChat } from '@ai-sdk/react';
import { isToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from 'ai';
import { useEffect, useRef, useState } from 'react';

export default function Page() {
  const [chat, setChat] = useState<{ readonly id: string; readonly messages: UIMessage[] }>();
  useEffect(() => {
    const id = localStorage.getItem('chat') ?? crypto.randomUUID();
    localStorage.setItem('chat', id);
    void storedMessages(id).then((messages) => setChat({ id, messages }));
  }, []);
  return chat ? <Chat {...chat} /> : <p>Loading…</p>;
}

async function storedMessages(id: string): Promise<UIMessage[]> {
  const response = await fetch(`/api/chat/${id}/messages`);
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  return response.json();
}

const textOf = ({ parts }: UIMessage) => parts.map((part) => (part.type === 'text' ? part.text : '')).join('\n');

/** Follows the open turn, and again one whose connection broke, once the server answers; its text remains until the new stream has as much. */
function useReconnect(chat: UseChatHelpers<UIMessage>) {
  const { id, messages, error, status } = chat;
  const [kept, keep] = useState<UIMessage>();
  const [seconds, setSeconds] = useState(0);
  const latest = useRef(chat);
  latest.current = chat;
  const last = messages.at(-1);
  const isLost = error !== undefined && (error instanceof TypeError || Object(last?.metadata).retryable === true);
  useEffect(() => {
    setSeconds(0);
    if (!isLost) {
      // A refused message is not in the conversation.
      if (error) void storedMessages(id).then(latest.current.setMessages);
      return;
    }
    const { messages, setMessages, clearError, resumeStream, sendMessage } = latest.current;
    const asked = messages.findLast(({ role }) => role === 'user');
    if (messages.at(-1)?.role === 'assistant') keep(messages.at(-1));
    const since = Date.now();
    const trying = setInterval(async () => {
      setSeconds(Math.round((Date.now() - since) / 1000));
      const stored = await storedMessages(id).catch(() => undefined);
      if (stored?.at(-1)?.role === 'assistant') {
        setMessages(stored);
        clearError();
      } else if (stored) {
        // A message that the server does not have is sent again, with the same id.
        await (stored.some((message) => message.id === asked?.id) ? resumeStream() : sendMessage());
      }
    }, 1000);
    return () => clearInterval(trying);
  }, [id, isLost, error]);
  useEffect(() => {
    const { resumeStream, setMessages } = latest.current;
    void resumeStream().then(async () => {
      const stored = await storedMessages(id);
      // A turn that ended before its stream was asked for is only there.
      setMessages((shown) => (stored.length > shown.length ? stored : shown));
    });
  }, [id]);
  const isBehind = kept && status !== 'ready' && last?.id === kept.id && textOf(last).length < textOf(kept).length;
  return { isLost, seconds, shown: isBehind ? [...messages.slice(0, -1), kept] : messages };
}

function Chat(chat: { readonly id: string; readonly messages: UIMessage[] }) {
  const helpers = useChat({
    ...chat,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const { sendMessage, addToolApprovalResponse, error, status } = helpers;
  const { isLost, seconds, shown } = useReconnect(helpers);
  const [text, setText] = useState('Refund order A-2, please');
  return (
    <main>
      {shown.map(({ id, role, parts }) => (
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
      {status === 'submitted' && <p>Waiting for the answer…</p>}
      {isLost && <p role="status">Waiting {seconds} s for the server</p>}
      {error && !isLost && <p role="alert">{error.message}</p>}
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
