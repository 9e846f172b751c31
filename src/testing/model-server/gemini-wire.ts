import { isObject, type ToolChoice } from '../../core/contracts/index.ts';
import type { SettingName } from '../../providers/profiles.ts';
import { ApiError, type ChatCall, type OfferedTool } from './chat-request.ts';
import { geminiForm } from './gemini-answer.ts';
import {
  type ChatBody,
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

/** Gemini's API, as Google AI and Vertex have it. */
export const geminiWire: Wire = {
  base: '/v1beta',
  route(path) {
    const [, model, method] = /\/models\/([^/:]+):(generateContent|streamGenerateContent)$/.exec(path) ?? [];
    return model === undefined ? undefined : { model, stream: method === 'streamGenerateContent' };
  },
  names: { answerId: (hash) => `resp_${hash}` },
  read: readContents,
  form: geminiForm,
};

const settingNames: Readonly<Record<string, SettingName>> = {
  temperature: 'temperature',
  topP: 'topP',
  maxOutputTokens: 'maxTokens',
  stopSequences: 'stop',
  seed: 'seed',
  thinkingConfig: 'reasoning',
};

type Part = Readonly<Record<string, unknown>>;

function readContents(body: ChatBody, context: ReadContext): WireRequest {
  const { rules, route } = context;
  if (!Array.isArray(body['contents']) || body['contents'].length === 0)
    throw new ApiError(400, 'GenerateContentRequest.contents: contents is not specified', 'contents');
  const system = objectsIn(objectIn(body['systemInstruction'])['parts']).flatMap(({ text }) => stringsIn(text));
  const contents = objectsIn(body['contents']);
  const messages = [
    ...(system.length > 0 ? [wireMessage({ at: 'systemInstruction', role: 'system', texts: system })] : []),
    ...new ContentReader().read(contents),
  ];
  const config = objectIn(body['generationConfig']);
  const declared = objectsIn(body['tools']).flatMap((tool) => objectsIn(tool['functionDeclarations']));
  const { mode, allowedFunctionNames } = objectIn(objectIn(body['toolConfig'])['functionCallingConfig']);
  const givenChoice = choiceOf(mode, stringsIn(allowedFunctionNames));
  const { thinkingBudget, thinkingLevel } = objectIn(config['thinkingConfig']);
  const isAsked = thinkingLevel !== undefined || (typeof thinkingBudget === 'number' && thinkingBudget !== 0);
  return {
    model: route.model,
    messages,
    tools: declared.map(readTool),
    toolChoice: givenChoice ?? 'auto',
    givenChoice,
    parallel: true,
    maxTokens: typeof config['maxOutputTokens'] === 'number' ? config['maxOutputTokens'] : undefined,
    stream: route.stream === true,
    includeUsage: true,
    settings: settingsIn(config, settingNames),
    reasons: isAsked || (rules.reasonsByDefault && thinkingBudget !== 0),
    stops: stringsIn(config['stopSequences']),
    output: outputIn(config),
    dialects: new Map(
      declared.flatMap(({ parameters }, index) => (isObject(parameters) ? [[index, 'google-openapi'] as const] : [])),
    ),
    wantsState: true,
    flaws: [...signatureFlaws(contents, messages, context)],
  };
}

/** Reads contents. Ids of calls are optional there: a result without one answers the oldest open call of its name. */
class ContentReader {
  #open: ChatCall[] = [];
  #made = 0;

  read(contents: readonly Part[]): readonly WireMessage[] {
    return contents.flatMap((content, index) => this.#content(content, `contents[${index}]`));
  }

  #content({ role, parts: given }: Part, at: string): readonly WireMessage[] {
    const parts = objectsIn(given);
    if (role === 'model') {
      const calls = parts.flatMap(({ functionCall }) => (isObject(functionCall) ? [this.#call(functionCall)] : []));
      this.#open = [...calls];
      return [wireMessage({ at, role: 'assistant', texts: textsOf(parts), media: mediaIn(parts), calls })];
    }
    const results = parts.filter((part) => isObject(part['functionResponse']));
    const others = parts.filter((part) => !results.includes(part));
    return [
      ...results.map((part) => this.#result(objectIn(part['functionResponse']), at)),
      ...(others.length > 0 || results.length === 0
        ? [wireMessage({ at, role: 'user', texts: textsOf(others), media: mediaIn(others) })]
        : []),
    ];
  }

  #call({ id, name, args }: Part): ChatCall {
    this.#made += 1;
    return {
      id: stringIn(id) ?? `call-${this.#made}`,
      name: stringIn(name) ?? '',
      arguments: JSON.stringify(args ?? {}),
    };
  }

  #result({ id, name, response, parts }: Part, at: string): WireMessage {
    const answered = this.#open.find((call) => call.id === id) ?? this.#open.find((call) => call.name === name);
    this.#open = this.#open.filter((call) => call !== answered);
    return wireMessage({
      at,
      role: 'tool',
      texts: [resultText(objectIn(response))],
      media: mediaIn(objectsIn(parts)),
      callId: answered?.id ?? '',
    });
  }
}

/** The words of a result, which clients put under one of these names. */
function resultText(response: Part): string {
  const { output, result, content, error } = response;
  return stringIn(output ?? result ?? content ?? error) ?? JSON.stringify(response);
}

function textsOf(parts: readonly Part[]): readonly string[] {
  // A part with a signature alone has an empty text.
  return parts.flatMap(({ text, thought, thoughtSignature }) =>
    typeof text === 'string' && thought !== true && !(text === '' && thoughtSignature !== undefined) ? [text] : [],
  );
}

function mediaIn(parts: readonly Part[]): number {
  return parts.filter((part) => isObject(part['inlineData']) || isObject(part['fileData'])).length;
}

function readTool({ name, description, parameters, parametersJsonSchema }: Part): OfferedTool {
  const schema = parametersJsonSchema ?? parameters;
  return {
    name: stringIn(name) ?? '',
    description: stringIn(description) ?? '',
    parameters: isObject(schema) ? lowerTypes(schema) : { type: 'object' },
  };
}

/** `STRING` of OpenAPI's form as `string`. */
function lowerTypes(schema: Part): Part {
  const member = (name: string, value: unknown): unknown => {
    if (name === 'type' && typeof value === 'string') return value.toLowerCase();
    if (Array.isArray(value)) return value.map((each) => (isObject(each) ? lowerTypes(each) : each));
    return isObject(value) ? lowerTypes(value) : value;
  };
  return Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, member(name, value)]));
}

function choiceOf(mode: unknown, allowed: readonly string[]): ToolChoice | undefined {
  if (mode === 'NONE') return 'none';
  if (mode !== 'ANY') return mode === undefined ? undefined : 'auto';
  const [name] = allowed;
  return allowed.length === 1 && name !== undefined ? { name } : 'required';
}

function outputIn({ responseSchema, responseJsonSchema, responseFormat }: Part): WireSchema | undefined {
  const schema = responseJsonSchema ?? responseSchema ?? objectIn(responseFormat)['schema'];
  if (!isObject(schema)) return undefined;
  return {
    at: 'generationConfig',
    schema: lowerTypes(schema),
    dialect: isObject(responseSchema) ? 'google-openapi' : 'google',
  };
}

/** The first call of each answer of this turn has its signature, and a signature is of the part that it came with. */
function* signatureFlaws(
  contents: readonly Part[],
  messages: readonly WireMessage[],
  { given, model, rules: { signatureStandIn } }: ReadContext,
): Generator<WireFlaw> {
  const prompt = messages[turnStart(messages) - 1]?.at;
  const start = contents.findIndex((_, index) => `contents[${index}]` === prompt) + 1;
  for (const [index, { role, parts: list }] of contents.entries()) {
    const parts = objectsIn(list);
    const first = parts.findIndex(({ functionCall }) => isObject(functionCall));
    for (const [position, { functionCall, thoughtSignature, text }] of parts.entries()) {
      const at = `contents[${index}].parts[${position}]`;
      const { name, args } = objectIn(functionCall);
      const what = isObject(functionCall) ? [stringIn(name) ?? '', JSON.stringify(args ?? {})] : [stringIn(text) ?? ''];
      if (thoughtSignature !== undefined) {
        if (thoughtSignature === signatureStandIn || given.isSealOf(thoughtSignature, model, ...what)) continue;
        yield { rule: 'state', at, message: 'a thought signature that is not valid' };
      } else if (role === 'model' && signatureStandIn !== undefined && position === first && index >= start)
        yield { rule: 'state', at, message: `a function call "${what[0]}" without its thought_signature` };
    }
  }
}
