import type { LLMCallParams, Message, ToolChoice } from '../core/contracts/index.ts';
import { parsedJson } from '../core/contracts/index.ts';
import { schemaDialects, schemaFlaws } from './fit-schema.ts';
import type { RequestRules, SettingName } from './profiles.ts';

/** One message of a request, as its server reads it. */
export interface SeenMessage {
  /** Where it stands in the body: `messages[3]`. */
  readonly at: string;
  readonly role: Message['role'];
  readonly texts: readonly string[];
  /** How many pictures and files it has. */
  readonly media: number;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  /** Of a result: the id of its call. */
  readonly callId?: string | undefined;
}

/** A request as its server reads it, whatever the wire. */
export interface SeenRequest {
  readonly messages: readonly SeenMessage[];
  readonly tools: readonly { readonly name: string; readonly parameters: Readonly<Record<string, unknown>> }[];
  readonly toolChoice: ToolChoice | undefined;
  readonly settings: ReadonlySet<SettingName>;
  readonly reasons: boolean;
}

/** What a server refuses in a request. */
export interface RequestFlaw {
  /** The rule of the profile, or one that holds everywhere. */
  readonly rule: keyof RequestRules | 'pairs' | 'text' | 'arguments' | 'empty';
  readonly at: string;
  /** A sentence without its stop. */
  readonly message: string;
}

/**
 * What the server of a profile refuses in a request, in the order in which it stands there: the strict check of the table that `fitRequest`
 * satisfies. Pure, linear.
 */
export function requestFlaws(request: SeenRequest, rules: RequestRules): readonly RequestFlaw[] {
  return [
    ...messageFlaws(request, rules),
    ...orderFlaws(request, rules),
    ...pairFlaws(request),
    ...toolFlaws(request, rules),
    ...settingFlaws(request, rules),
  ];
}

/** The request of a fitted call, before it is written in the form of a wire. */
export function seenRequest(
  { messages, tools = [], toolChoice, ...settings }: LLMCallParams,
  reasons: boolean,
): SeenRequest {
  return {
    messages: messages.map((message, index) => seenMessage(message, `messages[${index}]`)),
    tools: tools.map(({ function: { name, parameters } }) => ({ name, parameters })),
    toolChoice,
    settings: new Set(settingNames.filter((name) => settings[name] !== undefined)),
    reasons,
  };
}

const settingNames: readonly SettingName[] = [
  'temperature',
  'topP',
  'maxTokens',
  'stop',
  'seed',
  'parallelToolCalls',
  'reasoning',
  'cache',
];

function seenMessage(message: Message, at: string): SeenMessage {
  const { role, content } = message;
  const parts = typeof content === 'string' || content === null ? [] : content;
  const calls = role === 'assistant' ? (message.toolCalls ?? []) : [];
  return {
    at,
    role,
    texts: typeof content === 'string' ? [content] : parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])),
    media: parts.filter((part) => part.type !== 'text').length,
    calls: calls.map((call) => ({ id: call.id, name: call.function.name, arguments: call.function.arguments })),
    ...(role === 'tool' && { callId: message.toolCallId }),
  };
}

function* messageFlaws({ messages }: SeenRequest, rules: RequestRules): Generator<RequestFlaw> {
  for (const message of messages) {
    const { at, role, texts, media, calls, callId } = message;
    const isBlank = texts.every((text) => text.trim() === '');
    if (texts.some((text) => !text.isWellFormed())) yield { rule: 'text', at, message: 'half a surrogate pair' };
    if (role === 'assistant' && texts.join('') === '' && media === 0 && calls.length === 0)
      yield { rule: 'empty', at, message: 'an answer of the assistant without text and calls' };
    else if (!rules.takesBlank && isBlank && media === 0 && calls.length === 0)
      yield { rule: 'takesBlank', at, message: 'a content that is empty or blank' };
    else if (!rules.takesBlank && texts.some((text) => text.trim() === '') && (texts.length > 1 || media > 0))
      yield { rule: 'takesBlank', at, message: 'a part that is empty or blank' };
    if (role === 'tool' && media > 0 && rules.resultMedia === 'message')
      yield { rule: 'resultMedia', at, message: 'a picture or file in the result of a tool' };
    if (role === 'assistant' && media > 0 && rules.answerMedia === 'message')
      yield { rule: 'answerMedia', at, message: 'a picture or file in a message of the assistant' };
    for (const call of calls) yield* callFlaws(call, at, rules);
    if (callId !== undefined && !callId.isWellFormed())
      yield { rule: 'callIds', at, message: 'an id with half a surrogate pair' };
  }
}

function* callFlaws(call: SeenMessage['calls'][number], at: string, { names }: RequestRules): Generator<RequestFlaw> {
  if (!names.test(call.name)) yield { rule: 'names', at, message: `the name "${call.name}" of a call` };
  if (!isObjectText(call.arguments))
    yield { rule: 'arguments', at, message: 'arguments of a call that are not a JSON object' };
}

function isObjectText(text: string): boolean {
  try {
    const value: unknown = parsedJson(text);
    return (
      typeof value === 'object' &&
      value !== null &&
      !Array.isArray(value) &&
      JSON.stringify(value).isWellFormed() &&
      !/\\u[dD][89abcdefABCDEF]/.test(JSON.stringify(value))
    );
  } catch {
    return false;
  }
}

function* orderFlaws({ messages }: SeenRequest, rules: RequestRules): Generator<RequestFlaw> {
  let instructions = 0;
  let before: SeenMessage['role'] | undefined;
  for (const { at, role } of messages) {
    if (role === 'system' || role === 'developer') {
      instructions += 1;
      if (!rules.systemAnywhere && (instructions > 1 || before !== undefined || role === 'developer'))
        yield { rule: 'systemAnywhere', at, message: 'instructions that are not the first message, or not one' };
      continue;
    }
    if (!rules.takesAnyOrder && before === role && role !== 'tool')
      yield { rule: 'takesAnyOrder', at, message: `two messages of the ${role} in a row` };
    if (!rules.takesAnyStart && before === undefined && role !== 'user')
      yield { rule: 'takesAnyStart', at, message: `a conversation that begins with the ${role}` };
    if (!rules.takesUserAfterTool && before === 'tool' && role === 'user')
      yield { rule: 'takesUserAfterTool', at, message: 'a user message directly after the result of a tool' };
    before = role;
  }
  const last = messages.at(-1);
  if (messages.length === 0 || (before === undefined && !rules.systemAnywhere))
    yield { rule: 'empty', at: 'messages', message: 'no message to answer' };
  else if (last?.role === 'assistant' && !rules.takesPrefill)
    yield { rule: 'takesPrefill', at: last.at, message: 'an answer of the assistant as the last message' };
}

/** Each call has one result, directly after its message, and each result its call. */
function* pairFlaws({ messages }: SeenRequest): Generator<RequestFlaw> {
  const used = new Set<string>();
  let open = new Set<string>();
  for (const { at, role, calls, callId } of messages) {
    if (role === 'tool') {
      if (!open.delete(callId ?? '')) yield { rule: 'pairs', at, message: 'a result without the call that it answers' };
      continue;
    }
    if (role === 'system' || role === 'developer') continue;
    if (open.size > 0) yield { rule: 'pairs', at, message: `no result for the calls ${[...open].join(', ')}` };
    open = new Set(calls.map(({ id }) => id));
    for (const { id } of calls) {
      if (used.has(id)) yield { rule: 'callIds', at, message: `the id ${id} of two calls` };
      used.add(id);
    }
  }
  if (open.size > 0)
    yield { rule: 'pairs', at: 'messages', message: `no result for the calls ${[...open].join(', ')}` };
}

function* toolFlaws(
  { messages, tools, toolChoice, reasons }: SeenRequest,
  rules: RequestRules,
): Generator<RequestFlaw> {
  const names = new Set<string>();
  for (const [index, { name, parameters }] of tools.entries()) {
    const at = `tools[${index}]`;
    if (!rules.names.test(name)) yield { rule: 'names', at, message: `the name "${name}" of a tool` };
    if (names.has(name)) yield { rule: 'names', at, message: `two tools of the name ${name}` };
    names.add(name);
    for (const flaw of schemaFlaws(parameters, schemaDialects[rules.schema]))
      yield { rule: 'schema', at, message: flaw };
  }
  if (tools.length > rules.maxTools)
    yield { rule: 'maxTools', at: 'tools', message: `more than ${rules.maxTools} tools` };
  if (rules.callsWithoutTools !== 'taken' && tools.length === 0 && messages.some(({ calls }) => calls.length > 0))
    yield { rule: 'callsWithoutTools', at: 'tools', message: 'calls in the history, and no tools' };
  if (toolChoice === undefined) return;
  if (tools.length === 0)
    yield { rule: 'callsWithoutTools', at: 'tool_choice', message: 'a choice of tools without tools' };
  const isForced = toolChoice !== 'auto' && toolChoice !== 'none';
  if (isForced && reasons && !rules.takesForcedToolWhileReasoning)
    yield {
      rule: 'takesForcedToolWhileReasoning',
      at: 'tool_choice',
      message: 'a forced tool while the model reasons',
    };
  if (typeof toolChoice !== 'string' && !names.has(toolChoice.name))
    yield { rule: 'names', at: 'tool_choice', message: `the tool ${toolChoice.name}, which is not offered` };
}

function* settingFlaws({ settings, reasons, tools }: SeenRequest, rules: RequestRules): Generator<RequestFlaw> {
  for (const name of settings) {
    if (rules.refuses.includes(name))
      yield { rule: 'refuses', at: name, message: `${name}, which this model does not take` };
    else if (reasons && rules.refusesWhileReasoning.includes(name))
      yield { rule: 'refusesWhileReasoning', at: name, message: `${name} while the model reasons` };
  }
  if (tools.length > 0 && rules.effortWithTools !== undefined && !(settings.has('reasoning') && !reasons))
    yield { rule: 'effortWithTools', at: 'tools', message: `tools without the effort "${rules.effortWithTools}"` };
}
