import type { Observable } from 'rxjs';
import type { Command } from '../../core/contracts/index.ts';
import type { ReaderDeps } from './follow-task.ts';
import { looking } from './looking.ts';

/**
 * `TaskStateStore.commands`: those posted before, then each new one. Errors with `NOT_FOUND` where there is no task; silent once it is
 * deleted.
 */
export function listenCommands(deps: Omit<ReaderDeps, 'deltas'>, taskId: string): Observable<Command> {
  const { database, tasks, wakeUps } = deps;
  return looking({
    wakeUps,
    taskId,
    start() {
      const { born } = database.read(() => tasks.head(taskId));
      let last = 0;
      return {
        look(subscriber) {
          const commands = database.read(() =>
            tasks.findHead(taskId)?.born === born ? tasks.commands(taskId, last) : [],
          );
          for (const { n, command } of commands) {
            last = n;
            subscriber.next(command);
            if (subscriber.closed) break;
          }
          return false;
        },
      };
    },
  });
}
