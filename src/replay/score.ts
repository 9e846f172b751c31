import { AgentLoopError, asJson } from '../core/contracts/index.ts';
import { applyRecord, type JournalRecord, type LlmStart, type LoopState } from '../core/journal/index.ts';
import {
  callIdOf,
  type Deviation,
  describe,
  difference,
  extensionCodes,
  nameOf,
  type Recording,
  type ReplayRun,
} from './recording.ts';

interface ScoreOptions {
  readonly recording: Recording;
  /** Whether the first deviation is an error. */
  readonly strict: boolean;
  /** Called with each record that stands in the replayed journal, in order, and the state before it. */
  readonly onRecord: (record: JournalRecord, before: LoopState | undefined) => void;
}

const noRun: ReplayRun = { kind: 'start', from: 0, to: 0, epoch: 0, dies: true };

/** A recording as it is followed: which record is due, and whether what the loop made is that. */
export class Score {
  readonly deviations: Deviation[] = [];
  readonly #options: ScoreOptions;
  readonly #records: readonly JournalRecord[];
  /** Records of a batch that came before their turn, by index: in which order calls start is not fixed. */
  readonly #early = new Map<number, JournalRecord>();
  #run = noRun;
  #next = 0;
  #state: LoopState | undefined;
  #tools: LlmStart['tools'] = [];
  #isFree = false;
  #isCalling = false;

  constructor(options: ScoreOptions) {
    this.#options = options;
    this.#records = options.recording.records;
  }

  /** The fold of the records so far. */
  get state(): LoopState | undefined {
    return this.#state;
  }

  /** Whether the loop has left the recording: what comes next is its own. */
  get isFree(): boolean {
    return this.#isFree;
  }

  get run(): ReplayRun {
    return this.#run;
  }

  /** Whether a model call is under way, or calls of tools are. */
  get isCalling(): boolean {
    return this.#isCalling;
  }

  /** The record that is due; none after the last of a run. */
  get due(): JournalRecord | undefined {
    return this.#next < this.#run.to ? this.#records[this.#next] : undefined;
  }

  /** The index of the record that is due. */
  get next(): number {
    return this.#next;
  }

  /** What is recorded of this run from the one that is due on. */
  *rest(): Iterable<JournalRecord> {
    for (let index = this.#next; index < this.#run.to; index++) yield this.#records[index] as JournalRecord;
  }

  /** Whether the owner of this run died where the replay stands. */
  get isDead(): boolean {
    return this.#run.dies && !this.#isFree && this.#next >= this.#run.to;
  }

  begin(run: ReplayRun): void {
    this.#run = run;
    this.#early.clear();
  }

  /** Takes records as they are, up to that many in all: those that no run of the loop makes. Gives them. */
  skip(count: number): readonly JournalRecord[] {
    const skipped = this.#records.slice(this.#next, count);
    this.#next = count;
    return skipped.map((record) => this.#keep(record));
  }

  /**
   * Takes a record that the loop made; gives those that stand in the journal by that. Errors with `DEVIATION` where the recording
   * has another and the replay is strict; else the loop is on its own from there on.
   */
  take(made: JournalRecord): readonly JournalRecord[] {
    if (this.#isFree) return [this.#place(made)];
    const index = this.#indexOf(made);
    if (index !== undefined) return this.#inOrder(index, this.#compared(index, made));
    // The owner may have died before it wrote this.
    const isLost = this.#run.dies && (this.#next >= this.#run.to || isOfBatch(made));
    if (isLost || this.#cameTooLate(made)) return [];
    this.leave({ seq: this.#next + 1, what: 'the next record', ...this.#expected(), got: contentOf(made) });
    return [...this.#early.values(), made].map((record) => this.#place(record));
  }

  /**
   * Whether a call is refused here that was not looked at any more then: an extension had failed the turn in the middle of the batch, and
   * how many calls have a place at a time is not recorded.
   */
  #cameTooLate(made: JournalRecord): boolean {
    if (made.type !== 'tool.result' || !refusals.has(made.error?.code)) return false;
    const last = this.#records[this.#run.to - 1];
    if (last?.type !== 'turn.failed' || !extensionCodes.has(last.code)) return false;
    return ![...this.rest()].some((record) => callIdOf(record) === made.callId);
  }

  /** Notes a deviation. Errors with `DEVIATION` where the replay is strict. */
  note(deviation: Deviation): void {
    this.deviations.push(deviation);
    if (!this.#options.strict) return;
    const { taskId } = this.#options.recording.started;
    const message = `The replay of task "${taskId}" is not what was recorded: ${describe(deviation)}.`;
    throw new AgentLoopError('DEVIATION', message, { taskId });
  }

  /** Notes a deviation behind which the recording does not say any more what comes next. */
  leave(deviation: Deviation): void {
    this.note(deviation);
    this.#isFree = true;
  }

  /** Notes that nothing came where a record is due. */
  leaveSilent(): void {
    this.leave({ seq: this.#next + 1, what: 'the next record', ...this.#expected() });
  }

  #expected(): Pick<Deviation, 'expected'> {
    return this.due ? { expected: contentOf(this.due) } : {};
  }

  /** Where a record stands in the rest of the run: next, or later in the same batch. */
  #indexOf(made: JournalRecord): number | undefined {
    const name = nameOf(made);
    for (let index = this.#next; index < this.#run.to; index++) {
      const record = this.#records[index];
      if (!record) return undefined;
      if (!this.#early.has(index) && nameOf(record) === name) return index;
      const mayOvertake = isOfBatch(record) && isOfBatch(made) && callIdOf(record) !== callIdOf(made);
      if (!mayOvertake && !this.#early.has(index)) return undefined;
    }
    return undefined;
  }

  #inOrder(index: number, record: JournalRecord): readonly JournalRecord[] {
    this.#early.set(index, record);
    const kept: JournalRecord[] = [];
    for (let due = this.#early.get(this.#next); due; due = this.#early.get(this.#next)) {
      this.#early.delete(this.#next++);
      kept.push(this.#keep(due));
    }
    return kept;
  }

  /** The recorded one where both say the same; else, with a deviation noted, the one that was made, in its place. */
  #compared(index: number, made: JournalRecord): JournalRecord {
    const recorded = this.#records[index] as JournalRecord;
    if (made.type === 'llm.start' && made.tools) this.#tools = made.tools;
    const before = this.#options.recording.before[index]?.availableTools ?? [];
    // The first call of a journal says its tools; one that was written by hand may not.
    const isSilent = recorded.type === 'llm.start' && !recorded.tools && before.length === 0;
    const mine = contentOf(asDetailed(made, recorded), isSilent ? before : this.#tools, isSilent);
    const found = difference(contentOf(recorded, before), mine);
    if (!found) return recorded;
    const { path, expected, got } = found;
    this.note({ seq: recorded.seq, what: `${nameOf(recorded)}: ${path}`, expected, got });
    const { seq, epoch, at } = recorded;
    return { ...made, seq, epoch, at };
  }

  /** Appends a record that is not in the recording. */
  #place(record: JournalRecord): JournalRecord {
    this.#early.clear();
    const { seq, epoch, updatedAt } = this.#state ?? { seq: 0, epoch: 0, updatedAt: 0 };
    return this.#keep({
      ...record,
      seq: seq + 1,
      epoch: Math.max(epoch, record.epoch),
      at: Math.max(updatedAt, record.at),
    });
  }

  #keep(record: JournalRecord): JournalRecord {
    const before = this.#state;
    this.#state = applyRecord(before, record);
    this.#isCalling =
      record.type === 'llm.start' || this.#state.pendingToolCalls.some(({ intent, result }) => intent && !result);
    this.#options.onRecord(record, before);
    return record;
  }
}

const refusals: ReadonlySet<unknown> = new Set(['TOOL_NOT_FOUND', 'TOOL_ARGUMENTS']);

function isOfBatch(record: JournalRecord): boolean {
  return callIdOf(record) !== undefined;
}

/** What two runs of a turn have in common in a record, as JSON; `tools` are those of a model call. */
function contentOf(record: JournalRecord, tools?: LlmStart['tools'], anyTools = false): unknown {
  const { seq: _seq, epoch: _epoch, at: _at, ...content } = record;
  if (content.type === 'turn.started') {
    const { schema: _, trace: _t, submitted: _s, forkedFrom: _f, parent: _p, ...input } = content;
    return asJson(input);
  }
  if (content.type === 'turn.suspended' && content.hold)
    return asJson({
      ...content,
      hold: { ...content.hold, until: undefined, error: content.hold.error && withoutWords(content.hold.error) },
    });
  if (content.type === 'turn.resumed')
    return asJson({ ...content, trace: undefined, lostAt: undefined, waited: undefined, queued: undefined });
  if (content.type === 'llm.start')
    return asJson({ ...content, options: undefined, tools: anyTools ? tools : (content.tools ?? tools) });
  if (content.type === 'turn.failed') return asJson(withoutWords(content));
  if (content.type !== 'tool.result') {
    content.type satisfies
      | 'llm.done'
      | 'tool.intent'
      | 'turn.asked'
      | 'turn.answered'
      | 'turn.suspended'
      | 'agent.changed'
      | 'turn.done'
      | 'turn.canceled'
      | `x.${string}`;
    return asJson(content);
  }
  const { error, fails } = content;
  const data = { ...content, durationMs: undefined };
  if (!error || (error.reason === undefined && !fails)) return asJson(data);
  const prefix = `Tool error: ${error.message}`;
  const more =
    typeof data.content === 'string' && data.content.startsWith(prefix)
      ? data.content.slice(prefix.length)
      : data.content;
  // What fails the turn says why the call has no result.
  if (fails) return asJson({ ...data, content: more, error: error.code, fails: withoutWords(fails) });
  return asJson({ ...data, content: more, error: withoutWords(error) });
}

/** Without the details of a failed turn where the recorded one is of a version that had none. */
function asDetailed(made: JournalRecord, recorded: JournalRecord): JournalRecord {
  if (made.type !== 'turn.failed' || recorded.type !== 'turn.failed' || recorded.details) return made;
  const { details: _, ...rest } = made;
  return rest;
}

/** A failure as data: the words that go with a code and its reason may change from version to version. */
function withoutWords<T extends { readonly message: string }>({ message: _, ...data }: T): Omit<T, 'message'> {
  return data;
}
