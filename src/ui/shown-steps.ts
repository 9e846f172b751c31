import type { ErrorCode, TaskState, Usage } from '../core/contracts/index.ts';

/** A call of a tool, by the id that it has outside: `<taskId>/<callId>`. */
interface OfCall {
  readonly id: string;
  readonly name: string;
}

/** Text or reasoning. `id` is new for each attempt; `of` is not: `<taskId>/answer-<iteration>`. */
interface OfText {
  readonly id: string;
  readonly of: string;
}

/** A question, as readers are shown it. */
export interface ShownQuestion {
  /** `<taskId>/<question id>`. */
  readonly id: string;
  /** `<taskId>/<call id>`. */
  readonly callId: string;
  readonly kind: 'approval' | 'input' | 'client-tool' | 'auth' | 'in-doubt';
  /** Absent where tools are hidden. */
  readonly toolName?: string;
  /** In words for whom it is asked. */
  readonly prompt?: string;
  /** Of an approval the arguments of the call, unless tools are hidden; what a tool asks with; of the rest only where tools are shown in full. */
  readonly data?: unknown;
}

/** How a stream ends. */
export interface ShownEnd {
  readonly type: 'end';
  readonly taskId: string;
  readonly contextId: string;
  readonly state: TaskState;
  readonly reason?: string;
  readonly code?: ErrorCode;
  readonly usage?: Usage;
  readonly cursor?: string;
  /** How many steering messages count for the next turn, if any. */
  readonly unread?: number;
  readonly questions: readonly ShownQuestion[];
}

/**
 * What readers of a turn are shown, in an order that each protocol can write down: text has one id as long as it stands, calls are announced before they end,
 * and a live turn gives the same as its replay. Protocols differ only in how they spell it.
 */
export type ShownStep =
  | { readonly type: 'begin'; readonly taskId: string; readonly contextId: string }
  | { readonly type: 'iteration'; readonly iteration: number }
  | { readonly type: 'iteration-end'; readonly iteration: number }
  /** The first piece of an `id` opens it. */
  | ({ readonly type: 'text' | 'reasoning'; readonly text: string } & OfText)
  | ({ readonly type: 'text-end' | 'reasoning-end' } & OfText)
  | ({ readonly type: 'call' } & OfCall)
  | { readonly type: 'call-input'; readonly id: string; readonly text: string }
  | ({ readonly type: 'call-ready'; readonly input?: unknown } & OfCall)
  | ({ readonly type: 'call-update'; readonly update: unknown } & OfCall)
  | ({ readonly type: 'call-end'; readonly code?: ErrorCode; readonly output?: unknown } & OfCall)
  | VoidStep
  | { readonly type: 'question'; readonly question: ShownQuestion }
  | {
      readonly type: 'artifact';
      readonly id: string;
      readonly name?: string;
      readonly text?: string;
      readonly data?: unknown;
      /** False: this replaces what the artifact held. */
      readonly append: boolean;
      /** Whether it is of a record, so that a replay shows it too. */
      readonly recorded: boolean;
    }
  | {
      readonly type: 'agent';
      /** The child turn. */
      readonly id: string;
      readonly agentId: string;
      /** The call of the turn that it runs for, `<taskId>/<callId>`. */
      readonly callId: string;
      /** The child turn above it, where there is one. */
      readonly parent?: string;
      readonly state?: TaskState;
      readonly text?: string;
    }
  | ShownEnd;

/** Something that was shown in the open iteration does not stand. */
export interface VoidStep {
  readonly type: 'void';
  /** Ids of texts and reasoning that are void. */
  readonly texts: readonly string[];
  /** Ids of calls that are void. */
  readonly calls: readonly string[];
  /** All that the iteration comes to by now, for protocols that can start it over. */
  readonly standing: readonly ShownStep[];
  /** The part of `standing` that is new, for those that cannot. */
  readonly fresh: readonly ShownStep[];
}
