import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { AgentLoopError } from '../../core/contracts/index.ts';
import { foldRecords } from '../../core/journal/index.ts';
import { type Answers, collect, idArgument, parseAnswers } from '../arguments.ts';
import { type CommandHost, newId } from '../command-host.ts';
import { turnSettings, watchCommand, whyOpen } from '../next-commands.ts';
import { playTurn } from '../play-turn.ts';
import { checkAgentFlag } from '../served-agent.ts';
import { type OpenedSession, openTurnOf, type Session, withSession } from '../session.ts';
import { note } from '../terminal.ts';
import {
  addAgentFlag,
  addContextFlag,
  addNewTurnFlags,
  addTurnFlags,
  type NewTurnFlags,
  type TurnFlags,
} from '../turn-flags.ts';

interface RunFlags extends NewTurnFlags {
  readonly task?: string;
  readonly contextId?: string;
  readonly json?: boolean;
}

const help = `
Examples:
  $ millrace run "What is 12 * 7, and what time is it in Tokyo?"
  $ millrace run --base-url http://localhost:4000/v1 --model openai/gpt-6-sol "Hello" --trace
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

interface ResumeFlags extends TurnFlags {
  readonly answer?: readonly string[];
  readonly json?: boolean;
}

interface RetryFlags extends TurnFlags {
  readonly task?: string;
  readonly json?: boolean;
}

const resumeHelp = `
Finished work is shown and not repeated. A turn that another process runs is followed, and taken over if that process dies. An interrupted call is settled by its tool's onInDoubt: run again, asked about, or
reported to the model as unknown.

Examples:
  $ millrace resume k7m2q9xtbd
  $ millrace resume k7m2q9xtbd --answer '1:0={"approved":true}'
  $ millrace resume k7m2q9xtbd --agent ./agent.mjs

Exit codes: 0 completed, 1 failed, 2 usage, 3 waits for an answer, 130 interrupted, 143 terminated.`;

/** Adds `millrace resume`: resumes a turn of another process. */
export function addResumeCommand(program: Command, host: CommandHost): void {
  addAgentFlag(
    addTurnFlags(program.command('resume').argument('<task>', 'the id of the task, as run and tasks print it')),
  )
    .summary('resume a turn that was interrupted or waits for an answer')
    .description('Resume a turn that was interrupted, suspended or forked, in this process.')
    .option('--answer <call=json>', 'answers a question, e.g. 1:0=\'{"approved":true}\'; repeatable', collect)
    .option('--json', 'write each event as a line of JSON to stdout, and nothing else')
    .addHelpText('after', resumeHelp)
    .action((taskId: string, flags: ResumeFlags) => resume(taskId, flags, host));
}

const retryHelp = `
Calls that succeeded are shown and not repeated; a call that failed runs again. An interrupted call is settled by its tool's onInDoubt. Limits start at zero.

Examples:
  $ millrace retry k7m2q9xtbd

Exit codes: 0 completed, 1 failed, 2 usage, 3 waits for an answer, 130 interrupted, 143 terminated.`;

/** Adds `millrace retry`: continues a turn that failed, as a new one. */
export function addRetryCommand(program: Command, host: CommandHost): void {
  addAgentFlag(
    addTurnFlags(program.command('retry').argument('<task>', 'the id of the task that failed or was cancelled')),
  )
    .summary('continue a failed turn as a new one')
    .description(
      'Continue a turn that failed or was cancelled from its last good record, as a new turn that names the old one.',
    )
    .option('--task <id>', 'the id of the new turn (default: a new one)', idArgument)
    .option('--json', 'write each event as a line of JSON to stdout, and nothing else')
    .addHelpText('after', retryHelp)
    .action((taskId: string, flags: RetryFlags) => retry(taskId, flags, host));
}

async function retry(taskId: string, flags: RetryFlags, host: CommandHost): Promise<void> {
  checkAgentFlag(flags);
  await withSession({ flags, host, existing: true }, async ({ session, interruption, signal }) => {
    const turn = session.agent.retry(taskId, { signal, taskId: flags.task ?? newId() });
    await playTurn(turn, { session, flags, host, interruption, signal });
  });
}

async function resume(taskId: string, flags: ResumeFlags, host: CommandHost): Promise<void> {
  const answers = parseAnswers(flags.answer ?? []);
  checkAgentFlag(flags);
  await withSession({ flags, host, existing: true }, async (opened) => {
    const { session, interruption, signal } = opened;
    // Answers go to the process that runs the turn; without any, this one waits for its lease.
    const onBusy = Object.keys(answers).length === 0 ? 'wait' : 'fail';
    if (onBusy === 'wait') await noteOwner(taskId, { session, host });
    const turn = session.agent.resume(taskId, { signal, answers, onBusy });
    try {
      await playTurn(turn, { session, flags, host, interruption, signal, answers });
    } catch (thrown) {
      const isBusy = AgentLoopError.isInstance(thrown) && thrown.code === 'BUSY';
      if (!isBusy || Object.keys(answers).length === 0) throw thrown;
      await answerOwner({ taskId, answers, flags, host, opened });
    }
  });
}

/** A turn that is followed looks like one that runs here: Ctrl-C cancels it too. */
async function noteOwner(
  taskId: string,
  { session, host }: { readonly session: Session; readonly host: CommandHost },
): Promise<void> {
  const { store } = session.store;
  const read = async () => foldRecords(await store.read(taskId));
  const state = await read().catch(() => undefined);
  if (!state || state.isComplete || !(await store.describe(taskId))?.held) return;
  note(host.terminal, 'another process runs the turn, or has just died; following it, and taking it over if it died');
}

interface Answering {
  readonly taskId: string;
  readonly answers: Answers;
  readonly flags: ResumeFlags;
  readonly host: CommandHost;
  readonly opened: OpenedSession;
}

/** Passes the answers to the process that runs the turn. */
async function answerOwner({ taskId, answers, flags, host, opened }: Answering): Promise<void> {
  const { store, settings } = opened.session.store;
  const { AgentLoop } = await import('../../tasks/agent-loop.ts');
  await AgentLoop.answer(taskId, { store, answers });
  host.exitCode = 0;
  note(host.terminal, `answered; another process runs the turn: ${watchCommand({ taskId, store: settings, flags })}`);
}
