import { AgentLoopError, type TaskStateStore } from '../core/contracts/index.ts';
import { LiveRegion } from './live-region.ts';
import type { TaskPlace } from './next-commands.ts';
import { note } from './notes.ts';
import { standingLines } from './standing.ts';
import { onStdout, type Terminal } from './terminal.ts';
import { extendTimeline, type Timeline, type TimelineTree, timelineOf, withChildren } from './timeline.ts';
import { headLines, timelineLines } from './timeline-lines.ts';
import { untilAborted } from './until-aborted.ts';

export interface WatchedTask {
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
export async function watchTask(watched: WatchedTask, signal: AbortSignal): Promise<void> {
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
    this.#live = new LiveRegion((text) => void terminal.stdout.write(text));
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
