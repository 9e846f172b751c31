import {
  AgentLoopError,
  type Clock,
  type HookContext,
  type Message,
  messageOf,
  shownValue,
} from '../core/contracts/index.ts';
import { childResult, hookParentOf, TurnLost, withParent } from '../core/ownership/index.ts';
import { givenByCaller, type Turn } from '../core/turn/index.ts';
import type { Agent } from './agent.ts';
import type { Choice, RoutingContext, RoutingRequest } from './routing.ts';

/** How long a function of the application may take. */
export interface RoutingLimit {
  readonly clock: Clock;
  /** Milliseconds; 0 means no limit. */
  readonly ms: number;
}

/**
 * Asks a choice once. Its child turns end with it, whichever way it ends. Errors: what carries a code as it is; `EXTENSION_FAILED` with the
 * cause for any other error, for a wrong answer and for a choice that takes longer than the limit; `TurnLost` where a child turn is lost:
 * the process that resumes the turn asks again.
 */
export async function askRouting(
  { choose }: Choice,
  request: RoutingRequest,
  { context, limit }: { readonly context: HookContext; readonly limit: RoutingLimit },
): Promise<string | undefined> {
  const children = new RoutingChildren(context);
  const failed = (cause: unknown) =>
    new AgentLoopError('EXTENSION_FAILED', `The routing of the team failed: ${messageOf(cause)}`, { cause });
  try {
    const ask = (signal: AbortSignal) => choose(request, routingContext(context, signal, children));
    const id: unknown = await limited('The routing of the team', ask, { signal: context.signal, limit });
    if (children.lost) throw children.lost;
    if (id === undefined || typeof id === 'string') return id;
    throw failed(new TypeError(`choose must return the id of an agent, or undefined, not ${shownValue(id)}`));
  } catch (error) {
    throw children.lost ?? (AgentLoopError.isInstance(error) || TurnLost.isInstance(error) ? error : failed(error));
  } finally {
    await children.end();
  }
}

/**
 * What a function of the application answers, which gets a signal of its own: aborted with `signal`, and when the time is over. Rejects at once
 * then, whether the function stops or not. Errors: `EXTENSION_FAILED` for the limit; the reason of the signal; what the function throws.
 */
export async function limited<T>(
  who: string,
  call: (signal: AbortSignal) => T | Promise<T>,
  { signal, limit: { clock, ms } }: { readonly signal: AbortSignal | undefined; readonly limit: RoutingLimit },
): Promise<T> {
  signal?.throwIfAborted();
  const own = new AbortController();
  let stop = () => {};
  const stopped = new Promise<never>((_, reject) => {
    const end = (reason: unknown) => {
      own.abort(reason);
      reject(reason);
    };
    const aborted = () => end(signal?.reason);
    const late = () =>
      end(new AgentLoopError('EXTENSION_FAILED', `${who} did not answer within ${ms} ms (routingTimeoutMs).`));
    signal?.addEventListener('abort', aborted, { once: true });
    const stopTimer = ms > 0 ? clock.schedule(ms, late) : () => {};
    stop = () => {
      signal?.removeEventListener('abort', aborted);
      stopTimer();
    };
  });
  try {
    return await Promise.race([call(own.signal), stopped]);
  } finally {
    stop();
  }
}

/** The child turns that a choice has begun. */
class RoutingChildren {
  readonly #context: HookContext;
  readonly #running = new Set<Turn>();
  #asked = 0;
  #over = false;
  /** A child turn that this process lost loses the turn, also where the choice handles its error. */
  lost: TurnLost | undefined;

  constructor(context: HookContext) {
    this.#context = context;
  }

  readonly ask: RoutingContext['ask'] = async <V>(agent: Agent<V>, messages: readonly Message[]) => {
    const context = this.#context;
    if (this.#over) throw new AgentLoopError('INVALID_INPUT', 'ask was called after its choice had ended.');
    const name = this.#asked === 0 ? 'route' : `route${this.#asked}`;
    this.#asked++;
    const parent = hookParentOf(context, name);
    if (!parent) throw new AgentLoopError('INTERNAL', 'The routing of a team was asked without its turn.');
    const { taskId, contextId, traceContext, iteration } = context;
    const own = { taskId: `${taskId}.${iteration}.${name}`, contextId, parentContext: traceContext };
    const start = withParent({ ...own, ...givenByCaller(context) }, parent);
    let turn: Turn | undefined;
    const open = () => {
      const opened = agent.startTurn(messages, start);
      turn = opened;
      this.#running.add(opened);
      return opened;
    };
    try {
      return await childResult(parent, open);
    } catch (error) {
      if (TurnLost.isInstance(error)) this.lost ??= error;
      throw error;
    } finally {
      if (turn) this.#running.delete(turn);
    }
  };

  /** Cancels those that still run, unless a turn that was lost is asked again elsewhere. Those that are left with their turn are so already, and stay open. */
  async end(): Promise<void> {
    this.#over = true;
    if (this.lost) return;
    await Promise.allSettled([...this.#running].map((turn) => turn.cancel('the routing has ended')));
  }
}

function routingContext(context: HookContext, signal: AbortSignal, { ask }: RoutingChildren): RoutingContext {
  const { taskId, contextId, traceContext, metadata, authContext } = context;
  return { taskId, contextId, traceContext, metadata, authContext, context: context.context, signal, ask };
}
