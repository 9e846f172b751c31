import { Observable, type Subscriber } from 'rxjs';
import {
  AgentLoopError,
  type AssistantMessage,
  type CallSettings,
  copySettings,
  type FinishReason,
  type LLMCallParams,
  type LLMCapabilities,
  type LLMChunk,
  type LLMProvider,
  type LLMProviderInfo,
  type LLMResponse,
  type ToolCall,
  type Usage,
} from '../core/contracts/index.ts';
import { onAbort } from '../core/streams/index.ts';
import { assertKnownOptions, type OptionNames } from '../options/option-rules.ts';

/** A tool call that a step of the script asks for. */
export interface LLMStepCall {
  readonly name: string;
  /** An object, sent as JSON; a string, sent unchanged; or fragments of a string, streamed one by one. Default `{}`. */
  readonly arguments?: object | string | readonly string[];
  /** Default `call_<n>_<index>`, n counting the model calls from 1. */
  readonly id?: string;
}

/** What the model does in one call, in the order of the members. */
export interface LLMStep {
  /** Waited for before anything else; a rejection is the call's error. */
  readonly gate?: Promise<unknown>;
  /** Streamed before the text. */
  readonly reasoning?: string;
  /** One text, or several chunks. A promise among them is waited for at its place; its value is not used. */
  readonly text?: string | readonly (string | Promise<unknown>)[];
  readonly toolCalls?: readonly LLMStepCall[];
  /** Errors with this after what was streamed, instead of answering. */
  readonly error?: unknown;
  /** Stays silent after what was streamed, until unsubscribed or aborted. Default false. */
  readonly never?: boolean;
  /** Absent: the loop decides, by whether there are tool calls. */
  readonly finishReason?: FinishReason;
  readonly usage?: Usage;
}

/** A step, or a function that looks at the request and gives one. What it throws is the call's error. */
export type ScriptedLLMStep = LLMStep | ((params: LLMCallParams) => LLMStep);

const stepNames: OptionNames<LLMStep> = {
  gate: true,
  reasoning: true,
  text: true,
  toolCalls: true,
  error: true,
  never: true,
  finishReason: true,
  usage: true,
};
const callNames: OptionNames<LLMStepCall> = { name: true, arguments: true, id: true };

function checkStep(step: LLMStep, number: number): void {
  assertKnownOptions(`step ${number} of scriptedLLM`, step, stepNames);
  for (const call of step.toolCalls ?? []) assertKnownOptions(`a tool call of step ${number}`, call, callNames);
}

/** What a step comes to: chunks to emit, promises to wait for, and how it ends. */
type StepItem =
  | LLMChunk
  | Promise<unknown>
  | { readonly type: 'error'; readonly error: unknown }
  | { readonly type: 'never' };

/** The items of one step; `callNumber` is the number of the model call from 1. */
function itemsOf(step: LLMStep, callNumber: number): readonly StepItem[] {
  checkStep(step, callNumber);
  const items: StepItem[] = [];
  if (step.gate !== undefined) items.push(step.gate);
  if (step.reasoning !== undefined) items.push({ type: 'reasoning', text: step.reasoning });
  for (const piece of piecesOf(step.text))
    items.push(typeof piece === 'string' ? { type: 'text', text: piece } : piece);
  for (const [index, call] of (step.toolCalls ?? []).entries()) items.push(...fragmentsOf(call, index, callNumber));
  if (step.error !== undefined) items.push({ type: 'error', error: step.error });
  else if (step.never === true) items.push({ type: 'never' });
  else items.push({ type: 'done', response: stepResponse(step, callNumber) });
  return items;
}

function piecesOf(text: LLMStep['text']): readonly (string | Promise<unknown>)[] {
  if (text === undefined) return [];
  return typeof text === 'string' ? [text] : text;
}

function argumentPieces(call: LLMStepCall): readonly string[] {
  if (typeof call.arguments === 'string') return [call.arguments];
  if (Array.isArray(call.arguments)) return call.arguments;
  return [JSON.stringify(call.arguments ?? {})];
}

function idOf(call: LLMStepCall, index: number, callNumber: number): string {
  return call.id ?? `call_${callNumber}_${index}`;
}

function fragmentsOf(call: LLMStepCall, index: number, callNumber: number): readonly LLMChunk[] {
  const [first = '', ...rest] = argumentPieces(call);
  return [
    { type: 'tool-call', index, id: idOf(call, index, callNumber), name: call.name, arguments: first },
    ...rest.map((fragment): LLMChunk => ({ type: 'tool-call', index, arguments: fragment })),
  ];
}

function stepResponse(step: LLMStep, callNumber: number): LLMResponse {
  const text = piecesOf(step.text).filter((piece) => typeof piece === 'string');
  const toolCalls = step.toolCalls?.map(
    (call, index): ToolCall => ({
      id: idOf(call, index, callNumber),
      type: 'function',
      function: { name: call.name, arguments: argumentPieces(call).join('') },
    }),
  );
  const message: AssistantMessage = {
    role: 'assistant',
    content: text.length === 0 ? null : text.join(''),
    ...(toolCalls && { toolCalls }),
    ...(step.reasoning !== undefined && { reasoning: step.reasoning }),
  };
  return {
    message,
    ...(step.finishReason && { finishReason: step.finishReason }),
    ...(step.usage && { usage: step.usage }),
  };
}

/** Options of `scriptedLLM`. */
export interface ScriptedLLMOptions {
  /** False: the provider has no `stream`, only `call`. Default true. */
  readonly streaming?: boolean | undefined;
  /** `stream` answers within `subscribe`, but for promises of the step. Default false: each chunk in its own microtask. */
  readonly synchronous?: boolean | undefined;
  /** Given on as the provider's. */
  readonly capabilities?: LLMCapabilities | undefined;
  /** Given on as the provider's. */
  readonly info?: LLMProviderInfo | undefined;
}

const optionNames: OptionNames<ScriptedLLMOptions> = {
  streaming: true,
  synchronous: true,
  capabilities: true,
  info: true,
};

/** A provider that answers from a script, and fails on a call that the script does not have. */
export interface ScriptedLLM extends LLMProvider {
  /** What each call was asked, with the messages and tools as they were then. */
  readonly calls: readonly LLMCallParams[];
  /** Calls under way now, and the most there were at a time. */
  readonly active: number;
  /** The most calls that were under way at a time. */
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
  assertKnownOptions('scriptedLLM', options, optionNames);
  for (const [index, step] of steps.entries()) if (typeof step !== 'function') checkStep(step, index + 1);
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
  const emitNext = (): void => {
    while (!subscriber.closed) {
      const item = items[index++];
      if (item !== undefined && 'then' in item) {
        item.then(emitNext, fail);
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
        queueMicrotask(emitNext);
        return;
      }
    }
  };
  if (synchronous) emitNext();
  else queueMicrotask(emitNext);
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
    if (signal) subscription.add(onAbort(signal, abort));
  });
}

/** Without reading `signal`, which is made when it is first read. */
function snapshotOf(params: LLMCallParams): LLMCallParams {
  const { messages, tools, metadata, traceContext } = params;
  const settings: CallSettings = {};
  copySettings(settings, params);
  const copy: LLMCallParams = {
    messages: [...messages],
    ...(tools && { tools: [...tools] }),
    ...settings,
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
    `The scripted model was called ${calls} times but has ${steps} steps; remove the unused steps, or find out why the turn ended early.`,
  );
}
