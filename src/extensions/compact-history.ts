import type { Context } from '@opentelemetry/api';
import {
  type AgentEvent,
  addUsage,
  type Extension,
  type ExtensionEvent,
  type HookContext,
  type IterationChange,
  type IterationStep,
  type IterationView,
  type LLMProvider,
  type Message,
  noUsage,
  type TurnChange,
  type Usage,
} from '../core/contracts/index.ts';
import { isInstruction, type LoopState, type TurnIdentity } from '../core/journal/index.ts';
import { estimateTokens, type TokenCounter } from '../core/model-call/index.ts';
import {
  type Compaction,
  compactionName,
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
  type ModelInUse,
  summarizerOf,
  tokenLimit,
} from './context/compaction-options.ts';
import { type SummaryRequest, summarize } from './context/summarize.ts';
import { headAndTail } from './context/trim-tool-outputs.ts';
import { messageTokens, requestOverhead, TurnTokens } from './context/turn-tokens.ts';

/**
 * Keeps a long turn below its model's context window: once a request would take more than `threshold` of it, a model call of its own sums
 * the older messages up, and the model sees the summary in their place. It is checked behind each batch of tools, and before the first call
 * of a turn that begins with a long history; never after the last answer. The history and the journal keep every message.
 *
 * A request is as large as the provider reports, else as it is counted. No call is torn from its results. What the summariser says is not
 * streamed; its usage is added to the turn's; a `CompactionEvent` shows the summary. It is journaled, so a resumed turn sees
 * the same. A compaction that fails is shown as `internal:extension-error`, the turn continues, what it took is counted at the next hook,
 * and it is tried again 2, 4, 8, at most 16 iterations later. Between the turns of a context: `compactConversation` and `carryOver`.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function compactHistory(options: CompactionOptions = {}): Extension {
  assertCompactionOptions('compactHistory', options);
  const compactor = new Compactor(options);
  return {
    name: compactionName,
    onError: 'continue',
    timeoutMs: options.timeoutMs ?? 120_000,
    prepareIteration: (view, context) => compactor.counted(context, compactor.view(view, context)),
    beforeLLMCall: (params, { state, iteration }) => compactor.of(state).tokens.noteRequest(iteration, params),
    afterIteration: (step) => compactor.counted(step, compactor.afterIteration(step)),
  };
}

/** Older messages were replaced by a summary in what the model sees; the history keeps them. */
export interface CompactionEvent extends ExtensionEvent<`internal:x.${typeof compactionName}`> {
  readonly payload: {
    /** How many messages of the history the summary stands for. */
    readonly replaced: number;
    /** Of a summary of more than 40,000 characters its beginning and its end. */
    readonly summary: string;
    readonly tokensBefore: number;
    readonly tokensAfter: number;
  };
}

/** Whether an event is one of `compactHistory`. */
export function isCompactionEvent(event: AgentEvent): event is CompactionEvent {
  return event.kind === `internal:x.${compactionName}`;
}

/** As many as fit into the event of an extension, whatever they are in UTF-8. */
const shownCharacters = 40_000;

/** What this process knows of a turn besides its journal: how well counts fit, and when a compaction failed. */
interface TurnMemory {
  readonly tokens: TurnTokens;
  failures: number;
  /** What calls took of which no compaction came, as long as no record says it. */
  lost: Usage | undefined;
  /** The iteration from which on it may be tried. */
  notBefore: number;
}

interface Occasion {
  readonly inUse: ModelInUse;
  /** Of the next request, as it would be. */
  readonly tokens: number;
}

type CompactionChange = Required<Pick<TurnChange, 'usage' | 'events'>> & { readonly data: Compaction };

type Counted = Pick<TurnChange, 'usage'>;
type Answer<C> = C | undefined | Promise<C | undefined>;

const longestWait = 16;

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
    const tokens = memory.tokens.nextRequest(state, () => visibleIn(step).messages);
    return tokens > tokenLimit(this.#options, inUse) ? this.#compact(step, { inUse, tokens }) : undefined;
  }

  view(view: IterationView, context: HookContext): IterationChange | Promise<IterationChange | undefined> | undefined {
    const { state, provider, data } = context;
    if (isCompaction(data)) return compactedView(view, state, data);
    if (state.lastResponse || context.iteration < this.of(state).notBefore) return undefined;
    const inUse = { provider, model: view.settings.model };
    const { countTokens } = this.of(state).tokens;
    const tokens = requestOverhead(view, countTokens) + messageTokens(view.messages, countTokens);
    if (tokens <= tokenLimit(this.#options, inUse)) return undefined;
    const compacted = this.#compact(context, { inUse, tokens });
    return compacted.then((change) => change && { ...change, ...compactedView(view, state, change.data) });
  }

  /** What a hook answers, with what calls took before of which no compaction came. */
  counted<C extends Counted>({ state }: HookContext, answer: Answer<C>): Answer<C | Counted> {
    const memory = this.of(state);
    return answer instanceof Promise ? answer.then((change) => withLost(memory, change)) : withLost(memory, answer);
  }

  async #compact(context: HookContext, { inUse, tokens }: Occasion): Promise<CompactionChange | undefined> {
    const memory = this.of(context.state);
    const { countTokens } = memory.tokens;
    const { signal, traceContext } = context;
    const noteUsage = (usage: Usage) => {
      memory.lost = addUsage(memory.lost ?? noUsage, usage);
    };
    const work = { options: this.#options, inUse, tokens, countTokens, signal, traceContext, noteUsage };
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
    return { data: compaction, usage, events: [{ payload, label: `${replaced} messages summed up` }] };
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

/** The view with the summary in front. A view of another extension that lacks the messages after the summary is kept. */
function compactedView({ messages }: IterationView, { history }: LoopState, compaction: Compaction): IterationChange {
  const at = indexAfterCompaction(messages, history, compaction);
  return at < 0 ? {} : { view: { messages: [summaryMessage(compaction), ...messages.slice(at)] } };
}

/**
 * What the next turn of a context begins with: the summary, and the messages behind what it stands for; instructions among the
 * others stay, in front. Without a compaction: the messages as they are. `messages` are all those of the context.
 */
export function carryOver(messages: readonly Message[], compaction: Compaction | undefined): readonly Message[] {
  if (!compaction) return messages;
  const instructions = messages.slice(0, compaction.upTo).filter(isInstruction);
  return [...instructions, summaryMessage(compaction), ...messages.slice(compaction.upTo)];
}

/**
 * The compaction that a turn made last, in positions of its context: of one that began with what {@link carryOver} gave, or with all
 * messages of the context, and whose messages stand behind those there. `undefined`: it made none, and the one before holds.
 * From the folded journal, so also of a turn that another process ran.
 */
export function compactionOfTurn({ changes, history }: LoopState): Compaction | undefined {
  const compaction = changes.data[compactionName];
  if (!isCompaction(compaction)) return undefined;
  const messages = history.toArray();
  const carriedAt = messages.findIndex((message) => isSummary(message));
  const carried = summarizedUpTo(messages[carriedAt]);
  if (carried === undefined) return compaction;
  return { ...compaction, upTo: compaction.upTo + carried - (carriedAt + 1) };
}

/** The compaction that is kept in a context's metadata under `compaction`. */
export function compactionOf(metadata: Readonly<Record<string, unknown>>): Compaction | undefined {
  const compaction = metadata[compactionName];
  return isCompaction(compaction) ? compaction : undefined;
}

/** The metadata of a context with a compaction to be found by {@link compactionOf}. */
export function withCompaction(
  metadata: Readonly<Record<string, unknown>>,
  compaction: Compaction,
): Readonly<Record<string, unknown>> {
  return { ...metadata, [compactionName]: { upTo: compaction.upTo, summary: compaction.summary } };
}

/** The turns of a context, and what is known of it. */
export interface ContextTurns {
  /** Its context window counts, and it makes the summarising call where the options name no other. */
  readonly provider: LLMProvider;
  /** Default: the provider's own. */
  readonly model?: string;
  /** The compaction so far. */
  readonly compaction?: Compaction | undefined;
  /** Aborting it stops the call. */
  readonly signal?: AbortSignal;
  /** The parent of what the summarising call traces. */
  readonly traceContext?: Context;
  /** Told what the summarising calls took where no compaction comes of them. */
  readonly noteUsage?: (usage: Usage) => void;
}

/**
 * Compacts a context between its turns, after the end of one, so that the next begins with a short history: all its messages are given,
 * as a turn would begin with them. Resolves with the new compaction and what it took; with nothing where the context is short enough, or too
 * little of it is old. Rejects with what the provider says; nothing is lost then, as the next turn checks at its beginning.
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
  const tokens = messageTokens(visible.messages, countTokens);
  const inUse = { provider, model };
  if (tokens <= tokenLimit(options, inUse)) return undefined;
  const work = { options, inUse, tokens, countTokens, signal, traceContext, noteUsage };
  const compacted = await compactVisible(visible, work);
  return compacted && { compaction: compacted.compaction, usage: compacted.usage };
}

interface CompactionWork extends SummaryRequest {
  readonly options: CompactionOptions;
  readonly inUse: ModelInUse;
  /** Of the next request, as it would be. */
  readonly tokens: number;
  readonly countTokens: TokenCounter;
}

interface Compacted {
  readonly compaction: Compaction;
  /** Of the summarising calls. */
  readonly usage: Usage;
  /** Of the next request, as it is now. */
  readonly tokensAfter: number;
}

/** Fewer are not worth a model call. */
const leastMessages = 2;

/**
 * Sums up what is older than the newest `keepLast` messages, and of these what takes more than half of the limit. Resolves with nothing where
 * too little is older. Rejects as `summarize`.
 */
async function compactVisible(visible: VisibleHistory, work: CompactionWork): Promise<Compacted | undefined> {
  const { options, inUse, tokens, countTokens, signal, traceContext, noteUsage } = work;
  const { keepLast: maxMessages = 10 } = options;
  const limit = tokenLimit(options, inUse);
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
