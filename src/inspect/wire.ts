import type { ErrorCode, TaskState, TaskSummary, Usage } from '../core/contracts/index.ts';
import type { Question } from '../core/journal/index.ts';

// What the API of the inspector answers, and its page reads. Times are in milliseconds since 1970 where nothing else is said.

/** `GET api/info`: what this inspector may do. */
export interface InspectInfo {
  /** Whether turns can be cancelled, answered, steered, forked and retried. */
  readonly write: boolean;
  /** The agent that turns are replayed with and, with `write`, resumed. */
  readonly agentId?: string;
  /** Whether secrets are shown as they are in the journals. */
  readonly raw: boolean;
}

/** `GET api/tasks`. */
export interface TaskPage {
  readonly tasks: readonly TaskSummary[];
  /** `after` of the next page; absent at the end. The page of a search may have fewer tasks than asked for, and still a next one. */
  readonly next?: string;
}

/** `GET api/notes`: what a row of the list shows beside its summary. */
export interface TaskNote {
  readonly taskId: string;
  readonly seq: number;
  /** The last message of the user that the turn began with. */
  readonly prompt: string;
  readonly tokens: number;
  /** US dollars; absent where a price is not known. */
  readonly cost?: number;
  readonly forkedFrom?: string;
  readonly error?: string;
  /** Why the journal cannot be read. */
  readonly unreadable?: string;
}

/** A question, with its answer where it has one. */
export interface ShownQuestion {
  readonly question: Question;
  /** What is asked in the end, where a child turn asks. */
  readonly asking: Pick<Question, 'kind' | 'toolName' | 'prompt' | 'data'>;
  readonly seq: number;
  readonly at: number;
  readonly isOpen: boolean;
  readonly answered?: {
    readonly seq: number;
    readonly at: number;
    readonly answer: unknown;
    /** The command that delivered it to the owner; absent where the turn was resumed with it. */
    readonly command?: string;
  };
}

/** A turn below or beside another. */
export interface TreeNode {
  readonly taskId: string;
  readonly agentId: string;
  readonly kind: 'child' | 'fork' | 'retry';
  /** `missing`: a call names the turn, and the store does not have it. */
  readonly state: TaskState | 'missing';
  /** The call that it runs for. */
  readonly callId?: string;
  /** The iteration after which it was forked. */
  readonly at?: number;
  readonly below: readonly TreeNode[];
  /** There may be more below than were read. */
  readonly cut?: true;
}

/** What a turn used, by agent and model. */
export interface UsageRow {
  readonly agentId: string;
  readonly model?: string;
  readonly usage: Usage;
  readonly cost?: number;
}

/** `GET api/tasks/:id`. */
export interface TaskDetail {
  readonly summary: TaskSummary;
  readonly prompt: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly parent?: { readonly taskId: string; readonly callId: string; readonly rootTaskId: string };
  readonly forkedFrom?: { readonly taskId: string; readonly at: number; readonly isRetry: boolean };
  readonly iteration: number;
  readonly toolCalls: number;
  readonly usage: Usage;
  readonly usageBy: readonly UsageRow[];
  readonly cost?: number;
  readonly durationMs: number;
  readonly reason?: string;
  readonly error?: { readonly code: ErrorCode; readonly message: string };
  readonly answer?: string;
  readonly questions: readonly ShownQuestion[];
  readonly below: readonly TreeNode[];
  /** The context has newer turns that were not looked at, which may be forks. */
  readonly forksCut?: true;
}

/** A row of the timeline: a model call, an attempt of a tool call, or something else that happened. */
export interface ShownRow {
  readonly index: number;
  /** The record that it began with. */
  readonly seq: number;
  /** The record that it ended with. */
  readonly end?: number;
  readonly at: number;
  /** How long it took. */
  readonly ms?: number;
  readonly kind: 'model' | 'tool' | 'moment';
  readonly state: 'running' | 'done' | 'failed' | 'interrupted' | 'asked';
  /** The model, the tool, or what happened. */
  readonly title: string;
  /** The answer or the arguments, cut. */
  readonly text?: string;
  /** The result of a call, cut. */
  readonly result?: string;
  readonly iteration?: number;
  readonly attempt?: number;
  /** Of the prompt and of the completion. */
  readonly tokens?: readonly [prompt: number, completion: number];
  readonly callId?: string;
  readonly child?: string;
}

/** Where a turn stands, in its stream. */
export interface ShownHead {
  readonly state: TaskState;
  readonly seq: number;
  readonly updatedAt: number;
  readonly iteration: number;
  readonly rows: number;
  readonly openQuestions: number;
}

/** An event of `GET api/tasks/:id/rows`, as `data` of server-sent events. */
export type RowsEvent =
  | { readonly type: 'rows'; readonly rows: readonly ShownRow[]; readonly head: ShownHead }
  /** The text of the open model call so far, from its end. Empty once it is answered. */
  | { readonly type: 'text'; readonly text: string }
  /** The turn has ended: nothing follows. */
  | { readonly type: 'end' }
  | { readonly type: 'error'; readonly code: string; readonly message: string };

/** `GET api/tasks/:id/records`: a record without its content. */
export interface RecordLine {
  readonly seq: number;
  readonly type: string;
  readonly at: number;
  readonly epoch: number;
  readonly subject?: string;
}

/** `GET api/tasks/:id/compare?with=`: where two turns part. */
export interface Comparison {
  /** Equal records from the first on. */
  readonly same: number;
  /** Absent where neither has a record that the other has not. */
  readonly seq?: number;
  /** The member that differs first. */
  readonly path?: string;
  readonly left?: unknown;
  readonly right?: unknown;
}

/** `GET api/tasks/:id/replay`. */
export interface ReplayReport {
  readonly records: number;
  readonly deviations: readonly {
    readonly seq: number;
    readonly what: string;
    readonly expected?: unknown;
    readonly got?: unknown;
  }[];
}
