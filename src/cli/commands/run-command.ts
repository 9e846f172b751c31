import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { AgentLoopError } from '../../core/contracts/index.ts';
import { idArgument } from '../arguments.ts';
import type { CommandHost } from '../command-host.ts';
import { openTurnOf } from '../conversation.ts';
import { turnSettings } from '../kept-flags.ts';
import { note } from '../notes.ts';
import { playTurn } from '../play-turn.ts';
import { whyOpen } from '../queue-logger.ts';
import type { Session } from '../session.ts';
import { addContextFlag, addNewTurnFlags, type NewTurnFlags } from '../turn-flags.ts';
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
  $ millrace run "And in Oslo?" --context-id trip
  $ git diff | millrace run - --system "Review this change."

With the id of an existing turn, run resumes that turn, or shows how it ended.

Exit codes: 0 completed, 1 failed, 2 usage, 3 waits for an answer (see millrace resume), 130 interrupted, 143 terminated.`;

/** Adds `millrace run`: one turn, its text on stdout, its progress on stderr. */
export function addRunCommand(program: Command, host: CommandHost): void {
  addContextFlag(addNewTurnFlags(program.command('run').argument('<prompt>', 'what to ask; - reads it from stdin')))
    .summary('run one turn')
    .description('Run one turn: the text streams to stdout, progress goes to stderr.')
    .option('--task <id>', 'the id of the turn; an existing one is continued (default: a new one)', idArgument)
    .option('--json', 'write each event as a line of JSON to stdout, and nothing else')
    .addHelpText('after', help)
    .action((prompt: string, flags: RunFlags) => run(prompt, flags, host));
}

async function run(prompt: string, flags: RunFlags, host: CommandHost): Promise<void> {
  const content = prompt === '-' ? (await text(host.stdin)).trim() : prompt.trim();
  if (content === '') throw new AgentLoopError('INVALID_INPUT', 'the prompt is empty; say what to ask');
  await withSession({ flags, host }, async ({ session, interruption, signal }) => {
    const contextId = await contextOf(flags, { session, host });
    const turn = session.agent.startTurn([{ role: 'user', content }], {
      signal,
      ...turnSettings(flags),
      ...(flags.task !== undefined && { taskId: flags.task }),
      ...(contextId !== undefined && { contextId }),
    });
    await playTurn(turn, { session, flags, host, interruption, signal });
  });
}

/**
 * The conversation of the turn: a turn that there is has one already; one with an id and without a conversation gets one of that name, so that
 * two processes that start it agree.
 */
async function contextOf(
  flags: RunFlags,
  { session, host }: { readonly session: Session; readonly host: CommandHost },
): Promise<string | undefined> {
  const { task, contextId } = flags;
  const existing = task === undefined ? null : await session.store.store.load(task);
  if (existing) return contextId ?? existing.contextId;
  if (contextId !== undefined) await checkOpenTurn(contextId, { session, flags, host });
  return contextId ?? task;
}

/** A conversation has one turn at a time: one that runs is waited for, one that waits for somebody has to be continued first. */
async function checkOpenTurn(
  contextId: string,
  { session, flags, host }: { readonly session: Session; readonly flags: RunFlags; readonly host: CommandHost },
): Promise<void> {
  const { store, settings } = session.store;
  const open = await openTurnOf(store, contextId);
  if (open?.status === 'running') {
    note(host.terminal, `another process runs turn ${open.taskId} of this conversation; this one waits for it`);
  } else if (open) {
    const place = { taskId: open.taskId, store: settings, flags };
    const message = `turn ${open.taskId} of the conversation "${contextId}" ${whyOpen(open.status, place)}`;
    throw new AgentLoopError('AGENT_BUSY', message, { taskId: open.taskId });
  }
}
