import { useEffect, useState } from 'preact/hooks';
import type { Message } from '../../core/contracts/index.ts';
import { get, taskPath } from './api.ts';
import { grouped, plural } from './format.ts';
import { Json } from './json.tsx';
import { Button, Code, Fault } from './parts.tsx';

interface MessagesPage {
  readonly messages: readonly Message[];
  readonly total: number;
  readonly given: number;
  readonly earlier: number;
}

const names = { user: 'User', assistant: 'Assistant', tool: 'Tool', system: 'System', developer: 'Developer' } as const;
const longText = 3_000;

export function Messages({ taskId, version }: { readonly taskId: string; readonly version: number }) {
  const [page, setPage] = useState<MessagesPage>();
  const [wanted, setWanted] = useState(1);
  const [error, setError] = useState<unknown>();
  // A new record may add messages
  useEffect(() => {
    const left = new AbortController();
    const read = async () => {
      const pages: MessagesPage[] = [];
      let count = 0;
      for (let index = 0; index < wanted; index++) {
        const next = await get<MessagesPage>(`${taskPath(taskId)}/messages?from=${count}`, left.signal);
        pages.push(next);
        count += next.messages.length;
        if (count >= next.total) break;
      }
      const last = pages.at(-1);
      if (last) setPage({ ...last, messages: pages.flatMap(({ messages }) => messages) });
    };
    read().catch((thrown) => !left.signal.aborted && setError(thrown));
    return () => left.abort();
  }, [taskId, version, wanted]);
  if (!page) return <Fault error={error} />;
  const { messages, total, earlier } = page;
  return (
    <>
      {earlier > 0 && (
        <p class="hint">The first {plural(earlier, 'message')} are of earlier turns of the conversation.</p>
      )}
      <ol class="messages">
        {messages.map((message, index) => (
          <li key={index} class={message.role}>
            <h2>{names[message.role]}</h2>
            <Body message={message} />
          </li>
        ))}
      </ol>
      {messages.length < total && <Button onClick={() => setWanted(wanted + 1)}>Show more of {grouped(total)}</Button>}
    </>
  );
}

function Body({ message }: { readonly message: Message }) {
  const { content } = message;
  const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : [];
  return (
    <>
      {message.role === 'assistant' && message.reasoning && (
        <details>
          <summary>Reasoning</summary>
          <Long text={message.reasoning} />
        </details>
      )}
      {typeof content === 'string'
        ? content !== '' && <Long text={content} />
        : content && <Json value={content} open={2} />}
      {calls.map(({ id, function: { name, arguments: given } }) => (
        <details key={id}>
          <summary>
            calls <b>{name}</b>
          </summary>
          <Code label={`Arguments of ${name}`} text={given} />
        </details>
      ))}
    </>
  );
}

function Long({ text }: { readonly text: string }) {
  const [isWhole, setWhole] = useState(text.length <= longText);
  return (
    <div class="prose">
      {isWhole ? text : `${text.slice(0, longText)}…`}{' '}
      {!isWhole && (
        <Button class="quiet" onClick={() => setWhole(true)}>
          {grouped(text.length)} characters
        </Button>
      )}
    </div>
  );
}
