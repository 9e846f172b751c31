import { map, Observable } from 'rxjs';
import {
  AgentLoopError,
  type AgentUsage,
  type CallChange,
  type Clock,
  type Extension,
  type HookContext,
  type IterationChange,
  type LLMResponse,
  type ResponseChange,
  restOf,
  type ToolCallChange,
  type ToolCallRequest,
  type TreeUsage,
  type Usage,
} from '../../core/contracts/index.ts';
import { GrowingText, type LoopState, type TurnIdentity } from '../../core/journal/index.ts';
import { after } from '../../core/streams/index.ts';
import { assertOptions, milliseconds, wholeNumber, wrongOption } from '../../options/option-rules.ts';
import { callCost, dollars, type PriceList } from '../../providers/models/model-info.ts';
import { type AroundCall, aroundCalls, pricedModel } from '../usage/around-calls.ts';
import { estimatedUsage, meterCall } from '../usage/estimated-usage.ts';
import {
  aPriceList,
  aReaction,
  type BrokenLimit,
  brokenLimit,
  brokenUsage,
  deadlineOf,
  type LimitValues,
  outOfTime,
  someDollars,
  tooManyCalls,
} from './broken-limit.ts';

/** Options of `limits`: the limits, and the reaction to reaching one. */
export interface LimitsOptions extends LimitValues {
  /** `'fail'` (default): the turn fails with `LIMIT`. `'stop'`: it completes with the text so far. The reason names the limit. */
  readonly onLimit?: 'fail' | 'stop' | undefined;
  /** Prices of models, for `maxCost`, if the provider does not report the cost of a call. Such as a `ModelRegistry`. */
  readonly prices?: PriceList | undefined;
}

const limitsName = 'limits';

/**
 * Limits the usage of a turn, checked before each model call and each tool call; a call that started within a limit on tokens or
 * cost may exceed it. Each limit has its own reason: `max_wall_time`, `max_tool_calls`, `max_tokens`, `max_cost`, `max_context`,
 * `max_failures`, `repeated_call`.
 *
 * At the end of the wall time a running model call and running tools are aborted: the results are `TOOL_TIMEOUT`. The
 * limits apply to the whole turn, resumed or not: they count the journal. Tokens and cost are those of the turn and its child turns:
 * if these reach a limit, they are cancelled, and the turn fails. Put it after extensions that change the model's
 * input or provider. Errors: `INVALID_CONFIG`, naming the option; a turn with `maxCost` fails with it if the cost of a call is
 * unknown.
 */
export function limits(options: LimitsOptions): Extension {
  checkOptions(options);
  const { maxWallTimeMs, maxToolCalls, maxTokens, maxCost } = options;
  const asked: AskedModels = new WeakMap();
  return {
    name: limitsName,
    prepareIteration: (view, { state, clock, data }) => {
      const cost = dollars(costIn(data) + costBelow(options, state.childUsage));
      const broken = brokenLimit(options, { state, view, now: clock.now(), cost });
      return broken && reaction(options, broken);
    },
    ...((maxTokens ?? maxCost) !== undefined && {
      limitUsage: (used) => {
        const broken = brokenUsage(options, used.usage, costOf(options, used));
        const { onLimit = 'fail' } = options;
        return broken && { code: 'LIMIT', ...broken, fails: onLimit === 'fail' };
      },
    }),
    ...((maxTokens ?? maxWallTimeMs ?? maxCost) !== undefined && {
      beforeLLMCall: (_, context) => limitedCall(options, context, asked),
    }),
    ...(maxWallTimeMs !== undefined && {
      beforeFinish: ({ state }) => {
        const reason = state.lastResponse?.message.metadata?.['cutShort'];
        return reason === 'max_wall_time' && !state.changes.finish ? { finish: { reason } } : undefined;
      },
    }),
    ...(maxCost !== undefined && {
      afterLLMCall: (response, context) => countedCost(options, response, { context, asked }),
    }),
    ...((maxToolCalls ?? maxWallTimeMs) !== undefined && {
      beforeToolCall: (request) => limitedTool(options, request),
    }),
  };
}

function checkOptions(options: LimitsOptions): void {
  assertOptions('limits', options, {
    maxWallTimeMs: milliseconds(1),
    maxToolCalls: wholeNumber(1),
    maxTokens: wholeNumber(1),
    maxContextTokens: wholeNumber(1),
    maxCost: someDollars,
    maxConsecutiveFailures: wholeNumber(1),
    maxRepeatedCalls: wholeNumber(1),
    onLimit: aReaction,
    prices: aPriceList,
  });
  const { onLimit: _, prices, ...values } = options;
  if (Object.values(values).every((value) => value === undefined)) throw wrongOption('limits', 'no limit is given');
  if (prices && options.maxCost === undefined)
    throw wrongOption('limits', 'prices are only used with maxCost; set it too');
}

function reaction({ onLimit = 'fail' }: LimitsOptions, broken: BrokenLimit): IterationChange {
  return onLimit === 'stop' ? { finish: { reason: broken.reason } } : { fail: { code: 'LIMIT', ...broken } };
}

/** The model of each turn's last call, in the process that prices its answer. */
type AskedModels = WeakMap<TurnIdentity, string | undefined>;

function limitedCall(options: LimitsOptions, { provider, clock, state }: HookContext, asked: AskedModels): CallChange {
  const { maxTokens, maxWallTimeMs, maxCost, onLimit = 'fail' } = options;
  const noting: AroundCall = (chunks, params, reported) => {
    asked.set(state.turn, params.model ?? provider.info?.model);
    return metered(maxTokens !== undefined)(chunks, params, reported);
  };
  const counted = (maxTokens ?? maxCost) === undefined ? provider : aroundCalls(provider, noting);
  if (maxWallTimeMs === undefined) return { provider: counted };
  const deadline = { clock, at: deadlineOf(options, state), broken: outOfTime(options), onLimit };
  return { provider: aroundCalls(counted, untilDeadline(deadline)) };
}

/**
 * Adds an estimate of the requests without an answer whose usage the vendor does not report; with `ofAnswers` also of an answer:
 * otherwise no limit on tokens would be reached.
 */
function metered(ofAnswers: boolean): AroundCall {
  return (chunks, params, reported) => {
    let known: Usage | undefined;
    const ended = meterCall((end, usage) => {
      known = usage;
      if (end.type === 'done' || usage === end.usage) return;
      const { completionTokens = 0 } = end.usage ?? {};
      params.noteUsage?.(end.usage ? estimatedUsage(0, usage.completionTokens - completionTokens) : usage);
    })(chunks, params, reported);
    return ended.pipe(
      map((chunk) => {
        if (chunk.type !== 'done' || !known || !(ofAnswers || chunk.response.usage)) return chunk;
        return { type: 'done', response: { ...chunk.response, usage: known } };
      }),
    );
  };
}

function limitedTool(options: LimitsOptions, { state, callId, clock }: ToolCallRequest): ToolCallChange {
  const deadline = deadlineOf(options, state);
  const broken = brokenByCall(options, { state, callId, outOfTime: clock.now() >= deadline });
  if (!broken) return Number.isFinite(deadline) ? { deadline } : {};
  return options.onLimit === 'stop' ? { deny: `skipped: ${broken.message}` } : { fail: { code: 'LIMIT', ...broken } };
}

interface PlannedCall {
  readonly state: LoopState;
  readonly callId: string;
  readonly outOfTime: boolean;
}

function brokenByCall(options: LimitsOptions, call: PlannedCall): BrokenLimit | undefined {
  if (call.outOfTime) return outOfTime(options);
  const { maxToolCalls = Number.POSITIVE_INFINITY } = options;
  return numberOf(call) > maxToolCalls ? tooManyCalls(options) : undefined;
}

/** Counted from 1, in call order, over the whole turn. */
function numberOf({ state, callId }: PlannedCall): number {
  const { pendingToolCalls, toolCalls } = state;
  const ended = pendingToolCalls.filter(({ result }) => result).length;
  return (
    toolCalls -
    (state.turn.retried?.toolCalls ?? 0) -
    ended +
    pendingToolCalls.findIndex((pending) => pending.callId === callId) +
    1
  );
}

function countedCost(
  { prices }: LimitsOptions,
  response: LLMResponse,
  { context, asked }: { readonly context: HookContext; readonly asked: AskedModels },
): ResponseChange {
  const { data, state, provider } = context;
  const { model: answered, usage } = response;
  const model = pricedModel({ answered, asked: asked.get(state.turn) ?? provider.info?.model }, prices);
  const cost = usage && callCost(usage, { model, prices });
  if (cost !== undefined) return { data: { cost: dollars(costIn(data) + cost) } };
  const [what, cure] = usage
    ? [`the price of ${model === undefined ? 'its model' : `"${model}"`}`, 'set prices of limits']
    : ['the usage of a model call', 'use a provider that reports usage'];
  const message = `The turn has a maxCost, and ${what} is not known; ${cure}, or omit maxCost.`;
  return { fail: { code: 'INVALID_CONFIG', message } };
}

/** US dollars of a turn and its child turns. */
function costOf(options: LimitsOptions, { usageBy, state }: TreeUsage): number {
  if (options.maxCost === undefined) return 0;
  const below = restOf(usageBy, state.ownUsage);
  return dollars(costIn(state.changes.data[limitsName]) + costBelow(options, below));
}

/** US dollars of child turns, as reported by their providers, or if the prices of their models are known. */
function costBelow({ maxCost, prices }: LimitsOptions, below: readonly AgentUsage[]): number {
  if (maxCost === undefined) return 0;
  return below.reduce((sum, { usage, model }) => sum + (callCost(usage, { model, prices }) ?? 0), 0);
}

function costIn(data: unknown): number {
  const known = typeof data === 'object' && data !== null && 'cost' in data ? data.cost : 0;
  return typeof known === 'number' ? known : 0;
}

interface Deadline {
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly broken: BrokenLimit;
  readonly onLimit: 'fail' | 'stop';
}

/**
 * Aborts a model call at a deadline: it errors with `LIMIT`, or its text so far becomes the answer, marked with the reason as
 * `cutShort` in the message's metadata.
 */
function untilDeadline({ clock, at, broken, onLimit }: Deadline): AroundCall {
  return (chunks) =>
    new Observable((to) => {
      const said = new GrowingText();
      const source = chunks.subscribe({
        next: (chunk) => {
          if (chunk.type === 'attempt') said.clear();
          else if (chunk.type === 'text') said.add(chunk.text);
          to.next(chunk);
        },
        error: (error: unknown) => to.error(error),
        complete: () => to.complete(),
      });
      to.add(source);
      if (to.closed) return;
      const expire = () => {
        source.unsubscribe();
        if (onLimit === 'fail') return to.error(limitError(broken));
        to.next({ type: 'done', response: cutShort(said.toString(), broken) });
        to.complete();
      };
      to.add(after(Math.max(0, at - clock.now()), clock, expire));
    });
}

function limitError({ reason, message }: { readonly reason: string; readonly message: string }): AgentLoopError {
  return new AgentLoopError('LIMIT', message, { reason });
}

function cutShort(text: string, { reason }: BrokenLimit): LLMResponse {
  const message = { role: 'assistant' as const, content: text || null, metadata: { cutShort: reason } };
  return { message, finishReason: 'stop' };
}
