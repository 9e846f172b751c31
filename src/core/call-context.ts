import type { Context } from '@opentelemetry/api';
import type { AuthContext, ToolContext } from '../tools/interfaces.ts';
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

/** What a running call is told. Its signal is made when it is read. */
export class CallContext implements ToolContext {
  readonly taskId: string;
  readonly agentId: string;
  readonly contextId: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly authContext: AuthContext | undefined;
  readonly iteration: number;
  readonly callId: string;
  readonly call: ToolCall;
  readonly arguments: unknown;
  readonly idempotencyKey: string;
  readonly attempt: number;
  readonly traceContext: Context;
  readonly progress: (update: unknown) => void;
  readonly #scope: AbortScope;

  constructor({ turn, authContext }: TurnDeps, options: ToolContextOptions) {
    const { callId, call, intent } = options.started;
    this.taskId = turn.taskId;
    this.agentId = turn.agentId;
    this.contextId = turn.contextId;
    this.metadata = turn.metadata;
    this.authContext = authContext;
    this.iteration = options.iteration;
    this.callId = callId;
    this.call = call;
    this.arguments = intent?.arguments;
    this.idempotencyKey = `${turn.taskId}:${callId}`;
    this.attempt = intent?.attempt ?? 1;
    this.traceContext = options.traceContext;
    this.progress = options.progress;
    this.#scope = options.scope;
  }

  get signal(): AbortSignal {
    return this.#scope.signal;
  }
}
