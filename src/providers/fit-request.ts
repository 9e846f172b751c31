import {
  type AssistantMessage,
  type CallSettings,
  type Content,
  type ContentPart,
  type LLMCallParams,
  type Message,
  pairedMessages,
  parsedJson,
  type RequestChange,
  type SystemMessage,
  type ToolCall,
  type ToolChoice,
  type ToolDefinition,
  type ToolMessage,
  textOf,
  type UserMessage,
} from '../core/contracts/index.ts';
import { CallIds, CallNames } from './call-names.ts';
import { fitOutputSchema, fitToolDescription, fitToolSchema, schemaDialects } from './fit-schema.ts';
import { originIn, withoutOrigin } from './model-origin.ts';
import type { Profile, RequestRules, SettingName } from './profiles.ts';
import { type RefusedItems, settingNames } from './refused-items.ts';

/** How one model at one server is asked. */
export interface FitOptions {
  readonly profile: Profile;
  /** See `originOf`: the messages that it gave keep their ids and what the server wants back. */
  readonly origin: string;
  /** False: calls and results go as text, tools not at all. */
  readonly tools: boolean;
  /** False: the server ignores or refuses `tool_choice`. */
  readonly toolChoice: boolean;
  /** Whether options outside of the settings make the model reason; default: the profile's. */
  readonly reasons?: boolean | undefined;
  /** What the server has refused before. */
  readonly refused?: RefusedItems | undefined;
  /** Whether the last message is an answer that the server paused, and continues. */
  readonly continues?: boolean | undefined;
}

/** A request that the rules of a profile accept. */
export interface FittedRequest {
  /** Messages, tools and settings as they are to be sent. The messages given are not changed. */
  readonly params: LLMCallParams;
  /** Whether `params.responseFormat` is of the vendor's strict subset. */
  readonly strictFormat: boolean;
  /** Whether the server wants the limit of the answer under its newer name. */
  readonly completionTokens: boolean;
  readonly changes: readonly RequestChange[];
  /** The name that the engine knows for the name of a call in the answer. */
  readonly nameOf: (sent: string) => string;
}

/**
 * The request for one model call, in a form that its server accepts: total, for any history and any profile, and pure. What it changes it
 * says in `changes`. The stored history stays as it is.
 *
 * Calls and results are paired; names and ids are those that the server takes; empty and blank contents are left out or filled; halves of surrogate pairs
 * become U+FFFD; instructions, roles and media stand where the server takes them; schemas are of its dialect; settings that the model refuses are left out.
 * What another server gave for itself is left out. Linear in the number of messages.
 */
export function fitRequest(params: LLMCallParams, options: FitOptions): FittedRequest {
  return new Fitting(params, options).request();
}

/** What stands for an answer of the assistant, or for a message of the user, where a server wants one. */
const bridge = { assistant: 'Understood.', user: 'Continue.' } as const;
const nothing = { user: '(empty message)', tool: '(no output)' } as const;

type Media = Exclude<ContentPart, { type: 'text' }>;

class Fitting {
  readonly #params: LLMCallParams;
  readonly #options: FitOptions;
  readonly #rules: RequestRules;
  readonly #changes: RequestChange[] = [];
  readonly #ids: CallIds;
  readonly #names: CallNames;
  readonly #tools: readonly ToolDefinition[];
  #reasoning: CallSettings['reasoning'];
  readonly #instructions: Message[] = [];
  readonly #messages: Message[] = [];
  /** The names of the calls by the ids that are sent. */
  readonly #called = new Map<string, string>();
  /** Media of results and of the assistant that the next user message has to carry. */
  #waiting: ContentPart[] = [];
  /** The latest question of the user; from it on, none of the user's parts is left out. */
  #question: Message | undefined;
  #isCurrent = false;

  constructor(params: LLMCallParams, options: FitOptions) {
    this.#params = params;
    this.#options = options;
    this.#rules = options.profile.rules;
    this.#tools = options.tools ? (params.tools ?? []) : [];
    this.#reasoning = this.#fitReasoning(params.reasoning);
    this.#ids = new CallIds(this.#rules.callIds);
    this.#names = new CallNames(
      this.#rules.names,
      this.#tools.map((tool) => tool.function.name),
    );
  }

  request(): FittedRequest {
    const tools = this.#fitTools();
    this.#fitMessages();
    const format = this.#fitFormat();
    const { tools: offered, toolChoice } = this.#fitChoice(tools.length > 0 ? tools : this.#namedTools());
    const { messages: _, tools: __, ...rest } = this.#params;
    const params = this.#withSettings(rest, offered.length > 0);
    return {
      params: {
        ...params,
        messages: this.#messages,
        ...(offered.length === 0 ? {} : { tools: offered }),
        toolChoice,
        responseFormat: format?.responseFormat,
      },
      strictFormat: format?.strict ?? false,
      completionTokens: this.#options.refused?.completionTokens ?? false,
      changes: this.#changes,
      nameOf: (sent) => this.#names.original(sent),
    };
  }

  #changed(kind: RequestChange['kind'], at: string, what: string): void {
    this.#changes.push({ kind, at, what });
  }

  // Messages.

  #fitMessages(): void {
    const given = this.#params.messages;
    const paired = pairedMessages(given);
    if (paired !== given) this.#changed('order', 'messages', 'calls and results were paired');
    const asText = this.#sendsAsText(paired);
    const history = asText ? callsAsText(paired) : paired;
    if (asText) this.#changed('tools', 'messages', 'calls and results were sent as text');
    this.#question = paired.findLast(({ role }) => role === 'user');
    for (const [index, message] of history.entries()) this.#add(message, `messages[${index}]`);
    this.#flushMedia();
    this.#close();
    this.#addInstructions();
  }

  #sendsAsText(messages: readonly Message[]): boolean {
    if (!messages.some(({ role }) => role === 'tool')) return false;
    if (!this.#options.tools) return true;
    return this.#tools.length === 0 && this.#rules.callsWithoutTools === 'as-text';
  }

  #add(message: Message, at: string): void {
    if (message === this.#question) this.#isCurrent = true;
    switch (message.role) {
      case 'system':
      case 'developer':
        return this.#addInstruction(message, at);
      case 'user':
        return this.#addUser(this.#fitUser(message, at), at);
      case 'assistant':
        return this.#addAssistant(message, at);
      case 'tool':
        return this.#addResult(message, at);
    }
  }

  #addInstruction(message: SystemMessage, at: string): void {
    const text = this.#wellFormed(textOf(message.content), at);
    if (text.trim() === '') return;
    const fitted = text === message.content ? message : { ...message, content: text };
    if (!this.#rules.systemAnywhere) this.#instructions.push(fitted);
    else this.#messages.push(fitted);
  }

  /** One system message, the first. */
  #addInstructions(): void {
    const [first, ...more] = this.#instructions;
    if (first === undefined) return;
    if (more.length === 0 && first.role === 'system') {
      this.#messages.unshift(first);
      return;
    }
    if (more.length > 0) this.#changed('order', 'messages', 'instructions were joined to the first message');
    const content = this.#instructions.map((message) => textOf(message.content)).join('\n\n');
    const metadata = this.#instructions.findLast((message) => message.metadata !== undefined)?.metadata;
    this.#messages.unshift({ role: 'system', content, ...(metadata && { metadata }) });
  }

  #fitUser(message: UserMessage, at: string): UserMessage {
    const content = this.#fitContent(message.content, { at, isCurrent: this.#isCurrent, empty: nothing.user });
    return content === message.content ? message : { ...message, content };
  }

  #addUser(message: UserMessage, at: string): void {
    this.#bridgeAfterTool(at);
    const waiting = this.#waiting;
    this.#waiting = [];
    const content = waiting.length === 0 ? message.content : [...waiting, ...partsOf(message.content)];
    this.#pushUser(waiting.length === 0 ? message : { ...message, content }, at);
  }

  #pushUser(message: UserMessage, at: string): void {
    const last = this.#last;
    if (this.#rules.takesAnyOrder || last?.role !== 'user') {
      this.#messages.push(message);
      return;
    }
    this.#changed('order', at, 'a user message was joined to the one before');
    this.#messages[this.#messages.lastIndexOf(last)] = joinedUsers(last, message);
  }

  /** The last message that is no instruction. */
  get #last(): Message | undefined {
    return this.#messages.findLast(({ role }) => role !== 'system' && role !== 'developer');
  }

  #bridgeAfterTool(at: string): void {
    if (this.#rules.takesUserAfterTool || this.#last?.role !== 'tool') return;
    this.#changed('order', at, 'an answer of the assistant was put between a result and a user message');
    this.#messages.push({ role: 'assistant', content: bridge.assistant });
  }

  #addAssistant(message: AssistantMessage, at: string): void {
    this.#flushMedia();
    const isOwn = originIn(message) === this.#options.origin;
    const { media, text } = this.#fitAnswer(message, at);
    const calls = this.#fitCalls(message.toolCalls ?? [], { at, isOwn });
    if (calls.length === 0 && text === '' && media.length === 0) {
      if (!this.#rules.takesBlank || textOf(message.content) === '') {
        this.#changed('empty', at, 'an empty answer of the assistant was left out');
        return;
      }
    }
    const known = isOwn ? message : this.#foreign(message, at);
    const content = this.#answerContent({ text, media, hasCalls: calls.length > 0 });
    const isWhole = content === known.content && calls.length === 0 && known.toolCalls === undefined;
    const { toolCalls: _, ...rest } = known;
    this.#first(at);
    this.#pushAssistant(isWhole ? known : { ...rest, content, ...(calls.length > 0 && { toolCalls: calls }) }, at);
    if (media.length === 0 || this.#rules.answerMedia === 'answer') return;
    this.#changed('media', at, 'pictures and files of the assistant go with the next user message');
    this.#waiting.push(textPart('[from the answer of the assistant]'), ...media);
  }

  #answerContent({
    text,
    media,
    hasCalls,
  }: {
    readonly text: string;
    readonly media: readonly Media[];
    readonly hasCalls: boolean;
  }): Content | null {
    if (media.length > 0 && this.#rules.answerMedia === 'answer')
      return text === '' ? media : [textPart(text), ...media];
    if (text === '' && hasCalls) return null;
    if (text === '' && media.length > 0) return fileNote(media.length);
    return text;
  }

  #fitAnswer(message: AssistantMessage, at: string): { readonly text: string; readonly media: readonly Media[] } {
    const parts = partsOf(message.content ?? '').filter((part) => !this.#leavesOut(part, at, !this.#isCurrent));
    const text = this.#wellFormed(textOf(parts), at);
    return {
      text: text.trim() === '' && !(this.#rules.takesBlank && text !== '') ? '' : text,
      media: parts.filter((part) => part.type !== 'text'),
    };
  }

  /** Without what another server gave for itself. */
  #foreign(message: AssistantMessage, at: string): AssistantMessage {
    const plain = withoutOrigin(message);
    if (plain !== message) this.#changed('state', at, 'what another server or model gave for itself was left out');
    return plain;
  }

  #pushAssistant(message: AssistantMessage, at: string): void {
    const last = this.#last;
    if (this.#rules.takesAnyOrder || last?.role !== 'assistant') {
      this.#messages.push(message);
      return;
    }
    this.#changed('order', at, 'an answer of the assistant was joined to the one before');
    const content = [textOf(last.content), textOf(message.content)].filter((text) => text !== '').join('\n\n');
    this.#messages[this.#messages.lastIndexOf(last)] = {
      ...message,
      content: content === '' ? null : content,
      ...(last.toolCalls && { toolCalls: [...last.toolCalls, ...(message.toolCalls ?? [])] }),
    };
  }

  /** A conversation begins with the user, where the server wants that. */
  #first(at: string): void {
    if (this.#rules.takesAnyStart || this.#messages.some(({ role }) => role === 'user' || role === 'assistant')) return;
    this.#changed('order', at, 'a user message was put before the first answer');
    this.#messages.push({ role: 'user', content: bridge.user });
  }

  #fitCalls(
    calls: readonly ToolCall[],
    { at, isOwn }: { readonly at: string; readonly isOwn: boolean },
  ): readonly ToolCall[] {
    if (calls.length === 0) return calls;
    const ids = this.#ids.ofCalls(calls, isOwn);
    return calls.map((call, index) => {
      const id = ids[index] ?? call.id;
      const name = this.#names.sent(call.function.name);
      const text = this.#fitArguments(call.function.arguments, at);
      this.#called.set(id, name);
      if (id !== call.id) this.#changed('call-id', at, `the id of a call became ${id}`);
      if (name !== call.function.name) this.#changed('name', at, `the name of a call became ${name}`);
      return { id, type: 'function', function: { name, arguments: text } };
    });
  }

  /** Servers parse the arguments of the history: none become `{}`, and anything but a JSON object is sent as `{ "_raw": … }`. */
  #fitArguments(text: string, at: string): string {
    if (text.trim() === '') return '{}';
    const value = jsonObjectIn(text);
    if (value === undefined) return JSON.stringify({ _raw: this.#wellFormed(text, at) });
    if (text.isWellFormed() && !loneEscape.test(text)) return text;
    this.#changed('text', at, 'half a surrogate pair in arguments became U+FFFD');
    return JSON.stringify(value, (_, member: unknown) => (typeof member === 'string' ? member.toWellFormed() : member));
  }

  #addResult(message: ToolMessage, at: string): void {
    const { resultMedia } = this.#rules;
    const content = this.#fitContent(message.content, { at, isCurrent: false, empty: nothing.tool });
    const media = resultMedia === 'message' ? mediaOf(content) : [];
    const fitted: ToolMessage = {
      ...message,
      toolCallId: this.#ids.ofResult(message.toolCallId),
      content: media.length === 0 ? content : withNote(textOf(content), media.length),
    };
    if (media.length > 0) {
      this.#changed('media', at, 'pictures and files of a result go in a user message after the batch');
      this.#waiting.push(
        textPart(`[from the result of ${this.#called.get(fitted.toolCallId) ?? fitted.toolCallId}]`),
        ...media,
      );
    }
    this.#messages.push(fitted);
  }

  /** After the last result of a batch. */
  #flushMedia(): void {
    if (this.#waiting.length === 0 || this.#last?.role !== 'tool') return;
    this.#bridgeAfterTool('messages');
    const content = this.#waiting;
    this.#waiting = [];
    this.#pushUser({ role: 'user', content }, 'messages');
  }

  /** The last message is one that the server answers. */
  #close(): void {
    if (this.#waiting.length > 0) this.#addUser({ role: 'user', content: [] }, 'messages');
    const last = this.#messages.at(-1);
    if (this.#messages.length === 0) this.#messages.push({ role: 'user', content: bridge.user });
    else if (this.#options.continues === true) return;
    else if (last?.role === 'assistant' && !(this.#rules.takesPrefill && textOf(last.content) !== '')) {
      this.#changed('order', 'messages', 'a user message was added after the last answer');
      this.#messages.push({ role: 'user', content: bridge.user });
    }
  }

  // Contents.

  #fitContent(
    content: Content,
    { at, isCurrent, empty }: { readonly at: string; readonly isCurrent: boolean; readonly empty: string },
  ): Content {
    if (typeof content === 'string') {
      const text = this.#wellFormed(content, at);
      return text.trim() === '' && !this.#rules.takesBlank ? this.#filled(at, empty) : text;
    }
    const parts = content
      .filter((part) => !this.#leavesOut(part, at, !isCurrent))
      .map((part) => (part.type === 'text' ? this.#fitText(part, at) : part));
    const fitted = parts.filter((part) => part.type !== 'text' || part.text.trim() !== '');
    if (fitted.length === 0) return this.#filled(at, empty);
    if (fitted.length < content.length) this.#changed('empty', at, 'an empty part was left out');
    return fitted.length === content.length && fitted.every((part, index) => part === content[index])
      ? content
      : fitted;
  }

  #filled(at: string, text: string): string {
    this.#changed('empty', at, `an empty content became "${text}"`);
    return text;
  }

  #fitText(part: Extract<ContentPart, { type: 'text' }>, at: string): ContentPart {
    const text = this.#wellFormed(part.text, at);
    return text === part.text ? part : { ...part, text };
  }

  #wellFormed(text: string, at: string): string {
    if (text.isWellFormed()) return text;
    this.#changed('text', at, 'half a surrogate pair became U+FFFD');
    return text.toWellFormed();
  }

  /** Whether the server has refused a part before; never one of the question that is being asked. */
  #leavesOut(part: ContentPart, at: string, mayBeLeft: boolean): boolean {
    if (!mayBeLeft || part.type === 'text' || this.#options.refused?.hasMedia(part) !== true) return false;
    this.#changed('media', at, 'a picture or file that the server refused was left out');
    return true;
  }

  // Tools and settings.

  #fitTools(): readonly ToolDefinition[] {
    const { maxTools, schema } = this.#rules;
    const { refused } = this.#options;
    const taken = this.#tools.filter((tool) => {
      if (refused?.hasTool(tool) !== true) return true;
      this.#changed('tools', `tools.${tool.function.name}`, 'a tool that the server refused was left out');
      return false;
    });
    if (taken.length > maxTools)
      this.#changed('tools', 'tools', `${taken.length - maxTools} tools beyond ${maxTools} were left out`);
    return withForced(taken, this.#params.toolChoice, maxTools).map((tool) => {
      const { name, parameters, description } = tool.function;
      const fitted = fitToolSchema(parameters, schemaDialects[schema]);
      for (const change of fitted.changes) this.#changed('schema', `tools.${name}`, change);
      const sent = this.#names.sent(name);
      if (sent !== name) this.#changed('name', `tools.${name}`, `the name became ${sent}`);
      const text = description === undefined ? description : this.#description(description, `tools.${name}`);
      if (fitted.schema === parameters && sent === name && text === description) return tool;
      return {
        ...tool,
        function: {
          ...tool.function,
          name: sent,
          parameters: fitted.schema,
          ...(text !== undefined && { description: text }),
        },
      };
    });
  }

  #description(description: string, at: string): string {
    const text = fitToolDescription(this.#wellFormed(description, at), schemaDialects[this.#rules.schema]);
    if (text.length < description.length) this.#changed('text', at, 'the description was shortened');
    return text;
  }

  #fitFormat() {
    const { responseFormat } = this.#params;
    if (responseFormat === undefined) return undefined;
    const { schema, strict, changes } = fitOutputSchema(
      responseFormat.schema,
      schemaDialects[this.#rules.outputSchema],
    );
    for (const change of changes) this.#changed('schema', 'responseFormat', change);
    const { looseFormatForcesTool, takesForcedToolWhileReasoning } = this.#rules;
    const forbidsReasoning = !strict && looseFormatForcesTool === true && !takesForcedToolWhileReasoning;
    if (forbidsReasoning && this.#reasoning !== undefined && this.#reasoning !== 'none') {
      this.#changed(
        'setting',
        'reasoning',
        'a schema that is not strict goes as a forced tool: the model does not reason',
      );
      this.#reasoning = 'none';
    }
    return { responseFormat: { ...responseFormat, schema }, strict };
  }

  /** The names of the history's calls as tools, for a server that wants tools beside calls. */
  #namedTools(): readonly ToolDefinition[] {
    if (!this.#options.tools || this.#rules.callsWithoutTools !== 'with-tools') return [];
    const names = new Set(
      this.#messages.flatMap((message) =>
        message.role === 'assistant' ? (message.toolCalls ?? []).map((call) => call.function.name) : [],
      ),
    );
    if (names.size > 0) this.#changed('tools', 'tools', 'the tools of the history were named, not to be called');
    return [...names].map((name) => ({
      type: 'function',
      function: { name, description: 'Not offered now.', parameters: { type: 'object', properties: {} } },
    }));
  }

  #fitChoice(tools: readonly ToolDefinition[]): {
    tools: readonly ToolDefinition[];
    toolChoice: ToolChoice | undefined;
  } {
    const toolChoice = this.#tools.length === 0 && tools.length > 0 ? 'none' : this.#params.toolChoice;
    if (toolChoice === undefined || tools.length === 0 || !this.#options.toolChoice)
      return { tools, toolChoice: undefined };
    if (toolChoice === 'auto' || toolChoice === 'none') return { tools, toolChoice };
    const isForbidden =
      this.#options.refused?.forcedTool || (!this.#rules.takesForcedToolWhileReasoning && this.#reasons);
    const name = typeof toolChoice === 'string' ? undefined : this.#names.sent(toolChoice.name);
    const named = tools.filter((tool) => tool.function.name === name);
    if (name !== undefined && named.length === 0) {
      this.#changed('setting', 'toolChoice', 'the forced tool is not among those offered: the model decides');
      return { tools, toolChoice: 'auto' };
    }
    if (!isForbidden) return { tools, toolChoice: name === undefined ? toolChoice : { name } };
    this.#changed('setting', 'toolChoice', 'the server takes no forced tool while the model reasons: it decides');
    return { tools: name === undefined ? tools : named, toolChoice: 'auto' };
  }

  get #reasons(): boolean {
    if (this.#reasoning !== undefined) return this.#reasoning !== 'none';
    return this.#options.reasons ?? this.#rules.reasonsByDefault;
  }

  #withSettings(given: Omit<LLMCallParams, 'messages' | 'tools'>, hasTools: boolean): Omit<LLMCallParams, 'messages'> {
    const { refuses, refusesWhileReasoning, effortWithTools } = this.#rules;
    const settings: Record<string, unknown> = { ...given };
    const refused = new Set<SettingName>([...refuses, ...(this.#reasons ? refusesWhileReasoning : [])]);
    for (const name of settingNames) {
      const value = settings[name];
      if (value === undefined) continue;
      if (!refused.has(name) && this.#options.refused?.hasSetting(name, value) !== true) continue;
      delete settings[name];
      this.#changed('setting', name, 'the model does not take it');
    }
    if (!hasTools) delete settings['parallelToolCalls'];
    const reasoning = this.#reasoning;
    const isLeftOut = given.reasoning !== undefined && settings['reasoning'] === undefined;
    if (hasTools && effortWithTools !== undefined && !isLeftOut) {
      if (reasoning !== undefined && reasoning !== effortWithTools)
        this.#changed('setting', 'reasoning', `the endpoint takes tools with "${effortWithTools}" alone`);
      settings['reasoning'] = effortWithTools;
    } else if (reasoning !== given.reasoning && !isLeftOut) settings['reasoning'] = reasoning;
    return settings;
  }

  #fitReasoning(reasoning: CallSettings['reasoning']): CallSettings['reasoning'] {
    const { efforts } = this.#rules;
    if (typeof reasoning !== 'string' || efforts === undefined || efforts.includes(reasoning)) return reasoning;
    const isLow = reasoning === 'none' || reasoning === 'minimal';
    const nearest = isLow ? efforts.find((effort) => reasoning === 'none' || effort !== 'none') : efforts.at(-1);
    this.#changed('setting', 'reasoning', `the model takes ${efforts.join(', ')}: "${nearest}" was sent`);
    return isEffort(nearest) ? nearest : undefined;
  }
}

/** The first tools, with the one that is forced. */
function withForced(
  tools: readonly ToolDefinition[],
  choice: ToolChoice | undefined,
  most: number,
): readonly ToolDefinition[] {
  if (tools.length <= most) return tools;
  const forced = typeof choice === 'object' ? tools.find(({ function: { name } }) => name === choice.name) : undefined;
  const first = tools.slice(0, most);
  return forced === undefined || first.includes(forced) ? first : [...first.slice(0, -1), forced];
}

function isEffort(value: unknown): value is Extract<CallSettings['reasoning'], string> {
  return value === 'none' || value === 'minimal' || value === 'low' || value === 'medium' || value === 'high';
}

function textPart(text: string): ContentPart {
  return { type: 'text', text };
}

function partsOf(content: Content): readonly ContentPart[] {
  return typeof content === 'string' ? (content === '' ? [] : [textPart(content)]) : content;
}

function mediaOf(content: Content): readonly Media[] {
  return typeof content === 'string' ? [] : content.filter((part): part is Media => part.type !== 'text');
}

function joinedUsers(first: UserMessage, second: UserMessage): UserMessage {
  if (first.name === second.name) return { ...first, content: joined(first.content, second.content) };
  const { name: _, ...rest } = first;
  return { ...rest, content: joined(named(first), named(second)) };
}

function named({ name, content }: UserMessage): Content {
  return name === undefined ? content : [textPart(`${name}:`), ...partsOf(content)];
}

function joined(first: Content, second: Content): Content {
  if (typeof first === 'string' && typeof second === 'string') return `${first}\n\n${second}`;
  return [...partsOf(first), ...partsOf(second)];
}

function fileNote(count: number): string {
  return `[${count === 1 ? 'its file follows' : `its ${count} files follow`} in the next user message]`;
}

function withNote(text: string, count: number): string {
  return text.trim() === '' ? fileNote(count) : `${text}\n${fileNote(count)}`;
}

/** A `\u` escape of half a surrogate pair without the other half. */
const loneEscape =
  /(?<!\\)(?:\\\\)*\\u(?:d[89ab][0-9a-f]{2}(?!\\u?d[c-f][0-9a-f]{2})|(?<!\\ud[89ab][0-9a-f]{2}\\u)d[c-f][0-9a-f]{2})/i;

function jsonObjectIn(text: string): object | undefined {
  try {
    const value: unknown = parsedJson(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The same history for a server that takes no calls: calls become words of the assistant, the results of a batch one message
 * of the user. Messages without calls pass as they are.
 */
export function callsAsText(messages: readonly Message[]): readonly Message[] {
  const names = new Map<string, string>();
  const texts: Message[] = [];
  let results: ContentPart[] = [];
  const flush = (): void => {
    if (results.length > 0) texts.push({ role: 'user', content: results });
    results = [];
  };
  for (const message of messages) {
    if (message.role === 'tool') {
      results.push(...resultParts(message, names.get(message.toolCallId) ?? message.toolCallId));
      continue;
    }
    flush();
    if (message.role === 'assistant')
      for (const { id, function: called } of message.toolCalls ?? []) names.set(id, called.name);
    texts.push(message.role === 'assistant' ? asText(message) : message);
  }
  flush();
  return texts;
}

function asText(message: AssistantMessage): Message {
  if (message.toolCalls === undefined || message.toolCalls.length === 0) return message;
  const calls = message.toolCalls.map((call) => `[called ${call.function.name} with ${call.function.arguments}]`);
  const { toolCalls: _, ...rest } = withoutOrigin(message);
  return { ...rest, content: [textOf(message.content), ...calls].filter((line) => line !== '').join('\n') };
}

function resultParts({ content, status }: ToolMessage, name: string): readonly ContentPart[] {
  const head = status === 'error' ? `[${name} failed]` : `[result of ${name}]`;
  return [{ type: 'text', text: `${head}\n${textOf(content)}` }, ...mediaOf(content)];
}
