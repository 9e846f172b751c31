import type { Subscriber } from 'rxjs';
import type { Command, PostOptions } from '../../core/contracts/index.ts';
import { Broadcast } from './broadcast.ts';

/** The commands of one task, each id once, and who listens to them in this process. */
export class CommandBox {
  readonly #commands = new Map<string, Command>();
  readonly #listeners = new Broadcast<Command>();

  /** Whether it holds nothing and nobody listens. */
  get isIdle(): boolean {
    return this.#commands.size === 0 && this.#listeners.size === 0;
  }

  /** As `TaskStateStore.post`. */
  post(command: Command, { most = Number.POSITIVE_INFINITY }: PostOptions = {}): Command | undefined {
    const first = this.#commands.get(command.id);
    if (first) return first;
    if (this.#commands.size >= most) return undefined;
    this.#commands.set(command.id, command);
    this.#listeners.emit([command]);
    return command;
  }

  listen(subscriber: Subscriber<Command>): void {
    this.#listeners.join(subscriber, [...this.#commands.values()]);
  }
}
