import { AgentLoop } from '../agent-loop.ts';
import {
  type AgentLoopConfig,
  AgentLoopError,
  type HookContext,
  type Message,
  type StartOptions,
} from '../core/contracts/index.ts';
import type { TurnResult } from '../core/journal/index.ts';
import { childResult, hookParentOf, withParent } from '../core/ownership/index.ts';
import { givenByCaller, type Turn } from '../core/turn/index.ts';

/** Runs turns: an `Agent` or an `AgentLoop`. */
export interface TurnStarter {
  /** Makes a turn; nothing runs until it is subscribed. */
  startTurn(messages: readonly Message[], options: StartOptions): Turn;
}

/** What every branch has. */
export interface BranchBase {
  /** Appended to the parent's messages: what the child turn is asked. */
  readonly messages: readonly Message[];
  /**
   * The parent's messages that the child turn is sent: `'current'` (default), those of the parent's last model call, compacted as they were,
   * and what was added since; or `'log'`, the whole history.
   */
  readonly view?: 'current' | 'log' | undefined;
  /** Tells the branches of one iteration apart: the child's task is `<taskId>.<iteration>.<name>`. Default `branch`. */
  readonly name?: string | undefined;
}

/** `agent`: the agent of the child turn. Or `config`: its configuration. The parent's store is used instead of theirs. */
export type BranchOptions = BranchBase &
  (
    | { readonly agent: TurnStarter; readonly config?: never }
    | { readonly config: AgentLoopConfig; readonly agent?: never }
  );

/**
 * Runs a child turn from within a hook, on the parent's messages so far, and resolves with its result; nothing of it enters the parent but
 * what the hook makes of that. What it used is added to the parent's usage by itself, except in `shouldPause`, `afterTurn` and `afterEnd`:
 * with what the hook changes, or, in `beforeLLMCall`, `beforeToolCall` and `approveToolCall`, before the call is made. After a crash the hook is called again and finds the child turn: it continues, or has
 * its result at once.
 *
 * The parent's cancel and the hook's time limit cancel the child turn; a parent that is lost to this process leaves it open. Its spans are
 * below the hook's. Rejects with a `TurnError` where the child turn does not complete.
 */
export function branch(context: HookContext, options: BranchOptions): Promise<TurnResult> {
  const { messages, view = 'current', name = 'branch' } = options;
  const { taskId, contextId, iteration, traceContext, state } = context;
  const parent = hookParentOf(context, name);
  if (!parent) {
    const message = 'branch was given a copy of a hook context; hand on the context that the hook was called with.';
    throw new AgentLoopError('INVALID_INPUT', message);
  }
  const given = [...(view === 'log' ? state.messages : parent.view()), ...messages];
  const start = withParent(
    {
      taskId: `${taskId}.${iteration}.${name}`,
      contextId,
      parentContext: traceContext,
      ...givenByCaller(context),
    },
    parent,
  );
  const by = options.agent ?? new AgentLoop(options.config);
  return childResult(parent, () => by.startTurn(given, start));
}
