import type { Context } from '@opentelemetry/api';
import {
  AgentLoopError,
  addUsage,
  type FailedCall,
  type FailureChange,
  type LLMCallParams,
  noUsage,
} from '../contracts/index.ts';
import { askHooks } from '../hooks/ask-hooks.ts';
import { draftPlace } from '../hooks/hook-context.ts';
import { CommitDraft, type LoopState } from '../journal/index.ts';
import type { ModelCallDeps } from './open-model-call.ts';
import { estimatePromptTokens } from './usage.ts';

/** What the extensions say of a failed model call. */
export interface FailureAnswer {
  /** Their changes. */
  readonly draft: CommitDraft;
  readonly repeats: boolean;
  /** The error of an extension, in place of the call's. */
  readonly error?: unknown;
}

/**
 * Calls `onLLMError` of the extensions until one of them repeats the call; its record contains the usage of the failed call. `undefined` if the
 * error is not that of a model call, or the call is already a repetition. Synchronous if all of them are; does not throw.
 */
export function answerFailure(
  deps: ModelCallDeps,
  traceContext: Context,
): (state: LoopState, error: unknown) => FailureAnswer | Promise<FailureAnswer> | undefined {
  return (state, error) => {
    if (deps.hooks.lists.onLLMError.length === 0 || isRepetition(state)) return undefined;
    const failed = deps.openModelCall.failureBy(error);
    return failed && answer(deps, { draft: new CommitDraft(deps.node, state), traceContext }, failed);
  };
}

function isRepetition({ phase, changes, iteration }: LoopState): boolean {
  return phase !== 'llm' || changes.repeated === iteration;
}

function answer(
  deps: ModelCallDeps,
  { draft, traceContext }: { readonly draft: CommitDraft; readonly traceContext: Context },
  failed: FailedCall,
): FailureAnswer | Promise<FailureAnswer> {
  const { openModelCall } = deps;
  const answered = (): FailureAnswer => {
    const repeats = draft.after.changes.repeated === draft.after.iteration;
    if (repeats) openModelCall.close();
    return { draft, repeats };
  };
  const broken = (error: unknown): FailureAnswer => ({ draft, repeats: false, error });
  try {
    const place = draftPlace(draft, traceContext);
    // A repeated call is no longer open: the record of the change contains its usage.
    const change = (given: FailureChange) =>
      given.repeat === true && openModelCall.usage
        ? { ...given, usage: addUsage(given.usage ?? noUsage, openModelCall.usage) }
        : given;
    const asked = askHooks(deps, { hook: 'onLLMError', place, about: () => failed, change }, answered);
    return asked instanceof Promise ? asked.catch(broken) : asked;
  } catch (error) {
    return broken(error);
  }
}

/**
 * Adds the sizes and the cure to a `CONTEXT_OVERFLOW`: `details.estimated` and `details.estimatedTools` are estimates of the request, `limit` and
 * `used` what the server said. `isManaged`: an extension may have shortened the request already.
 */
export function withSizes(error: AgentLoopError, params: LLMCallParams, isManaged: boolean): AgentLoopError {
  if (error.code !== 'CONTEXT_OVERFLOW' || error.details?.['estimated'] !== undefined) return error;
  const { code, message, taskId, retryAfterMs, status, reason, retryable, cause = error } = error;
  const estimated = estimatePromptTokens(params);
  const estimatedTools = estimatePromptTokens({ ...params, messages: [] });
  const details = { ...error.details, estimated, estimatedTools };
  const sentence = `${message.replace(/\.$/, '')}; ${sizesIn(details)}; ${isManaged ? managedCure : cure}.`;
  return new AgentLoopError(code, sentence, { taskId, retryAfterMs, status, reason, retryable, details, cause });
}

const cure =
  'turn on contextManagement, choose a model with a larger context window, or shorten the messages and the tools';
const managedCure =
  'it cannot be compacted further: choose a model with a larger context window, or shorten the newest messages, the system prompt or the tools';

interface Sizes {
  readonly limit?: unknown;
  readonly used?: unknown;
  readonly estimated: number;
  readonly estimatedTools: number;
}

function sizesIn({ limit, used, estimated, estimatedTools }: Sizes): string {
  const ofTools = estimatedTools > 0 ? `, ${estimatedTools} of them for tools` : '';
  const counted = typeof used === 'number' ? `, the server counted ${used}` : '';
  const window = typeof limit === 'number' ? `, its limit is ${limit}` : '';
  return `the request has about ${estimated} tokens (estimate${ofTools})${counted}${window}`;
}
