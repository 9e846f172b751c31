import {
  AgentLoopError,
  type ContentPart,
  type ErrorCode,
  type LLMCallParams,
  type Message,
  type ToolDefinition,
} from '../core/contracts/index.ts';
import { digestOf } from './model-origin.ts';
import type { SettingName } from './profiles.ts';

/**
 * What a server has refused by name, so that later requests go without it: tools and media by a digest of all that was sent of them, a
 * setting by its value, or whatever its value where the server has no such setting. Bounded: it holds the newest 600.
 */
export class RefusedItems {
  readonly #items: Set<string>;
  forcedTool: boolean;
  /** OpenAI's newer models name the limit of the answer `max_completion_tokens`. */
  completionTokens: boolean;

  constructor(known?: RefusedItems) {
    this.#items = new Set(known === undefined ? [] : [...known.#items].slice(-mostItems));
    this.forcedTool = known?.forcedTool ?? false;
    this.completionTokens = known?.completionTokens ?? false;
  }

  addMedia(part: ContentPart): void {
    this.#items.add(digestOf(JSON.stringify(part)));
  }

  hasMedia(part: ContentPart): boolean {
    return this.#items.size > 0 && this.#items.has(digestOf(JSON.stringify(part)));
  }

  addTool(tool: ToolDefinition): void {
    this.#items.add(digestOf(JSON.stringify(tool.function)));
  }

  hasTool(tool: ToolDefinition): boolean {
    return this.#items.size > 0 && this.#items.has(digestOf(JSON.stringify(tool.function)));
  }

  /** `value` absent: whatever its value. */
  addSetting(name: SettingName, value?: unknown): void {
    this.#items.add(settingItem(name, value));
  }

  hasSetting(name: SettingName, value: unknown): boolean {
    return this.#items.has(settingItem(name)) || this.#items.has(settingItem(name, value));
  }

  /**
   * These items and those that the words of a refusal name, where the request has them. `undefined` where the words name none, so that
   * the same request without it cannot be made.
   */
  with(words: string, params: LLMCallParams): RefusedItems | undefined {
    const more = new RefusedItems(this);
    for (const { pattern, take } of namedItems) {
      const match = pattern.exec(words);
      if (match !== null) take(more, { match, params });
    }
    return more.#hasMoreThan(this) ? more : undefined;
  }

  #hasMoreThan(known: RefusedItems): boolean {
    if (this.forcedTool !== known.forcedTool || this.completionTokens !== known.completionTokens) return true;
    return [...this.#items].some((item) => !known.#items.has(item));
  }
}

const mostItems = 600;

function settingItem(name: SettingName, value?: unknown): string {
  return value === undefined ? name : digestOf(`${name} ${JSON.stringify(value)}`);
}

/** Gateways say that no model takes an item with 404. */
const refusals: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['PROVIDER_BAD_REQUEST', 'PROVIDER_NOT_FOUND']);

/**
 * What a server names as it refuses a request, with what it refused before; `undefined` where the same request without it cannot be made,
 * or where something else went wrong.
 */
export function itemsNamedBy(error: unknown, params: LLMCallParams, known: RefusedItems): RefusedItems | undefined {
  if (!AgentLoopError.isInstance(error) || !refusals.has(error.code)) return undefined;
  // The server's own words are in quotes: the sentence around them names the model, such as one for images.
  const [, words] = /"([\s\S]*)"/.exec(error.message) ?? [];
  return words === undefined ? undefined : known.with(words, params);
}

interface Refusal {
  /** What the words of a refusal of that kind have. */
  readonly pattern: RegExp;
  readonly take: (
    refused: RefusedItems,
    given: { readonly match: RegExpExecArray; readonly params: LLMCallParams },
  ) => void;
}

/** The names that the words of a refusal have for a setting. */
const settingWords: Readonly<Record<SettingName, RegExp>> = {
  temperature: /\btemperature\b/i,
  topP: /\btop_?p\b/i,
  maxTokens: /^(?!)/,
  stop: /\b(stop_?sequences?|['"`]stop['"`])/i,
  seed: /\bseed\b/i,
  parallelToolCalls: /\bparallel_?tool_?calls\b|disable_parallel_tool_use/i,
  reasoning:
    /\breasoning_?effort\b|\breasoning\b|\bthinking(_?config|_?budget|_?level)?\b|chat_template_kwargs|enable_thinking/i,
  cache: /cache_?control|cache_?point/i,
};

/** What is said of a setting that a server does not have; of any other, its value is refused. */
const unknownSetting =
  /\b(un(supported|known|recogni[sz]ed|expected|available)|(not|n't|no longer) (\w+ )?(support|permit|allow|available)|not compatible|incompatible|deprecated|extra|removed|no (such )?(field|parameter|argument))/i;

const namedItems: readonly Refusal[] = [
  {
    pattern: /max_completion_tokens/,
    take: (refused, { params }) => {
      if (params.maxTokens !== undefined) refused.completionTokens = true;
    },
  },
  {
    pattern: /tool_?choice/i,
    take: (refused, { params: { toolChoice } }) => {
      if (toolChoice !== undefined && toolChoice !== 'auto' && toolChoice !== 'none') refused.forcedTool = true;
    },
  },
  ...Object.entries(settingWords).map(
    ([name, pattern]): Refusal => ({
      pattern,
      take: (refused, { match, params }) => {
        if (!isSetting(name) || params[name] === undefined) return;
        refused.addSetting(name, unknownSetting.test(match.input) ? undefined : params[name]);
      },
    }),
  ),
  // OpenAI: "Invalid schema for function 'look'"; Anthropic: "tools.3.custom.input_schema"; Google: "function_declarations[3]".
  {
    pattern: /(?:function|tool) ['"`]([\w.-]+)['"`]/i,
    take: (refused, { match, params }) => {
      const tool = params.tools?.find(({ function: { name } }) => name === match[1]);
      if (tool) refused.addTool(tool);
    },
  },
  {
    pattern: /(?:\btools|function_?declarations)(?:\.|\[)(\d+)/i,
    take: (refused, { match, params }) => {
      const sent = params.tools?.filter((tool) => !refused.hasTool(tool));
      const tool = sent?.[Number(match[1])];
      if (tool) refused.addTool(tool);
    },
  },
  { pattern: /\b(images?|pictures?|image_url|photo|vision|multimodal)\b/i, take: addMedia('image_url') },
  { pattern: /\b(files?|pdf|documents?|mime|media|attachment)\b/i, take: addMedia('file') },
];

/** The settings of a call. */
export const settingNames: readonly SettingName[] = Object.keys(settingWords).filter(isSetting);

function isSetting(name: string): name is SettingName {
  return Object.hasOwn(settingWords, name);
}

/** The media of a kind, but for those of the question that is being asked: leaving them out would answer another question. */
function addMedia(type: 'image_url' | 'file'): Refusal['take'] {
  return (refused, { params: { messages } }) => {
    const current = messages.findLastIndex(({ role }) => role === 'user');
    for (const [index, message] of messages.entries())
      if (index < current || message.role === 'tool') for (const part of mediaOf(message, type)) refused.addMedia(part);
  };
}

function mediaOf({ content }: Message, type: 'image_url' | 'file'): readonly ContentPart[] {
  return typeof content === 'string' || content === null ? [] : content.filter((part) => part.type === type);
}
