import { isObject, type ToolChoice } from '../../core/contracts/index.ts';
import { type ProfileName, type RequestRules, reasonsBy, type SettingName } from '../../providers/profiles.ts';
import { type ChatHabits, chatForm } from './chat-answer.ts';
import { ApiError, type ChatCall, type OfferedTool } from './chat-request.ts';
import type { AnswerNames } from './model-answer.ts';
import {
  type ChatBody,
  hasMember,
  objectIn,
  objectsIn,
  type ReadContext,
  settingsIn,
  stringIn,
  stringsIn,
  turnStart,
  type Wire,
  type WireFlaw,
  type WireMessage,
  type WireRequest,
  type WireSchema,
  wireMessage,
} from './wire.ts';

interface ServerHabits extends ChatHabits {
  readonly callId?: AnswerNames['callId'];
}

/** What sets a server apart; `reasoning_content` and OpenAI's errors are the habit of most. */
const habits: Partial<Readonly<Record<ProfileName, ServerHabits>>> = {
  'openai-chat': { reasoning: 'none' },
  azure: { reasoning: 'none' },
  mistral: {
    reasoning: 'parts',
    callId: (hash, index) => `${hash.slice(0, 8)}${index % 10}`,
    refusal: ({ message, status }) => ({
      object: 'error',
      message,
      type: status < 500 ? 'invalid_request_error' : 'internal_server_error',
      param: null,
      code: status < 500 ? '3051' : '1000',
    }),
  },
  moonshot: {
    reasoning: 'reasoning_content',
    callId: (_, index, name) => `functions.${name}:${index}`,
  },
  groq: { reasoning: 'reasoning' },
  openrouter: { reasoning: 'reasoning' },
  cerebras: { reasoning: 'reasoning' },
  ollama: { reasoning: 'reasoning' },
};

/** Members of an answer in which some server keeps what only it can read. */
const ownMembers = [
  'reasoning_content',
  'reasoning',
  'reasoning_details',
  'thinking_blocks',
  'provider_specific_fields',
  'extra_content',
];

/** OpenAI's chat completions as the server of a profile speaks them. */
export function chatWire(profile: ProfileName): Wire {
  const own = habits[profile] ?? { reasoning: 'reasoning_content' };
  return {
    base: '/v1',
    route: (path) => (path.endsWith('/chat/completions') ? {} : undefined),
    names: own.callId === undefined ? {} : { callId: own.callId },
    read: (body, context) => readChat(body, context),
    form: (given) =>
      chatForm({
        ...own,
        ...(profile === 'google-chat' && {
          sealOf: (answer, index) => {
            const call = answer.calls[index];
            const hasSeal = index === 0 && call !== undefined && answer.hasState;
            return hasSeal ? given.seal(answer.model, call.name, call.arguments) : undefined;
          },
        }),
      }),
  };
}

const settingNames: Readonly<Record<string, SettingName>> = {
  temperature: 'temperature',
  top_p: 'topP',
  max_tokens: 'maxTokens',
  max_completion_tokens: 'maxTokens',
  stop: 'stop',
  seed: 'seed',
  random_seed: 'seed',
  parallel_tool_calls: 'parallelToolCalls',
  reasoning_effort: 'reasoning',
  reasoning: 'reasoning',
  thinking: 'reasoning',
  chat_template_kwargs: 'reasoning',
};

function readChat(body: ChatBody, context: ReadContext): WireRequest {
  const { rules } = context;
  if (!Array.isArray(body['messages']) || body['messages'].length === 0)
    throw new ApiError(400, "Missing required parameter: 'messages', a list with at least one message.", 'messages');
  const given = objectsIn(body['messages']);
  const messages = given.map(readMessage);
  const limit = body['max_completion_tokens'] ?? body['max_tokens'];
  const givenChoice = choiceIn(body['tool_choice']);
  const offered = objectsIn(body['tools']);
  const settings = settingsIn(body, settingNames);
  const hasMarks = hasMember(body['messages'], 'cache_control') || hasMember(body['tools'], 'cache_control');
  return {
    model: stringIn(body['model']),
    messages,
    tools: offered.map(readTool),
    toolChoice: givenChoice ?? 'auto',
    givenChoice,
    parallel: body['parallel_tool_calls'] !== false,
    maxTokens: typeof limit === 'number' ? limit : undefined,
    stream: body['stream'] === true,
    includeUsage: objectIn(body['stream_options'])['include_usage'] === true,
    settings: hasMarks ? new Set([...settings, 'cache']) : settings,
    reasons: reasonsBy({ ...objectIn(body['chat_template_kwargs']), ...body }) ?? rules.reasonsByDefault,
    stops: stringsIn(body['stop']),
    output: outputIn(body['response_format'], rules),
    dialects: new Map(
      offered.flatMap((tool, index) =>
        objectIn(tool['function'])['strict'] === true ? [[index, rules.outputSchema] as const] : [],
      ),
    ),
    wantsState: true,
    flaws: [
      ...settingFlaws(body, rules, hasMarks),
      ...stateFlaws(given, messages, context),
      ...missingReasoning(given, messages, context),
      ...(context.profile === 'google-chat' ? missingSeals(given, messages, context) : []),
    ],
  };
}

const roles = ['system', 'developer', 'user', 'assistant', 'tool'] as const;

function readMessage(given: Readonly<Record<string, unknown>>, index: number): WireMessage {
  const at = `messages[${index}]`;
  const role = roles.find((known) => known === given['role']);
  if (role === undefined) throw new ApiError(400, `${at}.role is none of ${roles.join(', ')}.`, `${at}.role`);
  const { content } = given;
  const parts = objectsIn(content);
  const texts = parts.flatMap(({ text, refusal }) => [text, refusal].filter((each) => typeof each === 'string'));
  const isMedia = ({ type }: Readonly<Record<string, unknown>>): boolean =>
    type !== 'text' && type !== 'refusal' && type !== 'thinking';
  return wireMessage({
    at,
    role,
    texts: typeof content === 'string' ? [content] : texts,
    media: parts.filter(isMedia).length,
    calls: objectsIn(given['tool_calls']).map(readCall),
    callId: role === 'tool' ? (stringIn(given['tool_call_id']) ?? '') : undefined,
  });
}

function readCall(given: Readonly<Record<string, unknown>>): ChatCall {
  const called = objectIn(given['function']);
  return {
    id: stringIn(given['id']) ?? '',
    name: stringIn(called['name']) ?? '',
    arguments: stringIn(called['arguments']) ?? '',
  };
}

function readTool(given: Readonly<Record<string, unknown>>): OfferedTool {
  const { name, description, parameters } = objectIn(given['function']);
  return {
    name: stringIn(name) ?? '',
    description: stringIn(description) ?? '',
    parameters: isObject(parameters) ? parameters : { type: 'object', properties: {} },
  };
}

function choiceIn(given: unknown): ToolChoice | undefined {
  if (given === 'any') return 'required';
  if (given === 'auto' || given === 'none' || given === 'required') return given;
  const name = stringIn(objectIn(objectIn(given)['function'])['name']);
  return name === undefined ? undefined : { name };
}

function outputIn(format: unknown, { schema: dialect, outputSchema }: RequestRules): WireSchema | undefined {
  const { type, json_schema: given } = objectIn(format);
  const { schema, strict } = objectIn(given);
  if (type !== 'json_schema' || !isObject(schema)) return undefined;
  return { at: 'response_format', schema, dialect: strict === true ? outputSchema : dialect };
}

function* settingFlaws(body: ChatBody, rules: RequestRules, hasMarks: boolean): Generator<WireFlaw> {
  const { maxTokensField, efforts, takesCacheMarks } = rules;
  if (maxTokensField === 'max_completion_tokens' && (body['max_tokens'] ?? null) !== null) {
    const message = 'max_tokens, which this model takes as max_completion_tokens';
    yield { rule: 'maxTokensField', at: 'max_tokens', message };
  }
  const effort = stringIn(body['reasoning_effort']);
  if (effort !== undefined && efforts?.includes(effort) === false) {
    const message = `the effort "${effort}", which is none of ${efforts.join(', ')}`;
    yield { rule: 'efforts', at: 'reasoning_effort', message };
  }
  if (hasMarks && !takesCacheMarks) yield { rule: 'takesCacheMarks', at: 'messages', message: 'cache_control' };
}

/** What another server gave for itself. Blank reasoning is nobody's: it stands where a server wants the member. */
function* stateFlaws(
  given: readonly Readonly<Record<string, unknown>>[],
  messages: readonly WireMessage[],
  context: ReadContext,
): Generator<WireFlaw> {
  for (const [index, message] of given.entries()) {
    const at = messages[index]?.at ?? 'messages';
    for (const name of ownMembers) {
      const value = message[name];
      const isBlank = typeof value === 'string' && value.trim() === '';
      if (value === undefined || value === null || isBlank || context.given.gaveReasoning(value)) continue;
      yield { rule: 'state', at: `${at}.${name}`, message: `${name} that this server did not give` };
    }
    for (const [position, call] of objectsIn(message['tool_calls']).entries()) {
      const place = `${at}.tool_calls[${position}]`;
      const foreign = ['provider_specific_fields', 'extra_content'].find((name) => (call[name] ?? null) !== null);
      if (foreign !== undefined && !isOwnSeal(call, context))
        yield { rule: 'state', at: `${place}.${foreign}`, message: `${foreign} that this server did not give` };
    }
  }
}

function isOwnSeal(call: Readonly<Record<string, unknown>>, context: ReadContext): boolean {
  if (context.profile !== 'google-chat') return false;
  const { given, model, rules } = context;
  const { name, arguments: text } = readCall(call);
  const seal = sealIn(call);
  return seal === rules.signatureStandIn || given.isSealOf(seal, model, name, text);
}

function sealIn(call: Readonly<Record<string, unknown>>): string | undefined {
  return stringIn(objectIn(objectIn(call['extra_content'])['google'])['thought_signature']);
}

/** Where calls need the member, they have it; in the turn in which this server gave reasoning, as it was given. */
function* missingReasoning(
  given: readonly Readonly<Record<string, unknown>>[],
  messages: readonly WireMessage[],
  { given: state, rules: { reasoningMember: member } }: ReadContext,
): Generator<WireFlaw> {
  if (member === undefined) return;
  const start = turnStart(messages);
  for (const [index, { at, calls }] of messages.entries()) {
    if (calls.length === 0) continue;
    const value = given[index]?.[member];
    const gave = calls.some(({ id }) => (state.answerWith(id)?.reasoning ?? '') !== '');
    if (typeof value !== 'string') yield { rule: 'reasoningMember', at, message: `no ${member} beside the calls` };
    else if (index >= start && gave && !state.gaveReasoning(value))
      yield { rule: 'reasoningBack', at, message: `another ${member} beside the calls than was given` };
  }
}

function* missingSeals(
  given: readonly Readonly<Record<string, unknown>>[],
  messages: readonly WireMessage[],
  { rules }: ReadContext,
): Generator<WireFlaw> {
  if (rules.signatureStandIn === undefined) return;
  for (let index = turnStart(messages); index < messages.length; index++) {
    const [call] = objectsIn(given[index]?.['tool_calls']);
    if (call === undefined || sealIn(call) !== undefined) continue;
    const at = `messages[${index}].tool_calls[0]`;
    yield { rule: 'signatureStandIn', at, message: 'a function call without its thought_signature' };
  }
}
