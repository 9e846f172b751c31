import type { Logger } from '../core/contracts/index.ts';
import { cancelCommand, resumeCommand, type TaskPlace } from './next-commands.ts';
import { note } from './notes.ts';
import type { Terminal } from './terminal.ts';

/** Why a conversation has a turn that nobody runs, and the commands that end that. */
export function whyOpen(status: 'suspended' | 'dead', place: TaskPlace): string {
  const why = status === 'suspended' ? 'waits for an answer or was paused' : 'was cut off';
  return `${why}; continue it with "${resumeCommand(place)}", or end it with "${cancelCommand(place)}"`;
}

/** Tells, while a turn is queued, that the turn before it waits for somebody now, or was abandoned by its process. */
export function queueLogger(terminal: Terminal, place: Omit<TaskPlace, 'taskId'>): Logger {
  const silent = () => {};
  const tell = (message: string, { behind, status }: Readonly<Record<string, unknown>> = {}) => {
    if (message !== 'turn queued' || typeof behind !== 'string') return;
    if (status !== 'suspended' && status !== 'dead') return;
    note(terminal, `turn ${behind} of this conversation ${whyOpen(status, { ...place, taskId: behind })}`);
  };
  return { debug: silent, info: tell, warn: tell, error: silent };
}
