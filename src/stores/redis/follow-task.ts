import type { Subscriber } from 'rxjs';
import { AgentLoopError, type Command, type Delta, type FollowSignal } from '../../core/contracts/index.ts';
import { isTerminal, type JournalRecord } from '../../core/journal/index.ts';
import { OpenAttempt } from '../deltas.ts';
import { notFound } from '../store-rules.ts';
import { type JournalReader, type JournalTail, placeOf } from './journal.ts';
import type { ScriptRunner, StreamEntry, TaskKeys } from './lua-scripts.ts';
import { comesBefore, type StreamReaders, type StreamWatch } from './stream-readers.ts';

interface FollowDeps {
  readonly journal: JournalReader;
  readonly scripts: ScriptRunner;
  readonly readers: StreamReaders;
}

/** The last entry of the deltas of a task that was deleted. */
const tombstone = 'x';

/** One reader of one task: first the existing records, then live ones, each record once and each delta after the record it follows. */
export class TaskFollower implements StreamWatch {
  readonly #deps: FollowDeps;
  readonly #taskId: string;
  readonly #from: number;
  readonly #to: Subscriber<FollowSignal>;
  readonly #keys: TaskKeys;
  readonly #attempt = new OpenAttempt();
  /** The last entries read from the streams, and the last emitted record. */
  #journalId = '0-0';
  #deltaId = '0-0';
  #shown = 0;
  /** Deltas whose record has not been emitted yet. */
  #deltas: StreamEntry[] = [];
  #work: Promise<void> = Promise.resolve();

  constructor(deps: FollowDeps, taskId: string, from: number, to: Subscriber<FollowSignal>) {
    this.#deps = deps;
    this.#taskId = taskId;
    this.#from = from;
    this.#to = to;
    this.#keys = deps.journal.keysOf(taskId);
  }

  async start(): Promise<void> {
    try {
      const tail = await this.#deps.journal.readTail(this.#taskId, this.#from);
      if (this.#to.closed) return;
      this.#showPast(tail);
      if (this.#to.closed) return;
      this.#to.add(this.#deps.readers.watch(this.#keys.head, this));
    } catch (error) {
      this.#to.error(error);
    }
  }

  positions(): readonly (readonly [string, string])[] {
    return [
      [this.#keys.journal, this.#journalId],
      [this.#keys.deltas, this.#deltaId],
    ];
  }

  take(entries: ReadonlyMap<string, readonly StreamEntry[]>): void {
    const records = after(this.#journalId, entries.get(this.#keys.journal));
    const deltas = after(this.#deltaId, entries.get(this.#keys.deltas));
    if (records.length === 0 && deltas.length === 0) return;
    this.#journalId = records.at(-1)?.id ?? this.#journalId;
    this.#deltaId = deltas.at(-1)?.id ?? this.#deltaId;
    this.#then(() => this.#show(records, deltas));
  }

  verify(): void {
    const lastId = this.#journalId;
    this.#then(async () => {
      await this.#deps.scripts
        .run({
          script: 'look',
          keys: [this.#keys.head, this.#keys.journal],
          args: [lastId],
          subject: { taskId: this.#taskId, seq: placeOf(lastId).seq },
        })
        .catch((error: unknown) => {
          // The reader handles an unavailable Redis.
          if (!AgentLoopError.isInstance(error) || error.code !== 'UNAVAILABLE') throw error;
        });
    });
  }

  lost(error: AgentLoopError): void {
    this.#to.error(error);
  }

  #showPast(tail: JournalTail): void {
    if (tail.open !== undefined) this.#attempt.apply(tail.open);
    this.#shown = tail.seq;
    this.#journalId = tail.lastId;
    this.#deltaId = tail.lastDeltaId;
    for (const record of tail.records) this.#to.next({ type: 'record', record });
    for (const delta of tail.deltas.flatMap(deltasIn)) if (delta.type === 'llm') this.#attempt.accept(delta);
    const delta = this.#attempt.soFar();
    if (delta !== undefined) this.#to.next({ type: 'delta', delta });
    if (tail.hasEnded) this.#to.complete();
  }

  /** Runs steps in sequence: a record whose payload is fetched delays the following entries. */
  #then(step: () => Promise<void>): void {
    this.#work = this.#work
      .then(() => (this.#to.closed ? undefined : step()))
      .catch((error: unknown) => this.#to.error(error));
  }

  async #show(entries: readonly StreamEntry[], deltas: readonly StreamEntry[]): Promise<void> {
    const records = await this.#deps.journal.decode(this.#taskId, entries, this.#shown + 1);
    this.#deltas.push(...deltas);
    for (const record of records) {
      this.#showDeltasUpTo(record.seq - 1);
      this.#showRecord(record);
    }
    this.#showDeltasUpTo(this.#shown);
  }

  #showRecord(record: JournalRecord): void {
    this.#shown = record.seq;
    this.#attempt.apply(record);
    if (record.seq >= this.#from) this.#to.next({ type: 'record', record });
    if (isTerminal(record)) this.#to.complete();
  }

  /** Emits deltas that were published after the record `seq`, or before it. */
  #showDeltasUpTo(seq: number): void {
    while (this.#deltas[0] !== undefined && placeOf(this.#deltas[0].id).seq <= seq) {
      const [entry] = this.#deltas.splice(0, 1);
      if (entry?.field === tombstone) throw notFound(this.#taskId);
      for (const delta of entry === undefined ? [] : deltasIn(entry)) this.#showDelta(delta);
    }
  }

  #showDelta(delta: Delta): void {
    if (delta.type === 'llm' && !this.#attempt.accept(delta)) return;
    this.#to.next({ type: 'delta', delta });
  }
}

function after(id: string, entries: readonly StreamEntry[] = []): readonly StreamEntry[] {
  return entries.filter((entry) => comesBefore(id, entry.id));
}

function deltasIn({ value }: StreamEntry): readonly Delta[] {
  return JSON.parse(value);
}

interface ListenDeps {
  readonly scripts: ScriptRunner;
  readonly readers: StreamReaders;
  readonly keys: TaskKeys;
  readonly taskId: string;
}

/** One listener to the commands of one task, from the first on. Waits while Redis is unavailable. */
export class CommandListener implements StreamWatch {
  readonly #deps: ListenDeps;
  readonly #to: Subscriber<Command>;
  #lastId = '0-0';

  constructor(deps: ListenDeps, to: Subscriber<Command>) {
    this.#deps = deps;
    this.#to = to;
  }

  async start(): Promise<void> {
    const { scripts, readers, keys, taskId } = this.#deps;
    try {
      await scripts.run({ script: 'describe', keys: [keys.head], args: [], subject: { taskId } });
    } catch (error) {
      const later = AgentLoopError.isInstance(error) && error.retryable;
      if (!later) return this.#to.error(error);
    }
    if (!this.#to.closed) this.#to.add(readers.watch(keys.head, this));
  }

  positions(): readonly (readonly [string, string])[] {
    return [[this.#deps.keys.commands, this.#lastId]];
  }

  take(entries: ReadonlyMap<string, readonly StreamEntry[]>): void {
    for (const { id, value } of entries.get(this.#deps.keys.commands) ?? []) {
      if (this.#to.closed || !comesBefore(this.#lastId, id)) continue;
      this.#lastId = id;
      this.#to.next(JSON.parse(value));
    }
  }

  verify(): void {}

  lost(): void {}
}
