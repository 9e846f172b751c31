import { checkMessages } from '../contracts/check-messages.ts';
import { AgentLoopError, messageOf } from '../contracts/errors.ts';
import type { Message } from '../contracts/messages.ts';
import type { Command, TaskStateStore } from '../contracts/store.ts';
import type { CommandIds } from '../journal/command-ids.ts';
import type { Signal } from '../journal/signals.ts';
import { type FusibleOperator, operate } from '../streams/operate.ts';
import type { RunDeps } from './turn-deps.ts';

/**
 * Listens, while the turn runs, to what others ask of it: cancel aborts its scope; pause, steering and answers go to its inbox. A command
 * that an earlier owner of the turn followed (`followed`) is passed over. A store that cannot tell of commands is logged and
 * does not stop the turn.
 */
export function followCommands(
  deps: RunDeps,
  store: TaskStateStore,
  followed: Pick<CommandIds, 'has'>,
): FusibleOperator<Signal, Signal> {
  return operate((to) => {
    const commands = store.commands(deps.turn.taskId).subscribe({
      next: (command) => {
        if (followed.has(command.id)) return;
        if (isCommand(command)) obey(deps, command);
        else deps.config.logger.warn('command passed over', { taskId: deps.turn.taskId });
      },
      error: (error: unknown) => {
        const code = AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
        deps.config.logger.warn('commands cannot be read', { taskId: deps.turn.taskId, code });
      },
    });
    to.add(() => commands.unsubscribe());
    return {};
  });
}

/** Whether what somebody posted can be followed. */
function isCommand(command: Command): boolean {
  switch (command.type) {
    case 'cancel':
    case 'pause':
      return command.reason === undefined || typeof command.reason === 'string';
    case 'steer':
      return isMessage(command.message);
    case 'answer':
      return typeof command.questionId === 'string';
    default:
      return false;
  }
}

function isMessage(message: Message): boolean {
  try {
    checkMessages([message]);
    return true;
  } catch {
    return false;
  }
}

/** A message that an extension refuses does not stop the turn. */
function steer({ inbox, turn, config }: RunDeps, { message, id }: Extract<Command, { type: 'steer' }>): void {
  try {
    inbox.steer(message, id);
  } catch (error) {
    config.logger.warn('steering message refused', { taskId: turn.taskId, error: messageOf(error) });
  }
}

function obey(deps: RunDeps, command: Command): void {
  switch (command.type) {
    case 'cancel':
      return deps.scope.abort(new AgentLoopError('CANCELED', command.reason ?? 'canceled'));
    case 'pause':
      return deps.inbox.requestPause(command.reason ?? 'paused', command.id);
    case 'steer':
      return steer(deps, command);
    case 'answer':
      return deps.inbox.answer(command.questionId, command.answer, command.id);
  }
}
