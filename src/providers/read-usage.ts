import { addUsage, type Usage } from '../core/contracts/index.ts';
import { isJsonObject, type JsonObject } from './openai-wire/wire-errors.ts';

type Count = 'prompt' | 'completion' | 'total' | 'cached' | 'cacheWrite' | 'reasoning' | 'toolPrompt' | 'cost';

/** Every known spelling of each count, in snake case; the camel case of each is known too. A dot enters an object inside the usage. */
const spellings: Readonly<Record<Count, readonly string[]>> = {
  prompt: [
    'prompt_tokens',
    'prompt_token_count',
    'total_input_tokens',
    'prompt_eval_count',
    'input_tokens',
    'input_token_count',
    'tokens.input_tokens',
    'billed_units.input_tokens',
    'prompt_n',
  ],
  completion: [
    'completion_tokens',
    'completion_token_count',
    'output_tokens',
    'output_token_count',
    'candidates_token_count',
    'response_token_count',
    'total_output_tokens',
    'tokens.output_tokens',
    'billed_units.output_tokens',
    'eval_count',
    'predicted_n',
    'generated_tokens',
  ],
  total: ['total_tokens', 'total_token_count'],
  cached: [
    'prompt_tokens_details.cached_tokens',
    'input_tokens_details.cached_tokens',
    'cached_tokens',
    'cached_input_tokens',
    'prompt_cache_hit_tokens',
    'cached_content_token_count',
    'total_cached_tokens',
    'cache_read_tokens',
    'cache_read_input_tokens',
    'cache_read_input_token_count',
    'cache_n',
  ],
  cacheWrite: [
    'prompt_tokens_details.cache_write_tokens',
    'prompt_tokens_details.cache_creation_tokens',
    'input_tokens_details.cache_write_tokens',
    'cache_write_tokens',
    'cache_creation_input_tokens',
    'cache_write_input_tokens',
    'cache_write_input_token_count',
  ],
  reasoning: [
    'completion_tokens_details.reasoning_tokens',
    'output_tokens_details.reasoning_tokens',
    'output_tokens_details.thinking_tokens',
    'reasoning_tokens',
    'thinking_tokens',
    'thoughts_token_count',
    'total_thought_tokens',
  ],
  toolPrompt: ['tool_use_prompt_token_count', 'total_tool_use_tokens'],
  cost: [
    'cost',
    'cost.total_cost',
    'cost_details.total_cost',
    'cost_details.upstream_inference_cost',
    'total_cost',
    'estimated_cost',
    'response_cost',
  ],
};

/** Anthropic, Bedrock, and llama.cpp's timings: the prompt is counted without what a cache gave or took, which these names count. */
const withoutCache: ReadonlySet<string> = new Set(['input_tokens', 'input_token_count', 'prompt_n']);
const besidePrompt: ReadonlySet<string> = new Set([
  'cache_read_input_tokens',
  'cache_read_input_token_count',
  'cache_creation_input_tokens',
  'cache_write_input_tokens',
  'cache_write_input_token_count',
  'cache_n',
]);
/** Google: output that the candidates do not count. */
const besideCompletion: ReadonlySet<string> = new Set(['thoughts_token_count', 'total_thought_tokens']);

type Step = string | number;

/** Where usage stands in a body, a chunk or an event. A number is a position in an array. */
const places: readonly (readonly Step[])[] = [
  [],
  ['usage'],
  ['usageMetadata'],
  ['usage_metadata'],
  ['choices', 0, 'usage'],
  ['choices', 0, 'delta', 'usage'],
  ['choices', 0, 'message', 'usage'],
  ['message', 'usage'],
  ['delta', 'usage'],
  ['response', 'usage'],
  ['response', 'usageMetadata'],
  ['result', 'usage'],
  ['metadata', 'usage'],
  ['x_groq', 'usage'],
  ['timings'],
  ['meta'],
  ['amazon-bedrock-invocationMetrics'],
];

/** The same as a tree: where several places begin alike, one look is enough. */
interface Place {
  /** Whether the object here may be a usage. */
  readonly isUsage: boolean;
  /** By the names of members and the positions in arrays, as strings. */
  readonly inside: ReadonlyMap<string, Place>;
}

function treeOf(paths: readonly (readonly Step[])[]): Place {
  const deeper = paths.filter(([step]) => step !== undefined);
  const steps = [...new Set(deeper.flatMap(([step]) => step ?? []))];
  const behind = (step: Step) => deeper.filter(([first]) => first === step).map((path) => path.slice(1));
  return {
    isUsage: deeper.length < paths.length,
    inside: new Map(steps.map((step) => [String(step), treeOf(behind(step))])),
  };
}

const root = treeOf(places);

interface Spelling {
  readonly name: string;
  readonly count: Count;
}

/** By name and path, in both cases. */
const known: ReadonlyMap<string, Spelling> = new Map(
  Object.entries(spellings).flatMap(([count, names]) =>
    names.flatMap((name): [string, Spelling][] => {
      const spelling: Spelling = { name, count: count as Count };
      return [
        [name, spelling],
        [camelCase(name), spelling],
      ];
    }),
  ),
);

/** Names of the objects inside a usage that hold counts. */
const nested: ReadonlySet<string> = new Set(
  [...known.keys()].flatMap((path) => (path.includes('.') ? [path.slice(0, path.indexOf('.'))] : [])),
);

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

interface Found {
  readonly name: string;
  readonly value: number;
}

/**
 * Reads the usage of one answer from the bodies, chunks or events that it consists of, wherever a vendor puts it and however it
 * spells it; `next` separates the requests of an answer that is made by several. Of several statements of a count the largest is valid, so
 * zeros, nulls and chunks without usage change nothing.
 * Cached tokens are a part of `promptTokens` and reasoning is a part of `completionTokens`, also where the vendor counts them
 * beside. What the total has more than its parts is output: thinking that the vendor does not name. Memory: constant.
 */
export class UsageReader {
  #found: Partial<Record<Count, Found>> = {};
  #before: Usage | undefined;

  /** Takes anything; what is no usage is ignored. */
  add(wire: unknown): void {
    if (isJsonObject(wire)) this.#addAt(root, wire);
  }

  /** What follows is said of another request, whose usage is added. */
  next(): void {
    this.#before = this.usage;
    this.#found = {};
  }

  #addAt({ isUsage, inside }: Place, wire: object): void {
    if (isUsage && isJsonObject(wire)) this.#addUsage(wire, '');
    if (inside.size === 0) return;
    for (const step of Object.keys(wire)) {
      const value: unknown = Reflect.get(wire, step);
      if (typeof value !== 'object' || value === null) continue;
      const place = inside.get(step);
      if (place !== undefined) this.#addAt(place, value);
    }
  }

  /** `undefined` while no number of tokens above 0 came. */
  get usage(): Usage | undefined {
    const usage = this.#current;
    return usage && this.#before ? addUsage(this.#before, usage) : (usage ?? this.#before);
  }

  get #current(): Usage | undefined {
    const cachedTokens = this.#found.cached?.value;
    const cacheWriteTokens = this.#found.cacheWrite?.value;
    const reasoningTokens = this.#found.reasoning?.value;
    const cost = this.#found.cost?.value;
    const { promptTokens, completionTokens } = this.#sums();
    if (promptTokens + completionTokens === 0) return undefined;
    return {
      promptTokens,
      completionTokens,
      totalTokens: promptTokens + completionTokens,
      ...(cachedTokens === undefined ? {} : { cachedTokens }),
      // Most vendors without a price for writing to a cache say 0.
      ...(cacheWriteTokens ? { cacheWriteTokens } : {}),
      ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
      ...(cost === undefined ? {} : { cost }),
    };
  }

  #addUsage(usage: JsonObject, path: string): void {
    for (const member of Object.keys(usage)) {
      const value = usage[member];
      const spelling = known.get(path + member);
      if (spelling !== undefined) this.#addCount(spelling, countOf(value));
      if (path === '' && isJsonObject(value) && nested.has(member)) this.#addUsage(value, `${member}.`);
    }
  }

  #addCount({ name, count }: Spelling, value: number | undefined): void {
    const before = this.#found[count];
    if (value !== undefined && (before === undefined || value > before.value)) this.#found[count] = { name, value };
  }

  /** The vendor's own total says whether a part is counted beside the others. */
  #sums(): Pick<Usage, 'promptTokens' | 'completionTokens'> {
    const { prompt, completion, total, cached, cacheWrite, reasoning, toolPrompt } = this.#found;
    let promptTokens = prompt?.value ?? 0;
    let completionTokens = completion?.value ?? 0;
    const inCache = (cached?.value ?? 0) + (cacheWrite?.value ?? 0);
    const thought = reasoning?.value ?? 0;
    const addsUp = total?.value === promptTokens + completionTokens;
    if (inCache > promptTokens || (!addsUp && isBeside(prompt, cached, cacheWrite))) promptTokens += inCache;
    if (!addsUp) {
      promptTokens += toolPrompt?.value ?? 0;
      if (thought > completionTokens || besideCompletion.has(reasoning?.name ?? '')) completionTokens += thought;
    }
    const rest = Math.max(0, (total?.value ?? 0) - promptTokens - completionTokens);
    const isCached = rest > 0 && rest !== thought && (rest === inCache || rest === inCache + thought);
    if (!isCached) return { promptTokens, completionTokens: completionTokens + rest };
    return { promptTokens: promptTokens + inCache, completionTokens: completionTokens + rest - inCache };
  }
}

function isBeside(prompt: Found | undefined, ...inCache: readonly (Found | undefined)[]): boolean {
  return withoutCache.has(prompt?.name ?? '') && inCache.some((found) => besidePrompt.has(found?.name ?? ''));
}

/** A number, also as a string of digits. */
function countOf(value: unknown): number | undefined {
  const count = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof count === 'number' && Number.isFinite(count) && count >= 0 ? count : undefined;
}

/** Adds the cost that LiteLLM states in a header, unless the body states one. LiteLLM sends 0 for a model whose price it does not know. */
export function withCost(usage: Usage | undefined, header: string | null | undefined): Usage | undefined {
  const cost = countOf(header);
  return usage === undefined || usage.cost !== undefined || !cost ? usage : { ...usage, cost };
}
