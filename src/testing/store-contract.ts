import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { Clock, Lease, MaybePromise, TaskStateStore } from '../core/contracts/index.ts';
import type { JournalRecord, Stamped, TurnStarted } from '../core/journal/index.ts';
import {
  type ContractRunner,
  defineContract,
  inTime,
  type NamedHarness,
  notNumber,
  notOptions,
  notText,
  patienceMs,
  refusesWrongArguments,
  type WrongArguments,
} from './contract/define-contract.ts';
import { type FakeClock, fakeClock } from './fake-clock.ts';
import { appendCases, createCases } from './store-contract/append-cases.ts';
import { childCases } from './store-contract/child-cases.ts';
import { commandCases } from './store-contract/command-cases.ts';
import { deltaCases } from './store-contract/delta-cases.ts';
import { followCases, readCases } from './store-contract/follow-cases.ts';
import {
  beginHeld,
  type ContractGroup,
  type StoreUnderTest,
  startedAt,
  startRecord,
} from './store-contract/journal-fixture.ts';
import { leaseCases } from './store-contract/lease-cases.ts';
import { listCases } from './store-contract/list-cases.ts';
import { messageCases } from './store-contract/message-cases.ts';
import { runnableCases } from './store-contract/runnable-cases.ts';

const argumentCases: ContractGroup = {
  name: 'arguments',
  cases: [
    {
      title: 'H-07 arguments of another type are refused as INVALID_INPUT, and change nothing',
      async run(subject) {
        const { store } = subject;
        const { taskId, owner } = await beginHeld(subject);
        const { lease } = owner;
        const before = await store.read(taskId);
        const calls = wrongCalls({ taskId, lease, record: before[0], started: startRecord(subject.newTaskId()) });
        await refusesWrongArguments(store, calls, subject.deadlineMs);
        assert.deepEqual(await store.read(taskId), before);
        await store.renew(lease);
      },
    },
  ],
};

interface Given {
  readonly taskId: string;
  readonly lease: Lease;
  readonly record: JournalRecord | undefined;
  readonly started: Stamped<TurnStarted>;
}

/** For each method what it must refuse. */
function wrongCalls({ taskId, lease, record, started }: Given): WrongArguments<TaskStateStore> {
  const badLeases = [null, 'x', { ...lease, taskId: 7 }, { ...lease, owner: null }, { ...lease, epoch: '1' }];
  const status = { status: 'working', barrier: true };
  return {
    create: [...notText.map((id) => [id, started]), ['t1'], ['t1', null], ['t1', 'started'], ['t1', { type: 'x' }]],
    acquire: [
      ...notText.flatMap((bad) => [
        [bad, 'o', 1_000],
        [taskId, bad, 1_000],
      ]),
      ...notNumber.map((bad) => [taskId, 'o', bad]),
      [taskId, 'o', 1_000, 'parent'],
      [taskId, 'o', 1_000, { taskId: 'parent' }],
    ],
    append: [
      ...badLeases.map((bad) => [bad, [record], status]),
      [lease, record, status],
      [lease, [null], status],
      [lease, [{ ...record, seq: '2' }], status],
      [lease, [record]],
      [lease, [record], 'working'],
    ],
    renew: badLeases.map((bad) => [bad]),
    release: badLeases.map((bad) => [bad]),
    breakLease: notText.map((bad) => [bad]),
    commands: notText.map((bad) => [bad]),
    post: [...notText.map((bad) => [bad, { id: 'c', type: 'cancel' }]), [taskId], [taskId, 'cancel'], [taskId, {}]],
    read: [...notText.map((bad) => [bad]), ...notOptions.map((bad) => [taskId, bad]), [taskId, { from: '1' }]],
    follow: [...notText.map((bad) => [bad]), ...notOptions.map((bad) => [taskId, bad]), [taskId, { from: '1' }]],
    load: notText.map((bad) => [bad]),
    describe: notText.map((bad) => [bad]),
    list: [
      ...notOptions.map((bad) => [bad]),
      [{ contextId: 7 }],
      [{ limit: '5' }],
      [{ roots: 'yes' }],
      [{ parentTaskId: 7 }],
      [{ byStatus: 'group' }],
      [{ byStatus: { group: 7 } }],
      [{ byStatus: {} }],
      [{ byStatus: { group: 'g', after: 't1' } }],
      [{ byStatus: { group: 'g', behind: 't1' } }],
    ],
    delete: notText.map((bad) => [bad]),
  };
}

/** How the suite gets at the store that it examines. */
export interface StoreContractHarness extends NamedHarness {
  /** Called before each case. The clock stands still until the suite moves it; a store with a clock of its own ignores it. */
  createStore(options: { readonly clock: Clock }): MaybePromise<TaskStateStore>;
  /**
   * Another instance over the same data, as another process has it. Its clock may be ahead of that of the store; a store with a clock of
   * its own ignores it. Default: the same instance.
   */
  createPeer?(store: TaskStateStore, options: { readonly clock: Clock }): MaybePromise<TaskStateStore>;
  /** Called after each case, for its peers before the store. */
  dispose?(store: TaskStateStore): MaybePromise<void>;
  /** Lets time pass for leases. Default: moves the given clock; a store with its own clock waits here. */
  advance?(ms: number): MaybePromise<void>;
  /**
   * How long the leases of the suite last. Milliseconds; default 1,000. Short where `advance` waits: a case that fails on a machine that is
   * too slow for them is repeated with longer ones, of at most 10 s.
   */
  readonly leaseMs?: number;
  /** How long a case waits for what has to come. Milliseconds; default 2,000. */
  readonly deadlineMs?: number;
  /** Writes a record of an unknown type directly, bypassing the store's interface. Without it the case that needs it is left out. */
  plantUnknownRecord?(store: TaskStateStore, taskId: string): MaybePromise<void>;
}

const groups: readonly ContractGroup[] = [
  createCases,
  leaseCases,
  childCases,
  appendCases,
  readCases,
  messageCases,
  followCases,
  deltaCases,
  commandCases,
  listCases,
  runnableCases,
  argumentCases,
];

/**
 * Defines the contract of `TaskStateStore` as tests of `runner`: what every store must do so that turns survive on it.
 *
 * Each case gets its own store. Titles are stable. A store whose index or readers lag may take until `deadlineMs`. Errors with
 * `INVALID_CONFIG` where `deviations` names no case.
 */
export function storeContract(harness: StoreContractHarness, runner: ContractRunner): void {
  defineContract({ of: 'TaskStateStore', groups, examine: (run) => examine(run, harness) }, harness, runner);
}

type RunCase = (subject: StoreUnderTest) => Promise<void>;

function examine(run: RunCase, harness: StoreContractHarness): Promise<void> {
  const { leaseMs = 1_000, advance } = harness;
  return inTime({ harness, advance, lengthMs: leaseMs }, (lengthMs, passing) =>
    runOnce(run, { ...harness, leaseMs: lengthMs, ...(passing && { advance: passing }) }),
  );
}

async function runOnce(run: RunCase, harness: StoreContractHarness): Promise<void> {
  const clock = fakeClock({ startAt: startedAt });
  const store = await harness.createStore({ clock });
  const peers: TaskStateStore[] = [];
  const openPeer = async (ahead: Clock): Promise<TaskStateStore> => {
    const peer = harness.createPeer ? await harness.createPeer(store, { clock: ahead }) : store;
    if (peer !== store) peers.push(peer);
    return peer;
  };
  try {
    const peer = await openPeer(clock);
    await run(underTest({ harness, store, peer, clock, openPeer }));
  } finally {
    for (const peer of peers.reverse()) await harness.dispose?.(peer);
    await harness.dispose?.(store);
  }
}

interface Opened {
  readonly harness: StoreContractHarness;
  readonly store: TaskStateStore;
  readonly peer: TaskStateStore;
  readonly clock: FakeClock;
  openPeer(clock: Clock): Promise<TaskStateStore>;
}

function underTest({ harness, store, peer, clock, openPeer }: Opened): StoreUnderTest {
  const { leaseMs = 1_000, deadlineMs = 2_000, plantUnknownRecord } = harness;
  return {
    store,
    peer,
    leaseMs,
    deadlineMs: patienceMs(deadlineMs, { advance: harness.advance, lengthMs: leaseMs }),
    advance: async (ms) => (harness.advance ? harness.advance(ms) : clock.advance(ms)),
    peerAhead: (ms) => openPeer({ now: () => clock.now() + ms, schedule: clock.schedule }),
    newTaskId: () => `contract-${randomUUID()}`,
    ...(plantUnknownRecord && {
      plantUnknownRecord: async (taskId: string) => plantUnknownRecord.call(harness, store, taskId),
    }),
  };
}
