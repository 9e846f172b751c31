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
  /** The newest first. */
  readonly tasks: readonly TaskSummary[];
  /** `after` of the next page; absent at the end. The page of a search may have fewer tasks than asked for, and still a next one. */
  readonly next?: string;
}

/** `GET api/notes`: what a row of the list shows beside its summary. */
export interface TaskNote {
  readonly taskId: string;
  /** How many records the journal had when it was read. */
  readonly seq: number;
  /** The last message of the user that the turn began with. */
  readonly prompt: string;
  /** Of prompts and completions, of child turns too. */
  readonly tokens: number;
  /** US dollars; absent where a price is not known. */
  readonly cost?: number;
  /** The id of the turn that it was forked from. */
  readonly forkedFrom?: string;
  /** The message of the error that it failed with, cut. */
  readonly error?: string;
  /** Why the journal cannot be read. */
  readonly unreadable?: string;
}

/** A question, with its answer where it has one. */
export interface ShownQuestion {
  /** As it is recorded. */
  readonly question: Question;
  /** What is asked in the end, where a child turn asks. */
  readonly asking: Pick<Question, 'kind' | 'toolName' | 'prompt' | 'data'>;
  /** The record that asks it. */
  readonly seq: number;
  readonly at: number;
  /** Whether the turn still waits for the answer. */
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
  /** A turn that this one started, one that was forked from it, or its retry. */
  readonly kind: 'child' | 'fork' | 'retry';
  /** `missing`: a call names the turn, and the store does not have it. */
  readonly state: TaskState | 'missing';
  /** Whether a process runs it. */
  readonly held: boolean;
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
  /** Absent where the provider does not name it. */
  readonly model?: string;
  readonly usage: Usage;
  /** US dollars; absent where the price is not known. */
  readonly cost?: number;
}

/** `GET api/tasks/:id`. */
export interface TaskDetail {
  readonly summary: TaskSummary;
  /** The last message of the user that the turn began with. */
  readonly prompt: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** What the turn was started with, such as `maxIterations`. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** The turn whose call started this one. */
  readonly parent?: { readonly taskId: string; readonly callId: string; readonly rootTaskId: string };
  /** `at`: the last iteration that was kept. `isRetry`: it is a retry of a turn that failed or was cancelled. */
  readonly forkedFrom?: { readonly taskId: string; readonly at: number; readonly isRetry: boolean };
  /** How many iterations have begun. */
  readonly iteration: number;
  /** Calls that have a result, without those of child turns. */
  readonly toolCalls: number;
  /** Of child turns too. */
  readonly usage: Usage;
  readonly usageBy: readonly UsageRow[];
  /** US dollars, of child turns too; absent where a price is not known. */
  readonly cost?: number;
  /** From its first record to its end, or to now. */
  readonly durationMs: number;
  /** Why it ended, such as `stop` or the reason of the cancel. */
  readonly reason?: string;
  readonly error?: { readonly code: ErrorCode; readonly message: string };
  /** The last text of the model, or what the turn finished with. */
  readonly answer?: string;
  /** All that were asked, in their order. */
  readonly questions: readonly ShownQuestion[];
  /** Child turns, then forks and retries. */
  readonly below: readonly TreeNode[];
  /** The context has newer turns that were not looked at, which may be forks. */
  readonly forksCut?: true;
}

/** A row of the timeline: a model call, an attempt of a tool call, or something else that happened. */
export interface ShownRow {
  /** From 0: a row that comes again replaces the one before. */
  readonly index: number;
  /** The record that it began with. */
  readonly seq: number;
  /** The record that it ended with. */
  readonly end?: number;
  /** When it began. */
  readonly at: number;
  /** How long it took. */
  readonly ms?: number;
  readonly kind: 'model' | 'tool' | 'moment';
  /** `interrupted`: its process died. `asked`: it waits for an answer. */
  readonly state: 'running' | 'done' | 'failed' | 'interrupted' | 'asked';
  /** The model, the tool, or what happened. */
  readonly title: string;
  /** The answer or the arguments, cut. */
  readonly text?: string;
  /** The result of a call, cut. */
  readonly result?: string;
  /** From 1. */
  readonly iteration?: number;
  /** From 1. */
  readonly attempt?: number;
  /** Of the prompt and of the completion. */
  readonly tokens?: readonly [prompt: number, completion: number];
  /** Of a tool call: `<iteration>:<index>`. */
  readonly callId?: string;
  /** The id of the child turn that the call started. */
  readonly child?: string;
}

/** Where a turn stands, in its stream. */
export interface ShownHead {
  readonly state: TaskState;
  /** How many records the journal has. */
  readonly seq: number;
  readonly updatedAt: number;
  readonly iteration: number;
  /** How many rows the timeline has. */
  readonly rows: number;
  /** How many questions wait for an answer. */
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
  /** Of the lease that it was written under. */
  readonly epoch: number;
  /** What it is about: a tool, a model, an extension. */
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
  /** The record of the first turn there; absent where it has none. */
  readonly left?: unknown;
  /** The record of the second turn there; absent where it has none. */
  readonly right?: unknown;
}

/** `GET api/tasks/:id/replay`. */
export interface ReplayReport {
  /** How many records the replay made. */
  readonly records: number;
  /** Where the replay differs, by the record of the turn. */
  readonly deviations: readonly {
    readonly seq: number;
    readonly what: string;
    readonly expected?: unknown;
    readonly got?: unknown;
  }[];
}
