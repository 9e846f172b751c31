import type { Context } from '@opentelemetry/api';
import {
  type AgentEvent,
  addUsage,
  type Extension,
  type ExtensionEvent,
  type FailedCall,
  type FailureChange,
  type HookContext,
  type IterationChange,
  type IterationStep,
  type IterationView,
  type LLMProvider,
  type Message,
  messageOf,
  noUsage,
  type TurnChange,
  type Usage,
} from '../core/contracts/index.ts';
import { type EmittedEvent, isInstruction, type LoopState, type TurnIdentity } from '../core/journal/index.ts';
import { estimateTokens, type TokenCounter } from '../core/model-call/index.ts';
import {
  type Compaction,
  compactionName,
  hasSummary,
  indexAfterCompaction,
  isCompaction,
  isSummary,
  keptFrom,
  summarizedUpTo,
  summaryMessage,
  VisibleHistory,
} from './context/compaction.ts';
import {
  assertCompactionOptions,
  type CompactionOptions,
  contextWindowOf,
  learnWindow,
  type ModelInUse,
  summarizerOf,
  tokenLimit,
} from './context/compaction-options.ts';
import { fittingMaxChars, shortenMessages } from './context/shorten-messages.ts';
import { type SummaryRequest, summarize } from './context/summarize.ts';
import { headAndTail } from './context/trim-tool-outputs.ts';
import { messageTokens, requestOverhead, sumOf, TurnTokens } from './context/turn-tokens.ts';

/**
 * Keeps a long turn within its model's context window: once a request would exceed `threshold` of it, a separate model call summarizes
 * the older messages, and the model receives the summary in their place. Checked after each batch of tools, and before the first call
 * of a turn that starts with a long history; never after the last answer. The history and the journal keep every message.
 *
 * The size of a request is the provider's report, else a count. A call and its results are never separated. The summary is not
 * streamed; its usage is added to the turn's; a `CompactionEvent` contains the summary. It is journaled, so a resumed turn uses
 * the same. A failed compaction emits `internal:extension-error`, the turn continues, its usage is counted at the next hook,
 * and it is retried 2, 4, 8, at most 16 iterations later. Between the turns of a context: `compactConversation` and `carryOver`.
 *
 * If the model refuses a request as too long (`CONTEXT_OVERFLOW`), the history is compacted for the window that the server stated, and the call
 * is repeated once. A message that alone exceeds the window is then truncated to its beginning and its end in all later requests of the turn.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function compactHistory(options: CompactionOptions = {}): Extension {
  assertCompactionOptions('compactHistory', options);
  const compactor = new Compactor(options);
  return {
    name: compactionName,
    onError: 'continue',
    timeoutMs: options.timeoutMs ?? 120_000,
    isDue: (hook, state) => hook !== 'prepareIteration' || compactor.changesView(state),
    prepareIteration: (view, context) => compactor.counted(context, compactor.view(view, context)),
    beforeLLMCall: (params, { state, iteration }) => compactor.of(state).tokens.noteRequest(iteration, params),
    onLLMError: (failed, context) => compactor.afterRefusal(failed, context),
    afterIteration: (step) => compactor.counted(step, compactor.afterIteration(step)),
  };
}

/** A summary replaced older messages in the model's requests; the history keeps them. */
export interface CompactionEvent extends ExtensionEvent<`internal:x.${typeof compactionName}`> {
  readonly payload: {
    /** The number of messages of the history that the summary replaces; 0 if long messages were truncated only. */
    readonly replaced: number;
    /** A summary of more than 40,000 characters is truncated to its beginning and its end. */
    readonly summary: string;
    readonly tokensBefore: number;
    readonly tokensAfter: number;
  };
}

/** Whether an event is one of `compactHistory`. */
export function isCompactionEvent(event: AgentEvent): event is CompactionEvent {
  return event.kind === `internal:x.${compactionName}`;
}

/** Fits into the event of an extension in any UTF-8 encoding. */
const shownCharacters = 40_000;

/** State of a turn in this process, beside its journal: the calibration of counts, and failures of compactions. */
interface TurnMemory {
  readonly tokens: TurnTokens;
  failures: number;
  /** Usage of calls of failed compactions, until a record contains it. */
  lost: Usage | undefined;
  /** The iteration from which a compaction may be retried. */
  notBefore: number;
}

interface Occasion {
  readonly inUse: ModelInUse;
  /** The size of the next request before the compaction. */
  readonly tokens: number;
  readonly options: CompactionOptions;
  /** The maximum number of tokens of the messages. Default: the limit of the request. */
  readonly room?: number;
}

type CompactionChange = Required<Pick<TurnChange, 'usage' | 'events'>> & { readonly data: Compaction };

type Counted = Pick<TurnChange, 'usage'>;
type Answer<C> = C | undefined | Promise<C | undefined>;

const longestWait = 16;

/** The part of a refused request that the next one may have, if the server does not state its window. */
const shareAfterRefusal = 0.75;

class Compactor {
  readonly #options: CompactionOptions;
  readonly #turns = new WeakMap<TurnIdentity, TurnMemory>();

  constructor(options: CompactionOptions) {
    this.#options = options;
  }

  of({ turn }: LoopState): TurnMemory {
    const known = this.#turns.get(turn);
    if (known) return known;
    const { countTokens = estimateTokens } = this.#options;
    const memory = { tokens: new TurnTokens(countTokens), failures: 0, lost: undefined, notBefore: 0 };
    this.#turns.set(turn, memory);
    return memory;
  }

  afterIteration(step: IterationStep): Promise<TurnChange | undefined> | undefined {
    const { state, provider, settings, finished, iteration } = step;
    const memory = this.of(state);
    if (finished || iteration < memory.notBefore) return undefined;
    const inUse = { provider, model: settings.model };
    const { data } = step;
    const options = isCompaction(data) && data.window !== undefined ? this.#within(data.window, inUse) : this.#options;
    const tokens = memory.tokens.nextRequest(state, () => visibleIn(step).messages);
    return tokens > tokenLimit(options, inUse) ? this.#compact(step, { inUse, tokens, options }) : undefined;
  }

  /** Whether `view` has something to do: the first view of a turn is counted. */
  changesView(state: LoopState): boolean {
    if (!state.lastResponse || isCompaction(state.changes.data[compactionName])) return true;
    return this.of(state).lost !== undefined;
  }

  view(view: IterationView, context: HookContext): IterationChange | Promise<IterationChange | undefined> | undefined {
    const { state, provider, data } = context;
    if (isCompaction(data)) return compactedView(view, state, data);
    if (state.lastResponse || context.iteration < this.of(state).notBefore) return undefined;
    const inUse = { provider, model: view.settings.model };
    const counts = this.of(state).tokens;
    const tokens = requestOverhead(view, counts.countTokens) + counts.of(view.messages);
    const options = this.#options;
    if (tokens <= tokenLimit(options, inUse)) return undefined;
    const compacted = this.#compact(context, { inUse, tokens, options });
    return compacted.then((change) => change && { ...change, ...compactedView(view, state, change.data) });
  }

  /** Compacts the history of a request that the model refused as too long; `undefined` if nothing can be shortened. */
  afterRefusal({ error, params }: FailedCall, context: HookContext): Promise<FailureChange | undefined> | undefined {
    if (error.code !== 'CONTEXT_OVERFLOW') return undefined;
    const memory = this.of(context.state);
    const inUse = { provider: context.provider, model: params.model };
    const stated = sizeIn(error, 'limit');
    const atLeast = Math.max(sizeIn(error, 'used') ?? 0, stated === undefined ? 0 : stated + 1);
    const tokens = memory.tokens.refused(params, atLeast);
    if (stated !== undefined) learnWindow(inUse, stated);
    const window = Math.min(contextWindowOf(this.#options, inUse), stated ?? Math.floor(tokens * shareAfterRefusal));
    const options = { ...this.#options, contextWindow: window };
    const shortened = this.#shorten(context, { inUse, tokens, options }, overheadOf(params, memory.tokens.countTokens));
    return shortened.then(
      (change) => change && { ...withLost(memory, change), repeat: true },
      (thrown: unknown) => ({ ...withLost(memory, undefined), events: [failedEvent(thrown)] }),
    );
  }

  async #shorten(context: HookContext, occasion: Occasion, overhead: number): Promise<CompactionChange | undefined> {
    const { inUse, options, tokens } = occasion;
    const { countTokens } = this.of(context.state).tokens;
    const room = tokenLimit(options, inUse) - overhead;
    if (room <= 0) return undefined;
    const before = isCompaction(context.data) ? context.data : undefined;
    const compacted = await this.#compact(context, { ...occasion, room });
    const { data = { upTo: 0, summary: '', ...before }, ...rest } = compacted ?? {};
    const { messages } = new VisibleHistory(context.state.messages, data);
    const size = messageTokens(messages, countTokens);
    const maxChars = size <= room ? data.maxChars : fittingMaxChars(messages, { maxTokens: room, countTokens });
    const shortens = maxChars !== undefined && maxChars < (data.maxChars ?? Number.POSITIVE_INFINITY);
    if (!compacted && !shortens) return undefined;
    const compaction = { ...data, window: contextWindowOf(options, inUse), ...(shortens && { maxChars }) };
    return {
      usage: noUsage,
      events: [shortenedEvent(tokens, overhead + Math.min(size, room))],
      ...rest,
      data: compaction,
    };
  }

  /** With the window that a refused request of the turn showed. */
  #within(window: number, inUse: ModelInUse): CompactionOptions {
    return { ...this.#options, contextWindow: Math.min(window, contextWindowOf(this.#options, inUse)) };
  }

  /** Adds the usage of failed compactions to the answer of a hook. */
  counted<C extends Counted>({ state }: HookContext, answer: Answer<C>): Answer<C | Counted> {
    const memory = this.of(state);
    return answer instanceof Promise ? answer.then((change) => withLost(memory, change)) : withLost(memory, answer);
  }

  async #compact(
    context: HookContext,
    { inUse, tokens, options, room }: Occasion,
  ): Promise<CompactionChange | undefined> {
    const memory = this.of(context.state);
    const { countTokens } = memory.tokens;
    const { signal, traceContext } = context;
    const noteUsage = (usage: Usage) => {
      memory.lost = addUsage(memory.lost ?? noUsage, usage);
    };
    const work = { options, inUse, tokens, room, countTokens, signal, traceContext, noteUsage };
    const compacted = await compactVisible(visibleIn(context), work).catch((error: unknown) => {
      noteFailure(memory, context.iteration);
      throw error;
    });
    memory.failures = 0;
    if (!compacted) return undefined;
    const { compaction, usage, tokensAfter } = compacted;
    const { upTo: replaced, summary } = compaction;
    const payload: CompactionEvent['payload'] = {
      replaced,
      summary: shownSummary(summary),
      tokensBefore: tokens,
      tokensAfter,
    };
    const kept = isCompaction(context.data) ? context.data : undefined;
    return { data: { ...kept, ...compaction }, usage, events: [{ payload, label: `${replaced} messages summed up` }] };
  }
}

function shownSummary(summary: string): string {
  if (summary.length <= shownCharacters) return summary;
  return headAndTail(summary, shownCharacters, (leftOut) => `(${leftOut} characters left out)`);
}

function withLost<C extends Counted>(memory: TurnMemory, change: C | undefined): C | Counted | undefined {
  const { lost } = memory;
  if (!lost) return change;
  memory.lost = undefined;
  return { ...change, usage: change?.usage ? addUsage(lost, change.usage) : lost };
}

function noteFailure(memory: TurnMemory, iteration: number): void {
  memory.failures += 1;
  memory.notBefore = iteration + Math.min(2 ** memory.failures, longestWait);
}

function visibleIn({ state, data }: HookContext): VisibleHistory {
  return new VisibleHistory(state.messages, isCompaction(data) ? data : undefined);
}

/** The view with the summary prepended. A view of another extension without the messages after the summary is not changed. */
function compactedView({ messages }: IterationView, { history }: LoopState, compaction: Compaction): IterationChange {
  const at = hasSummary(compaction) ? indexAfterCompaction(messages, history, compaction) : -1;
  const visible = at < 0 ? messages : [summaryMessage(compaction), ...messages.slice(at)];
  const shown = compaction.maxChars === undefined ? visible : shortenMessages(visible, compaction.maxChars);
  return shown === messages ? {} : { view: { messages: shown } };
}

/** The tokens of a request beside its conversation: instructions and tools. */
function overheadOf({ messages, tools = [] }: FailedCall['params'], countTokens: TokenCounter): number {
  const frame = requestOverhead({ systemPrompt: undefined, tools }, countTokens);
  return frame + messageTokens(messages.filter(isInstruction), countTokens);
}

function sizeIn({ details }: FailedCall['error'], name: 'limit' | 'used'): number | undefined {
  const size = details?.[name];
  return typeof size === 'number' && size > 0 ? size : undefined;
}

function shortenedEvent(tokensBefore: number, tokensAfter: number): EmittedEvent {
  const payload: CompactionEvent['payload'] = { replaced: 0, summary: '', tokensBefore, tokensAfter };
  return { payload, label: 'long messages shortened' };
}

function failedEvent(thrown: unknown): EmittedEvent {
  return { name: 'failed', payload: { message: messageOf(thrown) }, label: 'compaction failed' };
}

/**
 * The initial history of a context's next turn: the summary, and the messages after the summarized ones; instructions among the
 * summarized ones stay, at the front. Without a compaction: the messages unchanged. `messages`: all messages of the context.
 */
export function carryOver(messages: readonly Message[], compaction: Compaction | undefined): readonly Message[] {
  if (!compaction || !hasSummary(compaction)) return messages;
  const instructions = messages.slice(0, compaction.upTo).filter(isInstruction);
  return [...instructions, summaryMessage(compaction), ...messages.slice(compaction.upTo)];
}

/**
 * The last compaction of a turn, in positions of its context: for a turn that started with the result of {@link carryOver}, or with all
 * messages of the context, and whose messages are appended to them. `undefined` if it made none: the previous one stays valid.
 * Reads the folded journal, so it also works for a turn that another process ran.
 */
export function compactionOfTurn({ changes, history }: LoopState): Compaction | undefined {
  const compaction = changes.data[compactionName];
  if (!isCompaction(compaction) || !hasSummary(compaction)) return undefined;
  const messages = history.toArray();
  const carriedAt = messages.findIndex((message) => isSummary(message));
  const carried = summarizedUpTo(messages[carriedAt]);
  if (carried === undefined) return compaction;
  return { ...compaction, upTo: compaction.upTo + carried - (carriedAt + 1) };
}

/** The compaction in a context's metadata, under `compaction`. */
export function compactionOf(metadata: Readonly<Record<string, unknown>>): Compaction | undefined {
  const compaction = metadata[compactionName];
  return isCompaction(compaction) ? compaction : undefined;
}

/** Adds a compaction to the metadata of a context, for {@link compactionOf}. */
export function withCompaction(
  metadata: Readonly<Record<string, unknown>>,
  compaction: Compaction,
): Readonly<Record<string, unknown>> {
  const { upTo, last, summary } = compaction;
  return { ...metadata, [compactionName]: { upTo, ...(last !== undefined && { last }), summary } };
}

/** The model and the state of a context. */
export interface ContextTurns {
  /** Its context window counts, and it makes the summarizing call unless the options name another. */
  readonly provider: LLMProvider;
  /** Default: the provider's own. */
  readonly model?: string;
  /** The compaction so far. */
  readonly compaction?: Compaction | undefined;
  /** Aborting it stops the call. */
  readonly signal?: AbortSignal;
  /** The parent of the summarizing call's spans. */
  readonly traceContext?: Context;
  /** Receives the usage of summarizing calls without a compaction. */
  readonly noteUsage?: (usage: Usage) => void;
}

/**
 * Compacts a context between its turns, after the end of one, so that the next starts with a short history. `messages`: all messages of the
 * context. Resolves with the new compaction and its usage; with `undefined` if the context is short enough, or too
 * few messages are old. Rejects with the provider's error; nothing is lost then, as the next turn checks at its start.
 */
export async function compactConversation(
  messages: readonly Message[],
  options: CompactionOptions,
  turns: ContextTurns,
): Promise<{ readonly compaction: Compaction; readonly usage: Usage } | undefined> {
  assertCompactionOptions('compactConversation', options);
  const { provider, model, compaction, signal, traceContext, noteUsage } = turns;
  const { countTokens = estimateTokens } = options;
  const visible = new VisibleHistory(messages, compaction);
  const tokens = sumOf(visible.messages, countTokens);
  const inUse = { provider, model };
  if (tokens <= tokenLimit(options, inUse)) return undefined;
  const work = { options, inUse, tokens, countTokens, signal, traceContext, noteUsage };
  const compacted = await compactVisible(visible, work);
  return compacted && { compaction: compacted.compaction, usage: compacted.usage };
}

/** Whether messages are too many for the next request: then {@link compactConversation} would compact them. */
export function isTooLong(messages: readonly Message[], options: CompactionOptions, inUse: ModelInUse): boolean {
  return sumOf(messages, options.countTokens ?? estimateTokens) > tokenLimit(options, inUse);
}

interface CompactionWork extends SummaryRequest {
  readonly options: CompactionOptions;
  readonly inUse: ModelInUse;
  /** The size of the next request before the compaction. */
  readonly tokens: number;
  /** The maximum number of tokens of the messages. Default: the limit of the request. */
  readonly room?: number | undefined;
  readonly countTokens: TokenCounter;
}

interface Compacted {
  readonly compaction: Compaction;
  /** Usage of the summarizing calls. */
  readonly usage: Usage;
  /** The size of the next request after the compaction. */
  readonly tokensAfter: number;
}

/** Fewer messages are not worth a model call. */
const leastMessages = 2;

/**
 * Summarizes the messages before the newest `keepLast`, and those of the newest that exceed half of the limit. Resolves with `undefined` if
 * too few are older. Rejects as `summarize`.
 */
async function compactVisible(visible: VisibleHistory, work: CompactionWork): Promise<Compacted | undefined> {
  const { options, inUse, tokens, countTokens, signal, traceContext, noteUsage } = work;
  const { keepLast: maxMessages = 10 } = options;
  const { room: limit = tokenLimit(options, inUse) } = work;
  const from = keptFrom(visible.messages, { maxMessages, maxTokens: Math.floor(limit / 2), countTokens });
  const older = visible.messages.slice(0, from);
  if (older.filter((message) => !isSummary(message)).length < leastMessages) return undefined;
  const summarizer = summarizerOf(options, inUse, limit);
  const { text, usage } = await summarize(older, { ...summarizer, signal, traceContext, noteUsage });
  const compaction = { upTo: visible.countBefore(from), summary: text };
  const summary = summaryMessage(compaction);
  const kept = messageTokens([summary, ...visible.messages.slice(from)], countTokens);
  const left = tokens - messageTokens(older, countTokens) + countTokens(summary);
  return { compaction, usage, tokensAfter: Math.max(kept, left) };
}
