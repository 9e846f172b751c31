import type { AgentCard } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import type { Agent } from '../agent/agent.ts';
import {
  type ArtifactInfo,
  type AuthContext,
  type Clock,
  type ExtensionEventKind,
  invalidConfig,
  type Logger,
  type MaybePromise,
  shownValue,
  systemClock,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { ready as readyWithin } from '../core/journal/index.ts';
import { assertKnownOptions, type OptionNames } from '../options/option-rules.ts';
import type { Turn } from '../tasks/turn.ts';
import { KeptBytes } from './kept-bytes.ts';
import { KeptInStores, type PushConfigs } from './kept-in-stores.ts';
import type { ScopeOf, SenderOf } from './scope.ts';
import { type A2ATurnQueue, checkQueue } from './turn-execution.ts';

/** Options of `a2aRequestHandler`: the agent, its card, who owns which task, and the limits of messages and streams. */
export interface A2ARequestHandlerOptions {
  /** Needs a `taskStateStore`: the journal is what clients are shown. */
  readonly agent: Agent;
  /** The public card, or a function that gives it each time. */
  readonly card: AgentCard | (() => AgentCard | Promise<AgentCard>);
  /** The card for callers with a user. Default: none. */
  readonly extendedCard?: ((context: ServerCallContext) => AgentCard | Promise<AgentCard>) | undefined;
  /** Default: the tenant and the user; callers without a user are refused where the card declares `securitySchemes`. */
  readonly scopeOf?: ScopeOf | undefined;
  /**
   * Who sent a message, for callers that share a scope: a `messageId` counts among the messages of its sender. Default: the user. A server
   * that asks nobody who they are takes the address.
   */
  readonly senderOf?: SenderOf | undefined;
  /** The caller's identity for tools. Default: `{ user, tenant }`, if known. */
  readonly authContextOf?: ((context: ServerCallContext) => AuthContext | undefined) | undefined;
  /** The `context` that tools and hooks get in turns of this request. Default: none. */
  readonly contextOf?: ((context: ServerCallContext) => unknown) | undefined;
  /**
   * Whose workers run the turns: this process creates them, follows them, and runs none. Its store is that of the agent. Default: this process runs
   * them.
   */
  readonly queue?: A2ATurnQueue | undefined;
  /** Called with each turn that a message starts or resumes here, before it runs. */
  readonly onTurn?: ((turn: Turn, context: ServerCallContext) => void) | undefined;
  /** Keeps the configurations of push notifications. Default: none, and the capability must not be declared. */
  readonly push?: PushConfigs | undefined;
  /** Of messages, of the history of a task, and of what is kept for one owner. */
  readonly limits?: MessageLimits | undefined;
  /** Shows tool calls, by name, to clients that ask for the extension. Default false. */
  readonly toolEvents?: boolean | undefined;
  /** Shows these events of the agent's extensions, with their content, to clients that ask for the extension. Kinds: `internal:x.…`. Default none. */
  readonly extensionEvents?: readonly ExtensionEventKind[] | undefined;
  /** The URL of an artifact's content that is too large to be sent inline. Default: only its metadata is sent. */
  readonly artifactUrl?: ((artifact: ArtifactInfo) => string | undefined) | undefined;
  /** How large a content is sent within a task. Bytes; default 256 KiB. */
  readonly maxInlineArtifactBytes?: number | undefined;
  /** How long a cancel waits for the turn to stop. Milliseconds; default 10,000. */
  readonly cancelDeadlineMs?: number | undefined;
  /** How long the functions `card` and `extendedCard` may take. Milliseconds; default 10,000. */
  readonly callbackTimeoutMs?: number | undefined;
}

/** How large a message may be, and how much may be kept for those who send them. `Infinity`: no limit. */
export interface MessageLimits {
  /** Default 100. */
  readonly maxParts?: number | undefined;
  /** Of all texts, data, files and metadata together; default 10 MiB, in `a2aServer` its `maxBodyBytes` where that is less. */
  readonly maxMessageBytes?: number | undefined;
  /** Messages that a task may have in its history, with those that wait for its turn to read them, before it takes no more; default 10,000. */
  readonly maxHistory?: number | undefined;
  /**
   * What the stores may keep for one owner, a user in a tenant, before new messages and registrations are refused: journals, conversations,
   * artifacts, registrations. All who do not say who they are count as one, whatever tenants they name. Bytes; default 1 GiB.
   */
  readonly maxKeptBytes?: number | undefined;
}

export type ResolvedLimits = Readonly<Record<keyof MessageLimits, number>>;

export const defaultLimits: ResolvedLimits = {
  maxParts: 100,
  maxMessageBytes: 10 * 2 ** 20,
  maxHistory: 10_000,
  maxKeptBytes: 2 ** 30,
};

/** Of a body of a request to a server. */
export const defaultBodyBytes = 4 * 2 ** 20;

/** Fills in the defaults. Errors: `INVALID_CONFIG` for an unknown limit, and for a value that is not a positive number. */
export function resolveLimits(limits: MessageLimits = {}): ResolvedLimits {
  const cure = `the limits are: ${Object.keys(defaultLimits).join(', ')}`;
  if (typeof limits !== 'object' || limits === null) throw invalidConfig('limits must be an object', cure);
  const given = Object.entries(limits).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) {
    if (!Object.hasOwn(defaultLimits, name)) throw invalidConfig(`limits.${name} is not a limit`, cure);
    if (!(typeof value === 'number' && value > 0))
      throw invalidConfig(`limits.${name} must be a number above 0`, 'or leave it out');
  }
  return { ...defaultLimits, ...Object.fromEntries(given) };
}

export interface ResolvedHandlerOptions extends A2ARequestHandlerOptions {
  readonly store: TaskStateStore;
  readonly clock: Clock;
  readonly logger: Logger | undefined;
  readonly storeDeadlineMs: number;
  readonly cancelDeadlineMs: number;
  readonly callbackTimeoutMs: number;
  readonly maxInlineArtifactBytes: number;
  readonly limits: ResolvedLimits;
  /** Absent where nothing limits what is kept. */
  readonly kept: KeptBytes | undefined;
}

const names: OptionNames<A2ARequestHandlerOptions> = {
  agent: true,
  card: true,
  extendedCard: true,
  scopeOf: true,
  senderOf: true,
  authContextOf: true,
  contextOf: true,
  queue: true,
  onTurn: true,
  push: true,
  limits: true,
  toolEvents: true,
  extensionEvents: true,
  artifactUrl: true,
  maxInlineArtifactBytes: true,
  cancelDeadlineMs: true,
  callbackTimeoutMs: true,
};

/** Errors: `INVALID_CONFIG`, naming the option and the cure. */
export function resolveHandlerOptions(options: A2ARequestHandlerOptions): ResolvedHandlerOptions {
  assertKnownOptions('a2aRequestHandler', options, names);
  const { agent, card, cancelDeadlineMs = 10_000, callbackTimeoutMs = 10_000 } = options;
  const { maxInlineArtifactBytes = 256 * 1024 } = options;
  if (typeof agent?.startTurn !== 'function' || typeof agent.resume !== 'function')
    throw invalidConfig('agent must be an Agent', 'make one with agent({ … })');
  if (typeof card !== 'function' && typeof card?.name !== 'string')
    throw invalidConfig('card must be an AgentCard or a function that gives one', 'give card');
  for (const [name, ms] of Object.entries({ cancelDeadlineMs, callbackTimeoutMs }))
    if (!(ms > 0)) throw invalidConfig(`${name} must be above 0`, 'use milliseconds, or omit it');
  checkQueue(options);
  checkKinds(options.extensionEvents);
  const limits = resolveLimits(options.limits);
  const { taskStateStore: store, clock = systemClock, logger, storeDeadlineMs = 30_000 } = agent.options;
  if (!store)
    throw invalidConfig(
      'the agent has no taskStateStore',
      'give it one: agent({ taskStateStore: new InMemoryStateStore(), … })',
    );
  const kept = keptBytes(options, { store, clock, storeDeadlineMs, limits });
  const times = { storeDeadlineMs, cancelDeadlineMs, callbackTimeoutMs };
  return { ...options, store, clock, logger, ...times, maxInlineArtifactBytes, limits, kept };
}

function checkKinds(kinds: unknown): void {
  if (kinds === undefined) return;
  const wrong = Array.isArray(kinds) ? kinds.find((kind) => !/^internal:x\.[\w.-]+$/.test(String(kind))) : kinds;
  if (wrong === undefined) return;
  throw invalidConfig(
    `extensionEvents must be an array of kinds "internal:x.<extension>", not ${shownValue(wrong)}`,
    "write e.g. ['internal:x.compaction']",
  );
}

/** Absent where nothing limits what is kept. */
function keptBytes(
  { agent, push }: A2ARequestHandlerOptions,
  {
    store: journals,
    clock,
    storeDeadlineMs: ms,
    limits,
  }: Pick<ResolvedHandlerOptions, 'store' | 'clock' | 'storeDeadlineMs' | 'limits'>,
): KeptBytes | undefined {
  const { maxKeptBytes: max } = limits;
  if (max === Number.POSITIVE_INFINITY) return undefined;
  const { messageStore: conversations = journals.messages, artifactStore: artifacts } = agent.options;
  const ready = <T>(ask: () => MaybePromise<T>) => readyWithin(ask, { clock, ms });
  const stores = new KeptInStores({ agentId: agent.id, journals, conversations, artifacts, push, ready });
  const history = (contextId: string) => stores.historyBytes(contextId);
  return new KeptBytes({ clock, max, count: (owner, most) => stores.count(owner, most), history });
}
