import type { Command } from 'commander';
import { AgentLoopError } from '../../core/contracts/index.ts';
import { openQuestions, toPersisted } from '../../core/journal/index.ts';
import type { CommandHost } from '../command-host.ts';
import { Interruption } from '../interruption.ts';
import { eventLine } from '../json-printer.ts';
import { standingLines } from '../standing.ts';
import { type TimelineTree, timelineOf, withChildren } from '../timeline.ts';
import { headLines, timelineLines } from '../timeline-lines.ts';
import { addStoreFlag, type TurnFlags } from '../turn-flags.ts';
import { untilAborted } from '../until-aborted.ts';
import { type WatchedTask, watchTask } from '../watch-task.ts';
import { withStore } from '../with-store.ts';

interface ShowFlags extends TurnFlags {
  readonly json?: boolean;
  readonly watch?: boolean;
}

/** Adds `millrace show`: what happened in a turn, and where it stands. */
export function addShowCommand(program: Command, host: CommandHost): void {
  addStoreFlag(program.command('show').argument('<task>', 'the id of the task'))
    .summary('show what a turn did, and its state')
    .description('Show a turn: its iterations, tools with attempts and times, tokens, questions, state.')
    .option('--json', 'as one JSON object; with --watch each event as a line')
    .option('--watch', 'follow the turn until it ends or suspends, in any process')
    .action((taskId: string, flags: ShowFlags) => show(taskId, flags, host));
}

async function show(taskId: string, flags: ShowFlags, host: CommandHost): Promise<void> {
  await withStore({ flags, host }, async (store, settings) => {
    const watched = { taskId, store, place: { taskId, store: settings, flags }, terminal: host.terminal };
    if (flags.watch) return watch(watched, flags, host);
    const timeline = timelineOf(await store.read(taskId));
    if (timeline === undefined) throw new AgentLoopError('NOT_FOUND', 'The journal is empty.', { taskId });
    const tree = await withChildren(store, timeline);
    const held = (await store.describe(timeline.state.turn.taskId))?.held ?? false;
    const text = flags.json ? `${JSON.stringify({ ...reportOf(tree), held })}\n` : textOf(tree, held, watched);
    await host.terminal.stdout.write(text);
  });
}

function textOf(tree: TimelineTree, held: boolean, { terminal, place }: WatchedTask): string {
  const { style, stdout } = terminal;
  const options = { style, columns: stdout.columns, now: Date.now() };
  const lines = [
    ...headLines(tree.timeline, options),
    ...timelineLines(tree, options).lines,
    ...standingLines(tree.timeline, { held, place, terminal }),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

function reportOf({ timeline: { state, rows }, below }: TimelineTree): object {
  const { messages: _, ...persisted } = toPersisted(state);
  const standing = { reason: state.outcome?.reason, toolCalls: state.toolCalls, questions: openQuestions(state) };
  return { ...persisted, ...standing, timeline: rows, children: [...below.values()].map(reportOf) };
}

/** Until the turn ends or suspends, or Ctrl-C; what happens to the turn does not change the exit code. */
async function watch(watched: WatchedTask, flags: ShowFlags, host: CommandHost): Promise<void> {
  const interruption = new Interruption(host.signals, host.exitAtOnce);
  const signal = AbortSignal.any([interruption.signal, host.terminal.stdout.closed]);
  try {
    if (flags.json) await printEvents(watched, signal);
    else await watchTask(watched, signal);
    host.exitCode = interruption.exitCode ?? 0;
  } finally {
    interruption.close();
  }
}

async function printEvents({ taskId, store, terminal }: WatchedTask, signal: AbortSignal): Promise<void> {
  const { AgentLoop } = await import('../../core/turn/index.ts');
  await untilAborted(signal, (done, failed) =>
    AgentLoop.observe(taskId, { store, descendants: true }).subscribe({
      next: (event) => void terminal.stdout.write(`${eventLine(event)}\n`),
      error: failed,
      complete: done,
    }),
  );
}
