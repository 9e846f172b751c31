import { type ContentPart, isObject, type Message } from '../core/contracts/index.ts';
import type { AgUiMessage } from './ag-ui-types.ts';
import { Chat, ChatRecovery, type Followed, ofOneTask } from './chats.ts';
import { toAgUIResponse } from './event-stream.ts';
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
} from './requests.ts';

/**
 * Serves clients of AG-UI 1.0 such as `HttpAgent`, wherever it is mounted: `POST …` takes a `RunAgentInput` and streams the run, `POST …/<threadId>/stop` cancels.
 *
 * Of the input the thread, the run, the last user message and `resume` are read; the conversation comes from the message store, and tools, state and context of the
 * client are not taken. A waiting turn ends its run with the outcome `interrupt`; `resume` answers it in a new run. A client that aborts a run only disconnects: with
 * `onDisconnect: 'cancel'` that cancels the turn. Ids, owners and refusals are those of `uiMessageHandler`. Errors: `INVALID_CONFIG`.
 */
export function agUiHandler(options: HandlerOptions): FetchHandler {
  const handler = resolveHandler(options);
  const recovery = new ChatRecovery(handler);
  const answer = async (request: Request): Promise<Response> => {
    if (request.method !== 'POST') throw methodNotAllowed();
    const [verb, threadId] = routeOf(request);
    if (verb === 'stop') {
      const chat = await Chat.of(handler, request, checkedId('The id of the thread', threadId));
      await chat.stop();
      recovery.start();
      return noContent();
    }
    recovery.start();
    const run = await readRun(handler, request);
    const { source, from, answered } = await followed(run);
    const { threadId: thread, runId, messages } = run;
    const { heartbeatMs } = options;
    const ids = { threadId: thread, runId };
    return toAgUIResponse(source, { ...handler.shown, heartbeatMs, ...ids, messages, from, answered });
  };
  return handlerOf(handler, answer, recovery);
}

async function followed({ chat, messages, answers }: Run): Promise<Followed> {
  if (answers.size > 0) return chat.answer(ofOneTask(answers));
  const message = userMessage(messages);
  return chat.start(message.id, message);
}

interface Run {
  readonly chat: Chat;
  readonly threadId: string;
  readonly runId: string;
  readonly messages: readonly AgUiMessage[];
  /** By the ids of interrupts. */
  readonly answers: ReadonlyMap<string, unknown>;
}

async function readRun(handler: ResolvedHandler, request: Request): Promise<Run> {
  // Before the body: nothing of it is read for a caller who is not known.
  const scope = await scopeFor(handler, request);
  const body = await jsonBody(request, handler.maxBodyBytes);
  const threadId = checkedId('threadId', body['threadId']);
  const runId = checkedId('runId', body['runId']);
  const chat = await Chat.of(handler, request, threadId, { scope });
  const { messages = [], resume = [] } = body;
  const known = checkedMessages(messages, handler.maxMessages);
  if (!known.every(isMessage)) throw malformed('A message needs an id and a role.');
  if (!Array.isArray(resume)) throw malformed('resume must be an array.');
  return { chat, threadId, runId, messages: known, answers: new Map(resume.map(answerIn)) };
}

function isMessage(value: Readonly<Record<string, unknown>>): value is AgUiMessage & typeof value {
  return typeof value['id'] === 'string' && typeof value['role'] === 'string';
}

/** A question that the user dismisses is an approval that is not given; other kinds of answers are up to the tool. */
function answerIn(entry: unknown): readonly [string, unknown] {
  if (!isObject(entry)) throw malformed('An entry of resume must be an object.');
  const { interruptId, status, payload } = entry;
  const id = checkedId('interruptId', interruptId);
  if (status === 'resolved' && payload === undefined) throw malformed('A resolved entry of resume needs a payload.');
  if (status === 'resolved') return [id, payload];
  if (status === 'cancelled') return [id, { ...(isObject(payload) ? payload : {}), approved: false }];
  throw malformed('The status of an entry of resume must be "resolved" or "cancelled".');
}

function userMessage(messages: readonly AgUiMessage[]): Message & { readonly id: string } {
  const last = messages.at(-1);
  if (last?.role !== 'user') throw malformed('The last message must be of the user, or resume must have answers.');
  const id = checkedId('The id of the message', last.id);
  const { content } = last;
  if (typeof content === 'string' && content !== '') return { role: 'user', id, content };
  return { role: 'user', id, content: contentOfParts(Array.isArray(content) ? content : [], contentOf) };
}

/** What the model reads of a part: text, and pictures and files by their data or their URL. */
function contentOf(part: Readonly<Record<string, unknown>>): readonly ContentPart[] {
  const { type, text, source } = part;
  if (type === 'text' && typeof text === 'string') return text === '' ? [] : [{ type, text }];
  const url = urlOf(source);
  return url === undefined ? [] : [filePart(url, type === 'image')];
}

function urlOf(source: unknown): string | undefined {
  if (!isObject(source) || typeof source['value'] !== 'string') return undefined;
  const { type, value, mimeType } = source;
  if (type === 'url') return value;
  return type === 'data' && typeof mimeType === 'string' ? `data:${mimeType};base64,${value}` : undefined;
}
