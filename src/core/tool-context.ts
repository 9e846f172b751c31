import type { Context } from '@opentelemetry/api';
import type { ToolContext } from '../tools/interfaces.ts';
import type { AbortScope } from './abort-scope.ts';
import type { ToolCall } from './messages.ts';
import type { ToolIntent } from './records.ts';
import type { TurnDeps } from './turn-deps.ts';

export interface ToolContextOptions {
  readonly started: { readonly callId: string; readonly call: ToolCall; readonly intent: ToolIntent | undefined };
  readonly iteration: number;
  readonly scope: AbortScope;
  readonly traceContext: Context;
  readonly progress: (update: unknown) => void;
}

/** What a running call is told. The signal is made when it is read; a copy by spread has it too. */
export function toolContext(deps: TurnDeps, options: ToolContextOptions): ToolContext {
  const { started, scope } = options;
  const { turn } = deps;
  return {
    taskId: turn.taskId,
    agentId: turn.agentId,
    contextId: turn.contextId,
    metadata: turn.metadata,
    authContext: deps.authContext,
    iteration: options.iteration,
    callId: started.callId,
    call: started.call,
    arguments: started.intent?.arguments,
    attempt: started.intent?.attempt ?? 1,
    traceContext: options.traceContext,
    progress: options.progress,
    idempotencyKey: `${turn.taskId}:${started.callId}`,
    get signal() {
      return scope.signal;
    },
  };
}
