import type { Context } from '@opentelemetry/api';
import type { Observable } from 'rxjs';
import type { Message, ToolCall } from './messages.ts';
import type { JSONSchema, ToolDefinition } from './tool.ts';
import type { Usage } from './usage.ts';

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

/** `auto`: the model decides; `none`: no tool; `required`: at least one; or one tool by its name. */
export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string };

/** The form of the answer, where the vendor can guarantee one. */
export interface ResponseFormat {
  readonly type: 'json_schema';
  readonly name: string;
  readonly schema: JSONSchema;
}

/** Settings of one model call. Absent: the provider's own. */
export interface CallSettings {
  /** In place of the provider's. */
  readonly model?: string | undefined;
  readonly toolChoice?: ToolChoice | undefined;
  readonly temperature?: number | undefined;
  readonly maxTokens?: number | undefined;
  readonly responseFormat?: ResponseFormat | undefined;
  /** Sent as they are, under the vendor's names. */
  readonly providerOptions?: Readonly<Record<string, unknown>> | undefined;
}

/** One model call, as the loop asks for it. */
export interface LLMCallParams extends CallSettings {
  /** The history as the model shall see it; a system message, if there is one, is the first. */
  readonly messages: readonly Message[];
  /** Absent where there are none. */
  readonly tools?: readonly ToolDefinition[];
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Aborted when the turn is cancelled. Made when it is first read. */
  readonly signal?: AbortSignal;
  /** The OpenTelemetry context of this call: the `llm.call` span is in it. */
  readonly traceContext?: Context;
  /**
   * Told what a request of this call took that gives no answer, before its error or while it is unsubscribed; what a provider knows better
   * than the estimate that counts otherwise. Several are added up; invalid values are ignored. Where the call is answered all
   * the same, it is that answer's `discarded`, unless the answer says that itself.
   */
  readonly noteUsage?: (usage: Omit<Usage, 'discarded'>) => void;
}

export interface LLMResponse {
  /** The assistant's message. Calls may stand here or in `toolCalls`; where both do, `toolCalls` counts. */
  readonly message: Message;
  readonly toolCalls?: readonly ToolCall[];
  /** Absent: `tool_calls` where there are calls, else `stop`. */
  readonly finishReason?: FinishReason;
  /** Absent: nobody told; the turn's usage counts nothing for it. An answer that took nothing says so in zeros. */
  readonly usage?: Usage;
  /** The vendor's id of this response. */
  readonly id?: string;
  /** The model that answered, as the vendor names it. */
  readonly model?: string;
}

/**
 * What a streaming provider emits. `attempt` chunks come from policies that call more than once: `begin` opens an attempt
 * after the first, `void` discards all that was streamed since the attempt began. `done` comes exactly once, last: it ends the call, and
 * chunks and errors after it are dropped.
 */
export type LLMChunk =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  | {
      readonly type: 'tool-call';
      /** Position of the call in the response, from 0. */
      readonly index: number;
      /** On the call's first fragment, where the vendor gives one. */
      readonly id?: string;
      readonly name?: string;
      /** A fragment of the JSON text. */
      readonly arguments?: string;
    }
  | { readonly type: 'attempt'; readonly state: 'begin' | 'void'; readonly reason?: string }
  | { readonly type: 'done'; readonly response: LLMResponse };

/** What a provider can do. Absent members mean `true`. */
export interface LLMCapabilities {
  readonly streaming?: boolean;
  readonly tools?: boolean;
  readonly toolChoice?: boolean;
  /** Whether it keeps to a `responseFormat`. Here, absent means `false`. */
  readonly responseFormat?: boolean;
}

/** What the `llm.call` span says of the model and the way to it. No secrets. */
export interface LLMProviderInfo {
  /** OpenTelemetry's `gen_ai.provider.name`, e.g. `openai`. */
  readonly providerName?: string;
  readonly model?: string;
  readonly serverAddress?: string;
  readonly serverPort?: number;
}

/**
 * A language model. Both methods give the same message for the same answer. A failure is an error of the promise or the
 * Observable, best an `AgentLoopError` with a `PROVIDER_…` code; anything else becomes `PROVIDER_FAILED`.
 */
export interface LLMProvider {
  readonly capabilities?: LLMCapabilities;
  readonly info?: LLMProviderInfo;
  /** True where the provider makes the `llm.call` span of each of its requests, as those behind policies do: the loop makes none. */
  readonly tracesAttempts?: boolean;
  call(params: LLMCallParams): Promise<LLMResponse>;
  /** Cold: each subscription is one call. Unsubscribing closes the connection. Completes after `done`. */
  stream?(params: LLMCallParams): Observable<LLMChunk>;
}
