import { type Clock, type ToolCall, toolError } from '../contracts/index.ts';
import type { PendingToolCall, ToolResultRecord } from '../journal/index.ts';
import { refusedCall, type ToolCallDeps } from './tool-results.ts';

/** What has a time limit in `Deadlines`. */
export interface Limited {
  /** Called when the time limit is over. */
  expire(): void;
}

/** Time limits of concurrent calls, on one timer: that of the earliest. */
export class Deadlines {
  readonly #clock: Clock;
  readonly #open = new Map<Limited, number>();
  /** When the timer fires, by `#now`. */
  #armedFor = Number.POSITIVE_INFINITY;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `ms`: the time from now on. Replaces an earlier limit. */
  set(limited: Limited, ms: number): void {
    const at = this.#now() + ms;
    this.#open.set(limited, at);
    if (at < this.#armedFor) this.#arm(at, ms);
  }

  delete(limited: Limited): void {
    this.#open.delete(limited);
  }

  /** Removes all limits. */
  stop(): void {
    this.#open.clear();
    this.#cancel?.();
    this.#cancel = undefined;
    this.#armedFor = Number.POSITIVE_INFINITY;
  }

  /** Uses `elapsed` if the clock has it: setting the system clock then does not change limits. */
  #now(): number {
    return this.#clock.elapsed?.() ?? this.#clock.now();
  }

  #arm(at: number, ms: number): void {
    this.#cancel?.();
    this.#armedFor = at;
    this.#cancel = this.#clock.schedule(ms, () => this.#fire());
  }

  #fire(): void {
    // The timer is right even if the clock was set back.
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
 * The running checks of a batch's calls, of arguments and approvals. A check that exceeds the tool's timeout refuses the call; the
 * `beforeToolCall` hooks have time limits of their own.
 */
export class CallChecks {
  readonly #deps: ToolCallDeps;
  readonly #deadlines: Deadlines;
  readonly #refuse: (refused: ToolResultRecord) => void;
  /** The checks by call id. */
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
    const { tools, config } = this.#deps.segment;
    const ms = tools.byName.get(call.function.name)?.definition.timeoutMs ?? config.toolTimeoutMs;
    const check = { call, expire: () => this.#timeOut(callId, check, ms) };
    this.#open.set(callId, check);
    if (ms > 0) this.#deadlines.set(check, ms);
  }

  end(callId: string): void {
    const check = this.#open.get(callId);
    if (check) this.#deadlines.delete(check);
    this.#open.delete(callId);
  }

  /** Abandons all checks and returns their call ids. Aborts the signals of pending hooks with `reason`. */
  abandon(reason: unknown): readonly string[] {
    const open = [...this.#open];
    for (const [callId, { call }] of open) {
      this.end(callId);
      this.#deps.unstartedCalls.of(call).hook?.leave(reason);
    }
    return open.map(([callId]) => callId);
  }

  #timeOut(callId: string, check: Check, ms: number): void {
    const { isDeciding, hook } = this.#deps.unstartedCalls.of(check.call);
    // Before the decision only `beforeToolCall` hooks are called.
    if (!isDeciding && hook?.isOver === false) return this.#deadlines.set(check, ms);
    this.#open.delete(callId);
    hook?.expire(ms);
    this.#refuse(refusedCall(callId, toolError(isDeciding ? 'undecided' : 'check_late', { limitMs: ms })));
  }
}
