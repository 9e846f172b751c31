const marker = Symbol.for('millrace.TaskComplete');

const doneMarker = Symbol.for('millrace.DoneSignal');

/**
 * Thrown by a tool to end the turn, with the reason `done`. The call has succeeded; its text is the turn's, or where there is none that of the
 * response that made the call. Calls of the same response that have not started are skipped; of several that end the turn the first counts.
 */
export class TaskComplete extends Error {
  override readonly name = 'TaskComplete';
  readonly [marker] = true;
  /** What the turn ends with. */
  readonly finalMessage: string | undefined;

  constructor(finalMessage?: string) {
    super(finalMessage ?? 'The task is complete.');
    this.finalMessage = finalMessage;
  }

  /** True for a `TaskComplete` of any installed copy of this package. */
  static isInstance(value: unknown): value is TaskComplete {
    return typeof value === 'object' && value !== null && marker in value;
  }
}

/** Returned by a tool, or by the `executeTool` of a provider, in place of throwing a `TaskComplete`. */
export class DoneSignal {
  readonly [doneMarker] = true;
  /** What the turn ends with. */
  readonly finalMessage: string | undefined;

  constructor(finalMessage?: string) {
    this.finalMessage = finalMessage;
  }

  /** True for a `DoneSignal` of any installed copy of this package. */
  static isInstance(value: unknown): value is DoneSignal {
    return typeof value === 'object' && value !== null && doneMarker in value;
  }
}
