import { callListener, reportListener } from '../../call-listener.ts';
import {
  AgentLoopError,
  type CallSettings,
  type Clock,
  copySettings,
  type ErrorCode,
  type Extension,
  type HookContext,
  type LLMCallParams,
  messageOf,
} from '../../core/contracts/index.ts';
import { aFunction, assertGiven, assertOptions } from '../../options/option-rules.ts';
import { redactMembers } from '../../redaction.ts';
import { aroundCalls, type CallEnd, watchCall } from './around-calls.ts';

/** Members of every session entry: the turn, and the time. */
export interface SessionEntryOf {
  readonly taskId: string;
  readonly contextId: string;
  readonly agentId: string;
  readonly iteration: number;
  readonly attempt: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** One line of a session log: a request to a model, its answer, or its error. */
export type SessionEntry = SessionEntryOf &
  (
    | /** `request`: messages, tools, and settings of the call. */
    { readonly type: 'llm.request'; readonly request: unknown }
    | { readonly type: 'llm.response'; readonly durationMs: number; readonly response: unknown }
    | { readonly type: 'llm.error'; readonly durationMs: number; readonly code: ErrorCode; readonly message: string }
  );

/** Options of `recordSession`. */
export interface RecordSessionOptions {
  /** Receives each entry, plain JSON, in order. Not awaited; exceptions and rejections are ignored. */
  readonly write: (entry: SessionEntry) => void | Promise<void>;
  /** Applied to each string after the known forms of secrets are removed. Default: unchanged. */
  readonly redact?: ((text: string) => string) | undefined;
}

/**
 * Logs each request to a model and its answer, including failed calls (`llm.error`) and aborted ones (`llm.error` with `CANCELED`). To replay
 * answers, see `recordResponses`. Put it after extensions that change requests. Errors: `INVALID_CONFIG`, naming the option.
 */
export function recordSession(options: RecordSessionOptions): Extension {
  assertOptions('recordSession', options, { write: aFunction, redact: aFunction });
  assertGiven('recordSession', 'write', options.write, 'give a function that takes each entry');
  return {
    name: 'record-session',
    beforeLLMCall(_, context) {
      const log = new CallLog(options, context);
      return {
        provider: aroundCalls(context.provider, (chunks, asked, reported) => {
          log.request(asked);
          return watchCall((end) => log.end(end))(chunks, asked, reported);
        }),
      };
    },
  };
}

class CallLog {
  readonly #options: RecordSessionOptions;
  readonly #clock: Clock;
  readonly #context: HookContext;
  #startedAt = 0;

  constructor(options: RecordSessionOptions, context: HookContext) {
    this.#options = options;
    this.#context = context;
    this.#clock = context.clock;
  }

  request(params: LLMCallParams): void {
    const { messages, tools } = params;
    this.#startedAt = this.#clock.now();
    const settings: CallSettings = {};
    copySettings(settings, params);
    const functions = tools && { tools: tools.map((tool) => tool.function) };
    this.#write(() => ({
      ...this.#place(),
      type: 'llm.request',
      request: this.#clean({ messages, ...functions, ...settings }),
    }));
  }

  end(end: CallEnd): void {
    const durationMs = this.#clock.now() - this.#startedAt;
    this.#write(() => {
      if (end.type === 'done') {
        return { ...this.#place(), type: 'llm.response', durationMs, response: this.#clean(end.response) };
      }
      const error = end.type === 'failed' ? end.error : new AgentLoopError('CANCELED', 'The model call was cancelled.');
      const code = AgentLoopError.isInstance(error) ? error.code : 'PROVIDER_FAILED';
      return { ...this.#place(), type: 'llm.error', durationMs, code, message: String(this.#clean(messageOf(error))) };
    });
  }

  #place(): SessionEntryOf {
    const { taskId, contextId, agentId, iteration, state } = this.#context;
    return { taskId, contextId, agentId, iteration, attempt: state.attempt, at: this.#clock.now() };
  }

  /** As plain JSON, without secrets. */
  #clean(value: unknown): unknown {
    return redactMembers(JSON.parse(JSON.stringify(value)), this.#options.redact ?? ((text) => text));
  }

  #write(entry: () => SessionEntry): void {
    const { write } = this.#options;
    const options = { fields: { option: 'write of recordSession' } };
    try {
      callListener(write, entry(), options);
    } catch (error) {
      reportListener(write, error, options);
    }
  }
}
