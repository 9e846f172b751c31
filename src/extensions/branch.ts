import { AgentLoop } from '../agent-loop.ts';
import { childTaskId } from '../child-task-id.ts';
import {
  type AgentLoopConfig,
  AgentLoopError,
  type HookContext,
  type Message,
  type StartOptions,
} from '../core/contracts/index.ts';
import type { TurnResult } from '../core/journal/index.ts';
import { givenByCaller } from '../tasks/agent-loop.ts';
import { childResult, hookParentOf } from '../tasks/child-turn.ts';
import type { Turn } from '../tasks/turn.ts';

/** Runs turns: an `Agent` or an `AgentLoop`. */
export interface TurnStarter {
  /** Creates a turn; nothing runs until it is subscribed to. */
  startTurn(messages: readonly Message[], options: StartOptions): Turn;
}

/** Options of every branch. */
export interface BranchBase {
  /** The input of the child turn, appended to the parent's messages. */
  readonly messages: readonly Message[];
  /**
   * Which messages of the parent the child turn receives: `'current'` (default), those of the parent's last model call, as compacted,
   * and those added since; or `'log'`, the whole history.
   */
  readonly view?: 'current' | 'log' | undefined;
  /** Distinguishes the branches of one iteration: the child's task is `<taskId>.<iteration>.<name>`. Default `branch`. */
  readonly name?: string | undefined;
}

/** `agent`: the agent of the child turn. Or `config`: its configuration. The parent's store is used instead of theirs. */
export type BranchOptions = BranchBase &
  (
    | { readonly agent: TurnStarter; readonly config?: never }
    | { readonly config: AgentLoopConfig; readonly agent?: never }
  );

/**
 * Runs a child turn from a hook, on the parent's messages so far, and resolves with its result. The parent's history does not change
 * unless the hook returns changes. The child's usage is added to the parent's automatically, except in `shouldPause`, `afterTurn` and `afterEnd`:
 * with the hook's changes, or, in `beforeLLMCall`, `beforeToolCall` and `approveToolCall`, before the call is made. After a crash the hook is called
 * again and finds the child turn, which continues, or returns its recorded result.
 *
 * The parent's cancel and the hook's time limit cancel the child turn; if the parent is lost to this process, the child turn stays open. Its spans are
 * below the hook's. Rejects with a `TurnError` if the child turn does not complete.
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
  const start = {
    taskId: childTaskId(`${taskId}.${iteration}.${name}`),
    contextId,
    parentContext: traceContext,
    ...givenByCaller(context),
    parent,
  };
  const by = options.agent ?? new AgentLoop(options.config);
  return childResult(parent, () => by.startTurn(given, start));
}
