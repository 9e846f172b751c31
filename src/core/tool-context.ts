import type { Context } from '@opentelemetry/api';
import type { ToolContext } from '../tools/interfaces.ts';
import type { AbortScope } from './abort-scope.ts';
import type { PendingToolCall } from './state.ts';
import type { TurnDeps } from './turn-deps.ts';

export interface ToolContextOptions {
  readonly pending: PendingToolCall;
  readonly iteration: number;
  readonly scope: AbortScope;
  readonly traceContext: Context;
  readonly progress: (update: unknown) => void;
}

/** What a running call is told. The signal and the key are made when they are read; copies by spread keep them. */
export function toolContext(deps: TurnDeps, options: ToolContextOptions): ToolContext {
  const { pending, scope } = options;
  const { turn } = deps;
  return {
    taskId: turn.taskId,
    agentId: turn.agentId,
    contextId: turn.contextId,
    metadata: turn.metadata,
    authContext: deps.authContext,
    iteration: options.iteration,
    callId: pending.callId,
    call: pending.call,
    arguments: pending.intent?.arguments,
    attempt: pending.intent?.attempt ?? 1,
    traceContext: options.traceContext,
    progress: options.progress,
    get idempotencyKey() {
      return `${turn.taskId}:${pending.callId}`;
    },
    get signal() {
      return scope.signal;
    },
  };
}
