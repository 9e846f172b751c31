import { type Clock, type ToolCall, toolError } from '../contracts/index.ts';
import type { PendingToolCall, ToolResultRecord } from '../journal/index.ts';
import { refusedCall, type ToolCallDeps } from './tool-results.ts';

/** Who has to be over by a time. */
export interface Limited {
  /** Its time is over. */
  expire(): void;
}

/** Time limits of calls that run side by side, on one timer: that of the earliest. Most calls end in time, and cancel nothing. */
export class Deadlines {
  readonly #clock: Clock;
  readonly #open = new Map<Limited, number>();
  /** When the timer fires, by `#now`. */
  #armedFor = Number.POSITIVE_INFINITY;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `ms`: how long it may take from now on. */
  set(limited: Limited, ms: number): void {
    const at = this.#now() + ms;
    this.#open.set(limited, at);
    if (at < this.#armedFor) this.#arm(at, ms);
  }

  delete(limited: Limited): void {
    this.#open.delete(limited);
  }

  /** Expires nobody any more. */
  stop(): void {
    this.#open.clear();
    this.#cancel?.();
    this.#cancel = undefined;
    this.#armedFor = Number.POSITIVE_INFINITY;
  }

  /** A system clock that is set while calls run does not change what is left to them. */
  #now(): number {
    return this.#clock.elapsed?.() ?? this.#clock.now();
  }

  #arm(at: number, ms: number): void {
    this.#cancel?.();
    this.#armedFor = at;
    this.#cancel = this.#clock.schedule(ms, () => this.#fire());
  }

  #fire(): void {
    // The timer has waited, also where the clock was set back meanwhile.
    const now = Math.max(this.#now(), this.#armedFor);
    this.#armedFor = Number.POSITIVE_INFINITY;
    for (const [limited, at] of [...this.#open]) {
      if (at > now || !this.#open.delete(limited)) continue;
      limited.expire();
    }
    let next = Number.POSITIVE_INFINITY;
    for (const at of this.#open.values()) next = Math.min(next, at);
    if (next < this.#armedFor) this.#arm(next, Math.max(0, next - this.#now()));
  }
}

interface Check extends Limited {
  readonly call: ToolCall;
}

/**
 * The calls of a batch whose arguments or approval are being checked. A check, or an approval, that does not answer within the tool's
 * timeout refuses the call; hooks before it have a limit of their own.
 */
export class CallChecks {
  readonly #deps: ToolCallDeps;
  readonly #deadlines: Deadlines;
  readonly #refuse: (refused: ToolResultRecord) => void;
  /** By call id. */
  readonly #open = new Map<string, Check>();

  constructor(deps: ToolCallDeps, deadlines: Deadlines, refuse: (refused: ToolResultRecord) => void) {
    this.#deps = deps;
    this.#deadlines = deadlines;
    this.#refuse = refuse;
  }

  has(callId: string): boolean {
    return this.#open.has(callId);
  }

  add({ callId, call }: PendingToolCall): void {
    const { tools, config } = this.#deps;
    const ms = tools.byName.get(call.function.name)?.definition.timeoutMs ?? config.toolTimeoutMs;
    const check = { call, expire: () => this.#late(callId, check, ms) };
    this.#open.set(callId, check);
    if (ms > 0) this.#deadlines.set(check, ms);
  }

  end(callId: string): void {
    const check = this.#open.get(callId);
    if (check) this.#deadlines.delete(check);
    this.#open.delete(callId);
  }

  /** Waits for none of them any more, and says which they were. Aborts the signals of the hooks that were asked with `reason`. */
  leave(reason: unknown): readonly string[] {
    const open = [...this.#open];
    for (const [callId, { call }] of open) {
      this.end(callId);
      this.#deps.unstartedCalls.of(call).question?.leave(reason);
    }
    return open.map(([callId]) => callId);
  }

  #late(callId: string, check: Check, ms: number): void {
    const { isAsked, isDeciding, question } = this.#deps.unstartedCalls.of(check.call);
    if (isAsked) return this.#deadlines.set(check, ms);
    this.#open.delete(callId);
    question?.expire(ms);
    this.#refuse(refusedCall(callId, toolError(isDeciding ? 'undecided' : 'check_late', { limitMs: ms })));
  }
}
