import { context, propagation } from '@opentelemetry/api';
import type OpenAI from 'openai';
import type { Observable } from 'rxjs';
import type {
  LLMCallParams,
  LLMCapabilities,
  LLMChunk,
  LLMProvider,
  LLMProviderInfo,
  LLMResponse,
} from '../core/contracts/index.ts';
import { serverOf } from './connection-options.ts';

export type { LiteLLMProviderOptions } from './litellm-options.ts';

import type { FittedRequest } from './fit-request.ts';
import { type Exchange, FittedExchange, type RequestScope } from './fitted-exchange.ts';
import { keepLatest } from './keep-latest.ts';
import { type LiteLLMProviderOptions, type LiteLLMSettings, litellmSettings } from './litellm-options.ts';
import { originOf } from './model-origin.ts';
import { answerSink } from './openai-wire/answer-sink.ts';
import { ChatAnswer } from './openai-wire/chat-answer.ts';
import { chatRequest } from './openai-wire/chat-request.ts';
import { loadOpenAI, watchedFetch } from './openai-wire/openai-client.ts';
import { RequestWatch } from './openai-wire/request-watch.ts';
import { type ModelServer, modelServer, networkError } from './openai-wire/wire-errors.ts';
import { reasonsBy } from './profiles.ts';

/** How long the usage may come after the finish reason, and the end of the body after `[DONE]`. */
const usageGraceMs = 5_000;
const endGraceMs = 500;

/** Ends of a connection that no longer matter once the model has said that it is done. */
const lateFailures: ReadonlySet<string> = new Set(['PROVIDER_STREAM_CLOSED', 'PROVIDER_TIMEOUT', 'PROVIDER_TOO_LARGE']);

/**
 * A model on a LiteLLM proxy, or on any server with the OpenAI chat-completions API.
 *
 * `call` and `stream` give the same response for the same answer. Each call, and each subscription to what `stream` gives,
 * is one request; nothing is retried here, policies do that. The chunks are those of {@link LLMChunk}, the `done` of the
 * whole response last. A finish reason is a complete answer, also where the connection then ends without `[DONE]`; an end
 * without one is `PROVIDER_STREAM_CLOSED`. Every failure is an `AgentLoopError` with a `PROVIDER_…` code, or `CANCELED`
 * where `params.signal` was aborted; none of them shows the key or the values of `headers`. Unsubscribing and aborting
 * close the connection at once. The first request loads `openai`; without it, it fails with `MISSING_PACKAGE`. Memory: the answer's text; of a body that is not streamed at most `maxBodyBytes`.
 *
 * The environment is not read, but for what the `openai` package itself takes from `OPENAI_CUSTOM_HEADERS`.
 * Source: OpenAI API reference, chat completions; the dialects of other vendors as in the recorded streams of the tests.
 */
export class LiteLLMProvider implements LLMProvider {
  readonly capabilities: LLMCapabilities;
  readonly info: LLMProviderInfo;
  readonly #settings: LiteLLMSettings;
  readonly #server: ModelServer;
  #client: Promise<OpenAI> | undefined;
  readonly #fitted = new FittedExchange();
  readonly #knownOf = keepLatest((model) => ({
    profile: this.#settings.profileOf(model),
    origin: originOf(this.#server.address, model),
  }));

  constructor(options: LiteLLMProviderOptions) {
    const settings = litellmSettings(options);
    const { url, apiKey, headers, dialect } = settings;
    this.#settings = settings;
    this.#server = modelServer({
      address: `${url.origin}${url.pathname.replace(/\/$/, '')}`,
      model: dialect.model,
      secrets: [...(apiKey === undefined ? [] : [apiKey]), ...Object.values(headers)],
    });
    this.capabilities = settings.capabilities;
    this.info = {
      providerName: settings.providerName,
      model: dialect.model,
      ...serverOf(url),
    };
  }

  /** Loads `openai`, as the first request does. Errors: `MISSING_PACKAGE`. */
  async prepare(): Promise<void> {
    this.#client ??= openAIClient(this.#settings, this.#server);
    await this.#client;
  }

  async call(params: LLMCallParams): Promise<LLMResponse> {
    return this.#fitted.call(this.#exchange(params, false));
  }

  stream(params: LLMCallParams): Observable<LLMChunk> {
    return this.#fitted.stream(this.#exchange(params, true));
  }

  #exchange(params: LLMCallParams, streaming: boolean): Exchange {
    const { capabilities, dialect } = this.#settings;
    const options = {
      ...this.#modelOf(params),
      tools: capabilities.tools !== false,
      toolChoice: capabilities.toolChoice !== false,
      reasons: reasonsBy({ ...dialect.extraBody, ...params.providerOptions }),
    };
    return {
      params,
      options,
      request: ({ next, ...scope }) => this.#request({ ...scope, params, streaming, fitted: next() }),
    };
  }

  #modelOf({ model = this.#settings.dialect.model }: LLMCallParams) {
    return this.#knownOf(model);
  }

  /** One request and its answer: the chunks of each piece of the body, then `done`. */
  async *#request(given: ChatCall): AsyncGenerator<readonly LLMChunk[]> {
    const { params, streaming, unsubscribed, usage, fitted } = given;
    const { clock, limits, reasoningTag } = this.#settings;
    const signals = [params.signal, unsubscribed].filter((signal) => signal !== undefined);
    const watch = new RequestWatch({ server: this.#server, limits, clock, signals });
    let chunks: LLMChunk[] = [];
    const answer = new ChatAnswer(
      this.#server,
      (chunk) => {
        chunks.push(chunk);
      },
      { origin: this.#modelOf(params).origin, nameOf: fitted.nameOf, reasoningTag, usage },
    );
    let cost: string | null = null;
    try {
      if (watch.failure !== undefined) throw watch.failure;
      const response = await this.#send(given, watch);
      cost = response.headers.get('x-litellm-response-cost');
      const contentType = response.headers.get('content-type') ?? '';
      const sink = answerSink({ server: this.#server, answer, contentType, streaming });
      for await (const bytes of response.body ?? []) {
        watch.received(bytes);
        sink.write(bytes);
        if (sink.ended) watch.settle(endGraceMs);
        else if (answer.finished) watch.settle(usageGraceMs);
        if (chunks.length === 0) continue;
        yield chunks;
        chunks = [];
      }
      watch.complete();
      sink.end();
    } catch (thrown) {
      const failure = watch.failure ?? networkError(this.#server, thrown);
      if (watch.canceled || !answer.finished || !lateFailures.has(failure.code)) {
        if (chunks.length > 0 && !watch.canceled) yield chunks;
        throw failure;
      }
    } finally {
      watch.close();
    }
    const response = answer.response(cost);
    chunks.push({ type: 'done', response });
    yield chunks;
  }

  /** The head of an answer with a good status. */
  async #send({ params, streaming, fitted }: ChatCall, watch: RequestWatch): Promise<Response> {
    const { traceContext } = params;
    const headers: Record<string, string> = {};
    if (traceContext !== undefined && this.#settings.propagateTrace) propagation.inject(traceContext, headers);
    const { rules } = this.#modelOf(params).profile;
    const dialect = {
      ...this.#settings.dialect,
      rules,
      ...(fitted.completionTokens && { maxTokensField: 'max_completion_tokens' as const }),
    };
    const body = chatRequest(fitted, dialect, streaming);
    // Following a redirect would turn the POST into a GET.
    const fetchOptions = { redirect: 'manual' as const, watch };
    this.#client ??= openAIClient(this.#settings, this.#server);
    const client = await this.#client;
    const send = (): Promise<Response> =>
      client.post('/chat/completions', { body, headers, fetchOptions, stream: streaming }).asResponse();
    return traceContext === undefined ? send() : context.with(traceContext, send);
  }
}

interface ChatCall extends Omit<RequestScope, 'next'> {
  readonly params: LLMCallParams;
  readonly streaming: boolean;
  readonly fitted: FittedRequest;
}

/** The package's client without retries, log and what it would take from the environment. */
async function openAIClient(
  { url, apiKey, headers, limits, fetch, clock }: LiteLLMSettings,
  server: ModelServer,
): Promise<OpenAI> {
  const Client = await loadOpenAI();
  return new Client({
    baseURL: url.href,
    apiKey: apiKey ?? 'none',
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    defaultHeaders: apiKey === undefined ? { Authorization: null, ...headers } : { ...headers },
    maxRetries: 0,
    logLevel: 'off',
    fetch: watchedFetch({ server, clock, fetch }),
    ...(limits.timeoutMs === 0 ? {} : { timeout: limits.timeoutMs }),
  });
}
