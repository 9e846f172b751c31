import type { Command } from 'commander';
import { foldRecords } from '../../core/journal/index.ts';
import { idArgument, wholeNumber } from '../arguments.ts';
import type { CommandHost } from '../command-host.ts';
import { withKeptFlags } from '../kept-flags.ts';
import { newId } from '../new-id.ts';
import { resumeCommand } from '../next-commands.ts';
import { note } from '../notes.ts';
import { addStoreFlag, type TurnFlags } from '../turn-flags.ts';
import { withStore } from '../with-store.ts';

interface ForkFlags extends TurnFlags {
  readonly at: number;
  readonly task?: string;
}

/** Adds `millrace fork`: a new turn from the first iterations of another. */
export function addForkCommand(program: Command, host: CommandHost): void {
  addStoreFlag(program.command('fork').argument('<task>', 'the id of the task'))
    .summary('branch off a turn after some of its iterations')
    .description(
      'Copy the first iterations of a turn into a new one, which millrace resume runs. The old turn does not change.',
    )
    .requiredOption('--at <number>', 'the last iteration to keep; 0 keeps only the question', wholeNumber(0))
    .option('--task <id>', 'the id of the new turn (default: a new one)', idArgument)
    .action((taskId: string, flags: ForkFlags) => fork(taskId, flags, host));
}

async function fork(taskId: string, flags: ForkFlags, host: CommandHost): Promise<void> {
  await withStore({ flags, host }, async (store, settings) => {
    const { AgentLoop } = await import('../../core/turn/index.ts');
    const forked = await AgentLoop.fork(taskId, { store, at: flags.at, taskId: flags.task ?? newId() });
    void host.terminal.stdout.write(`${forked.taskId}\n`);
    const { turn } = foldRecords(await store.read(forked.taskId));
    const place = withKeptFlags({ taskId: forked.taskId, store: settings, flags }, turn.metadata);
    note(host.terminal, `run it with: ${resumeCommand(place)}`);
  });
}
