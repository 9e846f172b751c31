import type { ToolMessage } from '../../core/contracts/index.ts';
import type { History } from '../../core/journal/index.ts';

/** The ids of the outputs of a growing history: that of the call; repeated ids get a number. Each message is read once. */
export class OutputIds {
  #read = 0;
  #seen = new Map<string, number>();
  readonly #ids = new WeakMap<ToolMessage, string>();

  idOf(history: History, output: ToolMessage): string | undefined {
    this.#readTo(history);
    if (!this.#ids.has(output)) this.#readAgain(history);
    return this.#ids.get(output);
  }

  #readTo(history: History): void {
    for (; this.#read < history.length; this.#read++) {
      const message = history.at(this.#read);
      if (message?.role === 'tool') this.#ids.set(message, this.#nextId(message));
    }
  }

  /** Extensions may put another message in the place of one that was read. */
  #readAgain(history: History): void {
    this.#read = 0;
    this.#seen = new Map();
    this.#readTo(history);
  }

  #nextId({ toolCallId }: ToolMessage): string {
    const count = (this.#seen.get(toolCallId) ?? 0) + 1;
    this.#seen.set(toolCallId, count);
    return count === 1 ? toolCallId : `${toolCallId}#${count}`;
  }
}

/** The output of a history that has this id. */
export function outputOf(history: History, id: string): ToolMessage | undefined {
  const ids = new OutputIds();
  for (const message of history) if (message.role === 'tool' && ids.idOf(history, message) === id) return message;
  return undefined;
}
