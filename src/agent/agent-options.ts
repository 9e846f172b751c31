import type { StandardSchemaV1 } from '@standard-schema/spec';
import {
  type AgentLoopConfig,
  AgentLoopError,
  type CallSettings,
  checkInput,
  type Extension,
  type HookContext,
  type LLMProvider,
  type Message,
  type MessageStore,
  type StartOptions,
  type StepOf,
  shownValue,
  type Tool,
  type ValueExtension,
} from '../core/contracts/index.ts';
import type { Predecessor } from '../core/journal/index.ts';
import type { ContextManagementOptions } from '../extensions/context-management.ts';
import type { OutputSchema, StructuredOutputOptions } from '../extensions/structured-output/output-options.ts';
import type { RetryOptions } from '../providers/policies/retry.ts';
import type { ResumeOptions, RetryTurnOptions } from '../tasks/agent-loop.ts';
import type { SubmitOptions } from '../tasks/create-task.ts';
import type { FromJsonSchema } from '../tools/tool-options.ts';

/** What happens to a turn that starts while another turn of its context is open. */
export type BusyPolicy =
  /** It is refused with `AGENT_BUSY`; nothing is recorded. */
  | 'reject'
  /**
   * It waits until the turns ahead of it are over, at most `queueTimeoutMs`. It also waits for suspended turns, and for turns whose process crashed:
   * resume or cancel them.
   */
  | 'queue'
  /**
   * Its messages are added to the running turn before the next model call, and that turn is returned. If the turn ahead is suspended, or its
   * process crashed: as `'reject'`.
   */
  | 'steer';

/** Returns the system prompt of a turn. Called once per turn, and again on resume. */
export type PromptFunction = (context: HookContext) => string | Promise<string>;

/** A model by its name, with settings of its calls. */
export interface ModelChoice extends CallSettings {
  readonly name: string;
}

/** The argument of the function that creates an agent's tools: services, connections, anything that a test replaces. */
export type Dependencies = Readonly<Record<string, unknown>>;

/**
 * The type of `result().value` with this output schema: the output type of a Standard Schema, or the type that a literal JSON Schema describes;
 * `unknown` if the type of the JSON Schema is not literal.
 */
export type OutputOf<S extends OutputSchema> = S extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<S>
  : FromJsonSchema<S>;

/** The options of an agent, except for its tools. `E`: its extensions. */
export interface AgentSettings<S extends OutputSchema = OutputSchema, E extends Extension<never> = Extension>
  extends Omit<
    AgentLoopConfig,
    'agentId' | 'agents' | 'maxHandOffs' | 'llmProvider' | 'model' | 'systemPrompt' | 'extensions'
  > {
  /** The agent's id in records, events and spans. Default: `name`, else a random id. A turn is resumed by an agent of the same id. */
  readonly id?: string | undefined;
  /** A name for people and for other agents. Default: `id`. */
  readonly name?: string | undefined;
  /** The agent's skills, in a sentence: for models and routers that choose one. */
  readonly description?: string | undefined;
  /** A provider, or the name of one of `providers`. */
  readonly provider: LLMProvider | string;
  /** The providers that `provider` may name. Default: none. */
  readonly providers?: Readonly<Record<string, LLMProvider>> | undefined;
  /** A model name, or a name with settings; `temperature`, `maxTokens`, … of the agent take precedence over them. Default: the provider's model. */
  readonly model?: string | ModelChoice | undefined;
  /**
   * Retries model calls that fail with a transient error (429, 503, a broken connection, …), after the delay that the server requests; each retry
   * is emitted as `internal:llm-attempt-discarded`. See the policy `retry`. Default: `{ maxRetries: 4 }`, 5 attempts in total, unless the provider
   * has its own `retry` policy; `null` turns retries off.
   */
  readonly retry?: RetryOptions | null | undefined;
  /** Sent before the history with each model call; a function is called once per turn. Never stored. Default: none. */
  readonly systemPrompt?: string | PromptFunction | undefined;
  /** Passed to tools, hooks and models with each turn; members of the turn's own metadata take precedence. Default: none. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /**
   * Stores the conversations between turns. Default: the `messages` of `taskStateStore`, as durable as its journals; without a `taskStateStore`,
   * the memory of this process. Errors: `INVALID_CONFIG` if `taskStateStore` stores no conversations and this option is missing.
   */
  readonly messageStore?: MessageStore | undefined;
  /** The context of new turns without a `contextId`. Default: a random id, which an existing task need not match. */
  readonly contextId?: string | undefined;
  /** What happens to a turn while another turn of its context runs. Default: `'reject'`. */
  readonly busy?: BusyPolicy | undefined;
  /**
   * How long a turn waits for earlier turns of its context, with `busy: 'queue'`, and with `'steer'` for a turn of another process. Milliseconds;
   * default 3,600,000; 0: no limit. After that the turn fails with `AGENT_BUSY`; `agent.retry` continues it as a new task.
   */
  readonly queueTimeoutMs?: number | undefined;
  /**
   * Keeps requests within the context window of the model, after the agent's extensions. Default: old tool outputs are truncated and long histories
   * compacted, see `contextManagement`; `null` turns it off.
   */
  readonly contextManagement?: ContextManagementOptions | null | undefined;
  /**
   * Structured output: a completed turn has `result().value`, validated and typed by `schema`. The options are those of `structuredOutput`.
   * Default: turns end with text.
   */
  readonly output?: Omit<StructuredOutputOptions<S>, 'forceFinish'> | undefined;
  /** Short for `output: { schema }`. */
  readonly outputSchema?: S | undefined;
  /** Hooks around the loop of its turns, called in this order. Default: none. */
  readonly extensions?: readonly E[] | undefined;
  /** Whether `agent.usage` sums the usage of its turns. Default: true. */
  readonly enableUsageTracking?: boolean | undefined;
}

/** An agent's tools as an array. */
export interface GivenTools<C = unknown, X extends Tool<unknown, C> = Tool<unknown, C>> {
  /** Tools of the agent, listed before those of `toolProviders`. Default: none. */
  readonly tools?: readonly X[] | undefined;
}

/** An agent's tools as a function of its dependencies. */
export interface DependentTools<D extends Dependencies, C = unknown, X extends Tool<unknown, C> = Tool<unknown, C>> {
  /** Returns the tools; called with `dependencies`. */
  readonly tools: (dependencies: D) => readonly X[];
  /** The argument of `tools`; a turn may override members of it. */
  readonly dependencies: D;
}

/**
 * Options of `agent`: its name, its provider, its tools, and the settings of its turns. Tools are an array, or a function of
 * `dependencies`.
 */
export type AgentOptions<
  D extends Dependencies = Dependencies,
  S extends OutputSchema = OutputSchema,
  C = unknown,
  X extends Tool<unknown, C> = Tool<unknown, C>,
  E extends Extension<never> = Extension,
> = AgentSettings<S, E> & (GivenTools<C, X> | DependentTools<D, C, X>);

/** Whether an agent has tools of other sources, whose names are unknown to the compiler. */
export interface OtherTools<P> {
  /** Sources of tools, besides `tools`. */
  readonly toolProviders?: P | undefined;
}

/** An extension of an agent with these tools: the type of its value is inferred, the tools are those of the options. */
export type AgentExtension<V, X extends Tool, P> = ValueExtension<V, NoInfer<StepOf<KnownTools<X, P>>>>;

/** The type of the turns' value: of an output schema, else of an extension; `undefined` without either. */
export type ValueOfTurns<S extends OutputSchema, V> = [S] extends [never] ? V : OutputOf<S>;

/** The tools whose calls have typed events: none if `toolProviders` add others, whose names are unknown. */
export type KnownTools<X extends Tool, P> = P extends undefined ? X : Tool;

/** Options that replace those of an agent in a copy of it; `tools` also replaces a function of dependencies. */
export type AgentChanges<
  S extends OutputSchema = OutputSchema,
  C = unknown,
  X extends Tool<unknown, C> = Tool<unknown, C>,
> = Partial<AgentSettings<S>> & GivenTools<C, X>;

/** Options of one turn of an agent. */
export interface AgentTurnOptions<C = unknown> extends StartOptions {
  /** A value of the application, passed to tools and hooks by reference; never journaled, so a resume needs it again. Default: `undefined`. */
  readonly context?: C | undefined;
  /** Replaces members of the agent's `dependencies` for this turn only. */
  readonly dependencies?: Dependencies | undefined;
  /**
   * Where the turn continues its context: after the stored message with that `id`, or the last one of the ended turn with that id; `null`: as the
   * first. What the context has after it stays stored, and is not given to the model. Later turns continue this one. Default: after the last message.
   */
  readonly after?: string | null | undefined;
}

/** Options of a turn that answers the input of another one anew. */
export interface RegenerateOptions<C = unknown> extends Omit<AgentTurnOptions<C>, 'after'> {
  /** What the turn is given in place of that: an edited message. Default: what the other turn was given. */
  readonly input?: TurnInput | undefined;
}

/** Options of a submitted turn. */
export interface AgentSubmitOptions extends SubmitOptions, Pick<AgentTurnOptions, 'after'> {}

/** Options of a resume: values of the turn that are never journaled. */
export interface AgentResumeOptions<C = unknown> extends ResumeOptions {
  /** As in `AgentTurnOptions`. */
  readonly context?: C | undefined;
  /** The dependencies of the agent's tools, for this turn. */
  readonly dependencies?: Dependencies | undefined;
}

/** Options of a retry: values of the turn that are never journaled. */
export interface AgentRetryOptions<C = unknown> extends RetryTurnOptions {
  /** As in `AgentTurnOptions`. */
  readonly context?: C | undefined;
  /** The dependencies of the agent's tools, for this turn. */
  readonly dependencies?: Dependencies | undefined;
}

/** The input of a turn: a string, a message, or an array of at least one. */
export type TurnInput = string | Message | readonly Message[];

/** The input of a turn as an array of messages. Errors: `INVALID_INPUT` for an empty array and for anything that is not a `TurnInput`. */
export function messagesOf(input: TurnInput): readonly Message[] {
  if (typeof input !== 'string' && (typeof input !== 'object' || input === null)) {
    const what = `a turn is given a string, a message or an array of messages, not ${shownValue(input)}`;
    throw new AgentLoopError('INVALID_INPUT', `${what}; write startTurn("Hello").`);
  }
  const messages: readonly Message[] =
    typeof input === 'string' ? [{ role: 'user', content: input }] : isList(input) ? input : [input];
  checkInput(messages);
  return messages;
}

/** Errors: `INVALID_INPUT`. */
export function predecessorOf(after: AgentTurnOptions['after']): Predecessor | undefined {
  if (after === undefined) return undefined;
  if (after === null) return {};
  if (typeof after === 'string' && after !== '') return { after };
  const what = `after is the id of a stored message or of an ended turn, or null, not ${shownValue(after)}`;
  throw new AgentLoopError('INVALID_INPUT', `${what}; leave it out to continue the conversation at its end.`);
}

function isList(input: Message | readonly Message[]): input is readonly Message[] {
  return Array.isArray(input);
}
