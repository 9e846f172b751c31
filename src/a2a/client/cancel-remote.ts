import { type CancelOutside, withCancelOutside } from '../../agent/cancel-outside.ts';
import { foldRecords } from '../../core/apply-record.ts';
import type { Clock } from '../../core/clock.ts';
import { AgentLoopError, type ErrorCode } from '../../core/errors.ts';
import type { Extension } from '../../core/extension.ts';
import { isSuspended, type LoopState } from '../../core/state.ts';
import type { RemoteConnection } from './remote-connection.ts';
import { lastReference, type RemoteReference } from './remote-progress.ts';
import { messageIdOf, sendName } from './remote-tools.ts';
import { retrying } from './retrying.ts';

/** Reasons with which a process gives up a turn that another owner continues. */
const leavingCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'LEFT',
  'SHUTDOWN',
  'FENCED',
  'REWOUND',
  'UNAVAILABLE',
]);

/**
 * Whether an abort leaves the turn to its next owner, by the reason of the signal. The remote task of a turn that is left keeps
 * running; every other abort is a cancel. The A2A client decides this here and nowhere else.
 */
export function isLeft(reason: unknown): boolean {
  return AgentLoopError.isInstance(reason) && leavingCodes.has(reason.code);
}

/** The message of the user that this turn works on is at a remote task: which one, as far as the journal knows. */
export function remoteTaskOf(state: LoopState, address: string): RemoteReference | undefined {
  return lastReference(state.messages.slice(state.turn.given), address);
}

const cancelMs = 60_000;

/**
 * Cancels the remote task where the turn ends before it. Asks again while the server cannot be reached, for a minute at most. A task
 * that has ended, or that the server no longer knows, needs no cancel.
 */
export function cancelRemote(connection: RemoteConnection, clock: Clock): Extension {
  const extension: Extension = {
    name: 'cancel-remote',
    onError: 'continue',
    timeoutMs: cancelMs,
    async afterTurn({ outcome, state, signal, traceContext, clock }) {
      const reference = remoteTaskOf(state, connection.name.address);
      if (reference?.messageId !== undefined) connection.streams.drop(reference.messageId);
      const { taskId } = reference ?? {};
      if (outcome.state === 'completed' || taskId === undefined || isLeft(signal.reason)) return;
      const cancel = () => connection.cancel(taskId, { signal, traceContext });
      await retrying(cancel, { clock, signal, forMs: cancelMs }).catch(() => {});
    },
  };
  return withCancelOutside(extension, cancelByJournal(connection, clock));
}

const outsideMs = 10_000;

/**
 * Cancels the remote task that the journal of a turn names, where nobody runs the turn: of a suspended one before its end is written, else
 * after it, as the turn may have an owner that cancels the task itself. A server that cannot be reached for ten seconds keeps the task.
 */
function cancelByJournal(connection: RemoteConnection, clock: Clock): CancelOutside {
  const { signal } = new AbortController();
  return async (records) => {
    const state = foldRecords(records);
    if (state.isComplete) return async () => {};
    const ask = async () => {
      const taskId =
        (await taskBegun(connection, state, signal)) ?? remoteTaskOf(state, connection.name.address)?.taskId;
      if (taskId !== undefined) await connection.cancel(taskId, { signal });
    };
    const cancel = () => retrying(ask, { clock, signal, forMs: outsideMs }).catch(() => {});
    if (state.outcome === undefined || !isSuspended(state.outcome.state)) return cancel;
    await cancel();
    return async () => {};
  };
}

/** The task of a message whose sender stopped before it knew the task; the message is named by the key of the open call. */
async function taskBegun(
  connection: RemoteConnection,
  { turn, pendingToolCalls }: LoopState,
  signal: AbortSignal,
): Promise<string | undefined> {
  const open = pendingToolCalls.find(
    ({ call, intent, result }) => call.function.name === sendName && intent && !result,
  );
  if (!open) return undefined;
  const found = await connection.taskOf(messageIdOf(`${turn.taskId}:${open.callId}`), { signal });
  return typeof found === 'string' ? undefined : found.id;
}
