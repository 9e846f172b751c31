import { Observable, type Subscriber } from 'rxjs';
import {
  AgentLoopError,
  type LLMCallParams,
  type LLMCapabilities,
  type LLMChunk,
  type LLMProvider,
  type LLMProviderInfo,
  type LLMResponse,
} from '../core/contracts/index.ts';
import { itemsOf, type ScriptedLLMStep, type StepItem } from './llm-step.ts';

export interface ScriptedLLMOptions {
  /** False: the provider has no `stream`, only `call`. Default true. */
  readonly streaming?: boolean | undefined;
  /** `stream` answers within `subscribe`, but for promises of the step. Default false: each chunk in its own microtask. */
  readonly synchronous?: boolean | undefined;
  /** Given on as the provider's. */
  readonly capabilities?: LLMCapabilities | undefined;
  readonly info?: LLMProviderInfo | undefined;
}

export interface ScriptedLLM extends LLMProvider {
  /** What each call was asked, with the messages and tools as they were then. */
  readonly calls: readonly LLMCallParams[];
  /** Calls under way now, and the most there were at a time. */
  readonly active: number;
  readonly maxActive: number;
  /** Calls that ended because the caller left: unsubscribed or aborted before the answer was complete. */
  readonly unsubscribed: number;
  /** Throws where steps are left, or where there was a call beyond the last step. */
  assertDone(): void;
}

/**
 * A model for tests: its calls play `steps` in order. A call beyond them errors with `INVALID_CONFIG`, which no policy
 * retries, and `assertDone` reports it even where the error was swallowed. Keeps what it was asked, so memory grows with
 * the calls.
 */
export function scriptedLLM(steps: readonly ScriptedLLMStep[], options: ScriptedLLMOptions = {}): ScriptedLLM {
  const calls: LLMCallParams[] = [];
  let active = 0;
  let maxActive = 0;
  let unsubscribed = 0;

  const nextItems = (params: LLMCallParams): readonly StepItem[] => {
    calls.push(snapshotOf(params));
    const step = steps[calls.length - 1];
    if (step === undefined) throw unexpectedCall(calls.length, steps.length);
    return itemsOf(typeof step === 'function' ? step(params) : step, calls.length);
  };

  const answer = (params: LLMCallParams, synchronous: boolean): Observable<LLMChunk> =>
    new Observable((subscriber) => {
      const progress = { ended: false };
      active += 1;
      maxActive = Math.max(maxActive, active);
      subscriber.add(() => {
        active -= 1;
        if (!progress.ended) unsubscribed += 1;
      });
      try {
        play(nextItems(params), { subscriber, progress, synchronous });
      } catch (error) {
        progress.ended = true;
        subscriber.error(error);
      }
    });

  return {
    ...(options.capabilities && { capabilities: options.capabilities }),
    ...(options.info && { info: options.info }),
    call: (params) => responseOf(answer(params, false), params.signal),
    ...(options.streaming !== false && {
      stream: (params: LLMCallParams) => answer(params, options.synchronous === true),
    }),
    calls,
    get active() {
      return active;
    },
    get maxActive() {
      return maxActive;
    },
    get unsubscribed() {
      return unsubscribed;
    },
    assertDone() {
      if (calls.length > steps.length) throw unexpectedCall(calls.length, steps.length);
      if (calls.length < steps.length) throw unusedSteps(calls.length, steps.length);
    },
  };
}

interface Playback {
  readonly subscriber: Subscriber<LLMChunk>;
  readonly progress: { ended: boolean };
  readonly synchronous: boolean;
}

function play(items: readonly StepItem[], { subscriber, progress, synchronous }: Playback): void {
  let index = 0;
  const fail = (error: unknown): void => {
    progress.ended = true;
    subscriber.error(error);
  };
  const goOn = (): void => {
    while (!subscriber.closed) {
      const item = items[index++];
      if (item !== undefined && 'then' in item) {
        item.then(goOn, fail);
        return;
      }
      if (item === undefined) subscriber.complete();
      else if (item.type === 'error') fail(item.error);
      else if (item.type === 'never') return;
      else {
        progress.ended = item.type === 'done';
        subscriber.next(item);
      }
      if (!synchronous) {
        queueMicrotask(goOn);
        return;
      }
    }
  };
  if (synchronous) goOn();
  else queueMicrotask(goOn);
}

function responseOf(source: Observable<LLMChunk>, signal: AbortSignal | undefined): Promise<LLMResponse> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    let settle = (): void => undefined;
    const subscription = source.subscribe({
      next: (chunk) => {
        if (chunk.type === 'done') settle = () => resolve(chunk.response);
      },
      error: reject,
      complete: () => settle(),
    });
    const abort = (): void => {
      subscription.unsubscribe();
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', abort, { once: true });
    subscription.add(() => signal?.removeEventListener('abort', abort));
  });
}

/** Without reading `signal`, which is made when it is first read. */
function snapshotOf(params: LLMCallParams): LLMCallParams {
  const { messages, tools, model, toolChoice, temperature, maxTokens, metadata, traceContext } = params;
  const { responseFormat, providerOptions } = params;
  const copy: LLMCallParams = {
    messages: [...messages],
    ...(tools && { tools: [...tools] }),
    ...(model !== undefined && { model }),
    ...(toolChoice !== undefined && { toolChoice }),
    ...(responseFormat !== undefined && { responseFormat }),
    ...(providerOptions !== undefined && { providerOptions }),
    ...(temperature !== undefined && { temperature }),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(metadata && { metadata }),
    ...(traceContext && { traceContext }),
  };
  return Object.defineProperty(copy, 'signal', { get: () => params.signal, enumerable: false });
}

function unexpectedCall(calls: number, steps: number): AgentLoopError {
  return new AgentLoopError(
    'INVALID_CONFIG',
    `The scripted model was called ${calls} times but has ${steps} steps; add a step, or find out who calls.`,
  );
}

function unusedSteps(calls: number, steps: number): AgentLoopError {
  return new AgentLoopError(
    'INVALID_CONFIG',
    `The scripted model was called ${calls} times but has ${steps} steps; take out those that are not used, or find out why the turn ended early.`,
  );
}
