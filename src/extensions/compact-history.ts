import {
  type AgentEvent,
  addUsage,
  type Extension,
  type ExtensionEvent,
  type HookContext,
  type IterationChange,
  type IterationStep,
  type IterationView,
  noUsage,
  type TurnChange,
  type Usage,
} from '../core/contracts/index.ts';
import type { LoopState, TurnIdentity } from '../core/journal/index.ts';
import { estimateTokens } from '../core/model-call/index.ts';
import { compactVisible } from './context/compact-visible.ts';
import { assertCompactionOptions, type CompactionOptions } from './context/compaction-options.ts';
import { type ModelInUse, tokenLimit } from './context/context-limits.ts';
import { headAndTail } from './context/head-and-tail.ts';
import {
  behindCompaction,
  type Compaction,
  compactionName,
  isCompaction,
  summaryMessage,
} from './context/summary-message.ts';
import { TurnTokens } from './context/turn-tokens.ts';
import { messageTokens, requestOverhead } from './context/view-tokens.ts';
import { VisibleHistory } from './context/visible-history.ts';

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
  const at = behindCompaction(messages, history, compaction);
  return at < 0 ? {} : { view: { messages: [summaryMessage(compaction), ...messages.slice(at)] } };
}
