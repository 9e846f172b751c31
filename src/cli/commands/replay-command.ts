import type { Command } from 'commander';
import type { AgentEvent } from '../../core/contracts/index.ts';
import type { JournalRecord } from '../../core/journal/index.ts';
import type { ReplayConfig } from '../../replay/replay.ts';
import { wholeNumber } from '../arguments.ts';
import { type CommandHost, type Interruption, withInterruption } from '../command-host.ts';
import { count } from '../format.ts';
import { followTurn } from '../play-turn.ts';
import { JsonPrinter, TextPrinter } from '../printer.ts';
import { complain, note } from '../terminal.ts';
import { addStoreFlag, type NewTurnFlags } from '../turn-flags.ts';
import { loadTools } from '../user-modules.ts';
import { readJournal } from '../with-store.ts';

interface ReplayFlags extends NewTurnFlags {
  readonly forgiving?: boolean;
  readonly json?: boolean;
}

/** Adds `millrace replay`: runs the loop again with the recorded answers of the model and the tools. */
export function addReplayCommand(program: Command, host: CommandHost): void {
  addStoreFlag(program.command('replay').argument('<task>', 'the id of the task, or a file of millrace export'))
    .summary('run a turn again with the recorded answers')
    .description(
      'Run a turn again with the recorded answers of the model and the recorded results of tools: no network, no side effects. A difference from the recording is an error, exit code 1.',
    )
    .option('--tools <file>', 'the current tools; none is run (default: as recorded)')
    .option('--system <text>', 'the current system prompt')
    .option('--max-iterations <number>', 'the current limit', wholeNumber(1))
    .option('--forgiving', 'continue after differences, and list them')
    .option('--json', 'write each event as a line of JSON to stdout, and nothing else')
    .action((task: string, flags: ReplayFlags) => replayTask(task, flags, host));
}

async function replayTask(task: string, flags: ReplayFlags, host: CommandHost): Promise<void> {
  const records = await readJournal(task, { flags, host });
  const config = await configOf(flags);
  await withInterruption(host, (interruption) => show({ records, config, flags, host, interruption }));
}

async function configOf({ tools, system, maxIterations }: ReplayFlags): Promise<ReplayConfig> {
  return {
    ...(tools !== undefined && { toolProviders: [await loadTools(tools)] }),
    ...(system !== undefined && { systemPrompt: system }),
    ...(maxIterations !== undefined && { maxIterations }),
  };
}

interface Showing {
  readonly records: readonly JournalRecord[];
  readonly config: ReplayConfig;
  readonly flags: ReplayFlags;
  readonly host: CommandHost;
  readonly interruption: Interruption;
}

async function show({ records, config, flags, host, interruption }: Showing): Promise<void> {
  const { terminal } = host;
  const { describe, replay } = await import('../../replay/replay.ts');
  const again = replay(records, config, { mode: flags.forgiving ? 'forgiving' : 'strict' });
  const printer = flags.json ? new JsonPrinter(terminal.stdout) : new TextPrinter(terminal);
  const signal = AbortSignal.any([interruption.signal, terminal.stdout.closed]);
  await followTurn({ [Symbol.asyncIterator]: () => until(signal, again), settled: Promise.resolve() }, printer, signal);
  if (signal.aborted) {
    host.exitCode = interruption.exitCode ?? 141;
    return;
  }
  const { deviations } = await again.result();
  for (const deviation of deviations) complain(terminal, describe(deviation));
  const found = deviations.length === 0 ? 'nothing differs' : count(deviations.length, 'difference');
  note(terminal, `replayed ${count(records.length, 'record')}: ${found}`);
}

/** The events up to the one that comes when somebody wants no more. */
async function* until(signal: AbortSignal, events: AsyncIterable<AgentEvent>): AsyncGenerator<AgentEvent> {
  for await (const event of events) {
    if (signal.aborted) return;
    yield event;
  }
}
