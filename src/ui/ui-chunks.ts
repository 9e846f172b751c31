import type { TaskState, Usage } from '../core/contracts/index.ts';

/** What `messageMetadata` of a message of a turn has. */
export interface UIMessageMetadata {
  /** The turn of the message. */
  readonly taskId: string;
  /** Of the last event in the message. */
  readonly cursor?: string;
  /** Once the turn has ended, or waits. */
  readonly state?: TaskState;
  /** Why a turn completed, such as `stop` or `length`. */
  readonly reason?: string;
  /** The code of the error of a turn that failed or was lost. */
  readonly code?: string;
  /** The sentence for it. */
  readonly errorText?: string;
  /** On a turn that was lost: whether it can be followed again. */
  readonly retryable?: boolean;
  /** Of the turn and its child turns, at its end. */
  readonly usage?: Usage;
  /** How many messages that were given to the running turn count for the next one. Absent for none. */
  readonly unread?: number;
  /** The ids of the questions that the turn waits for, approvals among them. */
  readonly questions?: readonly string[];
  /**
   * In a stored message of the user, alone: the ids of the messages that stand in its place, the oldest first, and which of them it is, from 0. Absent for a
   * message without other versions.
   */
  readonly versions?: { readonly ids: readonly string[]; readonly at: number };
}

/** A tool call in a chunk. Its tool ran at the server, and the page does not know its type. */
export interface UITool {
  /** `<taskId>/<callId>`: ids of calls repeat in each turn. */
  readonly toolCallId: string;
  readonly toolName: string;
  /** Its type is not known to the page. */
  readonly dynamic: true;
  /** It ran at the server. */
  readonly providerExecuted: true;
}

/** The call whose result a chunk has. */
export interface UIResult {
  /** As that of the call. */
  readonly toolCallId: string;
  /** Its type is not known to the page. */
  readonly dynamic: true;
  /** It ran at the server. */
  readonly providerExecuted: true;
}

/** Why a call failed: the code of its error, `CANCELED` where the turn was stopped. `useChat` keeps it as `resultProviderMetadata`. */
export interface UICallError {
  readonly providerMetadata: { readonly millrace: { readonly code: string } };
}

/** Marks a part whose text is void, at clients that cannot remove it. */
export type UIVoid = { readonly providerMetadata?: { readonly millrace: { readonly void: true } } };

/** The chunks of the UI message stream of the AI SDK that a turn gives: a part of `UIMessageChunk` of `ai` 6 and 7. */
export type UIChunk =
  | { readonly type: 'start'; readonly messageId: string; readonly messageMetadata: UIMessageMetadata }
  | { readonly type: 'start-step' }
  | { readonly type: 'finish-step' }
  /** `ai` 7 only. */
  | { readonly type: 'reset-step' }
  | { readonly type: 'text-start'; readonly id: string }
  | { readonly type: 'text-delta'; readonly id: string; readonly delta: string }
  | ({ readonly type: 'text-end'; readonly id: string } & UIVoid)
  | { readonly type: 'reasoning-start'; readonly id: string }
  | { readonly type: 'reasoning-delta'; readonly id: string; readonly delta: string }
  | ({ readonly type: 'reasoning-end'; readonly id: string } & UIVoid)
  | ({ readonly type: 'tool-input-start' } & UITool)
  | { readonly type: 'tool-input-delta'; readonly toolCallId: string; readonly inputTextDelta: string }
  | ({ readonly type: 'tool-input-available'; readonly input: unknown } & UITool)
  | ({ readonly type: 'tool-output-available'; readonly output: unknown; readonly preliminary?: true } & UIResult)
  | ({ readonly type: 'tool-output-error'; readonly errorText: string } & UICallError & UIResult)
  | { readonly type: 'tool-output-denied'; readonly toolCallId: string }
  | {
      readonly type: 'tool-approval-request';
      readonly approvalId: string;
      readonly toolCallId: string;
      readonly approvalDescriptor?: unknown;
    }
  | { readonly type: `data-${string}`; readonly id?: string; readonly data: unknown; readonly transient?: true }
  | { readonly type: 'message-metadata'; readonly messageMetadata: UIMessageMetadata }
  | { readonly type: 'error'; readonly errorText: string }
  | {
      readonly type: 'finish';
      readonly finishReason: 'stop' | 'length' | 'tool-calls' | 'other';
      readonly messageMetadata: UIMessageMetadata;
    };
