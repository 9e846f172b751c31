import type { PathMessage } from '../agent/branches.ts';
import {
  AgentLoopError,
  type AssistantMessage,
  addedName,
  callIdsOf,
  type Message,
  type StoredMessage,
  type TaskStateStore,
  type ToolMessage,
  textOf,
} from '../core/contracts/index.ts';
import type { Chat } from './chats.ts';
import { type FoldedTurn, foldUIChunks } from './fold-ui-chunks.ts';
import type { ResolvedHandler } from './handler-options.ts';
import { parsedArguments } from './shown-question.ts';
import type { UIChunk } from './ui-chunks.ts';
import { uiMessageChunks } from './ui-message-chunks.ts';

/** A message as `useChat` takes it. */
interface UIMessage {
  readonly id: string;
  readonly role: 'user' | 'assistant';
  readonly parts: readonly Readonly<Record<string, unknown>>[];
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** How many turns are read from their journals, the newest ones. */
const mostReplayed = 50;

/**
 * The messages of a chat: those of turns that have ended, as their streams gave them, and what the user said in the turns that are open; a stream gives the rest.
 * The last `maxMessages` ones; none for a chat that is new. `version`: the id of a message, from the `versions` of another; without effect while a turn is open.
 * Cost: the messages, and the journals of the newest 50 turns.
 */
export async function storedMessages(
  handler: ResolvedHandler,
  chat: Chat,
  version: string | undefined,
): Promise<readonly UIMessage[]> {
  const { agent, store: journal, maxMessages } = handler;
  const open = await chat.open();
  const before = open.at(-1)?.taskId;
  // The messages of an open turn come after what it follows, whatever a client names.
  const shownVersion = before === undefined ? version : undefined;
  const stored = await agent.conversation(chat.contextId, { limit: maxMessages, before, version: shownVersion });
  const newest = open.length === 0 && !version ? await chat.newest() : undefined;
  // One that was cancelled while no process ran it is in the message store when the next turn has begun.
  const unsaved = stored.some(({ taskId }) => taskId === newest) ? undefined : newest;
  const shown: UIMessage[] = [];
  const turns = turnsOf(stored);
  for (const [index, turn] of turns.entries())
    shown.push(...(await messagesOf(handler, turn, index >= turns.length - mostReplayed)));
  // The store has the message of another attempt from the first one.
  const isKnown = ({ id }: UIMessage) => stored.some(({ message }) => message.id === id);
  for (const { taskId } of open) shown.push(...(await saidIn(journal, taskId)).filter((said) => !isKnown(said)));
  if (unsaved === undefined) return shown;
  const said = await saidIn(journal, unsaved);
  if (said.some(isKnown)) return shown;
  return [...shown, ...said, ...(await messagesOf(handler, { taskId: unsaved, messages: [] }, true))];
}

/** What the user said in a turn that is not stored yet. */
async function saidIn(journal: TaskStateStore, taskId: string): Promise<readonly UIMessage[]> {
  const [first] = await journal.read(taskId);
  const said = first?.type === 'turn.started' ? first.messages : [];
  return said.flatMap((message, index) => userMessage(message, `${taskId}-${index}`));
}

interface StoredTurn {
  readonly taskId: string;
  readonly messages: PathMessage[];
}

function turnsOf(stored: readonly PathMessage[]): readonly StoredTurn[] {
  const turns: StoredTurn[] = [];
  for (const each of stored) {
    const { taskId = each.id } = each;
    const last = turns.at(-1);
    if (last?.taskId === taskId) last.messages.push(each);
    else turns.push({ taskId, messages: [each] });
  }
  return turns;
}

/**
 * What the user said, and one message with all that the turn answered: its stream again, folded. Of an old turn, and of one whose journal is not kept any more,
 * that is made of the messages.
 */
async function messagesOf(
  handler: ResolvedHandler,
  { taskId, messages }: StoredTurn,
  isNew: boolean,
): Promise<readonly UIMessage[]> {
  const users = messages.flatMap(({ id, message, versions }) => userMessage(message, id, versions));
  const folded = isNew ? await replayed(handler, taskId) : undefined;
  const { metadata, parts } = folded ?? madeOf(handler, taskId, messages);
  if (parts.length === 0) return users;
  return [...users, { id: taskId, role: 'assistant', parts, metadata }];
}

async function replayed({ agent, ...options }: ResolvedHandler, taskId: string): Promise<FoldedTurn | undefined> {
  const { tools, reasoning, errorText } = options;
  const encode = uiMessageChunks({ tools, reasoning, errorText });
  const chunks: UIChunk[] = [];
  try {
    for await (const event of agent.observe(taskId)) chunks.push(...encode(event));
    return foldUIChunks(chunks);
  } catch (error) {
    if (AgentLoopError.isInstance(error) && (error.code === 'NOT_FOUND' || error.code === 'POISON')) return undefined;
    throw error;
  }
}

function madeOf(handler: ResolvedHandler, taskId: string, messages: readonly StoredMessage[]): FoldedTurn {
  const results = new Map<string, ToolMessage>();
  for (const { message } of messages) if (message.role === 'tool') results.set(message.toolCallId, message);
  let iteration = 0;
  const parts = messages.flatMap(({ message }) =>
    message.role === 'assistant' ? partsOf(handler, message, { taskId, iteration: ++iteration, results }) : [],
  );
  return { metadata: { taskId }, parts };
}

function userMessage(message: Message, id: string, versions?: PathMessage['versions']): readonly UIMessage[] {
  if (message.role !== 'user' || message.metadata?.[addedName] === true) return [];
  const { content } = message;
  const parts = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content;
  const shown = parts.flatMap((part): UIMessage['parts'] => {
    if (part.type === 'text') return [{ type: 'text', text: part.text }];
    if (part.type === 'image_url') return [{ type: 'file', mediaType: 'image/*', url: part.image_url.url }];
    const { file_data: url, filename } = part.file;
    return url === undefined ? [] : [{ type: 'file', mediaType: mediaTypeOf(url), url, ...(filename && { filename }) }];
  });
  return [{ id: message.id ?? id, role: 'user', parts: shown, ...(versions && { metadata: { versions } }) }];
}

function mediaTypeOf(url: string): string {
  return /^data:([^;,]+)/.exec(url)?.[1] ?? 'application/octet-stream';
}

interface Place {
  readonly taskId: string;
  readonly iteration: number;
  readonly results: ReadonlyMap<string, ToolMessage>;
}

function partsOf(
  { shown }: ResolvedHandler,
  message: AssistantMessage,
  { taskId, iteration, results }: Place,
): readonly Readonly<Record<string, unknown>>[] {
  const { content, reasoning, toolCalls = [] } = message;
  const text = textOf(content);
  const callIds = callIdsOf(message, iteration);
  const calls = shown.tools === 'hidden' ? [] : toolCalls.filter((call) => call.function.name !== '__finish__');
  return [
    { type: 'step-start' },
    ...(shown.reasoning && reasoning ? [{ type: 'reasoning', text: reasoning, state: 'done' }] : []),
    ...(text === '' ? [] : [{ type: 'text', text, state: 'done' }]),
    ...calls.map((call) => {
      const result = results.get(call.id);
      const isFull = shown.tools === 'full';
      const base = {
        type: 'dynamic-tool',
        toolName: call.function.name,
        toolCallId: `${taskId}/${callIds[toolCalls.indexOf(call)]}`,
        providerExecuted: true,
        input: isFull ? parsedArguments(call.function.arguments) : {},
      };
      if (result?.status === 'error')
        return { ...base, state: 'output-error', errorText: shown.errorText({ code: 'TOOL_FAILED' }) };
      return { ...base, state: 'output-available', output: isFull && result ? result.content : null };
    }),
  ];
}
