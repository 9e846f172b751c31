import type {
  CallToolResult,
  ElicitRequest,
  ElicitResult,
  InputRequiredResult,
  Progress,
} from '@modelcontextprotocol/client';
import { backgroundClock, systemClock, type ToolContext } from '../core/contracts/index.ts';
import { after, Timer } from '../core/streams/index.ts';
import type { Failure } from './call-failure.ts';

/** What a server asks the user while a call runs. */
interface Elicitation {
  readonly params: ElicitRequest['params'];
  readonly answer: (result: ElicitResult) => void;
}

/** What a server answers: the result of the tool, or, since 2026-07-28, what it has to know first. */
export type CallResult = CallToolResult | InputRequiredResult;

export function isInputRequired(result: CallResult): result is InputRequiredResult {
  return Reflect.get(result, 'resultType') === 'input_required';
}

/** What a call comes to next. */
type CallStep =
  | { readonly type: 'result'; readonly result: CallResult }
  /** What `send` rejected with. */
  | { readonly type: 'failed'; readonly error: unknown }
  /** We did not wait for the server. */
  | { readonly type: 'left'; readonly failure: Failure }
  | { readonly type: 'asked'; readonly elicitation: Elicitation };

interface OpenCallOptions {
  readonly idleMs: number;
  readonly totalMs: number;
  /** Sends the request; aborting the signal tells the server that nobody waits any more. */
  readonly send: (call: OpenCall, signal: AbortSignal) => Promise<CallResult>;
}

/**
 * One request to a tool, from its sending to its result. It may outlive the attempt that made it: while a question of its server waits
 * for an answer, nobody listens, and the next attempt takes it up again.
 */
export class OpenCall {
  /** How many questions of this call were put, and answered. */
  answered = 0;
  /** Model calls that the server has caused. */
  sampled = 0;
  readonly #limits: CallLimits;
  readonly #controller = new AbortController();
  readonly #asked: Elicitation[] = [];
  #end: Exclude<CallStep, { type: 'asked' }> | undefined;
  #wake: (() => void) | undefined;
  #context: ToolContext | undefined;
  #abandon: (() => void) | undefined;

  constructor({ idleMs, totalMs, send }: OpenCallOptions) {
    const onReached = (limitMs: number) => this.leave({ kind: 'silent', what: `did not answer within ${limitMs} ms` });
    this.#limits = new CallLimits({ idleMs, totalMs, onReached });
    const settle = (end: Exclude<CallStep, { type: 'asked' }>) => {
      this.#limits.stop();
      this.#end ??= end;
      this.#wake?.();
    };
    send(this, this.#controller.signal).then(
      (result) => settle({ type: 'result', result }),
      (error: unknown) => settle({ type: 'failed', error }),
    );
  }

  /** Whether its server waits for an answer of the user, and so does nothing else for this call. */
  get isWaiting(): boolean {
    return this.#asked.length > 0;
  }

  get isSettled(): boolean {
    return this.#end !== undefined;
  }

  /** Aborted where we leave the call before its end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why we did not wait for the server, where we did not. */
  get left(): Failure | undefined {
    return this.#end?.type === 'left' ? this.#end.failure : undefined;
  }

  /** The next question, else the end, once there is one. For one reader at a time. */
  async next(): Promise<CallStep> {
    for (;;) {
      const [elicitation] = this.#asked;
      if (this.#end) return this.#end;
      if (elicitation) return { type: 'asked', elicitation };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** That of the attempt that listens. */
  get context(): ToolContext | undefined {
    return this.#context;
  }

  /** An attempt listens from now on; `undefined`: nobody does. */
  attend(context: ToolContext | undefined): void {
    this.#context = context;
  }

  progressed(progress: Progress): void {
    this.#limits.renew();
    this.#context?.progress({ type: 'mcp-progress', ...progress });
  }

  /** Puts a question of the server; resolves with the answer. Its time does not count. */
  ask(params: ElicitRequest['params'], signal: AbortSignal): Promise<ElicitResult> {
    return new Promise((resolve) => {
      const answer = (result: ElicitResult) => {
        const index = this.#asked.indexOf(elicitation);
        if (index === -1) return;
        this.#asked.splice(index, 1);
        this.#limits.resume();
        resolve(result);
      };
      const elicitation: Elicitation = { params, answer };
      this.#asked.push(elicitation);
      this.#limits.pause();
      signal.addEventListener('abort', () => answer({ action: 'cancel' }), { once: true });
      this.#wake?.();
    });
  }

  /** Runs work that the server waits for, outside of the call's limits. */
  async outside<T>(work: () => Promise<T>): Promise<T> {
    this.#limits.pause();
    try {
      return await work();
    } finally {
      this.#limits.resume();
    }
  }

  /** Keeps the call while its question waits for an answer, for so long at most. */
  hold(ms: number, onAbandoned: () => void): void {
    this.#abandon = after(ms, backgroundClock, () => {
      this.leave({ kind: 'canceled', what: 'asked what nobody answered' });
      onAbandoned();
    });
  }

  /** Ends what `hold` began. */
  release(): void {
    this.#abandon?.();
    this.#abandon = undefined;
  }

  /** Ends the call at once and cancels it at the server, without waiting for the server. */
  leave(failure: Failure): void {
    this.release();
    if (this.#end) return;
    this.#end = { type: 'left', failure };
    this.#limits.stop();
    for (const { answer } of [...this.#asked]) answer({ action: 'cancel' });
    this.#controller.abort(failure.kind);
    this.#wake?.();
  }
}

interface CallLimitOptions {
  /** Without progress. Milliseconds. */
  readonly idleMs: number;
  /** In all. Milliseconds. */
  readonly totalMs: number;
  /** Called once, with the limit that was reached, in milliseconds. */
  readonly onReached: (limitMs: number) => void;
}

/** The two limits of one call. Both stand still while it is paused. */
class CallLimits {
  readonly #options: CallLimitOptions;
  readonly #timer = new Timer(systemClock);
  #spentMs = 0;
  #since = 0;
  #pauses = 0;
  #stopped = false;

  constructor(options: CallLimitOptions) {
    this.#options = options;
    this.#arm();
  }

  /** Progress: restarts the idle time of the call. */
  renew(): void {
    if (this.#stopped || this.#pauses > 0) return;
    this.#disarm();
    this.#arm();
  }

  /** Until `resume` was called as often. */
  pause(): void {
    this.#pauses++;
    if (this.#pauses === 1) this.#disarm();
  }

  resume(): void {
    this.#pauses--;
    if (this.#pauses === 0 && !this.#stopped) this.#arm();
  }

  stop(): void {
    this.#disarm();
    this.#stopped = true;
  }

  #arm(): void {
    const { idleMs, totalMs, onReached } = this.#options;
    const leftMs = Math.max(0, totalMs - this.#spentMs);
    const limitMs = leftMs < idleMs ? totalMs : idleMs;
    this.#since = performance.now();
    this.#timer.set(Math.min(idleMs, leftMs), () => {
      this.stop();
      onReached(limitMs);
    });
  }

  #disarm(): void {
    if (!this.#timer.isSet) return;
    this.#timer.stop();
    this.#spentMs += performance.now() - this.#since;
  }
}
