import type { Subscriber } from 'rxjs';
import type { Command } from '../interfaces.ts';
import { Broadcast } from './broadcast.ts';

/** The commands of one task, each id once, and who listens to them in this process. */
export class CommandBox {
  readonly #commands = new Map<string, Command>();
  readonly #listeners = new Broadcast<Command>();

  /** Whether it holds nothing and nobody listens. */
  get isIdle(): boolean {
    return this.#commands.size === 0 && this.#listeners.size === 0;
  }

  post(command: Command): void {
    if (this.#commands.has(command.id)) return;
    this.#commands.set(command.id, command);
    this.#listeners.emit([command]);
  }

  listen(subscriber: Subscriber<Command>): void {
    this.#listeners.join(subscriber, [...this.#commands.values()]);
  }
}
