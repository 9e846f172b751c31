import type { ToolCall } from '../contracts/messages.ts';
import { toolError } from '../contracts/tool-errors.ts';
import type { ToolResultRecord } from '../journal/records.ts';
import type { PendingToolCall } from '../journal/state.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import { refusedCall } from './tool-results.ts';

interface Limit {
  readonly call: ToolCall;
  readonly callOff: () => void;
}

/**
 * The calls of a batch whose arguments or approval are being checked. A check, or an approval, that does not answer within the tool's
 * timeout refuses the call; hooks before it have a limit of their own.
 */
export class CallChecks {
  readonly #deps: TurnDeps;
  readonly #refuse: (refused: ToolResultRecord) => void;
  /** The limit of each, by call id. */
  #limits: Map<string, Limit> | undefined;

  constructor(deps: TurnDeps, refuse: (refused: ToolResultRecord) => void) {
    this.#deps = deps;
    this.#refuse = refuse;
  }

  has(callId: string): boolean {
    return this.#limits?.has(callId) === true;
  }

  add({ callId, call }: PendingToolCall): void {
    this.#limits ??= new Map();
    this.#limits.set(callId, { call, callOff: this.#limit(callId, call) });
  }

  end(callId: string): void {
    this.#limits?.get(callId)?.callOff();
    this.#limits?.delete(callId);
  }

  /** Waits for none of them any more, and says which they were. Aborts the signals of the hooks that were asked with `reason`. */
  leave(reason: unknown): readonly string[] {
    const limits = [...(this.#limits ?? [])];
    for (const [callId, { call }] of limits) {
      this.end(callId);
      this.#deps.callNotes.of(call).question?.leave(reason);
    }
    return limits.map(([callId]) => callId);
  }

  #limit(callId: string, call: ToolCall): () => void {
    const { clock, toolTimeoutMs } = this.#deps.config;
    const ms = this.#deps.tools.byName.get(call.function.name)?.definition.timeoutMs ?? toolTimeoutMs;
    if (ms === 0) return () => {};
    let callOff = () => {};
    const late = () => {
      const { isAsked, isDeciding, question } = this.#deps.callNotes.of(call);
      if (isAsked) return start();
      this.#limits?.delete(callId);
      question?.expire(ms);
      this.#refuse(refusedCall(callId, toolError(isDeciding ? 'undecided' : 'check_late', { limitMs: ms })));
    };
    const start = () => {
      callOff = clock.schedule(ms, late);
    };
    start();
    return () => callOff();
  }
}
