import type { Subscriber } from 'rxjs';
import { AgentLoopError, type Command } from '../../core/contracts/index.ts';
import { comesBefore, type StreamWatch } from './blocking-reader.ts';
import type { StreamEntry } from './script-answer.ts';
import type { ScriptRunner } from './script-runner.ts';
import type { StreamReaders } from './stream-readers.ts';
import type { TaskKeys } from './task-keys.ts';

export interface ListenDeps {
  readonly scripts: ScriptRunner;
  readonly readers: StreamReaders;
  readonly keys: TaskKeys;
  readonly taskId: string;
}

/** One listener to the commands of one task, from the first on. Waits for as long as Redis is away. */
export class CommandListener implements StreamWatch {
  readonly #deps: ListenDeps;
  readonly #to: Subscriber<Command>;
  #lastId = '0-0';

  constructor(deps: ListenDeps, to: Subscriber<Command>) {
    this.#deps = deps;
    this.#to = to;
  }

  async start(): Promise<void> {
    const { scripts, readers, keys, taskId } = this.#deps;
    try {
      await scripts.run({ script: 'describe', keys: [keys.head], args: [], subject: { taskId } });
    } catch (error) {
      const later = AgentLoopError.isInstance(error) && error.retryable;
      if (!later) return this.#to.error(error);
    }
    if (!this.#to.closed) this.#to.add(readers.watch(keys.head, this));
  }

  positions(): readonly (readonly [string, string])[] {
    return [[this.#deps.keys.commands, this.#lastId]];
  }

  take(entries: ReadonlyMap<string, readonly StreamEntry[]>): void {
    for (const { id, value } of entries.get(this.#deps.keys.commands) ?? []) {
      if (this.#to.closed || !comesBefore(this.#lastId, id)) continue;
      this.#lastId = id;
      this.#to.next(JSON.parse(value));
    }
  }

  verify(): void {}

  lost(): void {}
}
