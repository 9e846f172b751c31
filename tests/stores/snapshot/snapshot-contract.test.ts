import { describe, it } from '@jest/globals';
import { type Clock, snapshotStateStore, type TaskStateStore } from 'millrace';
import { type ContractRunner, type StoreContractHarness, storeContract } from 'millrace/testing';
import { testLimitMs } from '../../eventually.ts';
import { PlainMap } from './plain-map.ts';

const opened = new WeakMap<TaskStateStore, { readonly plain: PlainMap; readonly clock: Clock }>();

/** A look that is still to come does not keep the process: where a deviation fails a case, its readers are left open. */
function schedule(ms: number, callback: () => void): () => void {
  const timer = setTimeout(callback, ms).unref();
  return () => clearTimeout(timer);
}

/** Leases run on the clock of the suite, looks at snapshots on the system's. */
function open(plain: PlainMap, clock: Clock): TaskStateStore {
  const store = snapshotStateStore(plain, { clock: { now: clock.now, schedule }, pollMs: 5 });
  opened.set(store, { plain, clock });
  return store;
}

function ofSuite(store: TaskStateStore) {
  const options = opened.get(store);
  if (options === undefined) throw new Error('not a store of this suite');
  return options;
}

const unlisted = 'a store of single values cannot be listed: list knows the tasks that run in this process';
const unfoldable = 'it writes no journal that it cannot fold, so create itself refuses a newer schema';
const noLeases = 'leases hold in one process';
const noDeltas = 'deltas reach readers in the same process';
const noCommands = 'commands reach a turn in the same process';

const everywhere = {
  'a journal of a newer schema is refused as SCHEMA before anybody gets its lease or a record': unfoldable,
  'list says of a task what its journal says': unlisted,
  'the task created last comes first, whatever was written since': unlisted,
  'list filters by state and by context, and by both': unlisted,
  'list gives the tasks of a group, most recent status first, in pages after a position': unlisted,
  'tasks of a group with the same status time are sorted by id, descending, also over pages': unlisted,
  'V-21 list continues after a task, in pages, also of a state and a context that it is not of': unlisted,
  'list gives 50 unless told how many': unlisted,
  'T-08 list says of a child turn which turn is its parent': unlisted,
  'T-08 list of roots leaves child turns out, also of a state, a context and a group': unlisted,
  'T-08 list gives the child turns of a turn, however many other tasks of its context are newer': unlisted,
  'T-08 a page of roots is full, however many child turns there are between them': unlisted,
  'held says whether a lease lasts: after acquire, not after release, not once it ran out': unlisted,
  'a deleted task is not listed': unlisted,
  'H-22 runnable tasks are those that were created, answered or given back, and those whose lease ran out': unlisted,
  'H-22 runnable tasks are found among all, and child turns are left out where roots are asked for': unlisted,
  'F-14 runnable tasks that are due leave out turns that back off until later': unlisted,
  'list filters by agent, before it counts': unlisted,
  'a record of an unknown type in the journal is refused by read and load':
    'what is changed behind the back of the process that runs the turn shows at its next save',
};

const betweenProcesses = {
  'F-14 list says until when a turn backs off': unlisted,
  'of several at the same time exactly one creates':
    'a save cannot compare, so two creates at the same moment both win',
  'while a lease lasts, another owner is BUSY and told that a retry may help': noLeases,
  'of several owners at the same time exactly one gets the lease': noLeases,
  'giving back a lease that is no longer held does nothing': noLeases,
  'renew prolongs a lease by its own length from now': noLeases,
  'an append prolongs the lease too': noLeases,
  'an owner with shorter leases does not take over a longer one early': noLeases,
  'a lease that ran out but that nobody took can be renewed, and holds again': noLeases,
  'H-16 a lease whose owner is gone ends within its length, also where the clock of the owner was ahead': noLeases,
  'H-16 an owner whose clock is ahead keeps its lease as long as it renews it': noLeases,
  'leases of one task say nothing of another': noLeases,
  'describe says of one task what its journal says, in every state, and null where there is none': noLeases,
  'T-02 an owner of the parent turn with the same epoch is BUSY until the lease ends': noLeases,
  'T-02 without a lease of the same parent turn the lease of the child turn decides': noLeases,
  'T-02 a lease that was taken without one of the parent turn blocks an owner that presents one': noLeases,
  'being overtaken comes before every other answer: a duplicate, a gap and a turn that has ended are FENCED too':
    'an append that saves nothing does not look',
  'the text of an attempt reaches a reader whole, between its llm.start and its llm.done': noDeltas,
  'who joins in the middle of an attempt first gets its text so far as one chunk, then what follows': noDeltas,
  'a new llm.start voids the text so far for who joins after it': noDeltas,
  'a void chunk discards the text so far for who joins after it': noDeltas,
  'deltas of an owner that was overtaken are not shown': noDeltas,
  'those posted before come first, then those posted later, in order and unchanged': noCommands,
  'the same id again does nothing, before and after somebody listens': noCommands,
  'post gives the command that stands under the id, also where another one was posted first': noCommands,
  'of many that come at once no more stand than `most` says; one that stands can still be posted again': noCommands,
  'need no lease, and reach whoever owns the turn later': noCommands,
  'a burst arrives whole and in order, whenever one listens': noCommands,
  'may be posted from inside a handler': noCommands,
  'who stopped listening gets nothing more': noCommands,
};

const alone: StoreContractHarness = {
  name: 'S1-106 snapshotStateStore',
  deadlineMs: testLimitMs,
  createStore: ({ clock }) => open(new PlainMap(), clock),
  plantUnknownRecord(store, taskId) {
    const { texts } = ofSuite(store).plain;
    const snapshot = JSON.parse(texts.get(taskId) ?? '');
    texts.set(taskId, JSON.stringify({ ...snapshot, journal: [...snapshot.journal, { type: 'later.thing', seq: 2 }] }));
  },
};

/** What a deviation makes a case wait for never comes: only those cases have a deadline of their own. */
function examine(harness: StoreContractHarness): void {
  const { deviations = {} } = harness;
  const isDeviation = (title: string) => Object.keys(deviations).some((each) => title.startsWith(`${each} (known`));
  const only = (deviating: boolean): ContractRunner => ({
    describe,
    it: (title, test) => void (isDeviation(title) === deviating && it(title, test)),
  });
  storeContract(harness, only(false));
  storeContract({ ...harness, name: `${harness.name}, where it deviates,`, deadlineMs: 300 }, only(true));
}

examine({ ...alone, deviations: everywhere });
examine({
  ...alone,
  name: 'S1-106 snapshotStateStore in two processes',
  createPeer(store) {
    const { plain, clock } = ofSuite(store);
    return open(plain, clock);
  },
  deviations: { ...everywhere, ...betweenProcesses },
});
