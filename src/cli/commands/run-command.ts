import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { AgentLoopError } from '../../core/errors.ts';
import type { CommandHost } from '../command-host.ts';
import { endingOf } from '../ending.ts';
import { followTurn } from '../follow-turn.ts';
import { Interruption } from '../interruption.ts';
import { JsonPrinter } from '../json-printer.ts';
import { modelSettings } from '../model-settings.ts';
import { complain } from '../notes.ts';
import { openSession, type Session } from '../session.ts';
import { showTally, showWaterfall } from '../summary.ts';
import type { Tally } from '../tally.ts';
import { TextPrinter } from '../text-printer.ts';
import { wantsExport } from '../trace-view.ts';
import { addTurnFlags, type TurnFlags } from '../turn-flags.ts';

interface RunFlags extends TurnFlags {
  readonly taskId?: string;
  readonly contextId?: string;
  readonly json?: boolean;
}

const help = `
Examples:
  $ millrace run "What is 12 * 7, and what time is it in Tokyo?"
  $ millrace run --base-url http://localhost:4000/v1 --model gpt-4o "Hello" --trace
  $ git diff | millrace run - --system "Review this change."

Exit codes: 0 completed, 1 failed, 2 usage, 130 interrupted, 143 terminated.`;

/** Adds `millrace run`: one turn, its text on stdout, its progress on stderr. */
export function addRunCommand(program: Command, host: CommandHost): void {
  addTurnFlags(program.command('run').argument('<prompt>', 'what to ask; - reads it from stdin'))
    .summary('run one turn')
    .description('Run one turn: the text streams to stdout, progress goes to stderr.')
    .option('--task-id <id>', 'the id of the turn (default: a new one)')
    .option('--context-id <id>', 'the id of the conversation (default: a new one)')
    .option('--json', 'write each event as a line of JSON to stdout, and nothing else')
    .addHelpText('after', help)
    .action((prompt: string, flags: RunFlags) => run(prompt, flags, host));
}

async function run(prompt: string, flags: RunFlags, host: CommandHost): Promise<void> {
  const { terminal } = host;
  const content = prompt === '-' ? (await text(host.stdin)).trim() : prompt.trim();
  if (content === '') throw new AgentLoopError('INVALID_INPUT', 'the prompt is empty; say what to ask');
  const model = modelSettings(flags, terminal.env);
  const interruption = new Interruption(host.signals, host.exitAtOnce);
  const traced = flags.trace === true || wantsExport(flags, terminal.env);
  const session = await openSession({ model, flags, terminal, traced, standInDelayMs: 0 });
  try {
    const tally = await runTurn(session, { content, flags, host, interrupted: interruption.signal });
    const ending = endingOf(tally.final, {
      interrupted: interruption.exitCode,
      readerLeft: terminal.stdout.closed.aborted,
    });
    host.exitCode = ending.exitCode;
    if (ending.sentence !== undefined) complain(terminal, ending.sentence);
  } finally {
    await session.close();
    interruption.close();
  }
}

interface RunOptions {
  readonly content: string;
  readonly flags: RunFlags;
  readonly host: CommandHost;
  readonly interrupted: AbortSignal;
}

async function runTurn(session: Session, { content, flags, host, interrupted }: RunOptions): Promise<Tally> {
  const { terminal } = host;
  const signal = AbortSignal.any([interrupted, terminal.stdout.closed]);
  const turn = session.loop.startTurn([{ role: 'user', content }], {
    signal,
    ...(flags.taskId !== undefined && { taskId: flags.taskId }),
    ...(flags.contextId !== undefined && { contextId: flags.contextId }),
  });
  const printer = flags.json ? new JsonPrinter(terminal.stdout) : new TextPrinter(terminal);
  const tally = await followTurn(turn, printer, signal);
  if (!flags.json) showTally(tally, terminal);
  if (flags.trace && session.trace) await showWaterfall(session.trace.takeSpans(), terminal);
  return tally;
}
