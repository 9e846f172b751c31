import type { Command } from 'commander';
import type { Unsubscribable } from 'rxjs';
import { AgentLoopError, isSuspended, type TaskStateStore } from '../../core/contracts/index.ts';
import { openQuestions, taskState, toPersisted } from '../../core/journal/index.ts';
import { extendTimeline, type Timeline, timelineOf } from '../../inspect/timeline.ts';
import { LiveRegion } from '../columns.ts';
import { type CommandHost, withInterruption } from '../command-host.ts';
import { count, duration, terminalJson, withoutControls } from '../format.ts';
import { resumeCommand, showCommand, type TaskPlace, watchCommand, withKeptFlags } from '../next-commands.ts';
import { eventLine } from '../printer.ts';
import { answerCommand, questionLines } from '../questions.ts';
import { note, onStdout, type Terminal } from '../terminal.ts';
import { headLines, type TimelineTree, timelineLines, withChildren } from '../timeline.ts';
import { addStoreFlag, type TurnFlags } from '../turn-flags.ts';
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
    const text = flags.json
      ? `${terminalJson(JSON.stringify({ ...reportOf(tree), held }))}\n`
      : textOf(tree, held, watched);
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
  await withInterruption(host, async (interruption) => {
    const signal = AbortSignal.any([interruption.signal, host.terminal.stdout.closed]);
    if (flags.json) await printEvents(watched, signal);
    else await watchTask(watched, signal);
    host.exitCode = interruption.exitCode ?? 0;
  });
}

async function printEvents({ taskId, store, terminal }: WatchedTask, signal: AbortSignal): Promise<void> {
  const { AgentLoop } = await import('../../tasks/agent-loop.ts');
  await untilAborted(signal, (done, failed) =>
    AgentLoop.observe(taskId, { store, descendants: true }).subscribe({
      next: (event) => void terminal.stdout.write(`${terminalJson(eventLine(event))}\n`),
      error: failed,
      complete: done,
    }),
  );
}

interface WatchedTask {
  readonly taskId: string;
  readonly store: TaskStateStore;
  readonly place: TaskPlace;
  readonly terminal: Terminal;
}

const frameMs = 100;
/** How often child turns are looked at while their parent turn waits for them. */
const childrenMs = 500;

/**
 * Shows a turn while it runs, with its child turns, until it ends or suspends or the signal is aborted: what is settled as lines that stay,
 * what runs redrawn below them on a terminal, and not before it is settled elsewhere.
 */
async function watchTask(watched: WatchedTask, signal: AbortSignal): Promise<void> {
  const { taskId, store, terminal } = watched;
  const first = timelineOf(await store.read(taskId));
  if (first === undefined) throw new AgentLoopError('NOT_FOUND', 'The journal is empty.', { taskId });
  let tree = await withChildren(store, first);
  const view = new TimelineView(first, onStdout(terminal));
  view.draw(tree);
  if (first.state.outcome === undefined) {
    if (!(await store.describe(first.state.turn.taskId))?.held)
      note(terminal, 'no process runs the turn; waiting for one');
    const frame = setInterval(() => view.draw(tree), frameMs);
    try {
      tree = await followed(tree, {
        watched,
        signal,
        show: (next) => {
          tree = next;
          view.draw(tree);
        },
      });
    } finally {
      clearInterval(frame);
    }
  }
  view.close(tree);
  const { timeline } = tree;
  const held = (await store.describe(timeline.state.turn.taskId))?.held ?? false;
  const lines = standingLines(timeline, { held, place: watched.place, terminal });
  await terminal.stdout.write(lines.map((line) => `${line}\n`).join(''));
}

interface Following {
  readonly watched: WatchedTask;
  readonly signal: AbortSignal;
  readonly show: (tree: TimelineTree) => void;
}

/** Resolves with the last tree. Nothing is shown of a turn before what its child turns did until then is read. */
async function followed(start: TimelineTree, { watched, signal, show }: Following): Promise<TimelineTree> {
  const { store, taskId } = watched;
  let tree = start;
  let { timeline } = start;
  let reading = false;
  let again = false;
  let look: NodeJS.Timeout | undefined;
  try {
    await untilAborted(signal, (done, failed) => {
      const read = async () => {
        again = reading;
        if (reading) return;
        reading = true;
        do {
          again = false;
          tree = await withChildren(store, timeline, tree.below);
        } while (again);
        reading = false;
        if (signal.aborted) return;
        show(tree);
        if (timeline.state.outcome) done();
      };
      look = setInterval(() => void read().catch(failed), childrenMs);
      return store.follow(taskId, { from: timeline.state.seq + 1 }).subscribe({
        next(received) {
          if (received.type !== 'record') return;
          timeline = extendTimeline(timeline, received.record);
          void read().catch(failed);
        },
        error: failed,
      });
    });
  } finally {
    clearInterval(look);
  }
  return tree;
}

/** The lines of a timeline on a screen: written once when they are settled, redrawn before. */
class TimelineView {
  readonly #terminal: Terminal;
  readonly #live: LiveRegion;
  #written = 0;

  constructor(timeline: Timeline, terminal: Terminal) {
    this.#terminal = terminal;
    this.#live = new LiveRegion((text) => void terminal.stdout.writeRaw(text));
    const { style, stdout } = terminal;
    this.#live.draw([], headLines(timeline, { style, columns: stdout.columns }));
  }

  draw(tree: TimelineTree): void {
    const { style, stdout, live } = this.#terminal;
    const { lines, settled } = timelineLines(tree, { style, columns: stdout.columns, now: Date.now() });
    const moving = live ? lines.slice(settled, settled + Math.max(1, stdout.rows - 3)) : [];
    this.#live.draw(moving, lines.slice(this.#written, settled));
    this.#written = settled;
  }

  /** Writes what is left. */
  close(tree: TimelineTree): void {
    const { style, stdout } = this.#terminal;
    const { lines } = timelineLines(tree, { style, columns: stdout.columns, now: Date.now() });
    this.#live.draw([], lines.slice(this.#written));
  }
}

interface StandingOptions {
  /** Whether a process holds the task. */
  readonly held: boolean;
  readonly place: TaskPlace;
  readonly terminal: Terminal;
}

/** The state of a turn, its totals, what it waits for, and the command that resumes it. */
export function standingLines(timeline: Timeline, options: StandingOptions): readonly string[] {
  const { style } = options.terminal;
  const { state } = timeline;
  const name = taskState(state);
  const paint = name === 'completed' ? style.green : name === 'failed' ? style.red : style.yellow;
  const said = state.error?.message ?? (name === 'canceled' ? state.outcome?.reason : undefined);
  const why = said === undefined ? undefined : withoutControls(said);
  const sum = [
    paint(stateName(name, options.held)),
    count(state.iteration, 'iteration'),
    count(state.toolCalls, 'tool call'),
    count(state.usage.totalTokens, 'token'),
    duration(state.updatedAt - state.turn.createdAt),
  ].join(style.dim(` ${style.glyphs.dot} `));
  return ['', sum, ...(why === undefined ? [] : [style.red(why)]), ...nextLines(timeline, options)];
}

/** A state in the words of `tasks`: what nobody runs can be resumed. */
export function stateName(state: string, held: boolean): string {
  return !held && (state === 'working' || state === 'submitted') ? 'resumable' : state;
}

function nextLines({ state }: Timeline, { held, place: given, terminal }: StandingOptions): readonly string[] {
  const place = withKeptFlags(given, state.turn.metadata);
  const { style, stdout } = terminal;
  const questions = openQuestions(state);
  const asked = questions.flatMap((question) => questionLines(question, { style, columns: stdout.columns }));
  if (state.isComplete) return [];
  const { parent } = state.turn;
  if (parent) {
    const command = showCommand({ ...given, taskId: parent.taskId });
    return [style.dim('it is resumed with its parent turn; see:'), `  ${command}`];
  }
  if (held && questions.length === 0)
    return [style.dim('a process runs it; follow it with:'), `  ${watchCommand(place)}`];
  const suspended = state.outcome !== undefined && isSuspended(state.outcome.state);
  const command = questions.length > 0 ? answerCommand(questions, place) : resumeCommand(place);
  const how =
    questions.length > 0 ? 'answer with:' : suspended ? 'suspended; resume with:' : 'no process runs it; resume with:';
  return [...asked, style.dim(how), `  ${command}`];
}

/**
 * Runs what `start` subscribes to until it calls `done` or `failed`, or the signal is aborted: then it is left, and that is no error.
 * `start` is not called where the signal is aborted already.
 */
function untilAborted(
  signal: AbortSignal,
  start: (done: () => void, failed: (error: unknown) => void) => Unsubscribable,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return resolve();
    const subscription = start(
      () => {
        signal.removeEventListener('abort', leave);
        resolve();
      },
      (error) => {
        signal.removeEventListener('abort', leave);
        reject(error);
      },
    );
    function leave(): void {
      subscription.unsubscribe();
      resolve();
    }
    signal.addEventListener('abort', leave, { once: true });
  });
}
