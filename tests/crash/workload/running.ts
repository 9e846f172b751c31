import type { Subscription } from 'rxjs';

/** A call of a tool, or a request to a model, that runs. */
interface Work {
  readonly task: string;
  readonly name: string;
  /** Whether the engine has aborted its signal, or has unsubscribed from it. */
  readonly isStopped: () => boolean;
}

/** What one run of a turn, or of a tree, does outside of the engine at the moment. */
export class Running {
  readonly #works = new Set<Work>();

  /** Returns the function to call when it is over. */
  begin(work: Work): () => void {
    this.#works.add(work);
    return () => void this.#works.delete(work);
  }

  beginRequest(task: string, iteration: number, request: Subscription | undefined): void {
    request?.add(this.begin({ task, name: `request ${iteration}`, isStopped: () => request.closed }));
  }

  /** What still runs in a turn, or below it, although nothing has told it to stop. */
  unstopped(taskId: string): readonly string[] {
    const works = [...this.#works].filter(({ task }) => task === taskId || task.startsWith(`${taskId}:`));
    return works.filter(({ isStopped }) => !isStopped()).map(({ task, name }) => `${name} of ${task}`);
  }
}
