import { isObject, type ToolChoice } from '../../core/contracts/index.ts';
import type { RequestRules, SettingName } from '../../providers/profiles.ts';
import { ApiError, type ChatCall, type OfferedTool } from './chat-request.ts';
import { outputItems, reasoningId, responsesForm } from './responses-answer.ts';
import {
  type ChatBody,
  objectIn,
  objectsIn,
  type ReadContext,
  settingsIn,
  stringIn,
  stringsIn,
  type Wire,
  type WireFlaw,
  type WireMessage,
  type WireRequest,
  type WireSchema,
  wireMessage,
} from './wire.ts';

/** OpenAI's Responses API. */
export const responsesWire: Wire = {
  base: '/v1',
  route: (path) => (path.endsWith('/responses') ? {} : undefined),
  names: { answerId: (hash) => `resp_${hash}` },
  read: readResponses,
  form: responsesForm,
  keep(answer, body, given) {
    if (body['store'] === false) return;
    for (const item of outputItems(answer, given)) given.store(item.id, item);
  },
};

const settingNames: Readonly<Record<string, SettingName>> = {
  temperature: 'temperature',
  top_p: 'topP',
  max_output_tokens: 'maxTokens',
  parallel_tool_calls: 'parallelToolCalls',
};

type Item = Readonly<Record<string, unknown>>;

function readResponses(body: ChatBody, context: ReadContext): WireRequest {
  const { rules } = context;
  const { input } = body;
  if (typeof input !== 'string' && !Array.isArray(input))
    throw new ApiError(400, "Missing required parameter: 'input'.", 'input');
  const flaws: WireFlaw[] = [];
  const given = typeof input === 'string' ? [{ role: 'user', content: input }] : objectsIn(input);
  const items = given.map((item, index) => resolved(item, `input[${index}]`, context, flaws));
  const instructions = stringIn(body['instructions']);
  const messages = [
    ...(instructions ? [wireMessage({ at: 'instructions', role: 'system', texts: [instructions] })] : []),
    ...messagesOf(items),
  ];
  const effort = stringIn(objectIn(body['reasoning'])['effort']);
  const { efforts, reasonsByDefault } = rules;
  if (effort !== undefined && efforts?.includes(effort) === false) {
    const message = `the effort "${effort}", which is none of ${efforts.join(', ')}`;
    flaws.push({ rule: 'efforts', at: 'reasoning.effort', message });
  }
  flaws.push(...reasoningFlaws(items, context));
  const settings = settingsIn(body, settingNames);
  const givenChoice = choiceIn(body['tool_choice']);
  const tools = objectsIn(body['tools']).filter(({ type }) => type === 'function');
  return {
    model: stringIn(body['model']),
    messages,
    tools: tools.map(readTool),
    toolChoice: givenChoice ?? 'auto',
    givenChoice,
    parallel: body['parallel_tool_calls'] !== false,
    maxTokens: typeof body['max_output_tokens'] === 'number' ? body['max_output_tokens'] : undefined,
    stream: body['stream'] === true,
    includeUsage: true,
    settings: effort === undefined ? settings : new Set([...settings, 'reasoning']),
    reasons: effort === undefined ? reasonsByDefault : effort !== 'none',
    stops: [],
    output: outputIn(objectIn(body['text'])['format'], rules),
    dialects: new Map(
      tools.flatMap(({ strict }, index) => (strict === true ? [[index, rules.outputSchema] as const] : [])),
    ),
    wantsState: body['store'] !== false || stringsIn(body['include']).includes('reasoning.encrypted_content'),
    flaws,
  };
}

/** The item itself, or the stored one to which it refers. */
function resolved(item: Item, at: string, { given }: ReadContext, flaws: WireFlaw[]): Item {
  if (item['type'] !== 'item_reference') return item;
  const stored = given.stored(item['id']);
  if (isObject(stored)) return stored;
  const why = 'items are not persisted when `store` is false';
  flaws.push({ rule: 'state', at, message: `the item "${String(item['id'])}", which is not stored here: ${why}` });
  return item;
}

/** One message of the assistant is its text and the calls directly after it. */
function messagesOf(items: readonly Item[]): readonly WireMessage[] {
  const messages: WireMessage[] = [];
  let open: { at: string; texts: string[]; media: number; calls: ChatCall[] } | undefined;
  const flush = (): void => {
    if (open !== undefined) messages.push(wireMessage({ ...open, role: 'assistant' }));
    open = undefined;
  };
  for (const [index, item] of items.entries()) {
    const at = `input[${index}]`;
    const { type, role, content } = item;
    if (type === 'reasoning' || type === 'item_reference') continue;
    if (type === 'function_call') {
      open ??= { at, texts: [], media: 0, calls: [] };
      open.calls.push(readCall(item));
    } else if (type === 'function_call_output') {
      flush();
      const { call_id: id, output } = item;
      messages.push(
        wireMessage({ at, role: 'tool', texts: textsOf(output), media: mediaIn(output), callId: stringIn(id) ?? '' }),
      );
    } else if (role === 'assistant') {
      flush();
      open = { at, texts: [...textsOf(content)], media: mediaIn(content), calls: [] };
    } else if (role === 'user' || role === 'system' || role === 'developer') {
      flush();
      messages.push(wireMessage({ at, role, texts: textsOf(content), media: mediaIn(content) }));
    } else throw new ApiError(400, `Invalid value: '${String(type ?? role)}' at ${at}.`, at);
  }
  flush();
  return messages;
}

function textsOf(content: unknown): readonly string[] {
  if (typeof content === 'string') return [content];
  return objectsIn(content).flatMap(({ text, refusal }) => stringsIn(text ?? refusal));
}

function mediaIn(content: unknown): number {
  return objectsIn(content).filter(({ type }) => type === 'input_image' || type === 'input_file').length;
}

function readCall({ call_id: id, name, arguments: text }: Item): ChatCall {
  return { id: stringIn(id) ?? '', name: stringIn(name) ?? '', arguments: stringIn(text) ?? '' };
}

function readTool({ name, description, parameters }: Item): OfferedTool {
  return {
    name: stringIn(name) ?? '',
    description: stringIn(description) ?? '',
    parameters: isObject(parameters) ? parameters : { type: 'object', properties: {} },
  };
}

function choiceIn(given: unknown): ToolChoice | undefined {
  if (given === 'auto' || given === 'none' || given === 'required') return given;
  const { type, name } = objectIn(given);
  return type === 'function' && typeof name === 'string' ? { name } : undefined;
}

function outputIn(format: unknown, { schema: dialect, outputSchema }: RequestRules): WireSchema | undefined {
  const { type, schema, strict } = objectIn(format);
  if (type !== 'json_schema' || !isObject(schema)) return undefined;
  return { at: 'text.format', schema, dialect: strict === true ? outputSchema : dialect };
}

/** Reasoning comes back as it was given, with the item after it; a call whose reasoning was given comes back with it. */
function* reasoningFlaws(items: readonly Item[], { given, model }: ReadContext): Generator<WireFlaw> {
  let reasoning: unknown;
  for (const [index, item] of items.entries()) {
    const at = `input[${index}]`;
    const { type, role, id } = item;
    if (type === 'reasoning') {
      reasoning = id;
      const name = String(id);
      const isComplete = ['function_call', 'message', 'reasoning'].includes(kindOf(items[index + 1]));
      const { encrypted_content: content } = item;
      if (content === undefined || content === null) {
        const why = 'items are not persisted when `store` is false';
        if (given.stored(id) === undefined)
          yield { rule: 'state', at, message: `the item "${name}" without its encrypted_content: ${why}` };
      } else if (!given.isSealOf(content, model, name))
        yield { rule: 'state', at, message: `encrypted content of the item ${name} that could not be verified` };
      if (!isComplete)
        yield { rule: 'state', at, message: `the reasoning item "${name}" without its required following item` };
    } else if (type === 'function_call') {
      const answer = given.answerWith(stringIn(item['call_id']) ?? '');
      if (answer?.hasState && reasoningId(answer) !== reasoning) {
        const needed = `without its required reasoning item "${reasoningId(answer)}"`;
        yield { rule: 'state', at, message: `the function_call "${String(item['call_id'])}" ${needed}` };
      }
    } else if (role !== 'assistant') reasoning = undefined;
  }
}

function kindOf(item: Item | undefined): string {
  if (item?.['role'] === 'assistant') return 'message';
  return stringIn(item?.['type']) ?? '';
}
