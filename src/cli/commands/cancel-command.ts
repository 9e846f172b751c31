import type { Command } from 'commander';
import { foldRecords } from '../../core/apply-record.ts';
import { taskState } from '../../core/state.ts';
import type { CommandHost } from '../command-host.ts';
import { watchCommand } from '../go-on.ts';
import { note } from '../notes.ts';
import { addStoreFlag, type TurnFlags } from '../turn-flags.ts';
import { withStore } from '../with-store.ts';

interface CancelFlags extends TurnFlags {
  readonly reason: string;
}

/** Adds `millrace cancel`: ends a turn, whichever process runs it. */
export function addCancelCommand(program: Command, host: CommandHost): void {
  addStoreFlag(program.command('cancel').argument('<task>', 'the id of the task'))
    .summary('end a turn, whichever process runs it')
    .description('Cancel a turn: a process that runs it is told to stop; one that nobody runs ends here.')
    .option('--reason <text>', 'why, for whoever looks at it later', 'canceled')
    .action((taskId: string, flags: CancelFlags) => cancel(taskId, flags, host));
}

async function cancel(taskId: string, flags: CancelFlags, host: CommandHost): Promise<void> {
  await withStore({ flags, host }, async (store, settings) => {
    const { AgentLoop } = await import('../../core/agent-loop.ts');
    const stateNow = async () => taskState(foldRecords(await store.read(taskId)));
    const before = await stateNow();
    await AgentLoop.cancel(taskId, { store, reason: flags.reason });
    const after = await stateNow();
    const isOver = after === 'canceled' || after === 'completed' || after === 'failed';
    if (before === after && isOver) return note(host.terminal, `task ${taskId} had ended before: ${after}`);
    if (isOver) return note(host.terminal, `task ${taskId}: ${after}`);
    note(
      host.terminal,
      `the process that runs ${taskId} is told to stop; watch it with: ${watchCommand({ taskId, store: settings, flags })}`,
    );
  });
}
