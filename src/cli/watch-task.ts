import { AgentLoopError } from '../core/errors.ts';
import type { TaskStateStore } from '../stores/interfaces.ts';
import type { TaskPlace } from './go-on.ts';
import { isHeld } from './held-task.ts';
import { LiveRegion } from './live-region.ts';
import { note } from './notes.ts';
import { standingLines } from './standing.ts';
import { onStdout, type Terminal } from './terminal.ts';
import { extendTimeline, type Timeline, timelineOf } from './timeline.ts';
import { headLines, timelineLines } from './timeline-lines.ts';
import { untilAborted } from './until-aborted.ts';

export interface WatchedTask {
  readonly taskId: string;
  readonly store: TaskStateStore;
  readonly place: TaskPlace;
  readonly terminal: Terminal;
}

const frameMs = 100;

/**
 * Shows a turn as it goes on, until it ends or suspends or the signal is aborted: what is settled as lines that stay, what runs redrawn
 * below them on a terminal, and not before it is settled elsewhere.
 */
export async function watchTask(watched: WatchedTask, signal: AbortSignal): Promise<void> {
  const { taskId, store, terminal } = watched;
  let timeline = timelineOf(await store.read(taskId));
  if (timeline === undefined) throw new AgentLoopError('NOT_FOUND', 'The journal is empty.', { taskId });
  const view = new TimelineView(timeline, onStdout(terminal));
  view.draw(timeline);
  if (timeline.state.outcome === undefined) {
    if (!(await isHeld(store, timeline.state))) note(terminal, 'nobody runs the turn now; this waits for whoever does');
    const frame = setInterval(() => timeline && view.draw(timeline), frameMs);
    try {
      await untilAborted(signal, (done, failed) =>
        store.follow(taskId, { from: (timeline?.state.seq ?? 0) + 1 }).subscribe({
          next(received) {
            if (received.type !== 'record') return;
            timeline = extendTimeline(timeline, received.record);
            view.draw(timeline);
            if (timeline.state.outcome) done();
          },
          error: failed,
          complete: done,
        }),
      );
    } finally {
      clearInterval(frame);
    }
  }
  view.close(timeline);
  const held = await isHeld(store, timeline.state);
  const lines = standingLines(timeline, { held, place: watched.place, terminal });
  await terminal.stdout.write(lines.map((line) => `${line}\n`).join(''));
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

  draw(timeline: Timeline): void {
    const { style, stdout, live } = this.#terminal;
    const { lines, settled } = timelineLines(timeline, { style, columns: stdout.columns, now: Date.now() });
    const moving = live ? lines.slice(settled, settled + Math.max(1, stdout.rows - 3)) : [];
    this.#live.draw(moving, lines.slice(this.#written, settled));
    this.#written = settled;
  }

  /** Writes what is left. */
  close(timeline: Timeline): void {
    const { style, stdout } = this.#terminal;
    const { lines } = timelineLines(timeline, { style, columns: stdout.columns, now: Date.now() });
    this.#live.draw([], lines.slice(this.#written));
  }
}
