import { type ContentPart, isObject, type Message } from '../core/contracts/index.ts';
import { type Answered, Chat, ChatRecovery, type Followed, followedOf, ofOneTask } from './chats.ts';
import { toUIMessageStreamResponse } from './event-stream.ts';
import {
  type FetchHandler,
  type HandlerOptions,
  handlerOf,
  type ResolvedHandler,
  resolveHandler,
  routeOf,
  scopeFor,
} from './handler-options.ts';
import {
  checkedId,
  checkedMessages,
  contentOfParts,
  filePart,
  jsonBody,
  malformed,
  methodNotAllowed,
  noContent,
  noStore,
} from './requests.ts';
import { storedMessages } from './ui-messages.ts';

/** Options of `uiMessageHandler`. */
export interface UIMessageHandlerOptions extends HandlerOptions {
  /** The major version of `ai` at the client. Default 7. */
  readonly sdk?: 6 | 7 | undefined;
}

/**
 * Serves `useChat` of the AI SDK, wherever it is mounted: `POST …` takes a message or answers and streams the turn, `GET …/<chatId>/stream` resumes the stream (204:
 * nothing to resume), `POST …/<chatId>/stop` cancels, `GET …/<chatId>/messages` gives the messages. `regenerate()` and an edited message begin a branch of the
 * conversation, which later messages continue. `metadata.versions` of a message has the ids of all that stand in its place: one of them as `version` in the query
 * of `GET messages` shows its branch, and in the body of a post continues it.
 *
 * Of a post only the last user message and answers to open questions are read; the conversation comes from the message store. A post that comes twice attaches to
 * the turn of the first. Chats, tasks and questions of another scope are 404, like unknown ones. Errors before the stream are JSON `{ error: { code,
 * message } }` with a fixed sentence. Errors: `INVALID_CONFIG`.
 */
export function uiMessageHandler(options: UIMessageHandlerOptions): FetchHandler {
  const handler = resolveHandler(options, ['sdk']);
  const { heartbeatMs, sdk } = options;
  const recovery = new ChatRecovery(handler);
  const stream = ({ source, from, answered }: Followed): Response =>
    toUIMessageStreamResponse(source, { ...handler.shown, heartbeatMs, sdk, from, answered });
  const answer = async (request: Request): Promise<Response> => {
    const [verb, chatId] = routeOf(request);
    // A stop comes before: the turn that it ends may be one that would be continued, and end.
    if (verb !== 'stop') recovery.start();
    if (request.method === 'POST' && verb !== 'stop') return stream(await posted(handler, request));
    if (verb === undefined || request.method !== (verb === 'stop' ? 'POST' : 'GET')) throw methodNotAllowed();
    const chat = await Chat.of(handler, request, checkedId('The id of the chat', chatId));
    const version = new URL(request.url).searchParams.get('version');
    if (verb === 'messages')
      return Response.json(await storedMessages(handler, chat, version || undefined), { headers: noStore });
    if (verb === 'stop') {
      await chat.stop();
      recovery.start();
      return noContent();
    }
    const open = followedOf(await chat.open());
    return open ? stream(chat.observe(open.taskId)) : noContent();
  };
  return handlerOf(handler, answer, recovery);
}

async function posted(handler: ResolvedHandler, request: Request): Promise<Followed> {
  // Before the body: nothing of it is read for a caller who is not known.
  const scope = await scopeFor(handler, request);
  const { id, messages, trigger, messageId, answers, version } = await jsonBody(request, handler.maxBodyBytes);
  const chat = await Chat.of(handler, request, checkedId('id', id), { scope });
  const last = checkedMessages(messages, handler.maxMessages).at(-1) ?? {};
  const given = answersIn(last, answers);
  if (given) return chat.answer(given);
  if (last['role'] !== 'user') throw malformed('The last message must be of the user, or have answers.');
  const message = userMessage(last);
  if (trigger === 'regenerate-message') return chat.again(message.id);
  if (messageId === message.id) return chat.again(message.id, message);
  const after = version === undefined ? undefined : await chat.endOf(checkedId('version', version));
  return chat.start(message.id, message, { after });
}

/** The answers of a post, by the ids of their questions: approvals that the user has responded to, and the member `answers` of the body. */
function answersIn(last: Readonly<Record<string, unknown>>, given: unknown): Answered | undefined {
  const all = new Map<string, unknown>();
  const parts = last['role'] === 'assistant' && Array.isArray(last['parts']) ? last['parts'] : [];
  for (const part of parts) {
    const approval: unknown = isObject(part) && part['state'] === 'approval-responded' ? part['approval'] : undefined;
    if (!isObject(approval)) continue;
    const { id, approved, reason } = approval;
    const why = typeof reason === 'string' ? { reason } : {};
    all.set(checkedId('The id of an approval', id), { approved: approved === true, ...why });
  }
  if (given !== undefined && !isObject(given)) throw malformed('answers must be an object, by the ids of questions.');
  for (const [id, answer] of Object.entries(given ?? {})) all.set(id, answer);
  return all.size === 0 ? undefined : ofOneTask(all);
}

function userMessage({ id, parts }: Readonly<Record<string, unknown>>): Message & { readonly id: string } {
  if (!Array.isArray(parts)) throw malformed('parts of the message must be an array.');
  const content = contentOfParts(parts, contentOf);
  const isText = content.every(({ type }) => type === 'text');
  const text = content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
  return { role: 'user', id: checkedId('The id of the message', id), content: isText ? text : content };
}

/** What the model reads of a part: text and files. */
function contentOf(part: Readonly<Record<string, unknown>>): readonly ContentPart[] {
  const { type, text, url, mediaType, filename } = part;
  if (type === 'text' && typeof text === 'string') return text === '' ? [] : [{ type, text }];
  if (type !== 'file' || typeof url !== 'string') return [];
  return [filePart(url, typeof mediaType === 'string' && mediaType.startsWith('image/'), filename)];
}
