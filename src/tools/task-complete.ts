const marker = Symbol.for('millrace.TaskComplete');

/**
 * Thrown by a tool to end the turn with it, where the extension `doneTool` is there. The call has succeeded; its text is the turn's, or
 * where there is none that of the response that made the call. Without that extension it fails the call, as anything that is thrown.
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

/** Returned by a tool of `tool()` or `LocalToolProvider` in place of throwing a `TaskComplete`. */
export class DoneSignal {
  /** What the turn ends with. */
  readonly finalMessage: string | undefined;

  constructor(finalMessage?: string) {
    this.finalMessage = finalMessage;
  }
}
