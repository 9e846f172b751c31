import type { StandardSchemaV1 } from '@standard-schema/spec';
import {
  type AgentLoopConfig,
  AgentLoopError,
  type CallSettings,
  checkMessages,
  type HookContext,
  type LLMProvider,
  type Message,
  type MessageStore,
  type StartOptions,
  shownValue,
  type Tool,
  type ValueExtension,
} from '../core/contracts/index.ts';
import type { ResumeOptions, RetryTurnOptions } from '../core/turn/index.ts';
import type { ContextManagementOptions } from '../extensions/context-management.ts';
import type { OutputSchema, StructuredOutputOptions } from '../extensions/structured-output/output-options.ts';
import type { RetryOptions } from '../providers/policies/retry.ts';
import type { FromJsonSchema } from '../tools/tool-options.ts';

/** What becomes of a turn that starts while another of its context has not ended. */
export type BusyPolicy =
  /** It is refused with `AGENT_BUSY`; nothing of it is recorded. */
  | 'reject'
  /** It waits until those before it are over, also behind turns that are suspended, or whose process died: somebody has to resume or cancel them. */
  | 'queue'
  /**
   * Its messages go to the turn that runs, before its next model call; the turn that is returned is that one. After a turn that is suspended, or
   * whose process died, as `'reject'`.
   */
  | 'steer';

/** Gives the system prompt of a turn; asked once a turn, and again on resume. */
export type PromptFunction = (context: HookContext) => string | Promise<string>;

/** A model by its name, with settings of its calls. */
export interface ModelChoice extends CallSettings {
  readonly name: string;
}

/** What tools are given besides their context: services, connections, whatever a test wants to replace. */
export type Dependencies = Readonly<Record<string, unknown>>;

/**
 * What turns with this output schema finish with: the output type of a Standard Schema, or the type that a literal JSON Schema describes;
 * `unknown` where the type of a JSON Schema does not say more.
 */
export type OutputOf<S extends OutputSchema> = S extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<S>
  : FromJsonSchema<S>;

/** The options of every agent, the type of its dependencies not known. */
export interface AgentSettings<S extends OutputSchema = OutputSchema>
  extends Omit<AgentLoopConfig, 'agentId' | 'agents' | 'maxHandOffs' | 'llmProvider' | 'model' | 'systemPrompt'> {
  /** Stands in records, events and spans. Default: the name, else a new one. */
  readonly id?: string | undefined;
  /** For people, and for other agents. Default: the id. */
  readonly name?: string | undefined;
  /** What the agent is good at, in a sentence: for models and routers that choose one. */
  readonly description?: string | undefined;
  /** A provider, or the name of one of `providers`. */
  readonly provider: LLMProvider | string;
  /** By name. Default none. */
  readonly providers?: Readonly<Record<string, LLMProvider>> | undefined;
  /** A name, or a name with settings, which the agent's own `temperature`, `maxTokens`, … come before. Default: the provider's own. */
  readonly model?: string | ModelChoice | undefined;
  /**
   * How model calls that fail in a way that usually passes (429, 503, a connection that breaks, …) are made again, see `retry`: with the
   * pauses that the server asks for, shown as `internal:llm-attempt-discarded`. Default: 5 attempts, `{ maxRetries: 4 }`; `null` turns it off. Without
   * the option a provider that has a `retry` policy is left as it is.
   */
  readonly retry?: RetryOptions | null | undefined;
  /** Put before the history at each model call; never stored. */
  readonly systemPrompt?: string | PromptFunction | undefined;
  /** Goes with each turn to tools, hooks and models; that of a turn is put over it. Default none. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /**
   * What is remembered between turns. Default: beside the journals of `taskStateStore`, as durable as they are; without that option in the
   * memory of this process. A `taskStateStore` that keeps no conversations needs this option.
   */
  readonly messageStore?: MessageStore | undefined;
  /** The context of turns that name none. Default: a new one. */
  readonly contextId?: string | undefined;
  /** Default `'reject'`. */
  readonly busy?: BusyPolicy | undefined;
  /**
   * How long a turn waits for those before it in its context, with `busy: 'queue'`, and with `'steer'` for one of another process. In milliseconds;
   * default 3,600,000; 0 means no limit. The turn then fails with `AGENT_BUSY`; `retry` continues it as a new task.
   */
  readonly queueTimeoutMs?: number | undefined;
  /**
   * What keeps requests small, after the agent's extensions. Default: old tool outputs are shortened and long histories compacted, see
   * `contextManagement`; `null` turns all of it off.
   */
  readonly contextManagement?: ContextManagementOptions | null | undefined;
  /**
   * Makes turns end with a value of its schema, `result().value`, which has its type: the options of `structuredOutput`. A turn that completes
   * has a value. Default: turns end with text.
   */
  readonly output?: Omit<StructuredOutputOptions<S>, 'forceFinish'> | undefined;
  /** `output: { schema }`. */
  readonly outputSchema?: S | undefined;
  /** Whether `usage` adds up what turns took. Default true. */
  readonly enableUsageTracking?: boolean | undefined;
}

/** An agent's tools as they are. */
export interface GivenTools<C = unknown, X extends Tool<unknown, C> = Tool<unknown, C>> {
  /** Default none. They come before those of `toolProviders`. */
  readonly tools?: readonly X[] | undefined;
}

/** An agent's tools as a function of what they depend on. */
export interface DependentTools<D extends Dependencies, C = unknown, X extends Tool<unknown, C> = Tool<unknown, C>> {
  readonly tools: (dependencies: D) => readonly X[];
  /** What the function is given, unless a turn overrides it. */
  readonly dependencies: D;
}

export type AgentOptions<
  D extends Dependencies = Dependencies,
  S extends OutputSchema = OutputSchema,
  C = unknown,
  X extends Tool<unknown, C> = Tool<unknown, C>,
> = AgentSettings<S> & (GivenTools<C, X> | DependentTools<D, C, X>);

/** What options are inferred from besides: the value of an extension, and whether there are tools of other sources. */
export interface InferredOptions<V, P> {
  readonly extensions?: readonly ValueExtension<V>[] | undefined;
  readonly toolProviders?: P | undefined;
}

/** The value of turns: of an output schema, else of an extension; `undefined` where there is neither. */
export type ValueOfTurns<S extends OutputSchema, V> = [S] extends [never] ? V : OutputOf<S>;

/** The tools whose calls have typed events: none where there are others, of `toolProviders`, whose names are not known. */
export type KnownTools<X extends Tool, P> = P extends undefined ? X : Tool;

/** What another agent has in place of what this one has; tools take the place of tools that depend on something, too. */
export type AgentChanges<
  S extends OutputSchema = OutputSchema,
  C = unknown,
  X extends Tool<unknown, C> = Tool<unknown, C>,
> = Partial<AgentSettings<S>> & GivenTools<C, X>;

/** What is given for one turn of an agent. */
export interface AgentTurnOptions<C = unknown> extends StartOptions {
  /** A value of the application, which tools and hooks get as it is; never journaled. Default: none, `undefined`. */
  readonly context?: C | undefined;
  /** In place of the agent's, by name, for this turn only. */
  readonly dependencies?: Dependencies | undefined;
}

export interface AgentResumeOptions<C = unknown> extends ResumeOptions {
  readonly context?: C | undefined;
  readonly dependencies?: Dependencies | undefined;
}

export interface AgentRetryOptions<C = unknown> extends RetryTurnOptions {
  readonly context?: C | undefined;
  readonly dependencies?: Dependencies | undefined;
}

/** The input of a turn: a string, a message, or an array of at least one. */
export type TurnInput = string | Message | readonly Message[];

/** Errors: `INVALID_INPUT`. */
export function messagesOf(input: TurnInput): readonly Message[] {
  if (typeof input !== 'string' && (typeof input !== 'object' || input === null)) {
    const what = `a turn is given a string, a message or an array of messages, not ${shownValue(input)}`;
    throw new AgentLoopError('INVALID_INPUT', `${what}; write startTurn("Hello").`);
  }
  const messages: readonly Message[] =
    typeof input === 'string' ? [{ role: 'user', content: input }] : isList(input) ? input : [input];
  checkMessages(messages);
  if (messages.length === 0) {
    const what = 'a turn is given at least one message, not an empty array';
    throw new AgentLoopError('INVALID_INPUT', `${what}; to continue a turn write resume(taskId).`);
  }
  return messages;
}

function isList(input: Message | readonly Message[]): input is readonly Message[] {
  return Array.isArray(input);
}
