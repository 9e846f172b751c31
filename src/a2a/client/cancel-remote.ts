import type { Extension } from '../../core/extension.ts';
import type { RemoteConnection } from './remote-connection.ts';
import { lastReference } from './remote-progress.ts';

/** Cancels the task of the other side where the turn ends before it does. One that is over, or gone, is no matter. */
export function cancelRemote(connection: RemoteConnection): Extension {
  return {
    name: 'cancel-remote',
    onError: 'continue',
    async afterTurn({ outcome, state, signal, traceContext }) {
      if (outcome.state === 'completed') return;
      const sent = state.messages.slice(state.turn.given);
      const taskId = lastReference(sent)?.taskId;
      if (taskId !== undefined) await connection.cancel(taskId, { signal, traceContext }).catch(() => {});
    },
  };
}
