import {
  AgentLoopError,
  InMemoryStateStore,
  type JournalRecord,
  type PersistedLoopState,
  type Stamped,
} from 'millrace';
import { taskIdPattern } from 'millrace/internals';
import { journalSchema } from 'millrace/stores';
import { asyncStore } from 'millrace/testing';
import type { AppendOptions, Lease, ReadOptions, TurnStarted } from 'millrace/types';
import { type BrokenStore, broken } from './broken-store.ts';

type Records = readonly JournalRecord[];

function restamped(records: Records, first: number): Records {
  return records.map((record, index) => ({ ...record, seq: first + index }));
}

function swallow(code: string, action: () => void): void {
  try {
    action();
  } catch (error) {
    if (!AgentLoopError.isInstance(error) || error.code !== code) throw error;
  }
}

class NoDuplicateCheck extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    const head = super.read(lease.taskId).length;
    const first = records[0]?.seq ?? 0;
    super.append(lease, first <= head ? restamped(records, head + 1) : records, options);
  }
}

class GapsAllowed extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    const head = super.read(lease.taskId).length;
    const first = records[0]?.seq ?? 0;
    super.append(lease, first > head ? restamped(records, head + 1) : records, options);
  }
}

class DuplicatesAreRewound extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    const first = records[0]?.seq ?? 0;
    if (first <= super.read(lease.taskId).length) throw new AgentLoopError('REWOUND', 'seen before');
    super.append(lease, records, options);
  }
}

class TakesOthersForItsOwn extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    const last = records.at(-1)?.seq ?? 0;
    swallow('REWOUND', () => super.append(lease, last <= lease.seq ? records : [], options));
    if (last > lease.seq) super.append(lease, records, options);
  }
}

class RecordByRecord extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    for (const record of records) super.append(lease, [record], options);
  }
}

class DropsWhatDoesNotFollow extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    swallow('REWOUND', () => super.append(lease, records, options));
  }
}

class LosesWithoutBarrier extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    if (options.barrier) super.append(lease, records, options);
  }
}

class DuplicateBeforeFence extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    const first = records[0]?.seq ?? 0;
    if (first <= super.read(lease.taskId).length) return;
    super.append(lease, records, options);
  }
}

class TerminalBeforeDuplicate extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    if (super.load(lease.taskId)?.isComplete) throw new AgentLoopError('TERMINAL', 'ended');
    super.append(lease, records, options);
  }
}

class WritesAfterTheEnd extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    swallow('TERMINAL', () => super.append(lease, records, options));
  }
}

class AcquiresAfterTheEnd extends InMemoryStateStore {
  override acquire(taskId: string, owner: string, leaseMs: number): Lease {
    if (!super.load(taskId)?.isComplete) return super.acquire(taskId, owner, leaseMs);
    return { taskId, owner, epoch: 99, seq: super.read(taskId).length, leaseMs };
  }
}

class CreatesOnAppend extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    swallow('NOT_FOUND', () => super.append(lease, records, options));
  }
}

class TakesUnknownTypes extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    const known = records.map((record) =>
      record.type.includes('later') ? { ...record, type: 'x.later' as const } : record,
    );
    super.append(lease, known, options);
  }
}

class OneByteText extends InMemoryStateStore {
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    const bytes = Buffer.from(JSON.stringify(records), 'latin1');
    super.append(lease, JSON.parse(bytes.toString('latin1')), options);
  }
}

class AppendsOutOfOrder extends InMemoryStateStore {
  #calls = 0;

  static build(options: ConstructorParameters<typeof InMemoryStateStore>[0]) {
    const store = new AppendsOutOfOrder(options);
    const later = asyncStore(store);
    const now = InMemoryStateStore.prototype.append;
    return Object.assign(store, {
      append: (lease: Lease, records: Records, appendOptions: AppendOptions) =>
        store.#calls++ % 2 === 0
          ? Promise.resolve(later.check()).then(() => now.call(store, lease, records, appendOptions))
          : now.call(store, lease, records, appendOptions),
    });
  }
}

class ReadIgnoresFrom extends InMemoryStateStore {
  override read(taskId: string, _options?: ReadOptions): Records {
    return super.read(taskId);
  }
}

class ReadIsAlive extends InMemoryStateStore {
  readonly #handedOut: { readonly taskId: string; readonly records: JournalRecord[] }[] = [];

  override read(taskId: string, options?: ReadOptions): Records {
    const records = [...super.read(taskId, options)];
    this.#handedOut.push({ taskId, records });
    return records;
  }
  override append(lease: Lease, records: Records, options: AppendOptions): void {
    super.append(lease, records, options);
    for (const given of this.#handedOut) if (given.taskId === lease.taskId) given.records.push(...records);
  }
}

class LoadIsLate extends InMemoryStateStore {
  readonly #first = new Map<string, PersistedLoopState | null>();

  override load(taskId: string): PersistedLoopState | null {
    const state = this.#first.get(taskId) ?? super.load(taskId);
    if (state !== null) this.#first.set(taskId, state);
    return state;
  }
}

class ReadOfNothingIsEmpty extends InMemoryStateStore {
  override read(taskId: string, options?: ReadOptions): Records {
    return super.load(taskId) === null ? [] : super.read(taskId, options);
  }
}

class DeleteDoesNothing extends InMemoryStateStore {
  override delete(): void {}
}

class ForgetsAtTheEnd extends InMemoryStateStore {
  override release(lease: Lease): void {
    super.release(lease);
    if (super.load(lease.taskId)?.isComplete) super.delete(lease.taskId);
  }
}

class CreateOverwrites extends InMemoryStateStore {
  override create(taskId: string, started: Stamped<TurnStarted>) {
    super.delete(taskId);
    return super.create(taskId, started);
  }
}

class CreateAnswersWithItsArgument extends InMemoryStateStore {
  override create(taskId: string, started: Stamped<TurnStarted>) {
    return { ...super.create(taskId, started), started };
  }
}

class AnyTaskId extends InMemoryStateStore {
  override create(taskId: string, started: Stamped<TurnStarted>) {
    return taskIdPattern.test(taskId) ? super.create(taskId, started) : { created: true, started };
  }
}

class FewerTaskIds extends InMemoryStateStore {
  override create(taskId: string, started: Stamped<TurnStarted>) {
    return super.create(taskId.replace(':', '}'), started);
  }
}

class AnySchema extends InMemoryStateStore {
  override create(taskId: string, started: Stamped<TurnStarted>) {
    return super.create(taskId, { ...started, schema: journalSchema });
  }
}

export const brokenJournals: readonly BrokenStore[] = [
  broken('no duplicate check', 'the same append sent again answers as before and doubles nothing', NoDuplicateCheck),
  broken(
    'a gap is closed silently',
    'records that leave a gap are REWOUND, and so are appends pipelined after them',
    GapsAllowed,
  ),
  broken(
    'a duplicate is an error',
    'pipelined appends sent again from a failed one on complete the journal',
    DuplicatesAreRewound,
  ),
  broken(
    'a record of an earlier owner counts as sent before',
    'records of an earlier owner, sent by the next one, are REWOUND: they are not its own',
    TakesOthersForItsOwn,
  ),
  broken('half an append', 'an append is written whole or not at all', RecordByRecord),
  broken(
    'what does not follow is dropped silently',
    'records that leave a gap are REWOUND, and so are appends pipelined after them',
    DropsWhatDoesNotFollow,
  ),
  broken(
    'appends without a barrier are lost',
    'appends with and without a barrier stand in one journal',
    LosesWithoutBarrier,
  ),
  broken(
    'the duplicate check comes before the fence',
    'being overtaken comes before every other answer: a duplicate, a gap and a turn that has ended are FENCED too',
    DuplicateBeforeFence,
  ),
  broken(
    'the end comes before the duplicate check',
    'the append that ended the turn, sent again, answers as before',
    TerminalBeforeDuplicate,
  ),
  broken(
    'the end is not checked in append',
    'after the end an append, a lease and a command are refused as TERMINAL',
    WritesAfterTheEnd,
  ),
  broken(
    'the end is not checked in acquire',
    'after the end an append, a lease and a command are refused as TERMINAL',
    AcquiresAfterTheEnd,
  ),
  broken('an append to nothing is fine', 'where there is no task, an append says NOT_FOUND', CreatesOnAppend),
  broken(
    'unknown types are taken',
    'a record of an unknown type is refused, at the append or at every read',
    TakesUnknownTypes,
  ),
  broken('text of one byte a character', 'a record of 1 MB and any text come back as they were', OneByteText),
  {
    bug: 'pipelined appends overtake each other',
    noticedBy: 'pipelined appends apply in the order they were sent',
    create: (options) => AppendsOutOfOrder.build(options),
  },
  broken('read ignores from', 'read gives the records from a seq on', ReadIgnoresFrom),
  broken('what was read goes on growing', 'what was read does not change when the journal grows', ReadIsAlive),
  broken('load is not up to date', 'load is the fold of the records, after each append of a turn', LoadIsLate),
  broken(
    'no task reads as an empty one',
    'where there is no task, read says NOT_FOUND and load gives null',
    ReadOfNothingIsEmpty,
  ),
  broken('delete does nothing', 'after the end the journal stays, until delete', DeleteDoesNothing),
  broken('the end deletes', 'after the end the journal stays, until delete', ForgetsAtTheEnd),
  broken(
    'create overwrites',
    'the same id again writes nothing and answers with the record that stands',
    CreateOverwrites,
  ),
  broken(
    'create answers with what it was given',
    'of several at the same time exactly one creates',
    CreateAnswersWithItsArgument,
  ),
  broken('any task id is taken', 'a task id outside the pattern is refused as INVALID_INPUT', AnyTaskId),
  broken('a colon is not taken', 'every form of a task id that the pattern allows is taken', FewerTaskIds),
  broken(
    'any schema is read',
    'a journal of a newer schema is refused as SCHEMA before anybody gets its lease or a record',
    AnySchema,
  ),
];
