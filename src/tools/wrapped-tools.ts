import { callListener } from '../call-listener.ts';
import type {
  ToolCall,
  ToolContext,
  ToolDefinition,
  ToolListContext,
  ToolProvider,
  ToolResult,
} from '../core/contracts/index.ts';
import { aFunction, assertGiven, assertOptions, milliseconds, type OptionRule } from '../options/option-rules.ts';
import { keyOf } from '../providers/policies/request-key.ts';
import { aCacheStore, type CacheStore } from '../stores/cache/cache-store.ts';
import { jsonSchemaChecks, verifyForeignSchema } from './schema-checks.ts';

const wrapped = new WeakMap<ToolProvider, ToolProvider>();

/** Notes that a provider offers the tools of another one. Gives it back. */
export function wrapping<Outer extends ToolProvider>(outer: Outer, inner: ToolProvider): Outer {
  wrapped.set(outer, inner);
  return outer;
}

/** The provider that the wrappers of this package hold; the provider itself where there are none. */
export function innermost(provider: ToolProvider): ToolProvider {
  let found = provider;
  for (let inner = wrapped.get(found); inner; inner = wrapped.get(found)) found = inner;
  return found;
}

/**
 * A provider whose calls are checked by the JSON Schemas of its definitions before they run, as a loop does by itself; here the schemas are
 * looked at when the tools are listed: `getTools` rejects with `INVALID_CONFIG` where one is not a JSON Schema. A definition that has its own
 * `checkArguments` keeps it.
 */
export function checkedTools(provider: ToolProvider): ToolProvider {
  const name = provider.name ?? provider.constructor.name;
  const checking: ToolProvider = {
    name,
    async getTools(context: ToolListContext) {
      const definitions = await provider.getTools(context);
      return Promise.all(definitions.map((definition) => checked(definition, name)));
    },
    executeTool: (call, context) => provider.executeTool(call, context),
  };
  return wrapping(checking, provider);
}

async function checked(definition: ToolDefinition, providerName: string): Promise<ToolDefinition> {
  if (definition.checkArguments !== undefined) return definition;
  const { name, parameters } = definition.function;
  const owner = `tool "${name}" of ${providerName}`;
  await verifyForeignSchema(parameters, owner);
  return { ...definition, checkArguments: jsonSchemaChecks(parameters, owner) };
}

/** Calls that share their results: of one turn, of one conversation, of all, or those for which a function gives the same text. */
export type CacheScope = 'turn' | 'context' | 'everywhere' | ((context: ToolContext) => string);

/** Options of `cacheTools`: where results are kept, how long, and for whom. */
export interface CacheToolsOptions {
  /** Where results are kept. */
  readonly store: CacheStore;
  /** How long a result may be given. Milliseconds; default 300,000, five minutes. */
  readonly ttlMs?: number | undefined;
  /** Default `'turn'`. Results that depend on the caller need a scope per caller. */
  readonly scope?: CacheScope | undefined;
  /** Told what the store failed with; the call runs without it. Default: nobody is. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

const aScope: OptionRule = {
  fits: (value) => typeof value === 'function' || value === 'turn' || value === 'context' || value === 'everywhere',
  must: 'be "turn", "context", "everywhere" or a function',
};

/**
 * Puts a cache around a tool provider: a call of the same tool with equal arguments in the same scope is run once, also where both are
 * under way at the same time. Only tools that are `readOnly`, or say `cache: true`, and never those that say `cache: false`; only results
 * that are a success. A call that is given a result is journaled as any other; it is shown no progress.
 *
 * Keys are `tool:` and a SHA-256. A store that fails is passed by. Cancelling the call that runs leaves the others, one of which then
 * runs. Errors: `INVALID_CONFIG`, naming the option.
 */
export function cacheTools(options: CacheToolsOptions): (provider: ToolProvider) => ToolProvider {
  assertOptions('cacheTools', options, {
    store: aCacheStore,
    ttlMs: milliseconds(1),
    scope: aScope,
    onError: aFunction,
  });
  assertGiven('cacheTools', 'store', options.store, 'give a CacheStore, such as new InMemoryCacheStore()');
  return (provider) => wrapping(new CachingTools(provider, options), provider);
}

class CachingTools implements ToolProvider {
  readonly name: string;
  readonly #provider: ToolProvider;
  readonly #options: CacheToolsOptions;
  readonly #cached = new Set<string>();
  /** Calls that run now, by key. */
  readonly #running = new Map<string, Promise<ToolResult>>();

  constructor(provider: ToolProvider, options: CacheToolsOptions) {
    this.name = provider.name ?? provider.constructor.name;
    this.#provider = provider;
    this.#options = options;
  }

  getTools(...[context]: Parameters<ToolProvider['getTools']>): ReturnType<ToolProvider['getTools']> {
    const definitions = this.#provider.getTools(context);
    return definitions instanceof Promise ? definitions.then((all) => this.#noted(all)) : this.#noted(definitions);
  }

  executeTool(call: ToolCall, context: ToolContext): ToolResult | Promise<ToolResult> {
    if (!this.#cached.has(call.function.name)) return this.#provider.executeTool(call, context);
    return this.#shared(call, context);
  }

  #noted(definitions: readonly ToolDefinition[]): readonly ToolDefinition[] {
    for (const {
      readOnly,
      cache = readOnly,
      function: { name },
    } of definitions)
      if (cache) this.#cached.add(name);
    return definitions;
  }

  async #shared(call: ToolCall, context: ToolContext): Promise<ToolResult> {
    const { name } = call.function;
    const key = `tool:${keyOf({ provider: this.name, name, scope: scopeOf(this.#options, context), args: context.arguments })}`;
    for (let running = this.#running.get(key); running; running = this.#running.get(key)) {
      const result = await running.catch(() => undefined);
      if (result?.success) return { ...result, toolCallId: call.id };
      if (context.signal.aborted) throw context.signal.reason;
    }
    const run = this.#foundOrRun(key, call, context);
    this.#running.set(key, run);
    try {
      return await run;
    } finally {
      this.#running.delete(key);
    }
  }

  async #foundOrRun(key: string, call: ToolCall, context: ToolContext): Promise<ToolResult> {
    const found = await this.#try(() => this.#options.store.get(key));
    if (isResult(found)) return { toolCallId: call.id, content: found.content, success: true };
    if (context.signal.aborted) throw context.signal.reason;
    const result = await this.#provider.executeTool(call, context);
    const { ttlMs = 300_000 } = this.#options;
    if (result.success) await this.#try(() => this.#options.store.set(key, { content: result.content }, { ttlMs }));
    return result;
  }

  async #try(ask: () => unknown): Promise<unknown> {
    try {
      return await ask();
    } catch (error) {
      this.#report(error);
      return undefined;
    }
  }

  /** What the listener throws must not end the call. */
  #report(error: unknown): void {
    const { onError } = this.#options;
    if (onError) callListener(onError, error, { fields: { option: 'onError of cacheTools' } });
  }
}

function scopeOf({ scope = 'turn' }: CacheToolsOptions, context: ToolContext): string {
  if (typeof scope === 'function') return `own ${scope(context)}`;
  if (scope === 'everywhere') return scope;
  return scope === 'turn' ? `turn ${context.taskId}` : `context ${context.contextId}`;
}

function isResult(value: unknown): value is Pick<ToolResult, 'content'> {
  if (typeof value !== 'object' || value === null || !('content' in value)) return false;
  return typeof value.content === 'string' || Array.isArray(value.content);
}
