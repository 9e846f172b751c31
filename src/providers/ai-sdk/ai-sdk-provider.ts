import { context, propagation } from '@opentelemetry/api';
import type { Observable } from 'rxjs';
import {
  AgentLoopError,
  type LLMCallParams,
  type LLMCapabilities,
  type LLMChunk,
  type LLMProvider,
  type LLMProviderInfo,
  type LLMResponse,
} from '../../core/contracts/index.ts';
import { type Exchange, FittedExchange, type RequestScope } from '../fitted-exchange.ts';
import { originOf } from '../model-origin.ts';
import { RequestWatch } from '../openai-wire/request-watch.ts';
import {
  type Cures,
  isJsonObject,
  type ModelServer,
  modelServer,
  protocolError,
  vendorError,
} from '../openai-wire/wire-errors.ts';
import { reasonsBy } from '../profiles.ts';
import { failureIn } from '../read-failure.ts';
import { type AISDKProviderOptions, type AISDKSettings, aiSdkSettings, assertModel } from './ai-sdk-options.ts';
import { asV3 } from './model-interface.ts';
import { SdkAnswer } from './sdk-answer.ts';
import { sdkCures, sdkError } from './sdk-errors.ts';
import type { SdkCallOptions, SdkContent, SdkModel, SdkStreamPart } from './sdk-model.ts';
import { type CallTarget, sdkCallOptions } from './sdk-prompt.ts';

/** How long the end of the body may come after the end of the answer. */
const endGraceMs = 500;

/** How often one answer may pause for tools of the vendor. */
const mostPauses = 10;

/**
 * Any language model of the AI SDK (interface v3 or v4): Anthropic, Google, OpenAI, Bedrock and the rest, each in its vendor's own wire.
 *
 * `call` and `stream` give the same response for the same answer. Each call, and each subscription to what `stream` gives, is one
 * request, and one more each time that the vendor pauses for tools of its own (`pause_turn`, 10 times at most), with the answer so far; the usage is that
 * of all. Nothing is retried here, policies do that. The chunks are those of {@link LLMChunk}, the `done` of the whole response
 * last. What a vendor wants back to the letter (signatures, redacted thinking, results of its own tools) is kept in the metadata of the message, so
 * that it survives the journal, and goes back to the same vendor only. Every failure is an `AgentLoopError` with a `PROVIDER_…` code, `INVALID_INPUT`
 * for a message that has no form there, or `CANCELED` where `params.signal` was aborted. Unsubscribing and aborting close the connection at once.
 * Memory: the answer; the limits of sizes and times are those of each request.
 *
 * Source: the language model specifications v3 and v4 of `@ai-sdk/provider`. Files are not downloaded: a picture by address is the vendor's to fetch or to refuse.
 */
export class AISDKProvider implements LLMProvider {
  readonly capabilities: LLMCapabilities;
  readonly info: LLMProviderInfo;
  readonly #options: AISDKProviderOptions;
  readonly #settings: AISDKSettings;
  readonly #fitted = new FittedExchange();

  constructor(options: AISDKProviderOptions) {
    this.#options = options;
    this.#settings = aiSdkSettings(options);
    this.capabilities = this.#settings.capabilities;
    this.info = this.#settings.info;
  }

  async call(params: LLMCallParams): Promise<LLMResponse> {
    return this.#fitted.call(this.#exchange(params, false));
  }

  stream(params: LLMCallParams): Observable<LLMChunk> {
    return this.#fitted.stream(this.#exchange(params, true));
  }

  #exchange(params: LLMCallParams, streaming: boolean): Exchange {
    const { capabilities, profileOf } = this.#settings;
    const model = this.#modelOf(params.model);
    const target = this.#targetOf(model);
    const options = {
      profile: profileOf(model.modelId),
      origin: target.origin,
      tools: capabilities.tools !== false,
      toolChoice: capabilities.toolChoice !== false,
      reasons: this.#reasons(params, target),
    };
    const call = { params, streaming, model, target };
    return { params, options, request: (scope) => this.#request(call, scope) };
  }

  /** Whether the options for the vendor make the model reason; `undefined` where they do not say. */
  #reasons({ providerOptions }: LLMCallParams, { model }: CallTarget): boolean | undefined {
    const given = [this.#settings.form.providerOptions(model), providerOptions].flatMap((options) =>
      Object.values(options ?? {}).filter(isJsonObject),
    );
    return reasonsBy(Object.assign({}, ...given));
  }

  /** An answer and its requests, one and one more for each pause: the chunks of each part of the stream that has any, then `done`. */
  async *#request(
    { params, streaming, model, target }: SdkCall,
    { next, usage, unsubscribed }: RequestScope,
  ): AsyncGenerator<readonly LLMChunk[]> {
    const { clock, limits, form } = this.#settings;
    const server = this.#serverOf(model);
    const signals = [params.signal, unsubscribed].filter((signal) => signal !== undefined);
    const chunks: LLMChunk[] = [];
    let fitted = next();
    const { nameOf } = fitted;
    const answer = new SdkAnswer({ server, origin: target, nameOf, usage, emit: (chunk) => chunks.push(chunk) });
    for (let pauses = 0; ; pauses++) {
      const options = sdkCallOptions(fitted, form, target);
      const watch = new RequestWatch({ server, limits, clock, signals });
      try {
        if (watch.failure !== undefined) throw watch.failure;
        const request = { ...options, ...this.#headers(params), abortSignal: watch.signal };
        const asked = { model, request, params, watch, answer, server };
        if (!streaming) await this.#generate(asked);
        else {
          for await (const part of await this.#open(asked)) {
            this.#take(part, asked);
            if (chunks.length > 0) yield chunks.splice(0);
          }
          if (watch.failure !== undefined) throw watch.failure;
          watch.complete();
        }
      } catch (thrown) {
        // The end of a connection no longer matters once the model has said that it is done.
        if (watch.canceled || !answer.finished) throw watch.failure ?? sdkError(server, thrown, clock.now());
      } finally {
        watch.close();
      }
      if (!answer.paused || pauses === mostPauses) break;
      fitted = next([...params.messages, answer.continued()]);
    }
    yield [{ type: 'done', response: answer.response() }];
  }

  /** The parts of a streamed answer. Raw chunks are asked for because they say that the vendor is not silent. */
  async #open({ model, request, params, watch, server }: SdkRequest): Promise<AsyncIterable<SdkStreamPart>> {
    const start = () => inContext(params, () => model.doStream({ ...request, includeRawChunks: true }));
    const { stream, response } = await unlessAborted(start(), watch.signal, ({ stream }) => stream.cancel());
    watch.opened();
    assertEventStream(server, response?.headers);
    return partsOf(stream, watch.signal);
  }

  #take(part: SdkStreamPart, { watch, answer, server, params }: SdkRequest): void {
    watch.received(lengthOf(part));
    if (part.type === 'error') {
      if (!isNews(part.error)) throw part.error;
      this.#warn(params, [
        { message: 'A part of the answer is of a kind that the package of the AI SDK does not know; it is left out.' },
      ]);
      return;
    }
    answer.add(part);
    // Packages leave out the failures that they do not know.
    const failure = part.type === 'raw' ? failureIn(part.rawValue) : undefined;
    if (failure) throw vendorError(server, failure, { now: this.#settings.clock.now() });
    if (part.type === 'stream-start') this.#warn(params, part.warnings);
    if (answer.finished) watch.settle(endGraceMs);
  }

  async #generate({ model, request, params, watch, answer, server }: SdkRequest): Promise<void> {
    const start = () => inContext(params, () => model.doGenerate(request));
    const result = await unlessAborted(start(), watch.signal, () => undefined);
    watch.complete();
    this.#warn(params, result.warnings);
    if (result.content.length === 0 && result.finishReason.raw === undefined) {
      throw protocolError(server, 'answered without anything of an answer');
    }
    for (const content of result.content) {
      watch.received(lengthOf(content));
      answer.addContent(content);
    }
    answer.addHead(result.response ?? {});
    answer.finish(result);
  }

  #warn({ note }: LLMCallParams, warnings: readonly object[]): void {
    for (const message of warnings.map(warningText)) {
      this.#options.onWarning?.(message);
      note?.({ kind: 'warning', message });
    }
  }

  #headers({ traceContext }: LLMCallParams): Pick<SdkCallOptions, 'headers'> {
    if (traceContext === undefined || this.#options.propagateTrace === false) return {};
    const headers: Record<string, string> = {};
    propagation.inject(traceContext, headers);
    return { headers };
  }

  #modelOf(name: string | undefined): SdkModel {
    const { model, modelFor } = this.#options;
    if (name === undefined || name === model.modelId) return asV3(model);
    if (modelFor === undefined) {
      const what = `A call asks for model ${name}, but this provider was made with ${model.modelId} alone`;
      throw new AgentLoopError('INVALID_CONFIG', `${what}; set the option modelFor of AISDKProvider.`);
    }
    const other = modelFor(name);
    assertModel(other);
    return asV3(other);
  }

  #targetOf({ provider, modelId, address = provider }: SdkModel): CallTarget {
    return { provider, model: modelId, origin: originOf(this.#options.address ?? address, modelId) };
  }

  #serverOf({ provider, modelId }: SdkModel): ModelServer {
    const { address = provider, secrets = [] } = this.#options;
    return modelServer({ address, model: modelId, cures: curesOf(provider, address), secrets });
  }
}

/** A server of OpenAI's wire other than OpenAI often has its chat completions alone. */
function curesOf(provider: string, address: string): Cures {
  if (!provider.endsWith('.responses') || !/^https?:\/\/(?!api\.openai\.com\/)/.test(address)) return sdkCures;
  const cure =
    "check the model's name and the base address; for a server that has no /responses, name the model openai-chat:MODEL";
  return { ...sdkCures, PROVIDER_NOT_FOUND: cure };
}

interface SdkCall {
  readonly params: LLMCallParams;
  readonly streaming: boolean;
  readonly model: SdkModel;
  readonly target: CallTarget;
}

interface SdkRequest {
  readonly model: SdkModel;
  readonly request: SdkCallOptions;
  readonly params: LLMCallParams;
  readonly watch: RequestWatch;
  readonly answer: SdkAnswer;
  readonly server: ModelServer;
}

/** So that spans of an instrumented `fetch` are below the call's. */
function inContext<T>({ traceContext }: LLMCallParams, start: () => PromiseLike<T>): PromiseLike<T> {
  return traceContext === undefined ? start() : context.with(traceContext, start);
}

/**
 * The outcome of `work`, or a rejection as soon as `signal` is aborted, also where the work pays no heed to it; what it
 * still comes to is handed to `discard`.
 */
function unlessAborted<T>(work: PromiseLike<T>, signal: AbortSignal, discard: (late: T) => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    let left = false;
    const leave = () => {
      left = true;
      reject(signal.reason);
    };
    const dispose = async (late: T) => discard(late);
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    work.then(
      (value) => {
        signal.removeEventListener('abort', leave);
        if (left) dispose(value).catch(() => {});
        else resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener('abort', leave);
        reject(error);
      },
    );
  });
}

/** The values of a stream, until it ends or `signal` is aborted: then, and when the reader leaves, the stream is cancelled. */
async function* partsOf<T>(stream: ReadableStream<T>, signal: AbortSignal): AsyncGenerator<T> {
  const reader = stream.getReader();
  const cancel = () => {
    // Ends a `read` that waits. Nobody is left to hear of a failure to close.
    reader.cancel(signal.reason).catch(() => {});
  };
  signal.addEventListener('abort', cancel, { once: true });
  try {
    if (signal.aborted) cancel();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener('abort', cancel);
    cancel();
  }
}

/** Events of vendors that carry an answer, by the member that names their kind; what is in them must not be left out. */
const answerEvents: Readonly<Record<string, ReadonlySet<string> | undefined>> = {
  content_block_start: new Set(['text', 'thinking', 'tool_use', 'redacted_thinking']),
  content_block_delta: new Set(['text_delta', 'thinking_delta', 'signature_delta', 'input_json_delta']),
};
const knownEvents =
  /^(?:message_|content_block_|error$)|^response\.(?:output_|function_|reasoning_|created|completed|failed|incomplete)/;

/** Whether a package could not read an event because it is new: an event of another type, or with a block of another type. */
function isNews(error: unknown): boolean {
  if (!isJsonObject(error) || error['name'] !== 'AI_TypeValidationError' || !isJsonObject(error['value'])) return false;
  const { type, content_block: block, delta } = error['value'];
  if (typeof type !== 'string') return false;
  const kinds = answerEvents[type];
  if (kinds === undefined) return !knownEvents.test(type);
  const inner = type === 'content_block_start' ? block : delta;
  return isJsonObject(inner) && typeof inner['type'] === 'string' && !kinds.has(inner['type']);
}

/** How many characters a part adds to its answer. */
function lengthOf(part: SdkStreamPart | SdkContent): number {
  switch (part.type) {
    case 'text-delta':
    case 'reasoning-delta':
    case 'tool-input-delta':
      return part.delta.length;
    case 'text':
    case 'reasoning':
      return part.text.length;
    case 'tool-call':
      return part.input.length;
    case 'file':
      return part.data instanceof URL ? part.data.href.length : part.data.length;
    default:
      return 0;
  }
}

const otherAnswers: Readonly<Record<string, string>> = {
  'text/html': 'answered with a page of HTML',
  'application/json': 'answered with JSON where a stream was asked for',
};

/** Throws a coded error where the headers announce what is no stream: the AI SDK would read an empty one. */
function assertEventStream(server: ModelServer, headers: Readonly<Record<string, string>> | undefined): void {
  const type = headers?.['content-type']?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const what = otherAnswers[type];
  if (what !== undefined) throw protocolError(server, what);
}

/** A warning of the AI SDK as a sentence. */
function warningText(warning: unknown): string {
  if (!isJsonObject(warning)) return String(warning);
  const { type, feature, setting, details, message } = warning;
  if (typeof message === 'string') return message;
  const what = `${String(feature ?? setting ?? 'a setting')}: ${type === 'compatibility' ? 'used in a compatible form' : 'not supported'}`;
  return typeof details === 'string' ? `${what} (${details})` : what;
}
