import type { Context } from '@opentelemetry/api';
import type { ArtifactStore } from './artifact-store.ts';
import type { Clock } from './clock.ts';
import type { Extension } from './extension.ts';
import type { Logger } from './logger.ts';
import type { Message } from './messages.ts';
import type { CallSettings, LLMProvider, RetryPlan } from './provider.ts';
import type { TaskStateStore } from './store.ts';
import type { ArgumentChecks, AuthContext, ToolProvider } from './tool.ts';
import type { Optional } from './values.ts';

/** What happens when the model still asks for tools in the last iteration allowed. */
export type OnLimit =
  /** The turn fails with `MAX_ITERATIONS`; what was said so far is kept. */
  | 'fail'
  /** One more call, without tools, that sums up; a fixed sentence if that call fails. */
  | 'summarize'
  /** The turn completes with the text of the last response and the reason `max_iterations`. */
  | 'stop';

/** What happens when the model stops at its token limit in an answer that would end the turn. */
export type OnLength =
  /** The turn fails with `LENGTH`; `result.text` of the error and the events have the text so far. */
  | 'fail'
  /**
   * The turn completes with the text so far and the reason `length`. Calls in that answer never run. A turn that has to end with a value of a
   * schema fails with `LENGTH` all the same.
   */
  | 'complete';

/** What an agent brings for the part of a turn that it runs. The defaults are those of `AgentLoopConfig`. */
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
  /** For spans. Default: its id. */
  readonly name?: string;
  /** Goes to its tools, hooks and models; what the turn was given goes before it. Default none. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface AgentLoopConfig extends CallSettings {
  readonly agentId: string;
  readonly llmProvider: LLMProvider;
  /** Default none. */
  readonly toolProviders?: readonly ToolProvider[] | undefined;
  /**
   * Makes the checks of tools whose definitions have no `checkArguments`. Default: by the JSON Schema that they declare, each check within
   * 500 ms; `null`: their arguments are parsed, and handed on as they are.
   */
  readonly argumentChecks?: ArgumentChecks | null | undefined;
  /**
   * Brings the tools of `artifactTools(artifactStore)`, with which the model keeps artifacts, unless `toolProviders` or an extension has them
   * already. Default: none, and no such tools.
   */
  readonly artifactStore?: ArtifactStore | undefined;
  /** Hooks around the loop, asked in this order. Default none. */
  readonly extensions?: readonly Extension[] | undefined;
  /**
   * The agents that a turn can be handed to, by id; see `TurnChange.agent`. An agent has its own provider, call settings, prompt, tools and
   * limits; its extensions are added to those of the configuration. Asked at each change and on resume, and has to answer the same in
   * each process: a turn whose agent is not known is lost with `MISSING_AGENT`, and can be resumed. Default none.
   */
  readonly agents?: ((agentId: string) => AgentSetup | undefined) | undefined;
  /** How often agents may hand a turn over before it fails with `LIMIT`. From 0; default 10. */
  readonly maxHandOffs?: number | undefined;
  /** Where turns are journaled. Without one a turn lives and dies with its process. */
  readonly taskStateStore?: TaskStateStore | undefined;
  /** Model calls a turn may make, from 1. Default 10. */
  readonly maxIterations?: number | undefined;
  /** Default `'fail'`. */
  readonly onLimit?: OnLimit | undefined;
  /** Default `'fail'`. */
  readonly onLength?: OnLength | undefined;
  /** Put before the history at each call; never stored. */
  readonly systemPrompt?: string | undefined;
  /** Calls of one response that may run at the same time. Default 5. */
  readonly toolConcurrency?: number | undefined;
  /**
   * How long one request of a model may go without a chunk, for a provider without `stream` without its answer. It then fails with
   * `PROVIDER_TIMEOUT`, which `retry` and `fallback` take up; what policies wait for is no silence. Milliseconds; default 900,000; 0 means no limit.
   */
  readonly modelSilenceMs?: number | undefined;
  /** How long a tool provider may take to list its tools. Milliseconds; default 120,000; 0 means no limit. */
  readonly toolListTimeoutMs?: number | undefined;
  /** For tools that name none. Milliseconds; default 30,000; 0 means no limit. */
  readonly toolTimeoutMs?: number | undefined;
  /** `'continue'` (default): the model reads the error. `'fail'`: the first failed call fails the turn. */
  readonly toolFailureMode?: 'continue' | 'fail' | undefined;
  /** How long a cancelled tool may take to stop before it is abandoned. Milliseconds; default 5,000. */
  readonly abortGraceMs?: number | undefined;
  /** How long the lease of a turn lasts without a renewal. Milliseconds; default 30,000. */
  readonly leaseMs?: number | undefined;
  /** How often a turn may be resumed without any progress in between before it fails with `POISON`. From 1; default 10. */
  readonly maxResumes?: number | undefined;
  /**
   * Aborting it drains: nothing new is begun, model calls are left, tools whose start is recorded get `abortGraceMs` to finish, what they
   * did is recorded, the lease is given back, and the stream errors with `SHUTDOWN`. Another process can resume the turn at once.
   */
  readonly shutdown?: AbortSignal | undefined;
  /**
   * What becomes of a turn whose model call fails for a reason that may pass: it waits and makes the call again. Kept in the journal of the
   * turn; child turns have that of their parent unless their agent has its own. Default: the turn fails.
   */
  readonly retryPlan?: RetryPlan | undefined;
  /** How long a turn waits for a store that does not answer. Milliseconds; default 30,000. */
  readonly storeDeadlineMs?: number | undefined;
  /**
   * Which events of child turns are shown, as `internal:sub-agent`: all (default), those of records (that have a `cursor`), or none. Of
   * descendants further down, what each turn on the way shows.
   */
  readonly subAgentEvents?: 'all' | 'records' | 'none' | undefined;
  /** Default true. */
  readonly enableTracing?: boolean | undefined;
  /**
   * Puts messages, arguments and results into spans. Default: what `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says, else
   * false.
   */
  readonly captureContent?: boolean | undefined;
  /** Applied to each text that `captureContent` lets into a span, and to messages and stacks of errors there and in the log. Default: the text as it is. */
  readonly redact?: ((text: string) => string) | undefined;
  /** `'millrace'` (default): `agent.execute`, `llm.call`, `tool[name]`; `'semconv'`: `invoke_agent x`, `chat x`, `execute_tool x`. */
  readonly spanNames?: 'millrace' | 'semconv' | undefined;
  /** Silent by default. */
  readonly logger?: Logger | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
  /** Makes task and context ids. Default: `crypto.randomUUID`. */
  readonly generateId?: (() => string) | undefined;
}

/** What belongs to one turn. */
export interface AgentLoopContext {
  /** Default: a new one. An id that the store knows attaches to the turn there is. */
  readonly taskId: string;
  /** Default: the configuration's. Where that has `agents`, the one of them that answers first. */
  readonly agentId: string;
  /** Default: a new one. */
  readonly contextId: string;
  readonly messages: readonly Message[];
  /** The root span's parent. Default: the context that is active when the turn is made; without an active span the turn is its own trace. */
  readonly parentContext: Context;
  /** Reaches tools; never journaled, traced or logged. */
  readonly authContext: AuthContext;
  /** A value of the application, which tools and hooks get as it is: connections, the user, … Never journaled, traced or logged. */
  readonly context: unknown;
  readonly systemPrompt: string;
  readonly maxIterations: number;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Default: that of the configuration. */
  readonly retryPlan: RetryPlan;
  /** Aborting it cancels the turn. */
  readonly signal: AbortSignal;
}

export interface StartOptions extends Optional<Omit<AgentLoopContext, 'messages'>> {
  /** Starts at once and belongs to its task: readers come and go, only `cancel` stops it. Default false. */
  readonly detached?: boolean | undefined;
}
