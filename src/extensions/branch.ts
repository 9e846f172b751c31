import { AgentLoop } from '../core/agent-loop.ts';
import type { AgentLoopConfig } from '../core/config.ts';
import type { HookContext } from '../core/extension.ts';
import type { Message } from '../core/messages.ts';
import type { TurnResult } from '../core/turn-result.ts';

export interface BranchOptions {
  /** Of the child turn. With the parent's store the branch survives a crash. */
  readonly config: AgentLoopConfig;
  /** Behind the parent's history: what the child is asked. */
  readonly messages: readonly Message[];
  /** Tells branches of one iteration apart: the child's task is `<taskId>.<iteration>.<name>`. Default `branch`. */
  readonly name?: string;
}

/**
 * Runs a child turn from within a hook, on the parent's history so far, and resolves with its result; nothing of it enters the parent
 * but what the hook makes of that: hand `usage` on to have it counted. Behind a crash the hook is asked again, and finds the child that
 * there is: it goes on, or has its result at once. For the same iteration the messages must be the same, else `CONFLICT`.
 *
 * The parent's cancel and the hook's time limit cancel the child; its spans are below the hook's. Rejects with a `TurnError` where the
 * child does not complete.
 */
export function branch(
  context: HookContext,
  { config, messages, name = 'branch' }: BranchOptions,
): Promise<TurnResult> {
  const { taskId, contextId, iteration, authContext, signal, traceContext, state } = context;
  return new AgentLoop(config)
    .startTurn([...state.messages, ...messages], {
      taskId: `${taskId}.${iteration}.${name}`,
      contextId,
      signal,
      parentContext: traceContext,
      ...(authContext && { authContext }),
    })
    .result();
}
