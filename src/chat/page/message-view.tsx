import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ShownQuestion } from '../../ui/shown-steps.ts';
import { visibleText } from '../../ui/visible-text.ts';
import type { Message, Part } from './api.ts';
import { type AgentActivity, type Conversation, type Failure, versionsOf } from './conversation.ts';
import { CopyButton } from './copy-button.tsx';
import { Icon, IconButton, type IconName } from './icons.tsx';
import { Markdown } from './markdown-view.tsx';
import { MessageField } from './message-field.tsx';
import { type Answer, QuestionView } from './question-view.tsx';
import { ToolView, toolState } from './tool-view.tsx';
import { Value } from './value-view.tsx';

interface UserProps {
  readonly message: Message;
  /** Absent while nothing can be sent. */
  readonly edit: ((text: string) => void) | undefined;
  /** Shows another version of it. */
  readonly show: (version: string) => void;
}

export function UserMessage({ message, edit, show }: UserProps) {
  const [isEditing, setEditing] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const wasEditing = useRef(false);
  const close = () => setEditing(false);
  useLayoutEffect(() => {
    if (wasEditing.current) button.current?.focus();
    wasEditing.current = isEditing;
  }, [isEditing]);
  const isText = message.parts.every(({ type }) => type === 'text');
  return (
    <article class="message user">
      <h2 class="visually-hidden">You</h2>
      {isEditing && edit ? (
        <Editor text={textOf(message.parts)} close={close} send={edit} />
      ) : (
        <div class="bubble" dir="auto">
          {message.parts.map((part, place) => (
            <UserPart key={place} part={part} />
          ))}
        </div>
      )}
      {!isEditing && edit && (
        <div class="message-actions">
          <Versions message={message} show={show} />
          {isText && <IconButton field={button} name="pen" label="Edit message" onClick={() => setEditing(true)} />}
        </div>
      )}
    </article>
  );
}

function Versions({ message, show }: Pick<UserProps, 'message' | 'show'>) {
  const { ids, at } = versionsOf(message);
  const button = (name: IconName, label: string, to: number) => {
    const id = ids[to];
    return <IconButton {...{ name, label }} disabled={id === undefined} onClick={() => id !== undefined && show(id)} />;
  };
  if (ids.length === 0) return null;
  return (
    <>
      {button('back', 'Earlier version', at - 1)}
      <span>
        <span class="visually-hidden">Version</span> {at + 1} / {ids.length}
      </span>
      {button('chevron', 'Later version', at + 1)}
    </>
  );
}

interface EditorProps {
  readonly text: string;
  readonly send: (text: string) => void;
  readonly close: () => void;
}

/** Escape closes. */
function Editor({ text: before, send, close }: EditorProps) {
  const [text, setText] = useState(before);
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const submit = () => {
    if (text.trim() === '') return;
    close();
    send(text.trim());
  };
  return (
    <div class="editor">
      <MessageField {...{ field, text, setText, submit }} label="Edited message" onEscape={close} />
      <div class="message-actions">
        <button type="button" class="quiet" onClick={close}>
          Cancel
        </button>
        <button type="button" class="quiet" onClick={submit}>
          Send again
        </button>
      </div>
    </div>
  );
}

function UserPart({ part }: { readonly part: Part }) {
  if (part['type'] === 'text') return <p>{visibleText(String(part['text']))}</p>;
  const url = String(part['url'] ?? '');
  const name = visibleText(String(part['filename'] ?? 'file'));
  return /^data:image\/(?:png|jpeg|gif|webp);/.test(url) ? <img src={url} alt={name} /> : <p class="file">{name}</p>;
}

export interface AssistantProps {
  readonly message: Message;
  /** The turn of this message runs. */
  readonly isOpen: boolean;
  readonly questions: readonly ShownQuestion[];
  readonly agents: readonly AgentActivity[];
  /** Changes with the parts. */
  readonly version: number;
  readonly name: string;
  readonly answer: Answer;
  /** Has the message answered anew; absent where it is not the last one, or nothing can be sent. */
  readonly again: (() => void) | undefined;
}

export function AssistantMessage(props: AssistantProps) {
  const { message, isOpen, questions, agents, version } = props;
  const asked = questions.map(({ id }) => id).join();
  const key = [message, isOpen, version, agents.length > 0, asked, props.again !== undefined];
  // An element that is the same is not looked at again, so that a long conversation costs one message.
  return useMemo(() => <Assistant {...props} />, key);
}

function Assistant({ message, isOpen, questions, agents, name, answer, again }: AssistantProps) {
  const { parts, metadata = {} } = message;
  const text = textOf(parts);
  const placed = new Set(parts.map(({ toolCallId }) => toolCallId));
  const others = questions.filter(({ callId }) => !placed.has(callId));
  const last = parts.at(-1);
  const isThinking = isOpen && questions.length === 0 && !(last?.['type'] === 'text' && last['state'] === 'streaming');
  return (
    <article class="message assistant">
      <h2 class="visually-hidden">{name}</h2>
      {parts.map((part, place) => (
        <AssistantPart key={place} {...{ part, isOpen, questions, agents, answer }} />
      ))}
      {others.map((question) => (
        <QuestionView key={question.id} question={question} answer={answer} />
      ))}
      {isThinking && <Dots />}
      {metadata['state'] === 'canceled' && <p class="note">Stopped.</p>}
      {!isOpen && text !== '' && (
        <div class="message-actions">
          <CopyButton text={() => text} label="Copy message" />
          {again && <IconButton name="again" label="Answer again" onClick={again} />}
        </div>
      )}
    </article>
  );
}

type PartProps = Omit<AssistantProps, 'message' | 'version' | 'name' | 'again'> & { readonly part: Part };

function AssistantPart({ part, isOpen, questions, agents, answer }: PartProps) {
  switch (part['type']) {
    case 'text':
      return <Markdown text={String(part['text'])} />;
    case 'reasoning':
      return <Reasoning text={String(part['text'])} isOpen={isOpen && part['state'] === 'streaming'} />;
    case 'dynamic-tool': {
      const { toolCallId } = part;
      const asked = questions.filter(({ callId }) => callId === toolCallId);
      const state = toolState(part, { isOpen, isAsking: asked.length > 0 });
      return (
        <>
          <ToolView part={part} state={state} agents={agents.filter(({ callId }) => callId === toolCallId)} />
          {asked.map((question) => (
            <QuestionView key={question.id} question={question} answer={answer} />
          ))}
        </>
      );
    }
    case 'data-artifact': {
      const { name, text, data } = Object(part['data']);
      return <Value label={visibleText(String(name ?? 'Artifact'))} value={text ?? data} />;
    }
    default:
      return null;
  }
}

function Reasoning({ text, isOpen }: { readonly text: string; readonly isOpen: boolean }) {
  return (
    <details class="reasoning">
      <summary>
        {isOpen ? 'Thinking' : 'Thoughts'}
        <span class="fold">
          <Icon name="chevron" />
        </span>
      </summary>
      <Markdown text={text} />
    </details>
  );
}

export function Dots() {
  return (
    <p class="dots" aria-hidden="true">
      <span />
      <span />
      <span />
    </p>
  );
}

export function FailureNote({ failure, retry }: { readonly failure: Failure; readonly retry: () => void }) {
  return (
    <div class="failure" role="alert">
      <p>{visibleText(failure.text)}</p>
      {failure.canRetry && (
        <button type="button" class="quiet" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** What was said, without tools and thoughts. */
export function textOf(parts: readonly Part[]): string {
  return parts
    .filter(({ type }) => type === 'text')
    .map(({ text }) => String(text))
    .join('\n\n');
}

/** What screen readers announce: whole answers and questions, never a part of an answer. */
export function announcementOf({ phase, messages, questions, failure, isConnected }: Conversation): string {
  if (!isConnected) return 'Connection lost. Reconnecting.';
  if (questions.length > 0)
    return questions.map(({ prompt, toolName }) => `Question: ${visibleText(prompt ?? toolName ?? '')}`).join(' ');
  if (phase === 'busy') return 'The agent is working.';
  const last = messages.at(-1);
  if (failure || last?.role !== 'assistant') return '';
  if (last.metadata?.['state'] === 'canceled') return 'Stopped.';
  return `Agent: ${visibleText(textOf(last.parts)).slice(0, 2_000) || 'done'}`;
}
