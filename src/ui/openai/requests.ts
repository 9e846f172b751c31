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
  moderation: never,
};

const refusedOfResponses: typeof refusedOfChat = {
  tools: (value, { model }) => Array.isArray(value) && value.every((each) => isOwnServer(each, model)),
  tool_choice: (value) => value === 'auto' || value === 'none',
  text: (value) => isObject(value) && (value['format'] === undefined || isTextFormat(value['format'])),
  top_logprobs: (value) => value === 0,
  background: (value) => value === false,
  conversation: never,
  prompt: never,
  max_tool_calls: never,
  context_management: isEmptyList,
  moderation: never,
};

interface Form {
  readonly fits: (value: unknown) => boolean;
  readonly must: string;
}

const aString: Form = { fits: (value) => typeof value === 'string', must: 'be a string' };
const aBoolean: Form = { fits: (value) => typeof value === 'boolean', must: 'be a boolean' };
const metadata: Form = {
  fits: isMetadata,
  must: 'be an object of at most 16 strings, with names of at most 64 and values of at most 512 characters',
};

/** What changes nothing, and has to have the form that OpenAI's API asks for. */
const formsOfBoth: Readonly<Record<string, Form>> = {
  temperature: between(0, 2),
  top_p: between(0, 1),
  metadata,
  parallel_tool_calls: aBoolean,
  user: aString,
  safety_identifier: aString,
  prompt_cache_key: aString,
  service_tier: aString,
  store: aBoolean,
  stream: aBoolean,
};

const formsOfChat: typeof formsOfBoth = {
  ...formsOfBoth,
  frequency_penalty: between(-2, 2),
  presence_penalty: between(-2, 2),
  max_tokens: wholeFrom(1),
  max_completion_tokens: wholeFrom(1),
  seed: { fits: Number.isSafeInteger, must: 'be an integer' },
};

const formsOfResponses: typeof formsOfBoth = {
  ...formsOfBoth,
  instructions: aString,
  previous_response_id: aString,
  max_output_tokens: wholeFrom(16),
  truncation: { fits: (value) => value === 'auto' || value === 'disabled', must: 'be "auto" or "disabled"' },
};

/** What a response repeats of its request, as OpenAI's does. */
const echoed = [
  ...['instructions', 'max_output_tokens', 'metadata', 'parallel_tool_calls', 'prompt_cache_key', 'reasoning'],
  ...['safety_identifier', 'store', 'temperature', 'tool_choice', 'tools', 'top_p', 'truncation', 'user'],
];

function between(least: number, most: number): Form {
  const fits = (value: unknown) => typeof value === 'number' && value >= least && value <= most;
  return { fits, must: `be a number from ${least} to ${most}` };
}

function wholeFrom(least: number): Form {
  const fits = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= least;
  return { fits, must: `be an integer of at least ${least}` };
}

function isMetadata(value: unknown): boolean {
  if (!isObject(value) || Array.isArray(value)) return false;
  const entries = Object.entries(value);
  const isEntry = ([name, text]: [string, unknown]) =>
    name.length <= 64 && typeof text === 'string' && text.length <= 512;
  return entries.length <= 16 && entries.every(isEntry);
}

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

function checkParameters(body: Body, refused: typeof refusedOfChat, forms: typeof formsOfBoth): void {
  for (const [param, { fits, must }] of Object.entries(forms)) {
    const value = body[param];
    if (value !== undefined && value !== null && !fits(value))
      throw new ParameterRefusal(param, `${param} must ${must}.`);
  }
  const { stream_options: options } = body;
  if (options !== undefined && options !== null && (!isObject(options) || body['stream'] !== true))
    throw new ParameterRefusal('stream_options', 'stream_options must be an object, and needs stream: true.');
  for (const [param, changesNothing] of Object.entries(refused)) {
    const value = body[param];
    if (value === undefined || value === null || changesNothing(value, body)) continue;
    throw new ParameterRefusal(param, `${param} is not supported: the agent decides it. Leave it out.`);
  }
}

export interface ChatRequest {
  readonly messages: readonly Message[];
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly metadata: unknown;
}

interface Limits {
  readonly maxMessages: number;
  /** Whether instructions of the client are given to the model. */
  readonly appends: boolean;
}

/** Errors: `ParameterRefusal`. */
export function chatRequest(body: Body, limits: Limits): ChatRequest {
  checkParameters(body, refusedOfChat, formsOfChat);
  const { messages, stream, stream_options: options, metadata: given } = body;
  const includeUsage = isObject(options) && options['include_usage'] === true;
  return {
    messages: conversation('messages', messages, limits),
    stream: stream === true,
    includeUsage,
    metadata: given ?? undefined,
  };
}

export interface ResponseRequest {
  readonly messages: readonly Message[];
  readonly stream: boolean;
  readonly previous: string | undefined;
  /** By the ids of approval requests: those at the end of the input. */
  readonly approvals: ReadonlyMap<string, { readonly approved: boolean; readonly reason?: string }>;
  /** The ids of approval requests that are answered before a message of the input. */
  readonly answeredBefore: readonly string[];
  /** What the response repeats of the request. */
  readonly echo: Body;
}

/** Gives the item that an `item_reference` stands for; `undefined` where there is none of the caller. */
type Resolve = (id: string) => Promise<unknown>;

/** Errors: `ParameterRefusal`. */
export async function responseRequest(body: Body, limits: Limits, resolve: Resolve): Promise<ResponseRequest> {
  checkParameters(body, refusedOfResponses, formsOfResponses);
  const { input, instructions, previous_response_id: previous, stream } = body;
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
  // What the agent did after a message answers it: the message would be a second turn.
  if (!isAnswer && items.length > 0 && isOfAgent(items.at(-1))) throw notOfUser('input');
  const messages = isAnswer ? others.map(messageAt) : conversation('input', [...own, ...others], limits);
  const answeredBefore = items
    .slice(0, end)
    .filter(isApproval)
    .map((item) => approvalIn(item)[0]);
  return {
    messages,
    stream: stream === true,
    previous: typeof previous === 'string' ? previous : undefined,
    approvals,
    answeredBefore,
    echo: Object.fromEntries(echoed.flatMap((name) => ((body[name] ?? null) === null ? [] : [[name, body[name]]]))),
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
  if (messages.at(-1)?.role !== 'user') throw notOfUser(param);
  return messages;
}

function notOfUser(param: string): ParameterRefusal {
  return new ParameterRefusal(param, `The last entry of ${param} must be a message of the user.`);
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
