import {
  addUsage,
  type Extension,
  type HookContext,
  isObject,
  type LLMCallParams,
  type LLMProvider,
  type Usage,
} from '../../core/contracts/index.ts';
import type { TurnIdentity } from '../../core/journal/index.ts';
import { aFunction, assertOptions } from '../../core/options/index.ts';
import { callCost, type PriceList } from '../../providers/models/model-info.ts';
import { aPriceList } from '../limits/broken-limit.ts';
import { aroundCalls, type CallEnd, watchCall } from './around-calls.ts';

/** What the calls of one model took. */
export interface ModelUsage extends Usage {
  /** Also those that failed or were left. */
  readonly calls: number;
}

/** What the model calls of a turn took, by the name of the model; `unknown` where nobody says it. */
export type UsageByModel = Readonly<Record<string, ModelUsage>>;

/** Options of `trackUsage`. */
export interface TrackUsageOptions {
  /** Told behind each answer, and once at the end of the turn. Default: nobody is. */
  readonly onUsage?:
    | ((usage: UsageByModel, turn: Pick<TurnIdentity, 'taskId' | 'contextId' | 'agentId'>) => void)
    | undefined;
  /** What models cost, for calls of which the provider does not say it. Such as a `ModelRegistry`. Default: no `cost` for them. */
  readonly prices?: PriceList | undefined;
}

const name = 'usage';

/**
 * Sums up what the model calls of a turn took, by model, and keeps it in the journal: see `usageByModel`. Calls that failed or were left are
 * counted with an estimate, and `estimated` says so; those of a process that died are not known. The one that a turn failed or was cancelled
 * in is passed to `onUsage`; in the journal it is only in the turn's usage, as is the one that a shutdown interrupted. Errors: `INVALID_CONFIG`, naming the option.
 */
export function trackUsage(options: TrackUsageOptions = {}): Extension {
  assertOptions('trackUsage', options, { onUsage: aFunction, prices: aPriceList });
  const calls = new UncountedCalls();
  const tell = (usage: UsageByModel, { state }: HookContext) => options.onUsage?.(usage, state.turn);
  const counted = ({ state, data }: HookContext) => calls.take(state.turn).reduce(adding(options), knownUsage(data));
  return {
    name,
    beforeLLMCall: (_, { provider, state }) => ({
      provider: aroundCalls(provider, (chunks, params, reported) => {
        const note = (end: CallEnd) =>
          calls.add(state.turn, { usage: end.usage, model: modelOf(end, params, provider) });
        return watchCall(note)(chunks, params, reported);
      }),
    }),
    afterLLMCall(_, context) {
      const usage = counted(context);
      tell(usage, context);
      return { data: usage };
    },
    afterTurn(end) {
      tell(counted(end), end);
    },
  };
}

/** What the journal says that the calls of a turn took, where `trackUsage` is there. */
export function usageByModel(state: {
  readonly changes: { readonly data: Readonly<Record<string, unknown>> };
}): UsageByModel {
  return knownUsage(state.changes.data[name]);
}

interface CountedCall {
  readonly usage: Usage;
  readonly model: string | undefined;
}

function modelOf(end: CallEnd, params: LLMCallParams, { info }: LLMProvider): string | undefined {
  return (end.type === 'done' ? end.response.model : undefined) ?? params.model ?? info?.model;
}

function adding({ prices }: TrackUsageOptions): (sum: UsageByModel, call: CountedCall) => UsageByModel {
  return (sum, { usage, model }) => {
    const cost = callCost(usage, { model, prices });
    const priced = cost === undefined ? usage : { ...whole(usage), cost };
    const key = model ?? 'unknown';
    const before = sum[key];
    const after = before ? addUsage(before, priced) : whole(priced);
    return { ...sum, [key]: { ...after, calls: (before?.calls ?? 0) + 1 } };
  };
}

function whole(usage: Usage): Usage {
  return addUsage({ promptTokens: 0, completionTokens: 0, totalTokens: 0 }, usage);
}

function knownUsage(data: unknown): UsageByModel {
  return isUsageByModel(data) ? data : {};
}

function isUsageByModel(data: unknown): data is UsageByModel {
  return isObject(data);
}

/** The calls of each turn that no record tells of yet. */
class UncountedCalls {
  readonly #calls = new WeakMap<TurnIdentity, readonly CountedCall[]>();

  add(turn: TurnIdentity, call: CountedCall): void {
    this.#calls.set(turn, [...(this.#calls.get(turn) ?? []), call]);
  }

  take(turn: TurnIdentity): readonly CountedCall[] {
    const calls = this.#calls.get(turn) ?? [];
    this.#calls.delete(turn);
    return calls;
  }
}
