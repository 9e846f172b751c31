import { countFencedAppend, measureAppend } from '../../observability/spans/instruments.ts';
import { AgentLoopError, type Clock, type Lease, type TaskStateStore } from '../contracts/index.ts';
import { type Commit, type JournalRecord, type Signal, storeError, taskState } from '../journal/index.ts';
import { type FusibleOperator, type Sink, Stage, staged } from '../streams/index.ts';

/** The store and lease that a turn appends with. */
interface JournalTarget {
  readonly store: TaskStateStore;
  readonly lease: Lease;
}

type Delta = Exclude<Signal, Commit>;

interface JournalDeps {
  /** Absent: the turn has no store, and every commit counts as durable at once. */
  readonly journal: JournalTarget | undefined;
  readonly clock: Clock;
  /** How long a commit may wait for the store, in milliseconds. */
  readonly storeDeadlineMs: number;
}

/**
 * Appends the commits of a turn to the store and emits each commit, in order, once it is durable; then calls its `durable`. Appends are
 * pipelined: a commit is sent when it arrives, even if earlier ones are unacknowledged. A delta is emitted at once if no commit is
 * unacknowledged; otherwise it waits in the queue, and adjacent text deltas are merged.
 *
 * After a retryable failure the unacknowledged commits are sent again, unchanged, from the failed one on, after 50 ms doubling to 1 s, until
 * the oldest commit has waited `storeDeadlineMs`; then the stream errors with the last failure, or with `UNAVAILABLE` if the store
 * did not answer. Any other failure errors the stream at once. Completes or errors as the source does, once everything is durable.
 * Unsubscribing stops the source and the retries. Buffers the signals from the oldest unacknowledged commit on.
 *
 * An emitted delta is also published to the store's followers, for readers in other processes; failures of extensions and events of child
 * turns are not: child turns publish their own.
 */
export function journal(deps: JournalDeps): FusibleOperator<Signal, Signal> {
  return staged((to) => new JournalLine(deps, to));
}

interface Held {
  signal: Signal;
  /** `sent`: the append is in flight; `open`: to be sent again; `durable`: acknowledged, or a delta. */
  state: 'open' | 'sent' | 'durable';
  /** How often it was sent; an acknowledgement of an earlier attempt is ignored. */
  sends: number;
}

/** An append that the store has not acknowledged. */
interface Sending {
  readonly held: Held;
  /** The number of the attempt. */
  readonly send: number;
  readonly measured: (() => void) | undefined;
}

/** How the source ended. */
interface SourceEnd {
  readonly error?: unknown;
}

const firstRetryMs = 50;
const lastRetryMs = 1000;

/** The queue of one subscription, from the oldest signal that is not durable on. */
class JournalLine extends Stage<Signal> {
  readonly #deps: JournalDeps;
  #held: Held[] = [];
  #end: SourceEnd | undefined;
  #failure: unknown;
  #retryMs = firstRetryMs;
  /** The model call that deltas belong to, from the last emitted commit. */
  #iteration = 0;
  #attempt = 0;
  #cancelRetry: (() => void) | undefined;
  #cancelDeadline: (() => void) | undefined;

  constructor(deps: JournalDeps, to: Sink<Signal>) {
    super(to);
    this.#deps = deps;
  }

  protected override take(signal: Signal): void {
    const { journal: target } = this.#deps;
    if (signal.type === 'commit') {
      if (target) this.#takeCommit(signal);
      else this.#pass(signal);
    } else if (target === undefined) this.to.next(signal);
    else this.#takeDelta(signal, target);
  }

  #takeCommit(signal: Commit): void {
    const held: Held = { signal, state: 'open', sends: 0 };
    const idle = this.#held.length === 0;
    if (this.#failure === undefined && this.#append(held, signal) && idle) return this.#pass(signal);
    this.#held.push(held);
    if (idle) this.#armDeadline();
  }

  protected override failed(error: unknown): void {
    this.#finish({ error });
  }

  protected override completed(): void {
    this.#finish({});
  }

  protected override finalize(): void {
    this.#cancelRetry?.();
    this.#cancelDeadline?.();
    this.#held = [];
  }

  #finish(end: SourceEnd): void {
    this.#end = end;
    if (this.#held.length === 0) this.#endWith(end);
  }

  #endWith(end: SourceEnd): void {
    if ('error' in end) this.to.error(end.error);
    else this.to.complete();
  }

  #takeDelta(signal: Delta, target: JournalTarget): void {
    const last = this.#held.at(-1);
    if (last === undefined) return this.#passDelta(signal, target);
    if (signal.type === 'text' && last.signal.type === 'text') {
      last.signal = { type: 'text', text: last.signal.text + signal.text };
    } else {
      this.#held.push({ signal, state: 'durable', sends: 0 });
    }
  }

  /** Sends one commit. Returns true if the store acknowledged it synchronously. */
  #append(held: Held, commit: Commit): boolean {
    const send = ++held.sends;
    held.state = 'sent';
    const measured = measureAppend();
    try {
      const answer = this.#write(commit);
      if (answer === undefined) {
        held.state = 'durable';
        measured?.();
      } else this.#await(answer, { held, send, measured });
    } catch (error) {
      queueMicrotask(() => this.#fail(held, send, error));
    }
    return held.state === 'durable';
  }

  #await(answer: Promise<void>, { held, send, measured }: Sending): void {
    const acknowledged = () => {
      measured?.();
      this.#acknowledge(held, send);
    };
    answer.then(acknowledged, (error: unknown) => this.#fail(held, send, error));
  }

  #write(commit: Commit): void | Promise<void> {
    const { journal: target } = this.#deps;
    if (target === undefined) return undefined;
    const records: JournalRecord[] = [];
    for (const { record } of commit.steps) records.push(record);
    return target.store.append(target.lease, records, { status: taskState(commit.after), barrier: commit.barrier });
  }

  #acknowledge(held: Held, send: number): void {
    if (held.sends !== send || held.state !== 'sent') return;
    held.state = 'durable';
    if (this.#failure !== undefined) {
      this.#failure = undefined;
      this.#resend();
    }
    this.#drain();
  }

  #drain(): void {
    if (this.#held[0]?.state !== 'durable') return;
    const { journal: target } = this.#deps;
    this.#retryMs = firstRetryMs;
    this.#cancelDeadline?.();
    while (this.#held[0]?.state === 'durable') {
      const { signal } = this.#held.shift() as Held;
      if (signal.type === 'commit') this.#pass(signal);
      else if (target) this.#passDelta(signal, target);
    }
    if (this.#held.length > 0) this.#armDeadline();
    else if (this.#end) this.#endWith(this.#end);
  }

  /** Publishes a delta, then emits it. */
  #passDelta(signal: Delta, { store, lease: { taskId, epoch } }: JournalTarget): void {
    if (signal.type === 'tool-progress') {
      const { callId, update } = signal;
      store.publish(taskId, { type: 'tool-progress', epoch, callId, update });
    } else if (signal.type !== 'extension-error' && signal.type !== 'sub-agent' && signal.type !== 'model-note') {
      const iteration = this.#iteration;
      store.publish(taskId, { type: 'llm', epoch, iteration, attempt: this.#attempt, chunk: signal });
    }
    this.to.next(signal);
  }

  #pass(signal: Commit): void {
    this.#iteration = signal.after.iteration;
    this.#attempt = signal.after.attempt;
    this.to.next(signal);
    signal.durable?.();
  }

  #fail(held: Held, send: number, error: unknown): void {
    if (held.sends !== send || held.state !== 'sent' || this.to.closed) return;
    if (AgentLoopError.isInstance(error) && error.code === 'FENCED') countFencedAppend();
    if (!AgentLoopError.isInstance(error) || !error.retryable) return this.to.error(storeError(error));
    this.#failure = error;
    for (const later of this.#held.slice(this.#held.indexOf(held))) {
      if (later.signal.type === 'commit') later.state = 'open';
    }
    this.#cancelRetry?.();
    this.#cancelRetry = this.#deps.clock.schedule(this.#retryMs, () => this.#resend());
    this.#retryMs = Math.min(this.#retryMs * 2, lastRetryMs);
  }

  #resend(): void {
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    let drained = false;
    for (const held of this.#held.slice()) {
      if (held.state !== 'open' || held.signal.type !== 'commit') continue;
      drained = this.#append(held, held.signal) || drained;
    }
    if (!drained) return;
    this.#failure = undefined;
    this.#drain();
  }

  /** Errors the stream if the oldest commit is not durable by the deadline. */
  #armDeadline(): void {
    const { clock, storeDeadlineMs } = this.#deps;
    this.#cancelDeadline?.();
    this.#cancelDeadline = clock.schedule(storeDeadlineMs, () =>
      this.to.error(this.#failure ?? silent(storeDeadlineMs)),
    );
  }
}

function silent(ms: number): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `The store did not answer an append within ${ms} ms (storeDeadlineMs); the task can be resumed once it is back.`,
    { retryable: true },
  );
}
