import type { Context } from '@opentelemetry/api';
import type { Observable } from 'rxjs';
import type { AgentChoice, EmittedEvent, Finish, TurnOverrides } from '../journal/extension-record.ts';
import type { Approval, RecordedCall, ToolResultRecord } from '../journal/records.ts';
import type { LoopState, TurnOutcome } from '../journal/state.ts';
import type { MessageView } from './context-stores.ts';
import type { AgentLoopError, ErrorCode } from './errors.ts';
import type { AgentEvent, ContentOf, EngineToolName, NameOf, Recorded } from './events.ts';
import type { Clock } from './host.ts';
import type { AgentUsage, Content, Message, ToolCall, Usage } from './messages.ts';
import type { CallSettings, LLMCallParams, LLMProvider, LLMResponse } from './provider.ts';
import type { AuthContext, Tool, ToolDefinition, ToolListContext, ToolProvider } from './tool.ts';

/** What a hook may return: nothing, its answer, or a promise of either. */
// biome-ignore lint/suspicious/noConfusingVoidType: a hook that only observes is a function without a return
export type HookAnswer<T> = T | undefined | void | Promise<T | undefined | void>;

/** The properties of the turn that every hook receives, besides its own. */
export interface HookContext extends ToolListContext {
  readonly authContext: AuthContext | undefined;
  /** The iteration that the hook is called for, from 1; 0 before the first. */
  readonly iteration: number;
  /** The current limit on iterations of the turn. */
  readonly maxIterations: number;
  /** The turn so far: its history, usage, calls. */
  readonly state: LoopState;
  /** The `data` that this extension recorded last in this turn, also before a crash; `undefined` if it recorded none. */
  readonly data: unknown;
  /** The provider of the turn; in `beforeLLMCall` the one that earlier extensions chose. */
  readonly provider: LLMProvider;
  /** The clock of the turn. */
  readonly clock: Clock;
  /** All tools of the turn, including those that the model is not offered now. */
  readonly tools: readonly ToolDefinition[];
  /** Aborted when the turn is cancelled or lost, and when the hook reaches its time limit. Created on first access. */
  readonly signal: AbortSignal;
  /** The OpenTelemetry context of the turn: the parent of the hook's spans and calls. */
  readonly traceContext: Context;
}

/** Why a turn is to fail. */
export interface Failure {
  /** `REJECTED` refuses the turn: A2A clients receive the state `rejected` and the message. They receive the message of no other code. */
  readonly code: ErrorCode;
  /** One sentence that names the problem and the fix. */
  readonly message: string;
  /** Default: the code in lower case. */
  readonly reason?: string;
  /** JSON: the names and numbers of the message. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** The `cause` of the error that `result()` rejects with. Never journaled. */
  readonly cause?: unknown;
}

/** The usage of a turn and its child turns so far, including running ones. */
export interface TreeUsage {
  readonly usage: Usage;
  /** By agent and model. */
  readonly usageBy: readonly AgentUsage[];
  /** The turn that the extension belongs to. */
  readonly state: LoopState;
}

/** A limit of a turn that its tree of child turns has reached. */
export interface ReachedLimit extends Failure {
  /** Whether the turn fails; else only the running child turns are cancelled. */
  readonly fails: boolean;
}

/** An extension's changes to the course of a turn. They are journaled, so a resumed turn takes the same course. */
export interface TurnChange {
  /** Appended to the history. After the last response they continue the turn. */
  readonly messages?: readonly Message[];
  /** For all later model calls of the turn. */
  readonly settings?: TurnOverrides;
  /** The tools offered to later model calls. A tool that no provider of the turn has is added as an object. */
  readonly tools?: {
    readonly add?: readonly (string | ToolProvider)[];
    readonly remove?: readonly string[];
  };
  /** Ends the turn once every call has its result; calls that have not started are skipped. */
  readonly finish?: Finish;
  /**
   * Another of the configuration's `agents` runs the turn once every call has its result. The first of several counts; all other
   * changes of extensions except `data` are then undone.
   */
  readonly agent?: AgentChoice;
  /** The usage of the extension's own model calls, added to the turn's. */
  readonly usage?: Usage;
  /** The part of `usage` that other agents used, by agent and model. Child turns of the hook are added without it. */
  readonly usageBy?: readonly AgentUsage[];
  /** JSON, available as `context.data` later; replaces the extension's previous `data`. */
  readonly data?: unknown;
  /**
   * Emitted in this order as `ExtensionEvent`, live and in replays, after the events of this change's record. JSON; at most 100 events
   * and 256 KiB of UTF-8 in total. They are recorded: they must not contain secrets.
   */
  readonly events?: readonly EmittedEvent[];
  /** Fails the turn at once. Journaled as the end of the turn, not as a change. */
  readonly fail?: Failure;
}

/** The changes of `beforeTurn`. */
export interface TurnBeginning extends TurnChange {
  /** Replaces the messages of the caller. */
  readonly given?: readonly Message[];
  /** How many of `given`, from the first on, belong to earlier turns of the context. */
  readonly earlier?: number;
  /** Where messages of `given` are in the store of conversations: a store of journals that `refersTo` it writes this in place of `given`. */
  readonly givenFrom?: MessageView;
  /** How long the turn waited for other turns of its context, since its start, in milliseconds; excluded from the turn's duration. */
  readonly waitedMs?: number;
}

/** The input of the next model call, before the system prompt is prepended. */
export interface IterationView {
  /** The history without its system and developer messages. */
  readonly messages: readonly Message[];
  /** The configuration's, merged with the system and developer messages of the history. */
  readonly systemPrompt: string | undefined;
  /** The offered tools. */
  readonly tools: readonly ToolDefinition[];
  readonly settings: CallSettings;
}

/** Changes of one view; the history is not changed. */
export interface IterationChange extends Pick<TurnChange, 'finish' | 'usage' | 'usageBy' | 'data' | 'events' | 'fail'> {
  /** The input of this iteration's model calls, in place of the history. The history is not changed. */
  readonly view?: {
    readonly messages?: readonly Message[];
    /** `null`: none. */
    readonly systemPrompt?: string | null;
    /** By name. */
    readonly tools?: readonly string[];
    readonly settings?: CallSettings;
  };
}

/** Changes of one model call. */
export interface CallChange extends Pick<TurnChange, 'fail'> {
  /** The changed parameters of this call. */
  readonly params?: Partial<Omit<LLMCallParams, 'signal' | 'traceContext' | 'noteUsage' | 'note'>>;
  /** Makes this call instead of the turn's provider. */
  readonly provider?: LLMProvider;
  /** The answer of the call: no provider is called. */
  readonly response?: LLMResponse;
}

/** A model call that failed. */
export interface FailedCall {
  readonly error: AgentLoopError;
  /** The request that failed, with the changes of all extensions. */
  readonly params: LLMCallParams;
}

/** The answer to a failed model call. */
export interface FailureChange extends Pick<TurnChange, 'settings' | 'usage' | 'usageBy' | 'data' | 'events' | 'fail'> {
  /** True: the call is repeated at once, with the changes, at most once per iteration. Default false: the failure stands. */
  readonly repeat?: boolean;
}

/** Changes of one answer, before it is recorded. */
export interface ResponseChange extends Pick<TurnChange, 'usage' | 'usageBy' | 'data' | 'events' | 'fail'> {
  /** Replaces the model's response. */
  readonly response?: LLMResponse;
}

/** A call that is about to run. */
export interface ToolCallRequest extends HookContext {
  /** `<iteration>:<index>`. */
  readonly callId: string;
  readonly call: ToolCall;
  /** The definition of the tool. */
  readonly tool: ToolDefinition;
  /** Parsed and validated. */
  readonly arguments: unknown;
}

/** Decides about a call before it runs. If several of `fail`, `deny` and `answer` are present, the first counts. */
export interface ToolCallChange extends Pick<TurnChange, 'fail'> {
  /** Refuses the call: the model receives this string as an error result with the code `TOOL_REJECTED`. */
  readonly deny?: string;
  /** The result of the call: the tool does not run. */
  readonly answer?: ToolAnswer;
  /** The tool validates them again; with `deny` or `answer` they only replace the recorded arguments. */
  readonly arguments?: unknown;
  /**
   * When the call fails with `TOOL_TIMEOUT` and its signal aborts, unless its own limit is earlier. Milliseconds
   * since 1970 on the turn's clock; the earliest of several counts. Allowed with any other member. A call that runs again after a
   * crash has its own limit only.
   */
  readonly deadline?: number;
}

/** An extension's result of a call. */
export interface ToolAnswer {
  readonly content: Content;
  /** Default true. */
  readonly success?: boolean;
  /** The error message; default the content. */
  readonly error?: string;
}

/** A call that ran. */
export interface ToolCallOutcome extends ToolCallRequest {
  /** As it will be recorded. */
  readonly result: Pick<ToolResultRecord, 'content' | 'success' | 'error' | 'durationMs'>;
  /** The exception of the tool, if it threw. */
  readonly thrown: unknown;
}

/** The changes of `afterToolCall`: the result, and the rest of the turn. */
export interface ToolOutcomeChange
  extends Pick<TurnChange, 'messages' | 'finish' | 'agent' | 'usage' | 'usageBy' | 'data' | 'events' | 'fail'> {
  /** The result that the model reads. */
  readonly result?: ToolAnswer;
}

/** A call of a finished iteration, as the model made it. */
export interface StepCall<Name extends string = string> extends RecordedCall {
  readonly toolName: Name;
}

/** The result of a call of a finished iteration. */
export interface StepResult<Name extends string = string, Args = unknown, C extends Content = Content>
  extends ToolResultRecord {
  readonly toolName: Name;
  /** The arguments that the tool received; for a refused call, those that the model sent. */
  readonly arguments: Args;
  readonly content: C;
}

/** The results of calls, discriminated by `toolName` and `success` as the events of calls are: see `ToolEvent`. */
export type StepResultOf<X extends Tool> =
  string extends NameOf<X> ? StepResult : ResultsOf<X> | StepResult<EngineToolName>;

type ResultsOf<X extends Tool> =
  X extends Tool<infer Args, infer _, infer Name, infer Result>
    ? StepSuccess<Name, Recorded<Args>, ContentOf<Result>> | StepFailure<Name>
    : never;

/** The result of a successful call. */
export interface StepSuccess<Name extends string, Args, C extends Content> extends StepResult<Name, Args, C> {
  readonly success: true;
}

/** The result of a failed call. The arguments of a refused call are as the model sent them, of any type. */
export interface StepFailure<Name extends string> extends StepResult<Name> {
  readonly success: false;
}

/** A finished iteration. */
export interface IterationStep<Call extends StepCall = StepCall, Result extends StepResult = StepResult>
  extends HookContext {
  readonly text: string;
  /** The model's response. */
  readonly response: LoopState['lastResponse'];
  readonly calls: readonly Call[];
  /** In call order. */
  readonly results: readonly Result[];
  /** The settings of the iteration's call; if another process made it, the turn's settings. */
  readonly settings: CallSettings;
  /** The tools offered in the iteration's call. */
  readonly offered: readonly ToolDefinition['function'][];
  /** Whether the turn ends with it. */
  readonly finished: boolean;
  /** The end of the turn, if `finished`. */
  readonly finish: Finish | undefined;
}

/** An iteration of an agent with these tools: its calls and results are typed by them. */
export type StepOf<X extends Tool> = IterationStep<StepCall<NameOf<X> | EngineToolName>, StepResultOf<X>>;

/** The changes of `afterIteration`: results of the iteration, and the rest of the turn. */
export interface StepChange extends TurnChange {
  /** Contents of results by call id, replacing those of the tools. */
  readonly results?: Readonly<Record<string, Content>>;
}

/** A turn that is about to complete. */
export interface TurnFinish extends HookContext {
  readonly text: string;
  readonly reason: string;
  /** The value that it finishes with, if an extension set one. */
  readonly value: unknown;
}

/** `messages` and `agent` continue the turn; `finish` changes its text and value. */
export type FinishChange = Pick<
  TurnChange,
  'messages' | 'settings' | 'finish' | 'agent' | 'usage' | 'usageBy' | 'data' | 'events' | 'fail'
> & {
  /**
   * With `messages`, which ask for another answer: the refused one is replaced by a fixed sentence for all who read the turn, its conversation or the
   * next request, once the turn has ended. The model reads it until then. Default false: it stays.
   */
  readonly withhold?: boolean;
};

/** How a turn ended, or is about to. */
export interface TurnEnd extends HookContext {
  readonly outcome: Omit<TurnOutcome, 'questions'>;
  /** The final text; if the turn did not complete, the text of the last response. */
  readonly text: string;
  readonly value: unknown;
}

/** Changes to the text and value of a completed turn; no effect on any other end. */
export type EndChange = Pick<Finish, 'text' | 'value'> & Pick<TurnChange, 'fail'>;

/** A call that needs a decision before it runs. */
export interface ApprovalRequest extends HookContext {
  /** `<iteration>:<index>`. */
  readonly callId: string;
  readonly call: ToolCall;
  /** Parsed and validated, after the `beforeToolCall` hooks. */
  readonly arguments: unknown;
}

/** The decision about a call: it runs, it is refused with a reason for the model, or a question is asked. */
export type ApprovalDecision =
  | { readonly decision: 'approve' }
  | { readonly decision: 'reject'; readonly reason?: string }
  | { readonly decision: 'ask'; readonly prompt?: string }
  /** The form of an answer to the question: `{ approved: true }`, `{ approved: false, reason }`. */
  | Approval;

/** An extension that ends turns with a value: `V` is its type, which `agent` infers. The member does not exist at run time. */
export interface ValueExtension<V, Step extends IterationStep = IterationStep> extends Extension<Step> {
  readonly '~value'?: V;
}

/** The members of an extension that are not hooks. */
export type ExtensionSetting =
  | 'name'
  | 'onError'
  | 'timeoutMs'
  | 'isDue'
  | 'toolProviders'
  | 'limitUsage'
  | 'partials'
  | '~value';

/** The name of a hook. */
export type ExtensionHook = Exclude<keyof Extension, ExtensionSetting>;

/**
 * Optional hooks around the loop, in the order in which a turn calls them. The hooks of several extensions run one after another, in the order
 * of the configuration; each sees the changes of those before it. A hook may return its answer or a promise of it. Changes that affect the
 * course of the turn are journaled; if the process dies before that, the hook is called again after the resume. A hook that is not defined
 * costs nothing.
 *
 * If a hook throws, returns an invalid answer, or does not settle within `timeoutMs`, `internal:extension-error` is emitted, and `onError`
 * decides whether the turn fails.
 *
 * `Step`: what `afterIteration` receives. In the options of an `agent` its calls and results have the types of the agent's tools; elsewhere write
 * `Extension<StepOf<typeof search | typeof fetch>>`.
 */
export interface Extension<Step extends IterationStep = IterationStep> {
  /** Names the extension in errors and in its records: letters, digits, `-`, `_` and `.`. */
  readonly name: string;
  /** `'fail'` (default): the turn fails with `EXTENSION_FAILED`. `'continue'`: it continues as if the hook had returned nothing. */
  readonly onError?: 'fail' | 'continue';
  /** How long a hook may take. Milliseconds; default 60,000; 0 means no limit. */
  readonly timeoutMs?: number;
  /**
   * Whether a hook is called, except `beforeMessage`, which is called always; a hook that is not called makes no context. Decides from the state, and
   * from the call in the hooks of tool calls. The hook is called anyway if an earlier extension has answered it: its subject may have changed.
   * Synchronous; called several times for one hook. Default: always. If it throws, the hook has failed: see `onError`.
   */
  readonly isDue?: (hook: ExtensionHook, state: LoopState, call?: ToolCall) => boolean;
  /** Tools that the extension adds to the turn. */
  readonly toolProviders?: readonly ToolProvider[];
  /**
   * Returns the limit that the usage of the turn and its child turns has reached, if any. Called before each model call of a child turn, at any
   * depth; must be synchronous and must not throw. If a limit is returned, the calls that run child turns are cancelled, and the turn fails if
   * `fails` is true.
   */
  readonly limitUsage?: (used: TreeUsage) => ReachedLimit | undefined;
  /** Partial values of the extension's final value, read from the events of a turn: see `Turn.partials`. */
  readonly partials?: (events$: Observable<AgentEvent>) => Observable<unknown>;
  /**
   * Called with each message of the caller, at the start or by steering, before it is recorded. A returned message replaces it, and must be the
   * same for the same message. Synchronous: no promise, no time limit, no span, and no context, as there may be no turn yet. If it throws, the
   * message is refused: `startTurn` and `steer` throw `EXTENSION_FAILED`; a refused message of another process is logged. Called in each
   * process that the message passes through.
   */
  readonly beforeMessage?: (message: Message) => Message | undefined;
  /** Called once, before the first iteration; for an agent that takes over by hand-off, before its first iteration. */
  readonly beforeTurn?: (context: HookContext) => HookAnswer<TurnBeginning>;
  /** Called before each iteration but the first. True, or a reason, suspends the turn; after the resume it is not called again at that place. */
  readonly shouldPause?: (context: HookContext) => HookAnswer<boolean | { readonly reason: string }>;
  /** Called before each model call; changes what the model sees in it. The history stays as it is. */
  readonly prepareIteration?: (view: IterationView, context: HookContext) => HookAnswer<IterationChange>;
  /** Called before each model call with its request; changes the request or the provider, or returns the answer. */
  readonly beforeLLMCall?: (params: LLMCallParams, context: HookContext) => HookAnswer<CallChange>;
  /** Called with the answer before it is recorded; its deltas have been emitted by then. */
  readonly afterLLMCall?: (response: LLMResponse, context: HookContext) => HookAnswer<ResponseChange>;
  /**
   * Called if the model call failed, after the retries of its provider and before those of a retry plan. May repeat the call: `prepareIteration`
   * and `beforeLLMCall` are then called again. Not called for a repeated call that fails, nor for a cancelled one.
   */
  readonly onLLMError?: (failed: FailedCall, context: HookContext) => HookAnswer<FailureChange>;
  /** Called before each start of a call of a known tool with valid arguments, also before it runs again, and before its approval. */
  readonly beforeToolCall?: (request: ToolCallRequest) => HookAnswer<ToolCallChange>;
  /**
   * Decides whether a call may run, on its final arguments and before its intent. `undefined` leaves it to the next extension, and at
   * last to the tool's `needsApproval`. If it throws, returns an invalid decision, or does not settle within `timeoutMs` or the
   * tool's time limit, the call is refused, whatever `onError` says, and the turn continues.
   */
  readonly approveToolCall?: (request: ApprovalRequest) => HookAnswer<ApprovalDecision>;
  /** Called with the outcome of a call before it is recorded, also if it threw or reached its time limit. */
  readonly afterToolCall?: (outcome: ToolCallOutcome) => HookAnswer<ToolOutcomeChange>;
  /** Called after the last response, before `afterIteration` and before the turn completes; may make it continue. */
  readonly beforeFinish?: (finish: TurnFinish) => HookAnswer<FinishChange>;
  /** Called after each iteration, once every call has its result; `finished` is true after the last one. */
  readonly afterIteration?: (step: Step) => HookAnswer<StepChange>;
  /** Called once at every end: before the record of the end if the turn completes, after it otherwise. */
  readonly afterTurn?: (end: TurnEnd) => HookAnswer<EndChange>;
  /**
   * Called once, after the record of every end and after the last event. The result of the turn waits for it; a cancel does not abort it. It
   * changes nothing, and errors are logged. Not called if the process dies before, or if a turn without an owner is cancelled.
   */
  readonly afterEnd?: (end: TurnEnd) => void | Promise<void>;
}
