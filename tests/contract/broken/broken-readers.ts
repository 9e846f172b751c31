import { InMemoryStateStore } from 'millrace';
import type { Command, Delta, FollowSignal, Lease, PostOptions, ReadOptions } from 'millrace/types';
import {
  catchError,
  concat,
  concatMap,
  defer,
  EMPTY,
  filter,
  from,
  ignoreElements,
  map,
  merge,
  NEVER,
  Observable,
  type Subscriber,
  skip,
  takeWhile,
  timer,
} from 'rxjs';
import { type BrokenStore, broken } from './broken-store.ts';

class ShowsTwice extends InMemoryStateStore {
  override follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    return super
      .follow(taskId, options)
      .pipe(
        concatMap((signal) => (signal.type === 'record' && signal.record.seq % 7 === 0 ? [signal, signal] : [signal])),
      );
  }
}

class JoinsTooLate extends InMemoryStateStore {
  override follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    const soFar = defer(() =>
      from(super.read(taskId, options)).pipe(map((record) => ({ type: 'record', record }) as const)),
    );
    const live = defer(() => {
      const last = super.read(taskId).at(-1);
      const ended = last?.type === 'turn.done';
      return ended ? EMPTY : super.follow(taskId, { from: (last?.seq ?? 0) + 1 });
    });
    return concat(soFar, timer(0).pipe(ignoreElements()), live);
  }
}

class JoinsTooEarly extends InMemoryStateStore {
  override follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    return super
      .follow(taskId, { from: (options?.from ?? 1) - 1 })
      .pipe(filter((signal) => signal.type === 'delta' || signal.record.seq > 1 || (options?.from ?? 1) === 1));
  }
}

class OnlyLive extends InMemoryStateStore {
  override follow(taskId: string): Observable<FollowSignal> {
    return defer(() => super.follow(taskId, { from: super.read(taskId).length + 1 }));
  }
}

class NeverCompletes extends InMemoryStateStore {
  override follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    return concat(super.follow(taskId, options), NEVER);
  }
}

class SilentWithoutTask extends InMemoryStateStore {
  override follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    return super.follow(taskId, options).pipe(catchError(() => NEVER));
  }
}

class FollowsAtCall extends InMemoryStateStore {
  override follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    const kept: FollowSignal[] = [];
    super.follow(taskId, options).subscribe({ next: (signal) => kept.push(signal), error: () => undefined });
    return merge(from(kept.splice(0)), NEVER);
  }
}

class NestedOrder extends InMemoryStateStore {
  readonly #readers = new Set<Subscriber<FollowSignal>>();

  override append(...[lease, records, options]: Parameters<InMemoryStateStore['append']>): void {
    super.append(lease, records, options);
    for (const record of records) {
      for (const reader of [...this.#readers]) reader.next({ type: 'record', record });
      if (record.type === 'turn.done') for (const reader of [...this.#readers]) reader.complete();
    }
  }
  override follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    return new Observable((subscriber) => {
      for (const record of super.read(taskId, options)) subscriber.next({ type: 'record', record });
      this.#readers.add(subscriber);
      return () => this.#readers.delete(subscriber);
    });
  }
}

class KeepsTimers extends InMemoryStateStore {
  readonly #timers: NodeJS.Timeout[] = [];

  override follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    return defer(() => {
      this.#timers.push(setInterval(() => undefined, 60_000));
      return super.follow(taskId, options);
    });
  }
  stopTimers(): void {
    for (const each of this.#timers) clearInterval(each);
  }
}

class NoTextSoFar extends InMemoryStateStore {
  override follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    return defer(() => {
      let joining = true;
      queueMicrotask(() => {
        joining = false;
      });
      return super.follow(taskId, options).pipe(filter((signal) => signal.type === 'record' || !joining));
    });
  }
}

class KeepsAllText extends InMemoryStateStore {
  readonly #deltas: Delta[] = [];

  override publish(taskId: string, delta: Delta): void {
    this.#deltas.push(delta);
    super.publish(taskId, delta);
  }
  override follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    return defer(() => {
      const soFar = this.#deltas.map((delta) => ({ type: 'delta', delta }) as const);
      return concat(from(soFar), super.follow(taskId, options));
    });
  }
}

class VoidIsLost extends InMemoryStateStore {
  override publish(taskId: string, delta: Delta): void {
    if (delta.type === 'llm' && delta.chunk.type === 'attempt') return;
    super.publish(taskId, delta);
  }
}

class AnyEpochShows extends InMemoryStateStore {
  #last = new Map<string, number>();

  override acquire(taskId: string, owner: string, leaseMs: number): Lease {
    const lease = super.acquire(taskId, owner, leaseMs);
    this.#last.set(taskId, lease.epoch);
    return lease;
  }
  override publish(taskId: string, delta: Delta): void {
    const epoch = this.#last.get(taskId) ?? delta.epoch;
    super.publish(taskId, delta.type === 'llm' ? { ...delta, epoch, attempt: 9 } : delta);
  }
}

class PublishThrows extends InMemoryStateStore {
  override publish(taskId: string, delta: Delta): void {
    super.read(taskId);
    super.publish(taskId, delta);
  }
}

class LosesEarlierCommands extends InMemoryStateStore {
  override commands(taskId: string): Observable<Command> {
    return defer(() => {
      let joining = true;
      queueMicrotask(() => {
        joining = false;
      });
      return super.commands(taskId).pipe(filter(() => !joining));
    });
  }
}

class LosesACommand extends InMemoryStateStore {
  #posts = 0;

  override post(taskId: string, command: Command, options?: PostOptions): Command | undefined {
    return ++this.#posts % 7 === 0 ? command : super.post(taskId, command, options);
  }
}

class SkipsTheFirstCommand extends InMemoryStateStore {
  override commands(taskId: string): Observable<Command> {
    return super.commands(taskId).pipe(skip(1));
  }
}

class CommandsTwice extends InMemoryStateStore {
  override commands(taskId: string): Observable<Command> {
    return super.commands(taskId).pipe(concatMap((command) => [command, command]));
  }
}

class NoCommandIds extends InMemoryStateStore {
  #posts = 0;

  override post(taskId: string, command: Command, options?: PostOptions): Command | undefined {
    return super.post(taskId, { ...command, id: `${command.id}~${++this.#posts}` }, options) && command;
  }
  override commands(taskId: string): Observable<Command> {
    return super.commands(taskId).pipe(map((command) => ({ ...command, id: command.id.replace(/~.*/, '') })));
  }
}

class CommandsReversed extends InMemoryStateStore {
  override commands(taskId: string): Observable<Command> {
    return defer(() => {
      const soFar: Command[] = [];
      super
        .commands(taskId)
        .subscribe({ next: (command) => soFar.push(command), error: () => {} })
        .unsubscribe();
      return concat(from(soFar.toReversed()), super.commands(taskId).pipe(skip(soFar.length)));
    });
  }
}

class CommandsComplete extends InMemoryStateStore {
  override commands(taskId: string): Observable<Command> {
    return super.commands(taskId).pipe(takeWhile((command) => command.type !== 'cancel', true));
  }
}

class PostsToNothing extends InMemoryStateStore {
  override post(taskId: string, command: Command, options?: PostOptions): Command | undefined {
    return super.load(taskId) === null ? command : super.post(taskId, command, options);
  }
}

class PostsAfterTheEnd extends InMemoryStateStore {
  override post(taskId: string, command: Command, options?: PostOptions): Command | undefined {
    return super.load(taskId)?.isComplete ? command : super.post(taskId, command, options);
  }
}

class GivesTheLastCommand extends InMemoryStateStore {
  override post(taskId: string, command: Command, options?: PostOptions): Command | undefined {
    return super.post(taskId, command, options) && command;
  }
}

class AnyNumberOfCommands extends InMemoryStateStore {
  override post(taskId: string, command: Command): Command | undefined {
    return super.post(taskId, command);
  }
}

const keepsTimers = new Set<KeepsTimers>();

/** Ends what the stores with a leak have left behind. */
export function stopLeaks(): void {
  for (const store of keepsTimers) store.stopTimers();
  keepsTimers.clear();
}

export const brokenReaders: readonly BrokenStore[] = [
  broken(
    'a record is shown twice',
    'readers that join while another writes miss nothing and see nothing twice',
    ShowsTwice,
  ),
  broken(
    'a gap between the records so far and the live ones',
    'readers that join while another writes miss nothing and see nothing twice',
    JoinsTooLate,
  ),
  broken(
    'follow begins one too early',
    'begins at the seq asked for, also at one that is still to come',
    JoinsTooEarly,
  ),
  broken(
    'follow ignores what is there',
    'gives the records so far, then each new one, and completes after the terminal one',
    OnlyLive,
  ),
  broken(
    'follow never completes',
    'of a turn that has ended gives the records and completes, also from beyond the end',
    NeverCompletes,
  ),
  broken('follow of nothing is silent', 'where there is no task, errors with NOT_FOUND', SilentWithoutTask),
  broken(
    'a deleted task is silent',
    'when the task is deleted, errors with NOT_FOUND after what it has shown',
    SilentWithoutTask,
  ),
  broken(
    'follow begins when it is called',
    'nothing happens before a subscription, and each subscription starts at its own seq again',
    FollowsAtCall,
  ),
  broken(
    'a reader that writes turns the order round',
    'a reader may write from inside its handler, and every reader sees one order',
    NestedOrder,
  ),
  {
    bug: 'a reader that left leaves a timer',
    noticedBy: 'a reader that left keeps nothing open',
    create: (options) => {
      const store = new KeepsTimers(options);
      keepsTimers.add(store);
      return store;
    },
  },
  broken(
    'who joins late gets no text',
    'who joins in the middle of an attempt first gets its text so far as one chunk, then what follows',
    NoTextSoFar,
  ),
  broken(
    'who joins late gets the text twice',
    'who joins in the middle of an attempt first gets its text so far as one chunk, then what follows',
    KeepsAllText,
  ),
  broken(
    'a new attempt keeps the old text',
    'a new llm.start voids the text so far for who joins after it',
    KeepsAllText,
  ),
  broken('void is not heard', 'a void chunk discards the text so far for who joins after it', VoidIsLost),
  broken('text survives llm.done', 'after llm.done nobody gets the text of the attempt again', KeepsAllText),
  broken('deltas of an older epoch are shown', 'deltas of an owner that was overtaken are not shown', AnyEpochShows),
  broken(
    'publish throws',
    'publish never fails: without readers, without a task, after the end, and of every kind',
    PublishThrows,
  ),
  broken(
    'commands posted before are lost',
    'those posted before come first, then those posted later, in order and unchanged',
    LosesEarlierCommands,
  ),
  broken('a command is lost', 'a burst arrives whole and in order, whenever one listens', LosesACommand),
  broken('the first command is lost', 'of one task say nothing to another', SkipsTheFirstCommand),
  broken(
    'a command comes twice',
    'those posted before come first, then those posted later, in order and unchanged',
    CommandsTwice,
  ),
  broken(
    'post gives what was posted last',
    'post gives the command that stands under the id, also where another one was posted first',
    GivesTheLastCommand,
  ),
  broken(
    'any number of commands stands',
    'of many that come at once no more stand than `most` says; one that stands can still be posted again',
    AnyNumberOfCommands,
  ),
  broken('command ids do not count', 'the same id again does nothing, before and after somebody listens', NoCommandIds),
  broken(
    'commands come in another order',
    'a burst arrives whole and in order, whenever one listens',
    CommandsReversed,
  ),
  broken(
    'commands complete',
    'those posted before come first, then those posted later, in order and unchanged',
    CommandsComplete,
  ),
  broken(
    'a command for nobody is fine',
    'where there is no task, post says NOT_FOUND; where the turn has ended, TERMINAL',
    PostsToNothing,
  ),
  broken(
    'a command after the end is fine',
    'after the end an append, a lease and a command are refused as TERMINAL',
    PostsAfterTheEnd,
  ),
];
