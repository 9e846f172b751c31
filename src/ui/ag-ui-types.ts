/** A message of AG-UI 1.0, as far as it is read or written here. */
export interface AgUiMessage {
  readonly id: string;
  readonly role: string;
  readonly content?: unknown;
  readonly toolCalls?: readonly AgUiToolCall[];
  readonly toolCallId?: string;
  readonly error?: string;
  /** Of a message that is an activity. */
  readonly activityType?: string;
}

/** A tool call within a message of AG-UI. `arguments` is JSON text. */
export interface AgUiToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

/** A question, as AG-UI has it: what a run waits for. */
export interface AgUiInterrupt {
  readonly id: string;
  readonly reason: string;
  readonly message?: string;
  readonly toolCallId?: string;
  /** What an answer looks like, as JSON Schema. */
  readonly responseSchema?: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** The tokens of a run, as AG-UI names them. */
export interface AgUiUsage {
  /** What was sent. */
  readonly inputTokens?: number;
  /** What was answered. */
  readonly outputTokens?: number;
  /** Both together. */
  readonly totalTokens?: number;
  /** Of what was answered, the reasoning. */
  readonly reasoningTokens?: number;
  /** Of what was sent, the part that was cached. */
  readonly cachedInputTokens?: number;
}

/** How a run of AG-UI ended. */
export type AgUiOutcome =
  | { readonly type: 'success' }
  | { readonly type: 'interrupt'; readonly interrupts: readonly AgUiInterrupt[] }
  | { readonly type: 'cancelled' };

/** The message that an event of AG-UI belongs to. */
export interface AgUiOfMessage {
  /** The id of the message. */
  readonly messageId: string;
}

/** The events of AG-UI 1.0 that a turn gives: a part of `Event` of `@ag-ui/core`. */
export type AgUiEvent =
  | { readonly type: 'RUN_STARTED'; readonly threadId: string; readonly runId: string }
  | {
      readonly type: 'RUN_FINISHED';
      readonly threadId: string;
      readonly runId: string;
      readonly outcome: AgUiOutcome;
      readonly result?: unknown;
      readonly usage?: readonly AgUiUsage[];
    }
  | {
      readonly type: 'RUN_ERROR';
      readonly message: string;
      readonly code: string;
      readonly metadata?: Readonly<Record<string, unknown>>;
      readonly usage?: readonly AgUiUsage[];
    }
  | { readonly type: 'STEP_STARTED' | 'STEP_FINISHED'; readonly stepName: string }
  | ({ readonly type: 'TEXT_MESSAGE_START'; readonly role: 'assistant' } & AgUiOfMessage)
  | ({ readonly type: 'TEXT_MESSAGE_CONTENT' | 'REASONING_MESSAGE_CONTENT'; readonly delta: string } & AgUiOfMessage)
  | ({
      readonly type: 'TEXT_MESSAGE_END' | 'REASONING_START' | 'REASONING_MESSAGE_END' | 'REASONING_END';
    } & AgUiOfMessage)
  | ({ readonly type: 'REASONING_MESSAGE_START'; readonly role: 'reasoning' } & AgUiOfMessage)
  | {
      readonly type: 'TOOL_CALL_START';
      readonly toolCallId: string;
      readonly toolCallName: string;
      readonly parentMessageId: string;
    }
  | { readonly type: 'TOOL_CALL_ARGS'; readonly toolCallId: string; readonly delta: string }
  | { readonly type: 'TOOL_CALL_END'; readonly toolCallId: string }
  | ({
      readonly type: 'TOOL_CALL_RESULT';
      readonly toolCallId: string;
      readonly content: string;
      readonly role: 'tool';
    } & AgUiOfMessage)
  | { readonly type: 'MESSAGES_SNAPSHOT'; readonly messages: readonly AgUiMessage[] }
  | ({
      readonly type: 'ACTIVITY_SNAPSHOT';
      readonly activityType: string;
      readonly content: Readonly<Record<string, unknown>>;
      readonly replace: boolean;
    } & AgUiOfMessage)
  | { readonly type: 'CUSTOM'; readonly name: string; readonly value: unknown }
  | {
      readonly type: 'SUBAGENT_STARTED';
      readonly subagentRunId: string;
      readonly name: string;
      readonly parentSubagentRunId?: string;
      readonly parentToolCallId?: string;
    }
  | {
      readonly type: 'SUBAGENT_FINISHED';
      readonly subagentRunId: string;
      readonly outcome: { readonly type: 'success' | 'suspended' };
    }
  | {
      readonly type: 'SUBAGENT_ERROR';
      readonly subagentRunId: string;
      readonly message: string;
      readonly code?: string;
    };
