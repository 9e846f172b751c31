import type { TurnTracing } from '../../observability/spans/tracing-options.ts';
import type { LLMProvider } from '../contracts/provider.ts';
import type { AuthContext } from '../contracts/tool.ts';
import type { Hooks } from '../hooks/hooks.ts';
import type { Stamper } from '../journal/signals.ts';
import type { TurnIdentity } from '../journal/state.ts';
import type { OpenCall } from '../model-call/open-call.ts';
import type { ResolvedConfig } from '../options/resolve-config.ts';
import type { TurnNode } from '../ownership/child-turns.ts';
import type { LeaseHold } from '../ownership/lease-hold.ts';
import type { AbortScope } from '../streams/abort-scope.ts';
import type { CallNotes } from '../tool-call/tool-results.ts';
import type { ToolSet } from '../tool-call/tool-set.ts';
import type { Inbox } from './inbox.ts';

/** What a run of a turn has before its tools are known. A run is what one process does of a turn, from its start or resume on. */
export interface RunDeps extends Stamper {
  readonly config: ResolvedConfig;
  /** With the id and the metadata of the current agent. */
  readonly turn: TurnIdentity;
  /** The agent that runs the turn with these. */
  readonly agentId: string;
  readonly systemPrompt: string | undefined;
  /** Unless an extension changed it; see `maxIterationsOf`. */
  readonly maxIterations: number;
  readonly provider: LLMProvider;
  /** As the caller gave it, for tools; never journaled, traced or logged. */
  readonly authContext: AuthContext | undefined;
  /** The `context` of the start options, as the caller gave it. */
  readonly context: unknown;
  readonly tracing: TurnTracing;
  readonly hooks: Hooks<RunDeps>;
  /** What is known of calls that have not started. */
  readonly callNotes: CallNotes;
  /** Aborted when the turn is cancelled. */
  readonly scope: AbortScope;
  /** Aborted when the process shuts down and the turn shall be left to another. */
  readonly drain: AbortScope;
  /** What the turn is asked to do while it runs. */
  readonly inbox: Inbox;
  /** What the model call took that no record tells of yet. */
  readonly openCall: OpenCall;
  /** The turn in the tree of its child turns. */
  readonly node: TurnNode;
  /** How long this process may be sure of its lease. Absent without a store: nobody else can own the turn then. */
  readonly leaseHold: LeaseHold | undefined;
}

/** What a hook needs of the run that it belongs to. */
export interface HookDeps extends RunDeps {
  /** Absent where the turn ended before its tools were known. */
  readonly tools?: ToolSet;
}

/** What the operators of one run of a turn are given. */
export interface TurnDeps extends RunDeps {
  readonly tools: ToolSet;
}
