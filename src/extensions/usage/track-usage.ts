import {
  addUsage,
  type Extension,
  type HookContext,
  isObject,
  type LLMCallParams,
  type LLMProvider,
  noUsage,
  type Usage,
} from '../../core/contracts/index.ts';
import type { TurnIdentity } from '../../core/journal/index.ts';
import { aFunction, assertOptions } from '../../options/option-rules.ts';
import { callCost, type PriceList } from '../../providers/models/model-info.ts';
import { aPriceList } from '../limits/broken-limit.ts';
import { aroundCalls, type CallEnd, watchCall } from './around-calls.ts';

/** The usage of the calls of one model. */
export interface ModelUsage extends Usage {
  /** Including failed and aborted calls. */
  readonly calls: number;
}

/** The usage of a turn's model calls, by the name of the model; `unknown` if it is not reported. */
export type UsageByModel = Readonly<Record<string, ModelUsage>>;

/** Options of `trackUsage`. */
export interface TrackUsageOptions {
  /** Called after each answer, and once at the end of the turn. Default: none. */
  readonly onUsage?:
    | ((usage: UsageByModel, turn: Pick<TurnIdentity, 'taskId' | 'contextId' | 'agentId'>) => void)
    | undefined;
  /** Prices of models, for calls whose cost the provider does not report. Such as a `ModelRegistry`. Default: no `cost` for them. */
  readonly prices?: PriceList | undefined;
}

const name = 'usage';

/**
 * Sums up the usage of a turn's model calls as their providers report it, by model, and journals it: see `usageByModel`. Failed and aborted calls
 * are in `calls`; those of a crashed process are unknown. The call in which a turn failed or was cancelled
 * is passed to `onUsage`; in the journal it is only in the turn's usage, as is a call that a shutdown interrupted. Errors: `INVALID_CONFIG`, naming the option.
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
          calls.add(state.turn, { usage: end.usage ?? noUsage, model: modelOf(end, params, provider) });
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

/** The journaled usage of a turn's calls, if `trackUsage` was active. */
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
  return addUsage(noUsage, usage);
}

function knownUsage(data: unknown): UsageByModel {
  return isUsageByModel(data) ? data : {};
}

function isUsageByModel(data: unknown): data is UsageByModel {
  return isObject(data);
}

/** The calls of each turn that no record contains yet. */
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
