import { type ContentPart, isObject, type Message } from '../../core/contracts/index.ts';
import { filePart, Refusal } from '../requests.ts';

/** Refuses a request because of one of its parameters. */
export class ParameterRefusal extends Refusal {
  readonly param: string;

  constructor(param: string, message: string, { status = 400, code = 'INVALID_INPUT' } = {}) {
    super(status, code, message);
    this.param = param;
  }
}

type Body = Readonly<Record<string, unknown>>;

/** What would change the answer, and is not the caller's to say; with the values that change nothing. */
const refusedOfChat: Readonly<Record<string, (value: unknown, body: Body) => boolean>> = {
  tools: isEmptyList,
  tool_choice: (value) => value === 'auto' || value === 'none',
  functions: isEmptyList,
  function_call: (value) => value === 'auto' || value === 'none',
  n: (value) => value === 1,
  logprobs: (value) => value === false,
  top_logprobs: (value) => value === 0,
  logit_bias: isEmptyObject,
  stop: isEmptyList,
  response_format: isTextFormat,
  modalities: (value) => Array.isArray(value) && value.every((each) => each === 'text'),
  audio: never,
  prediction: never,
  web_search_options: never,
};

const refusedOfResponses: typeof refusedOfChat = {
  tools: (value, { model }) => Array.isArray(value) && value.every((each) => isOwnServer(each, model)),
  tool_choice: (value) => value === 'auto' || value === 'none',
  text: (value) => isObject(value) && (value['format'] === undefined || isTextFormat(value['format'])),
  top_logprobs: (value) => value === 0,
  background: (value) => value === false,
  conversation: never,
  prompt: never,
};

function never(): boolean {
  return false;
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function isEmptyObject(value: unknown): boolean {
  return isObject(value) && Object.keys(value).length === 0;
}

/** The agent's own tools as a hosted MCP server: the Agents SDK takes an approval only of a server that it has named. Its address is not asked. */
function isOwnServer(tool: unknown, model: unknown): boolean {
  if (!isObject(tool) || tool['type'] !== 'mcp' || tool['server_label'] !== model) return false;
  return (tool['allowed_tools'] ?? null) === null && (tool['connector_id'] ?? null) === null;
}

function isTextFormat(value: unknown): boolean {
  return isObject(value) && value['type'] === 'text';
}

function checkParameters(body: Body, refused: typeof refusedOfChat): void {
  for (const [param, changesNothing] of Object.entries(refused)) {
    const value = body[param];
    if (value === undefined || value === null || changesNothing(value, body)) continue;
    throw new ParameterRefusal(param, `${param} is not supported: the agent decides it. Leave it out.`);
  }
}

/** Whether a stream is asked for. */
function streams({ stream }: Body): boolean {
  if (stream === undefined || stream === null) return false;
  if (typeof stream !== 'boolean') throw new ParameterRefusal('stream', 'stream must be a boolean.');
  return stream;
}

export interface ChatRequest {
  readonly messages: readonly Message[];
  readonly stream: boolean;
  readonly includeUsage: boolean;
}

interface Limits {
  readonly maxMessages: number;
  /** Whether instructions of the client are given to the model. */
  readonly appends: boolean;
}

/** Errors: `ParameterRefusal`. */
export function chatRequest(body: Body, limits: Limits): ChatRequest {
  checkParameters(body, refusedOfChat);
  const { messages, stream_options: options } = body;
  const includeUsage = isObject(options) && options['include_usage'] === true;
  return { messages: conversation('messages', messages, limits), stream: streams(body), includeUsage };
}

export interface ResponseRequest {
  readonly messages: readonly Message[];
  readonly stream: boolean;
  readonly previous: string | undefined;
  /** By the ids of approval requests: those at the end of the input. */
  readonly approvals: ReadonlyMap<string, { readonly approved: boolean; readonly reason?: string }>;
  /** The ids of approval requests that are answered before a message of the input. */
  readonly answeredBefore: readonly string[];
  /** Whether the response says that it is stored. */
  readonly store: boolean;
}

/** Gives the item that an `item_reference` stands for; `undefined` where there is none of the caller. */
type Resolve = (id: string) => Promise<unknown>;

/** Errors: `ParameterRefusal`. */
export async function responseRequest(body: Body, limits: Limits, resolve: Resolve): Promise<ResponseRequest> {
  checkParameters(body, refusedOfResponses);
  const { input, instructions, previous_response_id: previous, store } = body;
  if (store !== undefined && store !== null && typeof store !== 'boolean')
    throw new ParameterRefusal('store', 'store must be a boolean.');
  if (previous !== undefined && previous !== null && typeof previous !== 'string')
    throw new ParameterRefusal('previous_response_id', 'previous_response_id must be a string.');
  if (instructions !== undefined && instructions !== null && typeof instructions !== 'string')
    throw new ParameterRefusal('instructions', 'instructions must be a string.');
  const given = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  if (!Array.isArray(given)) throw new ParameterRefusal('input', 'input must be a string or an array of items.');
  if (given.length > limits.maxMessages)
    throw new ParameterRefusal('input', `input has more than ${limits.maxMessages} entries.`);
  const items = await resolved(given, resolve);
  // What a client answers stands at the end, beside the requests themselves; what stands before it is history.
  const end = items.findLastIndex((item) => !isApproval(item) && !isRequest(item)) + 1;
  const approvals = new Map(items.slice(end).filter(isApproval).map(approvalIn));
  const others = items.filter((item) => !isApproval(item) && !isOfAgent(item));
  const own = instructions ? [{ role: 'developer', content: instructions }] : [];
  const isAnswer = approvals.size > 0;
  const messages = isAnswer ? others.map(messageAt) : conversation('input', [...own, ...others], limits);
  const answeredBefore = items
    .slice(0, end)
    .filter(isApproval)
    .map((item) => approvalIn(item)[0]);
  return {
    messages,
    stream: streams(body),
    previous: previous ?? undefined,
    approvals,
    answeredBefore,
    store: store !== false,
  };
}

/** Each reference as what it names. Errors: `ParameterRefusal`. */
async function resolved(items: readonly unknown[], resolve: Resolve): Promise<readonly unknown[]> {
  const all: unknown[] = [];
  for (const [index, item] of items.entries()) {
    const isReference = isObject(item) && item['type'] === 'item_reference' && typeof item['id'] === 'string';
    const found = isReference ? await resolve(String(item['id'])) : item;
    if (found === undefined)
      throw new ParameterRefusal(`input[${index}]`, `input[${index}] names an item that is not there.`, {
        status: 404,
        code: 'NOT_FOUND',
      });
    all.push(found);
  }
  return all;
}

function messageAt(item: unknown, index: number): Message {
  return messageOf(`input[${index}]`, item);
}

function isRequest(item: unknown): boolean {
  return isObject(item) && item['type'] === 'mcp_approval_request';
}

function isApproval(item: unknown): item is Body {
  return isObject(item) && item['type'] === 'mcp_approval_response';
}

/** What the agent did: it has that in its own history. */
function isOfAgent(item: unknown): boolean {
  const ofAgent = ['reasoning', 'mcp_call', 'mcp_approval_request', 'mcp_list_tools'];
  return isObject(item) && ofAgent.includes(String(item['type']));
}

function approvalIn({ approval_request_id: id, approve, reason }: Body) {
  if (typeof id !== 'string' || typeof approve !== 'boolean')
    throw new ParameterRefusal('input', 'An mcp_approval_response needs approval_request_id and approve.');
  return [id, { approved: approve, ...(typeof reason === 'string' ? { reason } : {}) }] as const;
}

/** The messages of a client, the last of them of the user. Errors: `ParameterRefusal`. */
function conversation(param: string, given: unknown, { maxMessages, appends }: Limits): readonly Message[] {
  if (!Array.isArray(given)) throw new ParameterRefusal(param, `${param} must be an array of messages.`);
  if (given.length > maxMessages) throw new ParameterRefusal(param, `${param} has more than ${maxMessages} entries.`);
  const messages = given.flatMap((message, index) => {
    const read = messageOf(`${param}[${index}]`, message);
    return read.role === 'system' && !appends ? [] : [read];
  });
  if (messages.at(-1)?.role !== 'user')
    throw new ParameterRefusal(param, `The last entry of ${param} must be a message of the user.`);
  return messages;
}

function messageOf(param: string, given: unknown): Message {
  if (!isObject(given)) throw new ParameterRefusal(param, `${param} must be an object.`);
  const { role, content, type = 'message' } = given;
  if (type !== 'message') throw new ParameterRefusal(param, `${param} is of a type that is not supported.`);
  switch (role) {
    case 'system':
    case 'developer':
      return { role: 'system', content: textOf(param, content) };
    case 'assistant':
      if (isObject(given) && Array.isArray(given['tool_calls']) && given['tool_calls'].length > 0)
        throw new ParameterRefusal(param, `${param} has tool_calls: the agent runs its own tools.`);
      return { role, content: textOf(param, content) };
    case 'user': {
      const parts = partsOf(param, content);
      if (parts.length === 0) throw new ParameterRefusal(param, `${param} is empty.`);
      return { role, content: parts.every((part) => part.type === 'text') ? textOf(param, content) : parts };
    }
    default:
      throw new ParameterRefusal(param, `The role of ${param} must be user, assistant, system or developer.`);
  }
}

function textOf(param: string, content: unknown): string {
  return partsOf(param, content)
    .map((part) => {
      if (part.type !== 'text') throw new ParameterRefusal(param, `${param} must be text.`);
      return part.text;
    })
    .join('\n');
}

function partsOf(param: string, content: unknown): readonly ContentPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  if (!Array.isArray(content)) throw new ParameterRefusal(param, `The content of ${param} must be text or parts.`);
  return content.map((part) => partOf(param, part));
}

/** Parts as both endpoints spell them. */
function partOf(param: string, part: unknown): ContentPart {
  const { type, text, image_url: image, file, file_data: data, filename } = isObject(part) ? part : {};
  if ((type === 'text' || type === 'input_text' || type === 'output_text') && typeof text === 'string')
    return { type: 'text', text };
  const url = isObject(image) ? image['url'] : image;
  if ((type === 'image_url' || type === 'input_image') && typeof url === 'string') return filePart(url, true);
  const given = isObject(file) ? file : { file_data: data, filename };
  if ((type === 'file' || type === 'input_file') && typeof given['file_data'] === 'string')
    return filePart(given['file_data'], false, given['filename']);
  throw new ParameterRefusal(
    param,
    `${param} has a part that is not supported: send text, images or files as data URLs.`,
  );
}
