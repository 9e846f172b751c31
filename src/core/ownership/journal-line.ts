import { countFencedAppend, measureAppend } from '../../observability/spans/instruments.ts';
import { AgentLoopError, type Clock, type Lease, type TaskState, type TaskStateStore } from '../contracts/index.ts';
import { type Commit, type JournalRecord, type Signal, storeError, taskState } from '../journal/index.ts';
import { after, Backoff, type FusibleOperator, type Sink, Stage, staged } from '../streams/index.ts';

/** The store and lease that a turn appends with. */
interface JournalTarget {
  readonly store: TaskStateStore;
  readonly lease: Lease;
}

interface JournalDeps {
  /** Absent: the turn has no store, and every commit counts as durable at once. */
  readonly journal: JournalTarget | undefined;
  readonly clock: Clock;
  /** How long a commit may wait for the store, in milliseconds. */
  readonly storeDeadlineMs: number;
}

/**
 * Appends the commits of a turn to the store and emits each commit, in order, once the store has acknowledged it; then calls its `durable`. A store
 * that is `strict` waits for its disk or its replicas where `barrier` is set; a result that it loses before that is a call in doubt. One append is in
 * flight at a time; the commits that arrive meanwhile are the next one. If the store is asynchronous, a commit that the engine does not wait for
 * is sent with what follows it in the same turn of the event loop: the last result of an iteration with the start of the next model call. A delta is
 * emitted at once if no append is in flight; otherwise it keeps its place among the commits, and adjacent text deltas are merged.
 *
 * After a retryable failure the append is sent again, unchanged, after 50 ms doubling to 1 s, until it has waited `storeDeadlineMs`; then the
 * stream errors with the last failure, or with `UNAVAILABLE` if the store did not answer. Any other failure errors the stream at once.
 * Completes or errors as the source does, once everything is durable. Unsubscribing stops the source and the retries. Buffers the signals from
 * the append in flight on.
 *
 * An emitted delta is also published to the store's followers, for readers in other processes; failures of extensions and events of child
 * turns are not: child turns publish their own.
 */
export function journal(deps: JournalDeps): FusibleOperator<Signal, Signal> {
  return staged((to) => new JournalLine(deps, to));
}

/** How the source ended. */
interface SourceEnd {
  readonly error?: unknown;
}

const none: readonly Signal[] = [];
const firstRetryMs = 50;
const lastRetryMs = 1000;

class JournalLine extends Stage<Signal> {
  readonly #deps: JournalDeps;
  /** The commits of the append in flight, and the deltas between them. */
  #sending: readonly Signal[] | undefined;
  /** What arrived since. */
  #waiting: Signal[] = [];
  #end: SourceEnd | undefined;
  #failure: unknown;
  /** Whether the store has answered with a promise: then nobody sees a commit in the call that emits it. */
  #isAsync = false;
  /** Set while a commit waits for what follows it. */
  #soon: JournalTarget | undefined;
  /** The model call that deltas belong to, from the last emitted commit. */
  #iteration = 0;
  #attempt = 0;
  #retries: Backoff | undefined;
  #cancelRetry: (() => void) | undefined;
  #cancelDeadline: (() => void) | undefined;

  constructor(deps: JournalDeps, to: Sink<Signal>) {
    super(to);
    this.#deps = deps;
  }

  protected override take(signal: Signal): undefined {
    const { journal: target } = this.#deps;
    if (this.#sending) this.#hold(signal);
    else if (signal.type !== 'commit') target ? this.#passDelta(signal, target) : this.to.next(signal);
    else if (!target) this.#pass(signal);
    else if (this.#isAsync && !signal.barrier) this.#sendSoon(signal, target);
    else this.#send([signal], target);
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
    this.#waiting = [];
  }

  #finish(end: SourceEnd): void {
    this.#end = end;
    if (this.#soon) this.#sendNow();
    else if (!this.#sending) this.#endWith(end);
  }

  #endWith(end: SourceEnd): void {
    if ('error' in end) this.to.error(end.error);
    else this.to.complete();
  }

  #hold(signal: Signal): void {
    const last = this.#waiting.at(-1);
    if (signal.type !== 'text' || last?.type !== 'text') this.#waiting.push(signal);
    else this.#waiting[this.#waiting.length - 1] = { type: 'text', text: last.text + signal.text };
  }

  #sendSoon(commit: Commit, target: JournalTarget): void {
    this.#sending = none;
    this.#waiting = [commit];
    this.#soon = target;
    queueMicrotask(() => this.#sendNow());
  }

  #sendNow(): void {
    const target = this.#soon;
    if (!target) return;
    this.#soon = undefined;
    const signals = this.#waiting;
    this.#waiting = [];
    this.#send(signals, target);
  }

  /** Sends these signals, then what they cause while they are emitted, until the store takes its time. */
  #send(first: readonly Signal[], target: JournalTarget): void {
    let signals = first;
    while (signals.length > 0) {
      this.#sending = signals;
      const answer = append(signals, target);
      if (answer) return this.#await(answer, signals, target);
      signals = this.#emit(signals, target);
    }
    this.#sending = undefined;
    if (this.#end) this.#endWith(this.#end);
  }

  #await(answer: Promise<void>, signals: readonly Signal[], target: JournalTarget): void {
    this.#isAsync = true;
    if (!this.#cancelDeadline) this.#limitWait();
    const stored = () => this.#send(this.#emit(signals, target), target);
    answer.then(stored, (error: unknown) => this.#notStored(error, signals, target));
  }

  /** Returns what arrived since, and while they were emitted. */
  #emit(signals: readonly Signal[], target: JournalTarget): readonly Signal[] {
    if (this.#cancelDeadline) {
      this.#cancelDeadline();
      this.#cancelDeadline = undefined;
      this.#failure = undefined;
      this.#retries = undefined;
    }
    for (const signal of signals) {
      if (this.to.closed) break;
      if (signal.type === 'commit') this.#pass(signal);
      else this.#passDelta(signal, target);
    }
    const arrived = this.#waiting;
    if (arrived.length > 0) this.#waiting = [];
    return arrived;
  }

  #notStored(error: unknown, signals: readonly Signal[], target: JournalTarget): void {
    if (this.to.closed) return;
    if (AgentLoopError.isInstance(error) && error.code === 'FENCED') countFencedAppend();
    if (!AgentLoopError.isInstance(error) || !error.retryable) return this.to.error(storeError(error));
    this.#failure = error;
    this.#retries ??= new Backoff(firstRetryMs, lastRetryMs);
    this.#cancelRetry = after(this.#retries.next(), this.#deps.clock, () => this.#send(signals, target));
  }

  #pass(commit: Commit): void {
    this.#iteration = commit.after.iteration;
    this.#attempt = commit.after.attempt;
    this.to.next(commit);
    commit.durable?.();
  }

  /** Publishes a delta, then emits it. */
  #passDelta(delta: Exclude<Signal, Commit>, { store, lease: { taskId, epoch } }: JournalTarget): void {
    if (delta.type === 'tool-progress') {
      const { callId, update } = delta;
      store.publish(taskId, { type: 'tool-progress', epoch, callId, update });
    } else if (delta.type !== 'extension-error' && delta.type !== 'sub-agent' && delta.type !== 'model-note') {
      const iteration = this.#iteration;
      store.publish(taskId, { type: 'llm', epoch, iteration, attempt: this.#attempt, chunk: delta });
    }
    this.to.next(delta);
  }

  /** A retry does not extend the wait. */
  #limitWait(): void {
    const { clock, storeDeadlineMs } = this.#deps;
    const giveUp = () => this.to.error(this.#failure ?? silent(storeDeadlineMs));
    this.#cancelDeadline = after(storeDeadlineMs, clock, giveUp);
  }
}

/** One append of all commits among the signals. `undefined` if the store has acknowledged it at once, or there is none. */
function append(signals: readonly Signal[], { store, lease }: JournalTarget): undefined | Promise<void> {
  const records: JournalRecord[] = [];
  let barrier = false;
  let status: TaskState = 'working';
  for (const signal of signals) {
    if (signal.type !== 'commit') continue;
    for (const { record } of signal.steps) records.push(record);
    barrier ||= signal.barrier;
    status = taskState(signal.after);
  }
  if (records.length === 0) return undefined;
  const measured = measureAppend();
  try {
    const answer = store.append(lease, records, { status, barrier });
    if (answer && measured) return answer.then(measured);
    measured?.();
    return answer ?? undefined;
  } catch (error) {
    return Promise.reject(error);
  }
}

function silent(ms: number): AgentLoopError {
  return new AgentLoopError(
    'UNAVAILABLE',
    `The store did not answer an append within ${ms} ms (storeDeadlineMs); the task can be resumed once it is back.`,
    { retryable: true },
  );
}
