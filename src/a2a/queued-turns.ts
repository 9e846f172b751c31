import { identity, type MonoTypeOperatorFunction } from 'rxjs';
import type { AuthContext, Message } from '../core/contracts/index.ts';
import type { Signal } from '../core/journal/index.ts';
import { incomingMessage } from '../core/ownership/index.ts';
import type { ResolvedHandlerOptions } from './handler-options.ts';
import type { A2ATurnQueue, ExecutionOptions, ExecutionStart, TurnExecution } from './turn-execution.ts';

/** The key of the metadata in which a queued turn carries its caller. Clients cannot write it. */
const callerKey = 'millrace.caller';

/**
 * The caller of a turn that a server has queued, from the metadata of the turn: `{ user, tenant }`. For `turnOptions` of a worker. `undefined` where
 * the server asked nobody who they are.
 */
export function queuedCaller(metadata: Readonly<Record<string, unknown>>): AuthContext | undefined {
  const caller = metadata[callerKey];
  return typeof caller === 'object' && caller !== null ? { ...caller } : undefined;
}

/** Turns that the workers of a queue run: this process creates them, wakes them and follows them. Their sweep finds those without an owner. */
export class QueuedTurns implements TurnExecution {
  readonly #options: ResolvedHandlerOptions;
  readonly #queue: A2ATurnQueue;

  constructor(options: ResolvedHandlerOptions, queue: A2ATurnQueue) {
    this.#options = options;
    this.#queue = queue;
  }

  async start(message: Message, options: ExecutionStart): Promise<{ readonly taskId: string }> {
    const { agent } = this.#options;
    const { taskId, contextId, metadata, parentContext, authContext, settle } = options;
    const { metadata: ofAgent, extensions = [] } = agent.options;
    const caller = callerOf(authContext);
    const tenant = caller?.tenant ?? caller?.user;
    const messages = [incomingMessage(extensions, message)];
    const given = { ...ofAgent, ...metadata, ...(caller && { [callerKey]: caller }) };
    const placed = { agentId: agent.id, taskId, contextId, parentContext, ...(tenant !== undefined && { tenant }) };
    try {
      return await this.#queue.start(messages, { ...placed, metadata: given });
    } finally {
      settle();
    }
  }

  resume(taskId: string, _options: ExecutionOptions): Promise<void> {
    return this.#queue.wake(taskId);
  }

  cancel(taskId: string): Promise<void> {
    return this.#queue.cancel(taskId, 'canceled');
  }

  followed(): MonoTypeOperatorFunction<Signal> {
    return identity;
  }

  async recover(): Promise<number> {
    return 0;
  }
}

/** The names of a caller, without the claims, which may be secret: journals keep them. */
function callerOf(given: AuthContext | undefined): { readonly user?: string; readonly tenant?: string } | undefined {
  const { user, tenant } = given ?? {};
  const caller = {
    ...(typeof user === 'string' && user !== '' && { user }),
    ...(typeof tenant === 'string' && tenant !== '' && { tenant }),
  };
  return Object.keys(caller).length === 0 ? undefined : caller;
}
