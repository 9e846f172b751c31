import { type FinishReason, isObject, type ToolChoice } from '../../core/contracts/index.ts';

/** A tool as it stands in a request, without its `type`. */
export interface OfferedTool {
  readonly name: string;
  readonly description: string;
  /** Its JSON Schema. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** A tool call of the conversation. `arguments` is the JSON text as it came. */
export interface ChatCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** A message of the conversation; of its content only the text. */
export interface ChatMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  readonly text: string;
  readonly calls: readonly ChatCall[];
  /** The call that a `tool` message answers. */
  readonly callId?: string;
}

/** What a chat-completions request says, as far as this server reads it. */
export interface ChatRequest {
  readonly model: string | undefined;
  readonly messages: readonly ChatMessage[];
  /** What the model may call. */
  readonly tools: readonly OfferedTool[];
  readonly toolChoice: ToolChoice;
  /** Whether several calls may be asked for at once. */
  readonly parallel: boolean;
  /** Tokens. */
  readonly maxTokens: number | undefined;
  /** Whether the client asked for a stream. */
  readonly stream: boolean;
  /** Whether the client asked for the usage of a stream. */
  readonly includeUsage: boolean;
}

/** A tool call of a reply. */
export interface ReplyCall {
  readonly name: string;
  /** JSON text, or what a script puts in its place. */
  readonly arguments: string;
  /** Default: made from the request. */
  readonly id?: string;
}

/** What a model answers. */
export interface ModelReply {
  readonly text?: string;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ReplyCall[];
  /** Default `tool_calls` where there are calls, else `stop`. */
  readonly finishReason?: FinishReason;
}

/** A refusal in the form of OpenAI's API. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly param: string | null;
  readonly code: string | null;

  constructor(status: number, message: string, param: string | null = null, code: string | null = null) {
    super(message);
    this.status = status;
    this.param = param;
    this.code = code;
  }

  /** The body of the response, as OpenAI has it. */
  body(): object {
    const type = this.status >= 500 ? 'server_error' : 'invalid_request_error';
    return { error: { message: this.message, type, param: this.param, code: this.code } };
  }
}

/** Reads a request body. Errors with a 400 where it is not one that OpenAI's API would take. */
export function chatRequestOf(body: unknown): ChatRequest {
  if (!isObject(body)) throw new ApiError(400, 'The body is not a JSON object.');
  const { messages: given } = body;
  if (!Array.isArray(given) || given.length === 0) {
    throw new ApiError(400, "Missing required parameter: 'messages', a list with at least one message.", 'messages');
  }
  if (typeof body['n'] === 'number' && body['n'] > 1)
    throw new ApiError(400, 'This server gives one choice: n is 1.', 'n');
  const messages = given.map(messageOf);
  checkPairs(messages);
  const tools = toolsOf(body['tools']);
  const limit = body['max_completion_tokens'] ?? body['max_tokens'];
  if (limit !== undefined && limit !== null && !(typeof limit === 'number' && limit >= 1)) {
    throw new ApiError(400, 'max_tokens is a number of tokens, 1 or more.', 'max_tokens');
  }
  const streamOptions = body['stream_options'];
  return {
    model: typeof body['model'] === 'string' ? body['model'] : undefined,
    messages,
    tools,
    toolChoice: toolChoiceOf(body['tool_choice'], tools),
    parallel: body['parallel_tool_calls'] !== false,
    maxTokens: typeof limit === 'number' ? limit : undefined,
    stream: body['stream'] === true,
    includeUsage: isObject(streamOptions) && streamOptions['include_usage'] === true,
  };
}

const roles = ['system', 'developer', 'user', 'assistant', 'tool'] as const;

function messageOf(given: unknown, index: number): ChatMessage {
  const param = `messages[${index}]`;
  if (!isObject(given)) throw new ApiError(400, `${param} is not an object.`, param);
  const role = roles.find((known) => known === given['role']);
  if (role === undefined) {
    throw new ApiError(400, `${param}.role is none of ${roles.join(', ')}.`, `${param}.role`);
  }
  const callId = given['tool_call_id'];
  if (role === 'tool' && typeof callId !== 'string') {
    throw new ApiError(400, `${param}.tool_call_id is missing.`, `${param}.tool_call_id`);
  }
  const calls = given['tool_calls'];
  return {
    role,
    text: contentText(given['content']),
    calls: Array.isArray(calls) ? calls.map((call) => callOf(call, param)) : [],
    ...(typeof callId === 'string' && { callId }),
  };
}

function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (isObject(part) && typeof part['text'] === 'string' ? part['text'] : '')).join('\n');
}

function callOf(given: unknown, param: string): ChatCall {
  const called = isObject(given) ? given['function'] : undefined;
  if (isObject(given) && isObject(called)) {
    const { id } = given;
    const { name, arguments: text } = called;
    if (typeof id === 'string' && typeof name === 'string' && typeof text === 'string')
      return { id, name, arguments: text };
  }
  throw new ApiError(400, `${param}.tool_calls has a call without id, name or arguments.`, `${param}.tool_calls`);
}

/** Each call is answered by exactly one tool message right after the message that asked for it. */
function checkPairs(messages: readonly ChatMessage[]): void {
  let open = new Set<string>();
  for (const [index, message] of messages.entries()) {
    const param = `messages[${index}]`;
    if (message.role === 'tool') {
      if (open.delete(message.callId ?? '')) continue;
      throw new ApiError(400, `${param} answers a tool call that the message before does not ask for.`, param);
    }
    if (open.size > 0) {
      throw new ApiError(400, `${param} comes before the tool calls ${[...open].join(', ')} are answered.`, param);
    }
    open = new Set(message.calls.map((call) => call.id));
  }
  if (open.size > 0) throw new ApiError(400, `The tool calls ${[...open].join(', ')} are not answered.`, 'messages');
}

function toolsOf(given: unknown): readonly OfferedTool[] {
  if (given === undefined || given === null) return [];
  if (!Array.isArray(given)) throw new ApiError(400, 'tools is not a list.', 'tools');
  return given.map((tool, index) => {
    const offered = isObject(tool) ? tool['function'] : undefined;
    if (!isObject(offered) || typeof offered['name'] !== 'string') {
      throw new ApiError(400, `tools[${index}].function.name is missing.`, `tools[${index}]`);
    }
    const { name, description, parameters } = offered;
    return {
      name,
      description: typeof description === 'string' ? description : '',
      parameters: isObject(parameters) ? parameters : {},
    };
  });
}

function toolChoiceOf(given: unknown, tools: readonly OfferedTool[]): ToolChoice {
  if (given === undefined || given === null || given === 'auto') return 'auto';
  if (given === 'none') return 'none';
  if (tools.length === 0) throw new ApiError(400, 'tool_choice asks for a tool, but tools is empty.', 'tool_choice');
  if (given === 'required') return 'required';
  const wanted = isObject(given) && isObject(given['function']) ? given['function']['name'] : undefined;
  const tool = tools.find(({ name }) => name === wanted);
  if (tool === undefined) throw new ApiError(400, 'tool_choice names a tool that is not in tools.', 'tool_choice');
  return { name: tool.name };
}
