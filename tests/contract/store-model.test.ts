import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { AgentLoopError, InMemoryStateStore, type JournalRecord, type TaskStateStore } from 'millrace';
import { done, noteRecord as note, type Reading, startRecord, watch } from 'millrace/internals';
import { asyncStore, type FakeClock, fakeClock } from 'millrace/testing';
import type { FollowSignal, Lease, TurnRecord } from 'millrace/types';
import { brokenJournals } from './broken/broken-journals.ts';
import { brokenLeases } from './broken/broken-leases.ts';
import { type Hand, modelLeaseMs, type Operation, StoreModel, type Who } from './store-model.ts';

const who = fc.constantFrom<Who>('a', 'b');
/** The epoch of the parent's lease that an owner presents. */
const under = fc.constantFrom(undefined, 1, 2, 3);
const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ do: fc.constant('create' as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('acquire' as const),
      who,
      under,
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('append' as const),
      who,
      count: fc.integer({ min: 1, max: 3 }),
      gap: fc.constantFrom(0, 0, 0, 0, 1, 5),
      end: fc.constantFrom(false, false, false, false, false, true),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('resend' as const), who }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('renew' as const), who }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('release' as const), who }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(300, 999, 1_000, 1_001) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('post' as const), id: fc.constantFrom('x', 'y', 'z') }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('follow' as const), from: fc.integer({ min: 1, max: 8 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const) }) },
);
/** Most histories begin with a task that somebody holds. */
const history = fc
  .tuple(under, fc.array(operation, { maxLength: 40 }))
  .map(([first, operations]): Operation[] => [
    { do: 'create' },
    { do: 'acquire', who: 'a', under: first },
    ...operations,
  ]);

const taskId = 'model';

/** Does to a store what is done to the model, and compares the answers. */
class Run {
  readonly model = new StoreModel();
  readonly #leases = new Map<Who, Lease>();
  readonly #readings: Reading<FollowSignal>[] = [];
  readonly #store: TaskStateStore;
  readonly #clock: FakeClock;

  constructor(store: TaskStateStore, clock: FakeClock) {
    this.#store = store;
    this.#clock = clock;
  }

  async step(operation: Operation): Promise<void> {
    const { model } = this;
    switch (operation.do) {
      case 'create': {
        const { created } = await this.#store.create(taskId, startRecord(taskId));
        expect(created ? 'created' : 'exists').toBe(model.create());
        return;
      }
      case 'acquire':
        return this.#acquire(operation.who, operation.under);
      case 'append':
        return this.#append(operation);
      case 'resend':
        return this.#resend(operation.who);
      case 'renew':
        return this.#withHand(operation.who, async (hand, lease) => {
          expect(await codeOf(() => this.#store.renew(lease))).toBe(model.renew(operation.who, hand));
        });
      case 'release':
        return this.#withHand(operation.who, async (hand, lease) => {
          await this.#store.release(lease);
          model.release(operation.who, hand);
        });
      case 'advance':
        this.#clock.advance(operation.ms);
        model.now += operation.ms;
        return;
      case 'post': {
        const code = await codeOf(() => this.#store.post(taskId, { id: operation.id, type: 'pause' }));
        expect(code).toBe(model.post(operation.id));
        return;
      }
      case 'follow':
        model.follow(operation.from);
        this.#readings.push(watch(this.#store.follow(taskId, { from: operation.from })));
        // A subscription may begin later; it has to begin before the next operation, as the model's does.
        await this.#store.check();
        return;
      case 'delete':
        await this.#store.delete(taskId);
        model.delete();
        return;
    }
  }

  async compare(): Promise<void> {
    const { model } = this;
    const journal = await codeOf(() => this.#store.read(taskId));
    expect(journal).toBe(model.exists ? 'ok' : 'NOT_FOUND');
    if (model.exists) await this.#compareTask();
    for (const [index, reading] of this.#readings.entries()) {
      const expected = model.followers[index];
      expect(seqsOf(reading)).toEqual(expected?.seqs);
      const code = AgentLoopError.isInstance(reading.error) ? reading.error.code : undefined;
      expect(code ?? (reading.completed ? 'completed' : 'open')).toBe(expected?.state);
      reading.stop();
    }
  }

  async #compareTask(): Promise<void> {
    const { model } = this;
    const records = await this.#store.read(taskId);
    expect(records.map((record) => record.seq)).toEqual(model.journal.map((_, index) => index + 1));
    expect(ranks(records.map((record) => record.epoch))).toEqual(ranks(model.journal));
    const [summary] = await this.#store.list();
    expect(summary).toMatchObject({ seq: model.journal.length, held: model.isHeld() });
    const commands = watch(this.#store.commands(taskId));
    await commands.until('all commands', ({ values }) => values.length >= model.commands.length);
    expect(commands.values.map(({ id }) => id)).toEqual(model.commands);
    commands.stop();
  }

  async #acquire(owner: Who, epoch: number | undefined): Promise<void> {
    const under = epoch === undefined ? undefined : { taskId: 'parent', epoch };
    const code = await codeOf(async () => {
      this.#leases.set(owner, await this.#store.acquire(taskId, owner, modelLeaseMs, under));
    });
    expect(code).toBe(this.model.acquire(owner, epoch));
    if (code === 'ok') expect(this.#leases.get(owner)?.seq).toBe(this.model.journal.length);
  }

  #append({ who, count, gap, end }: Extract<Operation, { do: 'append' }>): Promise<void> {
    return this.#withHand(who, async (hand, lease) => {
      const batch = { first: hand.next + gap, count, end };
      if (gap === 0) {
        hand.sent = batch;
        hand.next += count;
      }
      await this.#send(who, { hand, lease, batch });
    });
  }

  #resend(who: Who): Promise<void> {
    return this.#withHand(who, async (hand, lease) => {
      if (hand.sent) await this.#send(who, { hand, lease, batch: hand.sent });
    });
  }

  async #send(who: Who, sent: { hand: Hand; lease: Lease; batch: NonNullable<Hand['sent']> }): Promise<void> {
    const { first, count, end } = sent.batch;
    const records = Array.from({ length: count }, (_, index) =>
      stamped(end && index === count - 1 ? done : note(index), first + index, sent.lease.epoch),
    );
    const options = { status: end ? 'completed' : 'working', barrier: true } as const;
    const code = await codeOf(() => this.#store.append(sent.lease, records, options));
    expect(code).toBe(this.model.append(who, sent.hand, sent.batch));
  }

  async #withHand(who: Who, action: (hand: Hand, lease: Lease) => Promise<void>): Promise<void> {
    const hand = this.model.hands[who];
    const lease = this.#leases.get(who);
    if (hand && lease) await action(hand, lease);
  }
}

function stamped(record: TurnRecord, seq: number, epoch: number): JournalRecord {
  return { ...record, seq, epoch, at: seq };
}

/** Epochs may jump: only their order counts. */
function ranks(numbers: readonly number[]): readonly number[] {
  const order = [...new Set(numbers)].toSorted((a, b) => a - b);
  return numbers.map((number) => order.indexOf(number));
}

function seqsOf(reading: Reading<FollowSignal>): readonly number[] {
  return reading.values.flatMap((signal) => (signal.type === 'record' ? [signal.record.seq] : []));
}

async function codeOf(action: () => unknown): Promise<string> {
  try {
    await action();
    return 'ok';
  } catch (error) {
    if (AgentLoopError.isInstance(error)) return error.code;
    throw error;
  }
}

function agrees(create: (clock: FakeClock) => TaskStateStore) {
  return fc.asyncProperty(history, async (operations) => {
    const clock = fakeClock();
    const run = new Run(create(clock), clock);
    for (const each of operations) await run.step(each);
    await run.compare();
  });
}

describe('two owners, readers and callers in any order of steps', () => {
  it('find in InMemoryStateStore what a simple model says', async () => {
    await fc.assert(
      agrees((clock) => new InMemoryStateStore({ clock })),
      { numRuns: 400 },
    );
  });

  it.each(['microtask', 'macrotask'] as const)('find the same where it answers in a later %s', async (task) => {
    await fc.assert(
      agrees((clock) => asyncStore(new InMemoryStateStore({ clock }), { task })),
      { numRuns: 150 },
    );
  });

  const bugs = [
    'no fence',
    'a lease is no obstacle',
    'no duplicate check',
    'a gap is closed silently',
    'the lease of the parent is ignored',
    'an older lease of the parent counts as none',
    'release forgets the lease of the parent',
  ];
  it.each([...brokenLeases, ...brokenJournals].filter(({ bug }) => bugs.includes(bug)))(
    'disagree with a store with this bug: $bug',
    async ({ create }) => {
      const outcome = await fc.check(
        agrees((clock) => create({ clock })),
        { numRuns: 1_000, endOnFailure: true },
      );
      expect(outcome.failed).toBe(true);
    },
  );
});
