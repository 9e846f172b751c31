import { catchError, finalize, from, map, Observable, of, switchMap, tap, throwError } from 'rxjs';
import {
  AgentLoopError,
  type HookContext,
  type Logger,
  type MessageStore,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { type Deadline, ready, readyAgain, type Signal, whenReadyAgain } from '../core/journal/index.ts';
import { releaseUnused } from '../core/ownership/index.ts';
import { after, onAbort, operate, switchOnce, within } from '../core/streams/index.ts';
import type { Admitted, OpenedTurn } from '../core/turn/index.ts';
import type { Admission } from '../tasks/agent-loop.ts';
import type { SubmittedTask } from '../tasks/create-task.ts';
import type { BusyPolicy } from './agent-options.ts';
import {
  contextBusy,
  historyLength,
  type OpenTurn,
  type RunningTurns,
  runsHere,
  settleTurnsAhead,
  stateOf,
} from './open-turns.ts';

export interface ContextQueueOptions {
  readonly messageStore: MessageStore;
  /** The store of the turns' journals, if any. */
  readonly journal: TaskStateStore | undefined;
  readonly busy: BusyPolicy;
  /** How long a turn waits for those ahead, in milliseconds; 0: no limit. */
  readonly queueTimeoutMs: number;
  readonly running: RunningTurns;
  readonly deadline: Deadline;
  /** How long another process may be silent before it counts as crashed. */
  readonly leaseMs: number;
  readonly logger: Logger | undefined;
}

/** The turn that another one waits for. */
interface Ahead {
  readonly taskId: string;
  readonly why: string;
  /** Resolves when it is time to check again. */
  readonly over: Promise<void>;
}

/** Serializes the turns of a context across processes, in the order of their registration in the message store. */
export class ContextQueue {
  readonly #options: ContextQueueOptions;
  /** Registered tasks that will start here. */
  readonly #registered = new Set<string>();
  /** Tasks that were resumed here with another ahead, and have not waited for it since. */
  readonly #queued = new Set<string>();

  constructor(options: ContextQueueOptions) {
    this.#options = options;
  }

  /**
   * Registers a new turn in its context before its first event, and before the next turn of this process has a journal: accepted turns
   * run in the order of their start, whichever process resumes them. Refuses the turn of a busy context, as the policy says, and deletes
   * the journal that it created, if any, so that its id can be used again. One that was accepted before keeps its place.
   */
  admission(contextId: string, taskId: string): Admission {
    const { journal, running, busy } = this.#options;
    let isNew = false;
    const wrapRun: Admission['wrapRun'] = (run$) => {
      if (running.get(taskId)) return run$;
      if (busy === 'queue') return journal ? this.#afterEarlierTurns(contextId, taskId, run$) : run$;
      const ahead = busy === 'reject' ? running.ahead(contextId, taskId) : undefined;
      if (ahead) return throwError(() => contextBusy(contextId, ahead.turn.taskId, runsHere));
      if (!journal) return run$;
      const forgetting = operate<Signal, Signal>((to) => ({
        error: (error) =>
          isNew && isBusy(error)
            ? void this.#forgetUnbegun(journal, { contextId, taskId }).finally(() => to.error(error))
            : to.error(error),
      }));
      const admitted$ = this.#forgetAtEnd(taskId, forgetting(run$));
      return this.#openTurns(contextId).pipe(
        switchOnce(([first = taskId]) =>
          first === taskId
            ? admitted$
            : from(this.#admit(contextId, taskId, journal)).pipe(switchOnce(() => admitted$)),
        ),
      );
    };
    if (!journal) return { wrapRun };
    return {
      wrapRun: (run$) => this.#withdrawn({ contextId, taskId }, wrapRun(run$)),
      onLease: (turn) => {
        isNew = turn.created;
        return this.#opened(turn, journal).pipe(switchOnce(() => this.#resumed(turn, journal)));
      },
    };
  }

  /** For a resumed turn: reports whether it is still queued. */
  get resumption(): Admission {
    const { journal } = this.#options;
    return journal ? { onLease: (turn) => this.#resumed(turn, journal) } : {};
  }

  /** For a resume that does not wait: the turn errors with `AGENT_BUSY`, unchanged, while another turn is ahead. */
  get inOrder(): Admission {
    const { journal, messageStore } = this.#options;
    if (!journal) return {};
    const admit = async ({ state }: OpenedTurn): Promise<Admitted> => {
      const { contextId, taskId } = state.turn;
      if (historyLength(state) !== undefined) return { queued: false };
      await this.#ask(() => messageStore.begin(contextId, taskId));
      const open = await this.#ask(() => settleTurnsAhead({ messageStore, journal }, contextId, taskId));
      if (open) throw this.#busy(contextId, open);
      return { queued: false };
    };
    return { onLease: (turn) => from(admit(turn)) };
  }

  /** Creates a turn without running it, and registers it in the context; if the policy refuses it, nothing is kept. */
  async submit(
    { contextId, taskId }: { readonly contextId: string; readonly taskId: string },
    create: () => Promise<SubmittedTask>,
  ): Promise<SubmittedTask> {
    const { journal, messageStore, busy } = this.#options;
    if (!journal) return create();
    const ahead = () => this.#ask(() => settleTurnsAhead({ messageStore, journal }, contextId, taskId));
    const refuses = ({ status }: OpenTurn) => busy === 'reject' || (busy === 'steer' && status === 'suspended');
    const before = busy === 'queue' ? undefined : await ahead();
    if (before && refuses(before) && !(await this.#ask(() => stateOf(journal, taskId))))
      throw this.#busy(contextId, before);
    const task = await create();
    await this.#ask(() => messageStore.begin(task.contextId, taskId));
    if ((await this.#ask(() => journal.describe(taskId))) === null) {
      await this.#withdraw(task);
      throw new AgentLoopError('NOT_FOUND', `Task "${taskId}" was deleted while it was created; submit it again.`, {
        taskId,
      });
    }
    const open = busy === 'queue' || !task.created ? undefined : await ahead();
    if (!open || !refuses(open)) return task;
    await this.#forgetUnbegun(journal, task);
    throw this.#busy(contextId, open);
  }

  /**
   * Whether another turn is ahead. Returns true once until the turn has waited. If the store is unavailable, the turn itself asks again.
   */
  #resumed({ state, created }: OpenedTurn, journal: TaskStateStore): Observable<Admitted> {
    const { messageStore, deadline } = this.#options;
    const { contextId, taskId } = state.turn;
    if (created || historyLength(state) !== undefined || this.#queued.has(taskId)) return of({ queued: false });
    return whenReadyAgain(() => messageStore.begin(contextId, taskId), deadline).pipe(
      switchMap(() => whenReadyAgain(() => settleTurnsAhead({ messageStore, journal }, contextId, taskId), deadline)),
      map((open) => {
        const queued = open !== undefined && !this.#refuses(open);
        return { queued, waited: queued && open.status !== 'suspended' };
      }),
      tap(({ queued }) => queued && this.#queued.add(taskId)),
      catchError(() => of({ queued: false })),
    );
  }

  /** Starts the run once the turns that were started before it are registered, or no longer run here. */
  #afterEarlierTurns(contextId: string, taskId: string, run$: Observable<Signal>): Observable<Signal> {
    const { running } = this.#options;
    const shown = operate<Signal, Signal>((to) => ({
      next(signal) {
        // A turn that another process runs is registered there.
        running.register(taskId);
        to.next(signal);
      },
    }));
    return new Observable((to) => {
      to.add(running.enter(contextId, taskId));
      const begin = () => {
        if (to.closed) return;
        const before = running.unregistered(contextId, taskId);
        if (before) void before.registered.then(begin);
        else this.#forgetAtEnd(taskId, shown(run$)).subscribe(to);
      };
      begin();
    });
  }

  /**
   * Withdraws the registration of a turn whose journal is deleted while it runs, before its error: it may have been written after its context was
   * deleted. If that fails, the next turn of the context does it.
   */
  #withdrawn(place: Pick<SubmittedTask, 'contextId' | 'taskId'>, run$: Observable<Signal>): Observable<Signal> {
    const withdrawing = operate<Signal, Signal>((to) => ({
      error: (error) =>
        AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND'
          ? void this.#withdraw(place).finally(() => to.error(error))
          : to.error(error),
    }));
    return withdrawing(run$);
  }

  async #withdraw({ contextId, taskId }: Pick<SubmittedTask, 'contextId' | 'taskId'>): Promise<void> {
    const { journal, messageStore } = this.#options;
    try {
      const isGone = journal && (await this.#ask(() => journal.describe(taskId))) === null;
      if (isGone) await this.#ask(() => messageStore.withdraw?.(contextId, taskId));
    } catch {
      // The store is unavailable.
    }
  }

  /** Drops the registration state of a turn that never starts. */
  #forgetAtEnd(taskId: string, run$: Observable<Signal>): Observable<Signal> {
    return run$.pipe(finalize(() => this.#registered.delete(taskId)));
  }

  /** If the store is unavailable, the turn is lost; any other error fails the turn once it starts. */
  #opened({ state, created }: OpenedTurn, journal: TaskStateStore): Observable<unknown> {
    const { messageStore, deadline, running, busy } = this.#options;
    const { contextId, taskId } = state.turn;
    const unless = (error: unknown) => (isAway(error) || isBusy(error) ? throwError(() => error) : of(undefined));
    return whenReadyAgain(() => messageStore.begin(contextId, taskId), deadline).pipe(
      tap(() => {
        running.register(taskId);
        this.#registered.add(taskId);
      }),
      switchMap(() => (busy === 'queue' || !created ? of([]) : this.#openTurns(contextId))),
      switchMap(([first = taskId]) => (first === taskId ? of(undefined) : this.#refused(contextId, taskId, journal))),
      catchError(unless),
    );
  }

  async #refused(contextId: string, taskId: string, journal: TaskStateStore): Promise<void> {
    const { messageStore } = this.#options;
    const open = await this.#ask(() => settleTurnsAhead({ messageStore, journal }, contextId, taskId)).catch(
      () => undefined,
    );
    if (open && this.#refuses(open)) throw this.#busy(contextId, open);
  }

  /** Empty if the store is unavailable: then nothing is refused here, and the turn checks again once it can be resumed. */
  #openTurns(contextId: string): Observable<readonly string[]> {
    const { messageStore, deadline } = this.#options;
    return whenReadyAgain(() => messageStore.load(contextId, { limit: 0 }), deadline).pipe(
      map(({ openTurns }) => openTurns),
      catchError(() => of([])),
    );
  }

  /** An existing turn is attached to. */
  async #admit(contextId: string, taskId: string, journal: TaskStateStore): Promise<void> {
    const { messageStore } = this.#options;
    const look = async () => {
      const open = await settleTurnsAhead({ messageStore, journal }, contextId, taskId);
      return open && this.#refuses(open) && !(await stateOf(journal, taskId)) ? open : undefined;
    };
    const open = await this.#ask(look).catch(() => undefined);
    if (open) throw this.#busy(contextId, open);
  }

  /**
   * Deletes the journal of a turn that did not start, under its lease, and withdraws its registration: a turn that another process has
   * acquired is kept.
   */
  async #forgetUnbegun(
    journal: TaskStateStore,
    { contextId, taskId }: Pick<SubmittedTask, 'contextId' | 'taskId'>,
  ): Promise<void> {
    const { leaseMs, messageStore } = this.#options;
    try {
      const lease = await ready(
        () => journal.acquire(taskId, `refused-${crypto.randomUUID()}`, leaseMs),
        this.#options.deadline,
      );
      if (lease.seq > 1) return await releaseUnused(journal, lease);
      await this.#ask(() => journal.delete(taskId));
      await this.#ask(() => messageStore.withdraw?.(contextId, taskId));
    } catch {
      // Another process runs it, or it was deleted.
    }
  }

  /**
   * Resolves once no turn of the context is ahead, with the waiting time since the start of this turn, in milliseconds; or with an
   * error after `queueTimeoutMs`. Rejects if the policy refuses the turn.
   */
  async turn(context: HookContext): Promise<AgentLoopError | number> {
    const { contextId, taskId, state, clock } = context;
    const { journal, messageStore } = this.#options;
    const isRegistered = this.#registered.delete(taskId);
    this.#queued.delete(taskId);
    if (journal && !isRegistered) await this.#ask(() => messageStore.begin(contextId, taskId));
    const { deadline, queueTimeoutMs } = this.#options;
    const passedMs = () => deadline.clock.elapsed?.() ?? deadline.clock.now();
    let startedAt: number | undefined;
    const look = journal ? this.#lookAt(context, journal) : this.#lookHere(contextId, taskId);
    let waitedMs = 0;
    for (let ahead = await look(); ahead; ahead = await look()) {
      startedAt ??= passedMs();
      const ms = queueTimeoutMs && Math.max(1, startedAt + queueTimeoutMs - passedMs());
      const limit = { ms, clock: deadline.clock, signal: context.signal, late: () => true };
      if (await within(limit, ahead.over)) return tooLong({ contextId, taskId, ahead, ms: queueTimeoutMs });
      waitedMs = Math.max(0, clock.now() - state.turn.createdAt);
    }
    return waitedMs;
  }

  #lookAt(context: Pick<HookContext, 'contextId' | 'taskId' | 'signal'>, journal: TaskStateStore) {
    const { contextId, taskId } = context;
    const { messageStore, running, logger } = this.#options;
    let logged = '';
    return async (): Promise<Ahead | undefined> => {
      const open = await this.#ask(() => settleTurnsAhead({ messageStore, journal }, contextId, taskId));
      if (!open) return undefined;
      const { taskId: behind, status } = open;
      const here = running.get(behind);
      if (this.#refuses(open)) throw this.#busy(contextId, open);
      if (logged !== `${behind} ${status}`)
        logger?.[status === 'dead' && !here ? 'warn' : 'info']('turn queued', { taskId, contextId, behind, status });
      logged = `${behind} ${status}`;
      const why = status === 'running' ? `runs; end it with cancel("${behind}")` : reasonOf(open);
      return { taskId: behind, why, over: here ? here.over : this.#over(open, journal, context.signal) };
    };
  }

  /** Without a journal all turns of the context run in this process. */
  #lookHere(contextId: string, taskId: string) {
    const { running, busy } = this.#options;
    return async (): Promise<Ahead | undefined> => {
      const ahead = running.ahead(contextId, taskId);
      if (!ahead) return undefined;
      const behind = ahead.turn.taskId;
      if (busy === 'reject') throw contextBusy(contextId, behind, runsHere);
      return { taskId: behind, why: `runs; end it with cancel("${behind}")`, over: ahead.over };
    };
  }

  #refuses({ taskId, status }: OpenTurn): boolean {
    const { busy, running } = this.#options;
    return busy === 'reject' || (busy === 'steer' && status !== 'running' && !running.get(taskId));
  }

  #busy(contextId: string, open: OpenTurn): AgentLoopError {
    const isHere = this.#options.running.get(open.taskId) !== undefined;
    return contextBusy(contextId, open.taskId, isHere ? runsHere : reasonOf(open));
  }

  /** Resolves once a turn is over or suspended, and at the latest after `leaseMs`: its process may have crashed, or its journal may be deleted. */
  #over({ taskId, seq }: OpenTurn, store: TaskStateStore, signal: AbortSignal): Promise<void> {
    const { deadline, leaseMs } = this.#options;
    return new Promise((resolve) => {
      const done = () => {
        watching.unsubscribe();
        stopTimer();
        leave();
        resolve();
      };
      const stopTimer = after(leaseMs, deadline.clock, done);
      const leave = onAbort(signal, done);
      const watching = store.follow(taskId, { from: seq + 1 }).subscribe({
        next(seen) {
          if (seen.type === 'record' && seen.record.type === 'turn.suspended') queueMicrotask(done);
        },
        error: () => {},
        complete: () => queueMicrotask(done),
      });
    });
  }

  #ask<T>(ask: () => T | Promise<T>): Promise<T> {
    return readyAgain(ask, this.#options.deadline);
  }
}

interface LongWait {
  readonly contextId: string;
  readonly taskId: string;
  readonly ahead: Ahead;
  readonly ms: number;
}

function tooLong({ contextId, taskId, ahead, ms }: LongWait): AgentLoopError {
  const message = `Turn "${taskId}" waited ${ms} ms (queueTimeoutMs) in context "${contextId}" for turn "${ahead.taskId}", which ${ahead.why}. Then continue this one with retry("${taskId}").`;
  return new AgentLoopError('AGENT_BUSY', message, { retryable: true, taskId });
}

/** Whether the error means that the context has another turn. */
export function isBusy(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.code === 'AGENT_BUSY';
}

/** Whether the error means that the store is unavailable and can be retried. */
export function isAway(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.code === 'UNAVAILABLE' && error.retryable;
}

function reasonOf({ taskId, status, seq }: OpenTurn): string {
  const cure = `resume("${taskId}")`;
  const end = `or end it with cancel("${taskId}"); its messages are saved either way`;
  switch (status) {
    case 'running':
      return 'runs in another process; wait for it, or set busy to "queue"';
    case 'suspended':
      return `waits for an answer or was paused; continue it with ${cure}, ${end}`;
    case 'dead':
      if (seq === 1) return `has not begun; wait for it, begin it with ${cure}, or end it with cancel("${taskId}")`;
      return `was abandoned (its process exited); continue it with ${cure}, ${end}`;
  }
}
