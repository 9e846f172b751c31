import { isObject, type ToolChoice } from '../../core/contracts/index.ts';
import type { RequestRules, SettingName } from '../../providers/profiles.ts';
import { ApiError, type OfferedTool } from './chat-request.ts';
import { messagesForm } from './messages-answer.ts';
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

/** Anthropic's Messages API. */
export const messagesWire: Wire = {
  base: '/v1',
  route: (path) => (path.endsWith('/messages') ? {} : undefined),
  names: { callId: (hash, index) => `toolu_${hash}_${index}`, answerId: (hash) => `msg_${hash}` },
  read: readMessages,
  form: messagesForm,
};

const settingNames: Readonly<Record<string, SettingName>> = {
  temperature: 'temperature',
  top_p: 'topP',
  max_tokens: 'maxTokens',
  stop_sequences: 'stop',
  thinking: 'reasoning',
};

type Block = Readonly<Record<string, unknown>>;

function readMessages(body: ChatBody, context: ReadContext): WireRequest {
  if (!Array.isArray(body['messages'])) throw new ApiError(400, 'messages: Field required', 'messages');
  const given = objectsIn(body['messages']);
  const system = textsOf(body['system']);
  const conversation = given.flatMap((message, index) => readMessage(message, `messages.${index}`));
  const messages = [
    ...(system.length > 0 ? [wireMessage({ at: 'system', role: 'system', texts: system })] : []),
    ...conversation,
  ];
  const { type: choice, name, disable_parallel_tool_use: isSerial } = objectIn(body['tool_choice']);
  const givenChoice = choiceOf(choice, name);
  const settings = settingsIn(body, settingNames);
  const thinking = objectIn(body['thinking']);
  const reasons = thinking['type'] === 'enabled' || thinking['type'] === 'adaptive';
  const isCached = hasMember(body['messages'], 'cache_control') || hasMember(body['system'], 'cache_control');
  return {
    model: stringIn(body['model']),
    messages,
    tools: objectsIn(body['tools']).map(readTool),
    toolChoice: givenChoice ?? 'auto',
    givenChoice,
    parallel: isSerial !== true,
    maxTokens: typeof body['max_tokens'] === 'number' ? body['max_tokens'] : undefined,
    stream: body['stream'] === true,
    includeUsage: true,
    settings: isCached ? new Set([...settings, 'cache']) : settings,
    reasons,
    stops: stringsIn(body['stop_sequences']),
    output: outputIn(body, context.rules),
    dialects: new Map(),
    wantsState: true,
    flaws: [
      ...limitFlaws(body, thinking),
      ...signatureFlaws(given, context),
      ...(reasons ? missingThinking(given, conversation, context) : []),
    ],
  };
}

/** A user message may hold results and words: each result is a message of its own. */
function readMessage(given: Block, at: string): readonly WireMessage[] {
  const { role, content } = given;
  if (role !== 'user' && role !== 'assistant' && role !== 'system')
    throw new ApiError(400, `${at}.role: Input should be 'user' or 'assistant'`, `${at}.role`);
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : objectsIn(content);
  if (role === 'assistant') {
    const calls = blocks.flatMap(({ type, id, name, input }) =>
      type === 'tool_use' && typeof id === 'string' && typeof name === 'string'
        ? [{ id, name, arguments: JSON.stringify(input ?? null) }]
        : [],
    );
    return [wireMessage({ at, role, texts: textsOf(blocks), calls, media: mediaIn(blocks) })];
  }
  const messages: WireMessage[] = [];
  const others: Block[] = [];
  const flush = (): void => {
    if (others.length > 0) messages.push(wireMessage({ at, role, texts: textsOf(others), media: mediaIn(others) }));
    others.length = 0;
  };
  for (const block of blocks) {
    if (block['type'] !== 'tool_result') {
      others.push(block);
      continue;
    }
    flush();
    const { tool_use_id: id, content: result } = block;
    const parts = objectsIn(result);
    const callId = stringIn(id) ?? '';
    messages.push(wireMessage({ at, role: 'tool', texts: textsOf(result), media: mediaIn(parts), callId }));
  }
  flush();
  return messages.length > 0 ? messages : [wireMessage({ at, role })];
}

function textsOf(content: unknown): readonly string[] {
  if (typeof content === 'string') return [content];
  return objectsIn(content).flatMap(({ type, text }) => (type === 'text' && typeof text === 'string' ? [text] : []));
}

function mediaIn(blocks: readonly Block[]): number {
  return blocks.filter(({ type }) => type === 'image' || type === 'document').length;
}

function readTool({ name, description, input_schema: schema }: Block): OfferedTool {
  return {
    name: stringIn(name) ?? '',
    description: stringIn(description) ?? '',
    parameters: isObject(schema) ? schema : {},
  };
}

function choiceOf(type: unknown, name: unknown): ToolChoice | undefined {
  if (type === 'auto' || type === 'none') return type;
  if (type === 'any') return 'required';
  return type === 'tool' && typeof name === 'string' ? { name } : undefined;
}

function outputIn(body: ChatBody, { outputSchema: dialect }: RequestRules): WireSchema | undefined {
  const { schema } = objectIn(body['output_format'] ?? objectIn(body['output_config'])['format']);
  return isObject(schema) ? { at: 'output_config.format', schema, dialect } : undefined;
}

function* limitFlaws(body: ChatBody, thinking: Block): Generator<WireFlaw> {
  const { max_tokens: limit } = body;
  const budget = thinking['budget_tokens'];
  if (typeof limit !== 'number') yield { rule: 'required', at: 'max_tokens', message: 'a request without max_tokens' };
  else if (typeof budget === 'number' && budget >= limit)
    yield { rule: 'required', at: 'max_tokens', message: 'max_tokens that is not greater than thinking.budget_tokens' };
}

function* signatureFlaws(given: readonly Block[], { given: state, model }: ReadContext): Generator<WireFlaw> {
  for (const [index, message] of given.entries()) {
    for (const [position, block] of objectsIn(message['content']).entries()) {
      const { type, thinking, signature, data } = block;
      const isForeign =
        (type === 'thinking' && !state.isSealOf(signature, model, stringIn(thinking) ?? '')) ||
        (type === 'redacted_thinking' && !state.isSealOf(data, model, ''));
      const at = `messages.${index}.content.${position}`;
      if (isForeign) yield { rule: 'state', at, message: `an invalid \`signature\` in a \`${String(type)}\` block` };
    }
  }
}

/** Calls of this turn whose thinking it gave begin their message with it. */
function* missingThinking(
  given: readonly Block[],
  conversation: readonly WireMessage[],
  { given: state }: ReadContext,
): Generator<WireFlaw> {
  const start = Number(conversation[turnStart(conversation) - 1]?.at.split('.')[1] ?? -1) + 1;
  for (const [index, message] of given.entries()) {
    if (index < start) continue;
    const blocks = objectsIn(message['content']);
    const call = blocks.find(({ type }) => type === 'tool_use');
    if (call === undefined || state.answerWith(stringIn(call['id']) ?? '')?.hasState !== true) continue;
    const first = blocks[0]?.['type'];
    if (first === 'thinking' || first === 'redacted_thinking') continue;
    const at = `messages.${index}.content.0.type`;
    yield {
      rule: 'state',
      at,
      message: `expected \`thinking\` or \`redacted_thinking\`, but found \`${String(first)}\``,
    };
  }
}
