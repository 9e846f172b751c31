import type { Context } from '@opentelemetry/api';
import type { ParentLink } from '../journal/records.ts';
import type { ArtifactStore } from './context-stores.ts';
import type { Extension } from './extension.ts';
import type { Clock, Logger } from './host.ts';
import type { Message } from './messages.ts';
import type { CallSettings, LLMProvider, RetryPlan, TurnCallSettings } from './provider.ts';
import type { TaskStateStore } from './store.ts';
import type { ArgumentChecks, AuthContext, ToolProvider } from './tool.ts';
import type { Optional } from './values.ts';

/** What happens if the model still requests tools in the last allowed iteration. */
export type OnLimit =
  /** The turn fails with `MAX_ITERATIONS`; `result` of the error has the text so far. */
  | 'fail'
  /** One more model call, without tools, writes a summary; if that call fails, the text is a fixed sentence. */
  | 'summarize'
  /** The turn completes with the text of the last response and the reason `max_iterations`. */
  | 'stop';

/** What happens if the model reaches its token limit in an answer that would end the turn. */
export type OnLength =
  /** The turn fails with `LENGTH`; `result.text` of the error and the events have the text so far. */
  | 'fail'
  /**
   * The turn completes with the text so far and the reason `length`. Calls in that answer never run. A turn that must end with a value of a
   * schema still fails with `LENGTH`.
   */
  | 'complete';

/** The options of an agent for the segments of a turn that it runs. The defaults are those of `AgentLoopConfig`. */
export interface AgentSetup
  extends CallSettings,
    Pick<
      AgentLoopConfig,
      | 'llmProvider'
      | 'toolProviders'
      | 'artifactStore'
      | 'extensions'
      | 'maxIterations'
      | 'onLimit'
      | 'onLength'
      | 'systemPrompt'
      | 'toolConcurrency'
      | 'modelSilenceMs'
      | 'toolListTimeoutMs'
      | 'toolTimeoutMs'
      | 'toolFailureMode'
    > {
  /** Its name in spans. Default: its id. */
  readonly name?: string;
  /** Passed to its tools, hooks and models; members of the turn's metadata take precedence. Default: none. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** The options of `AgentLoop`. Errors of all of them: `INVALID_CONFIG`, naming the option. */
export interface AgentLoopConfig extends CallSettings {
  /** Names the agent in records, events and spans. */
  readonly agentId: string;
  /** Makes the model calls. */
  readonly llmProvider: LLMProvider;
  /** The sources of tools, listed in this order once per turn and again on resume. Default: none. */
  readonly toolProviders?: readonly ToolProvider[] | undefined;
  /**
   * Creates the argument checks of tools whose definitions have no `checkArguments`. Default: validation by the declared JSON Schema, each check
   * within 500 ms; `null`: arguments are parsed and not checked.
   */
  readonly argumentChecks?: ArgumentChecks | null | undefined;
  /**
   * Adds the tools of `artifactTools(artifactStore)`, with which the model stores artifacts, unless `toolProviders` or an extension has them
   * already. Default: no such tools.
   */
  readonly artifactStore?: ArtifactStore | undefined;
  /** Hooks around the loop, called in this order. Default: none. */
  readonly extensions?: readonly Extension[] | undefined;
  /**
   * The agents that a turn can be handed to, by id; see `TurnChange.agent`. An agent has its own provider, call settings, prompt, tools and
   * limits; its extensions are added to those of the configuration. Called at each hand-off and on resume; must return the same in each
   * process. If it returns `undefined`, the stream errors with `MISSING_AGENT`, and the turn can be resumed. Default: none.
   */
  readonly agents?: ((agentId: string) => AgentSetup | undefined) | undefined;
  /** How many hand-offs a turn may have before it fails with `LIMIT`. From 0; default 10. */
  readonly maxHandOffs?: number | undefined;
  /** Stores the journals of turns. Default: none; a turn then cannot be resumed after its process ends. */
  readonly taskStateStore?: TaskStateStore | undefined;
  /** How many iterations a turn may have: model calls, retries not counted. From 1; default 10. */
  readonly maxIterations?: number | undefined;
  /** What happens if the model still requests tools in the last allowed iteration. Default: `'fail'`. */
  readonly onLimit?: OnLimit | undefined;
  /** What happens if the model reaches its token limit in its final answer. Default: `'fail'`. */
  readonly onLength?: OnLength | undefined;
  /** Sent before the history with each model call; never stored. Default: none. */
  readonly systemPrompt?: string | undefined;
  /** How many tool calls of one response run at the same time. From 1; default 5. */
  readonly toolConcurrency?: number | undefined;
  /**
   * How long a model request may stay silent: the time between chunks, or until the answer for a provider without `stream`. Delays of policies do
   * not count. It then fails with `PROVIDER_TIMEOUT`, which `retry` and `fallback` handle. Milliseconds; default 900,000; 0: no limit.
   */
  readonly modelSilenceMs?: number | undefined;
  /** How long a tool provider may take to list its tools. Milliseconds; default 120,000; 0 means no limit. */
  readonly toolListTimeoutMs?: number | undefined;
  /** The time limit of a call of a tool without `timeoutMs`. Milliseconds; default 30,000; 0: no limit. */
  readonly toolTimeoutMs?: number | undefined;
  /** `'continue'` (default): the model reads the error. `'fail'`: the first failed call fails the turn. */
  readonly toolFailureMode?: 'continue' | 'fail' | undefined;
  /** How long a cancelled tool may take to stop before it is abandoned. Milliseconds; default 5,000. */
  readonly abortGraceMs?: number | undefined;
  /** How long the lease of a turn lasts without a renewal. Milliseconds; default 30,000. */
  readonly leaseMs?: number | undefined;
  /**
   * How many processes in a row may crash while they run a turn, without any progress in between, before it fails with `POISON`. A process
   * that releases the turn, at a shutdown or because it lacks a tool, does not count. From 1; default 10.
   */
  readonly maxResumes?: number | undefined;
  /**
   * Aborting it drains all turns: nothing new starts, model calls are aborted, tools whose start is recorded get `abortGraceMs` to finish, their
   * results are recorded, the lease is released, and the stream errors with `SHUTDOWN`. Another process can resume the turn at once.
   */
  readonly shutdown?: AbortSignal | undefined;
  /**
   * Retries a model call that fails with a retryable error: the turn waits and repeats the call. Recorded in the journal of the
   * turn; child turns inherit their parent's plan unless their agent has its own. Default: the turn fails.
   */
  readonly retryPlan?: RetryPlan | undefined;
  /** How long a turn waits for a response of the store. Milliseconds; default 30,000. */
  readonly storeDeadlineMs?: number | undefined;
  /**
   * Which events of child turns are emitted, as `internal:sub-agent`: all (default), those of records (that have a `cursor`), or none. For
   * deeper descendants, each turn in between applies its own setting.
   */
  readonly subAgentEvents?: 'all' | 'records' | 'none' | undefined;
  /** Whether turns create OpenTelemetry spans. Default: true. */
  readonly enableTracing?: boolean | undefined;
  /**
   * Records messages, arguments and results in spans. Default: the value of `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, else
   * false.
   */
  readonly captureContent?: boolean | undefined;
  /** Applied to each string that `captureContent` records in a span, and to messages and stacks of errors there and in the log. Default: unchanged. */
  readonly redact?: ((text: string) => string) | undefined;
  /** `'millrace'` (default): `agent.execute`, `llm.call`, `tool[name]`; `'semconv'`: `invoke_agent x`, `chat x`, `execute_tool x`. */
  readonly spanNames?: 'millrace' | 'semconv' | undefined;
  /** Receives warnings and errors: ids, codes and numbers, no content. Default: nothing is logged. */
  readonly logger?: Logger | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
  /** Generates task and context ids. Default: `crypto.randomUUID`. */
  readonly generateId?: (() => string) | undefined;
}

/** The input and the settings of one turn. */
export interface AgentLoopContext {
  /** Default: a new id. With the id of an existing task, `startTurn` attaches to that turn. */
  readonly taskId: string;
  /** Default: that of the configuration. If that has `agents`: the agent that runs the first segment. */
  readonly agentId: string;
  /** The conversation that the turn belongs to. Default: a new id. */
  readonly contextId: string;
  readonly messages: readonly Message[];
  /** The root span's parent. Default: the context that is active when the turn is created; without an active span the turn starts a new trace. */
  readonly parentContext: Context;
  /** The identity of the caller, passed to tools; never journaled, traced or logged. */
  readonly authContext: AuthContext;
  /** A value of the application, passed to tools and hooks by reference: connections, the user, … Never journaled, traced or logged. */
  readonly context: unknown;
  readonly systemPrompt: string;
  readonly maxIterations: number;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Default: that of the configuration. */
  readonly retryPlan: RetryPlan;
  /** Aborting it cancels the turn. */
  readonly signal: AbortSignal;
}

/** Options of `startTurn`: ids, metadata, settings of this turn, cancellation, the parent span. */
export interface StartOptions extends Optional<Omit<AgentLoopContext, 'messages'>>, TurnCallSettings {
  /** Starts at once; unsubscribing never cancels it, only `cancel` does. Default false. */
  readonly detached?: boolean | undefined;
  /** Makes the turn a child turn of a call or a hook. Set by `branch` and by agents as tools; one who starts turns for them passes it on. */
  readonly parent?: ParentCall | undefined;
}

/** The call or the hook that a child turn runs for. Only the loop of its parent makes one. */
export interface ParentCall {
  readonly link: ParentLink;
}
