import {
  AgentLoopError,
  type Clock,
  type Lease,
  limitOf,
  type Message,
  systemClock,
  type Under,
} from '../core/contracts/index.ts';
import {
  type ExtensionRecord,
  isTerminal,
  type JournalRecord,
  type Stamped,
  type ToolResultRecord,
  type TurnAnswered,
  type TurnStarted,
  type TurnSuspended,
  taskState,
} from '../core/journal/index.ts';
import { Timer } from '../core/streams/index.ts';
import { InMemoryStateStore } from '../stores/memory/in-memory-state-store.ts';
import { fenced } from '../stores/store-rules.ts';
import { callIdOf, type ReplayRun } from './recording.ts';
import type { Score } from './score.ts';

/** What others asked of a turn while it ran. */
export interface Controls {
  pause(reason: string, commands: readonly string[]): void;
  steer(message: Message, command: string | undefined): void;
  cancel(reason: string): void;
  answer(record: TurnAnswered): void;
}

/** Somebody whom the recording answers: the model, a tool, or a tool that is asked about a call in doubt. */
interface Waiter {
  /** Answers with the record that is due. */
  readonly give: (record: JournalRecord) => void;
  /** Answers where the loop has left the recording. */
  readonly improvise: () => void;
}

interface ConductorOptions {
  readonly score: Score;
  readonly clock: ReplayClock;
  /** How long the loop may take from one record to the next, in milliseconds. */
  readonly patienceMs: number;
}

/** The name under which the model waits; a tool waits under the id of its call. */
export const theModel = 'model';

/** The length of the leases in a replay, in milliseconds of its clock. */
export const leaseMs = 300;

/** Leads a loop through a recording: gives each answer when it is due, and asks of the turn what others asked of it. */
export class Conductor {
  readonly #options: ConductorOptions;
  readonly #waiters = new Map<string, Waiter>();
  #controls: Controls | undefined;
  /** The seq of the last record that the turn was asked for. */
  #asked = 0;
  #failure: AgentLoopError | undefined;
  #leading = false;
  readonly #calm = new Timer(systemClock);

  constructor(options: ConductorOptions) {
    this.#options = options;
  }

  /** Why the replay cannot continue. */
  get failure(): AgentLoopError | undefined {
    return this.#failure;
  }

  /** Whether nothing counts that the owner of the turn writes. */
  get isDead(): boolean {
    return this.#failure !== undefined || this.#options.score.isDead;
  }

  begin(run: ReplayRun, controls: Controls): void {
    this.#options.score.begin(run);
    this.#controls = controls;
    if (run.kind === 'resume') this.#ask();
    this.advance();
  }

  /** The run is over. */
  end(): void {
    this.#calm.close();
    this.#waiters.clear();
    this.#controls = undefined;
  }

  fail(error: unknown): void {
    this.#failure ??= AgentLoopError.isInstance(error) ? error : new AgentLoopError('INTERNAL', String(error));
    this.#stop();
  }

  /** Records were taken: sends the commands that are due to the turn, before the loop continues. */
  taken(): void {
    this.#ask();
    this.advance();
  }

  /** Something was shown: answers a question there and then, as who sees it may, before the turn suspends for it. */
  shown(): void {
    const { due, isFree } = this.#options.score;
    if (isFree || due?.type !== 'turn.answered' || due.seq <= this.#asked) return;
    this.#asked = due.seq;
    this.#controls?.answer(due);
  }

  await(name: string, waiter: Waiter): void {
    this.#waiters.set(name, waiter);
    this.advance();
  }

  /** Does what is due, once the loop has come to rest. */
  advance(): void {
    this.#beRestless();
    if (this.#leading) return;
    this.#leading = true;
    queueMicrotask(() => {
      this.#leading = false;
      this.#lead();
    });
  }

  #lead(): void {
    const { score } = this.#options;
    if (!this.#controls) return;
    if (this.isDead) return this.#stop();
    if (score.isFree) return this.#improvise();
    const { due } = score;
    if (!due) return;
    this.shown();
    this.#askCancel();
    if (due.type === 'llm.start') this.#endPause();
    const name = waiterOf(due, score);
    const waiter = name === undefined ? undefined : this.#waiters.get(name);
    const ms = timeoutOf(due, waiter !== undefined);
    if (ms !== undefined) this.#options.clock.elapse(ms);
    else if (name !== undefined && waiter) {
      this.#waiters.delete(name);
      waiter.give(due);
    }
  }

  /** The owner of the turn waited since it suspended, another who took it over since the turn began: the clock of a replay stands still. */
  #endPause(): void {
    const { clock, score } = this.#options;
    const { hold, suspendedAt, turn } = score.state ?? {};
    if (hold?.until === undefined || suspendedAt === undefined || !turn) return;
    for (const since of new Set([suspendedAt, turn.createdAt])) clock.elapse(hold.until - since);
  }

  #improvise(): void {
    const waiters = [...this.#waiters.values()];
    this.#waiters.clear();
    for (const waiter of waiters) waiter.improvise();
  }

  /** Steering and pause are asked for as soon as nothing that they would prevent is due before them. */
  #ask(): void {
    const { score } = this.#options;
    if (score.isFree) return;
    let starts = false;
    for (const record of score.rest()) {
      if (record.type === 'llm.start' || isTerminal(record) || isOfHook(record)) break;
      starts ||= isStart(record);
      if (record.seq <= this.#asked) continue;
      if (record.type === 'x.steer') this.#steer(record);
      else if (record.type === 'turn.suspended' && !record.hold && !starts) this.#pause(record);
    }
    if (!score.isCalling || hasNeverStarted(score.rest())) this.#askCancel();
  }

  #steer({ seq, effects, command }: Stamped<ExtensionRecord>): void {
    this.#asked = seq;
    for (const message of effects?.messages ?? []) this.#controls?.steer(message, command);
  }

  /** A turn that waits for answers suspends by itself. */
  #pause({ seq, reason, questions, commands = [] }: Stamped<TurnSuspended>): void {
    if (questions.length > 0 && reason === 'waits for answers' && commands.length === 0) return;
    this.#asked = seq;
    this.#controls?.pause(reason, commands);
  }

  /** A cancel is requested as late as possible: after it nothing starts, and what a tool throws counts as its being stopped. */
  #askCancel(): void {
    for (const record of this.#options.score.rest()) {
      if (record.type === 'turn.canceled') {
        if (record.seq <= this.#asked) return;
        this.#asked = record.seq;
        return this.#controls?.cancel(record.reason);
      }
      if (record.type !== 'tool.result' || !mayBeStopped(record)) return;
    }
  }

  /** Waits for the next record, and not for ever. */
  #beRestless(): void {
    this.#calm.set(this.#options.patienceMs, () => this.#loseHeart());
  }

  #loseHeart(): void {
    const { score } = this.#options;
    if (this.isDead) return;
    try {
      if (score.isFree) this.fail(stuck(this.#options.patienceMs));
      else score.leaveSilent();
      this.advance();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Takes the lease from the run, as a new owner would. */
  #stop(): void {
    this.#options.clock.elapse(leaseMs / 3);
  }
}

/** Whether an extension decides something first, which steering or a pause would come before. */
function isOfHook(record: JournalRecord): boolean {
  return 'hook' in record && record.hook !== undefined;
}

/** Whether a record is of something that does not begin in a turn that is asked to pause. */
function isStart(record: JournalRecord): boolean {
  return record.type === 'tool.intent' || (record.type === 'turn.asked' && record.question.kind === 'approval');
}

/** Whether an extension recorded this because a model call had failed. */
function isAnswerToFailure(record: JournalRecord): boolean {
  return 'hook' in record && record.hook === 'onLLMError';
}

/** Who has to be answered for a record to come about; nobody where the loop makes it by itself. */
function waiterOf(due: JournalRecord, score: Score): string | undefined {
  const model = score.state?.phase === 'llm' ? theModel : undefined;
  switch (due.type) {
    case 'tool.result':
      return due.callId;
    case 'tool.intent':
      return due.attempt > 1 ? due.callId : undefined;
    case 'turn.asked':
      return due.question.callId;
    case 'turn.suspended':
      return due.hold && model;
    case 'llm.done':
    case 'turn.failed':
    case 'turn.done':
      return model;
    default:
      due.type satisfies
        | 'turn.started'
        | 'turn.resumed'
        | 'llm.start'
        | 'turn.answered'
        | 'agent.changed'
        | 'turn.canceled'
        | `x.${string}`;
      return isAnswerToFailure(due) ? model : callIdOf(due);
  }
}

/** After how many milliseconds a call without an answer has this result. A tool that runs can throw a timeout as its own. */
function timeoutOf(due: JournalRecord, runs: boolean): number | undefined {
  const error = due.type === 'tool.result' ? due.error : undefined;
  if (error?.code !== 'TOOL_ABANDONED' && (error?.code !== 'TOOL_TIMEOUT' || runs)) return undefined;
  return limitOf(error);
}

const ofStopped: ReadonlySet<unknown> = new Set([undefined, 'CANCELED', 'TOOL_ABANDONED', 'TOOL_FAILED']);

function mayBeStopped({ error }: ToolResultRecord): boolean {
  return ofStopped.has(error?.code);
}

/** Whether a call was stopped between its intent and its start. */
function hasNeverStarted(rest: Iterable<JournalRecord>): boolean {
  for (const record of rest) {
    if (record.type !== 'tool.result') return false;
    if (record.error?.reason === 'never_started') return true;
  }
  return false;
}

function stuck(ms: number): AgentLoopError {
  const message = `The replay has left its recording and waits for more than ${ms} ms; see its deviations.`;
  return new AgentLoopError('DEVIATION', message);
}

/** A clock that stands still. What is scheduled runs only when the recording says that it did. */
export interface ReplayClock extends Clock {
  /** Runs what was scheduled last for this many milliseconds. */
  elapse(ms: number): void;
}

export function replayClock(startAt: number): ReplayClock {
  const waiting = new Map<() => void, number>();
  return {
    now: () => startAt,
    schedule(ms, callback) {
      const run = () => callback();
      waiting.set(run, ms);
      return () => waiting.delete(run);
    },
    elapse(ms) {
      const last = [...waiting].findLast(([, after]) => after === ms);
      if (!last) return;
      waiting.delete(last[0]);
      last[0]();
    },
  };
}

/** Journals a replay in memory: what the loop writes is compared with the recording, and the recorded record is kept. */
export class ReplayStore extends InMemoryStateStore {
  readonly #score: Score;
  readonly #conductor: Conductor;
  #lease: Lease | undefined;

  constructor(score: Score, conductor: Conductor) {
    super();
    this.#score = score;
    this.#conductor = conductor;
  }

  /** Puts records there that no run of the loop makes: those that a fork copied, and those of who only visits the turn. */
  put(taskId: string, records: readonly JournalRecord[]): void {
    const [first, ...rest] = records;
    if (first?.type === 'turn.started') super.create(taskId, withoutParent(first));
    const more = first?.type === 'turn.started' ? rest : records;
    if (more.length === 0) return;
    const lease = super.acquire(taskId, 'the recording', 1_000);
    this.#write(lease, more);
    super.release(lease);
  }

  override create(taskId: string, started: Stamped<TurnStarted>) {
    const [first] = this.#kept([started]);
    const answer = super.create(taskId, withoutParent(first?.type === 'turn.started' ? first : started));
    this.#conductor.taken();
    return answer;
  }

  /** Its epoch is the recorded one, so that what is in doubt is in doubt here too. */
  override acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Lease {
    this.#lease = super.acquire(taskId, owner, leaseMs, under);
    return { ...this.#lease, epoch: this.#score.run.epoch };
  }

  override append(lease: Lease, records: readonly JournalRecord[]): void {
    this.#checkAlive(lease);
    const kept = this.#kept(records);
    if (this.#lease && kept.length > 0) this.#write(this.#lease, kept);
    this.#conductor.taken();
  }

  override renew(lease: Lease): void {
    this.#checkAlive(lease);
  }

  override release(): void {
    if (this.#lease) super.release(this.#lease);
  }

  #kept(records: readonly JournalRecord[]): readonly JournalRecord[] {
    try {
      return records.flatMap((record) => this.#score.take(record));
    } catch (error) {
      this.#conductor.fail(error);
      throw error;
    }
  }

  #write(lease: Lease, records: readonly JournalRecord[]): void {
    const { state } = this.#score;
    super.append(lease, records, { status: state ? taskState(state) : 'working', barrier: true });
  }

  #checkAlive(lease: Lease): void {
    if (this.#conductor.isDead) throw this.#conductor.failure ?? fenced(lease);
  }
}

/** A child turn is replayed as a turn of its own: its parent turn is not in the store of the replay. */
function withoutParent({ parent: _, ...started }: Stamped<TurnStarted>): Stamped<TurnStarted> {
  return started;
}
