import { defer, type Observable, throwError } from 'rxjs';
import {
  AgentLoopError,
  type Command,
  type Delta,
  type FollowSignal,
  type MaybePromise,
  type MessageStore,
  type ReadOptions,
  type TaskStateStore,
} from '../core/contracts/index.ts';

/** A method of a store that answers once, so that its answer can be replaced or held. */
export type AnsweringMethod = Exclude<
  keyof TaskStateStore,
  'messages' | 'refersTo' | 'isEphemeral' | 'commands' | 'follow' | 'publish'
>;

/** Which calls of a method go wrong. */
interface FaultyCalls {
  /** The first one, from 1, counted for each method on its own. */
  readonly call: number;
  /** How many from there on. Default 1; `Infinity`: all. */
  readonly calls?: number;
}

/** The call rejects with `error`. `fail-before`: nothing was written; `fail-after`: it was, and only the reply is lost. */
export interface FailingCall extends FaultyCalls {
  readonly method: AnsweringMethod;
  /** Whether the call has had its effect when it fails. */
  readonly fault: 'fail-before' | 'fail-after';
  /** Default: `UNAVAILABLE`, retryable. */
  readonly error?: Error;
}

/** The call waits. `hold-before`: nothing is written until the gate opens; `hold-after`: it is, and only the reply waits. */
export interface HeldCall extends FaultyCalls {
  readonly method: AnsweringMethod;
  /** Whether the call has had its effect while it is held. */
  readonly fault: 'hold-before' | 'hold-after';
  /** Lets the call go. */
  readonly gate: Gate;
}

/** The subscription errors at once. */
export interface FailingReader extends FaultyCalls {
  readonly method: 'commands' | 'follow';
  /** The reader fails before its first value. */
  readonly fault: 'fail-before';
  readonly error?: Error;
}

/** What goes wrong at a store: a call fails, a call is held until the test lets it go, or a reader fails. */
export type StoreFault = FailingCall | HeldCall | FailingReader;

/**
 * A store whose calls go wrong by plan; all others pass through untouched, also without a promise where `store` answers so.
 *
 * It behaves as one connection does: calls after a held one wait with it, and responses keep the order of the calls. Where
 * two faults name the same call, the first of the plan counts. A call is counted when it is made.
 */
export function faultyStore(store: TaskStateStore, plan: readonly StoreFault[]): TaskStateStore {
  return new FaultyStore(store, plan);
}

class FaultyStore implements TaskStateStore {
  readonly messages?: MessageStore;
  readonly #store: TaskStateStore;
  readonly #plan: readonly StoreFault[];
  readonly #counts = new Map<StoreFault['method'], number>();
  /** Settles when the last call on the way may go to the store, and when its reply was delivered. */
  #sent: Promise<void> | undefined;
  #answered: Promise<void> | undefined;

  constructor(store: TaskStateStore, plan: readonly StoreFault[]) {
    this.#store = store;
    this.#plan = plan;
    if (store.messages) this.messages = store.messages;
  }

  refersTo(messages: MessageStore): boolean {
    return this.#store.refersTo?.(messages) === true;
  }

  create(...args: Parameters<TaskStateStore['create']>) {
    return this.#call('create', () => this.#store.create(...args));
  }

  acquire(...args: Parameters<TaskStateStore['acquire']>) {
    return this.#call('acquire', () => this.#store.acquire(...args));
  }

  append(...args: Parameters<TaskStateStore['append']>): void | Promise<void> {
    return this.#call('append', () => this.#store.append(...args));
  }

  renew(...args: Parameters<TaskStateStore['renew']>) {
    return this.#call('renew', () => this.#store.renew(...args));
  }

  release(...args: Parameters<TaskStateStore['release']>) {
    return this.#call('release', () => this.#store.release(...args));
  }

  breakLease(...args: Parameters<TaskStateStore['breakLease']>) {
    return this.#call('breakLease', () => this.#store.breakLease(...args));
  }

  post(...args: Parameters<TaskStateStore['post']>) {
    return this.#call('post', () => this.#store.post(...args));
  }

  read(...args: Parameters<TaskStateStore['read']>) {
    return this.#call('read', () => this.#store.read(...args));
  }

  load(...args: Parameters<TaskStateStore['load']>) {
    return this.#call('load', () => this.#store.load(...args));
  }

  describe(...args: Parameters<TaskStateStore['describe']>) {
    return this.#call('describe', () => this.#store.describe(...args));
  }

  list(...args: Parameters<TaskStateStore['list']>) {
    return this.#call('list', () => this.#store.list(...args));
  }

  delete(...args: Parameters<TaskStateStore['delete']>) {
    return this.#call('delete', () => this.#store.delete(...args));
  }

  check() {
    return this.#call('check', () => this.#store.check());
  }

  commands(taskId: string): Observable<Command> {
    return defer(() => this.#subscribe('commands', () => this.#store.commands(taskId)));
  }

  follow(taskId: string, options?: ReadOptions): Observable<FollowSignal> {
    return defer(() => this.#subscribe('follow', () => this.#store.follow(taskId, options)));
  }

  publish(taskId: string, delta: Delta): void {
    if (this.#sent === undefined) this.#store.publish(taskId, delta);
    else this.#sent = this.#sent.then(() => this.#store.publish(taskId, delta));
  }

  #subscribe<T>(method: 'commands' | 'follow', source: () => Observable<T>): Observable<T> {
    const fault = this.#next(method);
    return fault === undefined ? source() : throwError(() => errorOf(fault, method));
  }

  #call<T>(method: AnsweringMethod, act: () => MaybePromise<T>): MaybePromise<T> {
    const fault = this.#next(method);
    if (fault === undefined && this.#sent === undefined) return act();
    return this.#onTheWire(act, fault, method);
  }

  #onTheWire<T>(act: () => MaybePromise<T>, fault: StoreFault | undefined, method: AnsweringMethod): Promise<T> {
    const before = this.#answered;
    const sent = (this.#sent ?? Promise.resolve()).then(() =>
      fault?.fault === 'hold-before' ? fault.gate.pass() : undefined,
    );
    const reply = sent.then(async () => {
      if (fault?.fault === 'fail-before') throw errorOf(fault, method);
      const outcome = await act();
      if (fault?.fault === 'hold-after') await fault.gate.pass();
      if (fault?.fault === 'fail-after') throw errorOf(fault, method);
      return outcome;
    });
    const inOrder = before === undefined ? reply : before.then(() => reply);
    const settle = (): void => this.#settle(answered);
    const answered: Promise<void> = inOrder.then(settle, settle);
    this.#sent = sent;
    this.#answered = answered;
    return inOrder;
  }

  /** Once nothing is on the way, calls pass through directly again. */
  #settle(answered: Promise<void>): void {
    if (this.#answered !== answered) return;
    this.#sent = undefined;
    this.#answered = undefined;
  }

  #next(method: StoreFault['method']): StoreFault | undefined {
    const number = (this.#counts.get(method) ?? 0) + 1;
    this.#counts.set(method, number);
    return this.#plan.find(
      (fault) => fault.method === method && number >= fault.call && number < fault.call + (fault.calls ?? 1),
    );
  }
}

function errorOf(fault: StoreFault, method: string): Error {
  if ('error' in fault && fault.error !== undefined) return fault.error;
  return new AgentLoopError('UNAVAILABLE', `The store did not answer "${method}"; try again.`, { retryable: true });
}

/** A point that a call waits at until a test lets it pass. */
export interface Gate {
  /** Resolves once somebody waits at the gate. */
  readonly reached: Promise<void>;
  /** Lets everybody pass, from now on too. */
  open(): void;
  /** Waits until the gate is open. */
  pass(): Promise<void>;
}

/** A closed gate. */
export function gate(): Gate {
  let open = (): void => undefined;
  let reach = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  return {
    reached,
    open,
    pass: () => {
      reach();
      return opened;
    },
  };
}
