import type { Command } from 'commander';
import { foldRecords, taskState } from '../../core/journal/index.ts';
import type { CommandHost } from '../command-host.ts';
import { watchCommand } from '../next-commands.ts';
import { note } from '../notes.ts';
import { addStoreFlag, type TurnFlags } from '../turn-flags.ts';
import { withStore } from '../with-store.ts';

interface CancelFlags extends TurnFlags {
  readonly reason: string;
}

/** Adds `millrace cancel`: ends a turn, whichever process runs it. */
export function addCancelCommand(program: Command, host: CommandHost): void {
  addStoreFlag(program.command('cancel').argument('<task>', 'the id of the task'))
    .summary('cancel a turn in any process')
    .description('Cancel a turn: the process that runs it stops; a turn without an owner ends here.')
    .option('--reason <text>', 'the reason to record', 'canceled')
    .action((taskId: string, flags: CancelFlags) => cancel(taskId, flags, host));
}

async function cancel(taskId: string, flags: CancelFlags, host: CommandHost): Promise<void> {
  await withStore({ flags, host }, async (store, settings) => {
    const { AgentLoop } = await import('../../core/turn/index.ts');
    const stateNow = async () => taskState(foldRecords(await store.read(taskId)));
    const before = await stateNow();
    await AgentLoop.cancel(taskId, { store, reason: flags.reason });
    const after = await stateNow();
    const isOver = after === 'canceled' || after === 'completed' || after === 'failed';
    if (before === after && isOver) return note(host.terminal, `task ${taskId} had ended before: ${after}`);
    if (isOver) return note(host.terminal, `task ${taskId}: ${after}`);
    note(
      host.terminal,
      `asked the process that runs ${taskId} to stop; watch it with: ${watchCommand({ taskId, store: settings, flags })}`,
    );
  });
}
