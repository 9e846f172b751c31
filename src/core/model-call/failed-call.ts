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
import { DraftPlace } from '../hooks/hook-context.ts';
import { recordOfChange, usageRecord } from '../hooks/record-of-change.ts';
import { CommitDraft, type LoopState } from '../journal/index.ts';
import { estimatePromptTokens, type ModelCallDeps } from './usage.ts';

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
    const failed = deps.openCall.failureBy(error);
    return failed && new Asking(deps, state, traceContext).ask(failed);
  };
}

function isRepetition({ phase, changes, iteration }: LoopState): boolean {
  return phase !== 'llm' || changes.repeated === iteration;
}

class Asking {
  readonly #deps: ModelCallDeps;
  readonly #draft: CommitDraft;
  readonly #traceContext: Context;
  #repeats = false;

  constructor(deps: ModelCallDeps, state: LoopState, traceContext: Context) {
    this.#deps = deps;
    this.#draft = new CommitDraft(deps, state);
    this.#traceContext = traceContext;
  }

  ask(failed: FailedCall): FailureAnswer | Promise<FailureAnswer> {
    const hook = 'onLLMError';
    try {
      const asked = askHooks(this.#deps, {
        hook,
        place: new DraftPlace(this.#draft, this.#traceContext),
        about: () => failed,
        take: (change, { name }, { childUsage: used }) => {
          const state = this.#draft.after;
          const record = recordOfChange(this.#counted(change), { deps: this.#deps, state, name, hook, used });
          if (record) this.#draft.add(record);
          this.#repeats = change.repeat === true;
          if (this.#repeats) this.#deps.openCall.close();
          return !this.#repeats;
        },
        count: (used, { name }) => this.#draft.add(usageRecord(used, { name, hook })),
      });
      return asked instanceof Promise ? asked.then(() => this.#answer(), this.#failed) : this.#answer();
    } catch (error) {
      return this.#failed(error);
    }
  }

  /** A repeated call is no longer open: the record of the change contains its usage. */
  #counted(change: FailureChange): Omit<FailureChange, 'fail'> {
    const { fail: _, ...kept } = change;
    const { usage } = this.#deps.openCall;
    return kept.repeat === true && usage ? { ...kept, usage: addUsage(kept.usage ?? noUsage, usage) } : kept;
  }

  #answer(): FailureAnswer {
    return { draft: this.#draft, repeats: this.#repeats };
  }

  readonly #failed = (error: unknown): FailureAnswer => ({ draft: this.#draft, repeats: false, error });
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
