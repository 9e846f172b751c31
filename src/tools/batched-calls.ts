import type { ToolContext } from '../core/contracts/index.ts';

/** One of the calls of an invocation of `executeBatch`. */
export interface BatchedCall<Args = unknown, C = unknown> {
  /** `<iteration>:<index>`, by which its result is given. */
  readonly callId: string;
  readonly arguments: Args;
  readonly context: ToolContext<C>;
}

/**
 * What the calls of one invocation came to, by call id: what `execute` would return for each, or an `Error` for one that failed. A call
 * that is missing has failed.
 */
export type BatchResults = Readonly<Record<string, unknown>> | ReadonlyMap<string, unknown>;

type ExecuteBatch = (calls: readonly BatchedCall[]) => BatchResults | Promise<BatchResults>;

interface WaitingCall extends BatchedCall {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A function for single calls that gathers those of the same iteration of a turn until the event loop comes round, and runs them in one
 * invocation. Calls that are cancelled by then are left out.
 */
export function inBatches(executeBatch: ExecuteBatch): (args: unknown, context: ToolContext) => Promise<unknown> {
  const batches = new Map<string, WaitingCall[]>();
  return (args, context) =>
    new Promise((resolve, reject) => {
      const { callId, taskId, iteration } = context;
      const call = { callId, arguments: args, context, resolve, reject };
      const key = `${iteration} ${taskId}`;
      const begun = batches.get(key);
      if (begun) {
        begun.push(call);
        return;
      }
      const batch = [call];
      batches.set(key, batch);
      setImmediate(() => {
        batches.delete(key);
        void runBatch(executeBatch, batch);
      });
    });
}

/** Settles every call. Never rejects. */
async function runBatch(executeBatch: ExecuteBatch, batch: readonly WaitingCall[]): Promise<void> {
  const calls = batch.filter(({ context, reject }) => {
    if (context.signal.aborted) reject(context.signal.reason);
    return !context.signal.aborted;
  });
  if (calls.length === 0) return;
  try {
    const results = await executeBatch(
      calls.map(({ callId, arguments: args, context }) => ({ callId, arguments: args, context })),
    );
    for (const call of calls) settle(call, resultIn(results, call.callId));
  } catch (error) {
    for (const { reject } of calls) reject(error);
  }
}

function resultIn(results: BatchResults, callId: string): unknown {
  const known = results instanceof Map ? results.has(callId) : Object.hasOwn(results, callId);
  if (!known) return new Error(`executeBatch gave no result for the call "${callId}"`);
  return results instanceof Map ? results.get(callId) : Reflect.get(results, callId);
}

function settle({ resolve, reject }: WaitingCall, result: unknown): void {
  if (result instanceof Error) reject(result);
  else resolve(result);
}
