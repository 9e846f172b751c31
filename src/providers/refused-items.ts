import {
  AgentLoopError,
  type ContentPart,
  type ErrorCode,
  type LLMCallParams,
  type Message,
} from '../core/contracts/index.ts';
import { digestOf } from './model-origin.ts';
import type { SettingName } from './profiles.ts';

/** What a server has refused by name, so that later requests go without it. Bounded: it holds digests and names, the newest 200 of each. */
export class RefusedItems {
  readonly media: Set<string>;
  readonly tools: Set<string>;
  readonly settings: Set<SettingName>;
  forcedTool: boolean;
  /** OpenAI's newer models name the limit of the answer `max_completion_tokens`. */
  completionTokens: boolean;

  constructor(known?: RefusedItems) {
    this.media = new Set([...(known?.media ?? [])].slice(-200));
    this.tools = new Set([...(known?.tools ?? [])].slice(-200));
    this.settings = new Set(known?.settings);
    this.forcedTool = known?.forcedTool ?? false;
    this.completionTokens = known?.completionTokens ?? false;
  }

  get #size(): number {
    return (
      this.media.size + this.tools.size + this.settings.size + Number(this.forcedTool) + Number(this.completionTokens)
    );
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
    return more.#size > this.#size ? more : undefined;
  }
}

/** Gateways say that no model takes an item with 404. */
const refusals: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['PROVIDER_BAD_REQUEST', 'PROVIDER_NOT_FOUND']);

/**
 * What a server names as it refuses a request, with what it refused before; `undefined` where the same request without it cannot be made,
 * or where something else went wrong.
 */
export function itemsNamedBy(error: unknown, params: LLMCallParams, known: RefusedItems): RefusedItems | undefined {
  return AgentLoopError.isInstance(error) && refusals.has(error.code) ? known.with(error.message, params) : undefined;
}

/** Whether the server refused a picture or file before. */
export function isRefused(refused: RefusedItems | undefined, part: ContentPart): boolean {
  return refused !== undefined && refused.media.size > 0 && refused.media.has(digestOfPart(part));
}

function digestOfPart(part: ContentPart): string {
  return digestOf(JSON.stringify(part));
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
      take: (refused, { params }) => {
        if (isSetting(name) && params[name] !== undefined) refused.settings.add(name);
      },
    }),
  ),
  // OpenAI: "Invalid schema for function 'look'"; Anthropic: "tools.3.custom.input_schema"; Google: "function_declarations[3]".
  {
    pattern: /(?:function|tool) ['"`]([\w.-]+)['"`]/i,
    take: (refused, { match, params }) => {
      if (params.tools?.some(({ function: { name } }) => name === match[1])) refused.tools.add(match[1] ?? '');
    },
  },
  {
    pattern: /(?:\btools|function_?declarations)(?:\.|\[)(\d+)/i,
    take: (refused, { match, params }) => {
      const sent = params.tools?.filter(({ function: { name } }) => !refused.tools.has(name));
      const tool = sent?.[Number(match[1])];
      if (tool) refused.tools.add(tool.function.name);
    },
  },
  { pattern: /\b(images?|pictures?|image_url|photo|vision|multimodal)\b/i, take: addMedia('image_url') },
  { pattern: /\b(files?|pdf|documents?|mime|media|attachment)\b/i, take: addMedia('file') },
];

function isSetting(name: string): name is SettingName {
  return Object.hasOwn(settingWords, name);
}

/** The media of a kind, but for those of the question that is being asked: leaving them out would answer another question. */
function addMedia(type: 'image_url' | 'file'): Refusal['take'] {
  return (refused, { params: { messages } }) => {
    const current = messages.findLastIndex(({ role }) => role === 'user');
    for (const [index, message] of messages.entries())
      if (index < current || message.role === 'tool')
        for (const part of mediaOf(message, type)) refused.media.add(digestOfPart(part));
  };
}

function mediaOf({ content }: Message, type: 'image_url' | 'file'): readonly ContentPart[] {
  return typeof content === 'string' || content === null ? [] : content.filter((part) => part.type === type);
}
