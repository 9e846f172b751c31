// The page of a chat, as the documentation of the AI SDK has it: ?chat=<id>.
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';
import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';

const id = new URLSearchParams(location.search).get('chat') ?? 'chat';

function Chat({ initial }) {
  const [messageId, edit] = useState();
  const { messages, status, error, resumeStream, regenerate, sendMessage, setMessages, addToolApprovalResponse } =
    useChat({
      id,
      messages: initial,
      transport: new DefaultChatTransport({ api: '/api/chat' }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
  useEffect(() => {
    void resumeStream().then(async () => {
      const last = await stored();
      // A turn that ended before its stream was asked for is only there.
      setMessages((shown) => (last.length > shown.length ? last : shown));
    });
  }, [resumeStream, setMessages]);
  const answer = (part, approved) => () => addToolApprovalResponse({ id: part.approval.id, approved });
  return (
    <main data-status={status} data-error={error?.message}>
      {messages.map((message) => (
        <article key={message.id} data-role={message.role}>
          <Parts parts={message.parts} answer={answer} />
          <button
            type="button"
            onClick={() => (message.role === 'user' ? edit(message.id) : regenerate({ messageId: message.id }))}
          >
            {message.role === 'user' ? 'Edit' : 'Again'}
          </button>
        </article>
      ))}
      <form action={(form) => sendMessage({ text: form.get('text'), messageId }).then(() => edit())}>
        <input name="text" aria-label="Message" />
      </form>
    </main>
  );
}

/** Parts have no ids, and are only added: their places are their keys. */
function Parts({ parts, answer }) {
  const placed = parts.map((part, place) => ({ part, place }));
  return placed.map(({ part, place }) => <Part key={place} part={part} answer={answer} />);
}

function Part({ part, answer }) {
  if (part.type === 'text') return <p className="text">{part.text}</p>;
  if (part.type !== 'dynamic-tool') return null;
  return (
    <p className="tool" data-state={part.state}>
      {part.toolName}
      {part.state === 'approval-requested' && (
        <button type="button" onClick={answer(part, true)}>
          Approve
        </button>
      )}
    </p>
  );
}

async function stored() {
  const response = await fetch(`/api/chat/${id}/messages`);
  return response.ok ? response.json() : [];
}

createRoot(document.body).render(<Chat initial={await stored()} />);
