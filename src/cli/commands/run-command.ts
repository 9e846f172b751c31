import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { AgentLoopError } from '../../core/errors.ts';
import type { CommandHost } from '../command-host.ts';
import { playTurn } from '../play-turn.ts';
import { addNewTurnFlags, type NewTurnFlags, turnSettings } from '../turn-flags.ts';
import { withSession } from '../with-session.ts';

interface RunFlags extends NewTurnFlags {
  readonly task?: string;
  readonly contextId?: string;
  readonly json?: boolean;
}

const help = `
Examples:
  $ millrace run "What is 12 * 7, and what time is it in Tokyo?"
  $ millrace run --base-url http://localhost:4000/v1 --model gpt-4o "Hello" --trace
  $ millrace run "Clean up the tickets" --tools ./tools.mjs --task cleanup-7
  $ git diff | millrace run - --system "Review this change."

Started again with the id of a turn that there is, it goes on with that turn, or shows how it ended.

Exit codes: 0 completed, 1 failed, 2 usage, 3 waits for an answer (see millrace resume), 130 interrupted, 143 terminated.`;

/** Adds `millrace run`: one turn, its text on stdout, its progress on stderr. */
export function addRunCommand(program: Command, host: CommandHost): void {
  addNewTurnFlags(program.command('run').argument('<prompt>', 'what to ask; - reads it from stdin'))
    .summary('run one turn')
    .description('Run one turn: the text streams to stdout, progress goes to stderr.')
    .option('--task <id>', 'the id of the turn; one that there is goes on (default: a new one)')
    .option('--context-id <id>', 'the id of the conversation (default: a new one)')
    .option('--json', 'write each event as a line of JSON to stdout, and nothing else')
    .addHelpText('after', help)
    .action((prompt: string, flags: RunFlags) => run(prompt, flags, host));
}

async function run(prompt: string, flags: RunFlags, host: CommandHost): Promise<void> {
  const content = prompt === '-' ? (await text(host.stdin)).trim() : prompt.trim();
  if (content === '') throw new AgentLoopError('INVALID_INPUT', 'the prompt is empty; say what to ask');
  await withSession({ flags, host }, async ({ session, interruption, signal }) => {
    const turn = session.loop.startTurn([{ role: 'user', content }], {
      signal,
      ...turnSettings(flags),
      ...(flags.task !== undefined && { taskId: flags.task }),
      ...(flags.contextId !== undefined && { contextId: flags.contextId }),
    });
    await playTurn(turn, { session, flags, host, interruption, signal });
  });
}
