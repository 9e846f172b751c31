import { isObject, type MaybePromise } from '../../core/contracts/index.ts';
import { type Check, flaw, having, inside, number, optional, type StoreArguments, text } from '../check-arguments.ts';

/** The key of a registration. */
export interface PushKey {
  readonly taskId: string;
  /** The id of the registration. */
  readonly configId: string;
}

/** A registration for notifications of a task: its target, and the last delivered position. */
export interface PushEntry extends PushKey {
  readonly url: string;
  /** A secret by which the receiver recognizes its notifications. */
  readonly token?: string;
  /** The authentication that the receiver requires; a secret. */
  readonly authentication?: { readonly scheme: string; readonly credentials: string };
  /** The version of the protocol of the registration. */
  readonly version: string;
  /** The last delivered position. Absent: nothing was delivered. */
  readonly cursor?: string;
  /** When it was registered, in milliseconds since 1970. Absent if an older version registered it. */
  readonly registeredAt?: number;
}

/** Options of `claim`. */
export interface PushClaimOptions {
  /** The id of the process that delivers from now on. */
  readonly owner: string;
  /** The length of its lease without a renewal. Milliseconds. */
  readonly leaseMs: number;
  /** The maximum number of registrations to return. */
  readonly limit: number;
  /** Only those of this task, even if they are not due yet. */
  readonly taskId?: string | undefined;
}

/** The outcome of a delivery. */
export type PushProgress =
  /** Delivery continues; renews the lease. */
  | { readonly type: 'held'; readonly leaseMs: number; readonly cursor?: string }
  /** The owner releases it; it is due after this time, or when it is claimed by its task. */
  | { readonly type: 'parked'; readonly afterMs: number; readonly cursor?: string }
  /** There is nothing left to deliver. */
  | { readonly type: 'over'; readonly cursor?: string };

/**
 * Registrations for push notifications, shared by all processes that may deliver them: only the process that claimed one delivers it, until
 * its lease expires.
 *
 * Errors: `UNAVAILABLE`. Ended registrations can be read until the store removes them. The store contains secrets of receivers: protect it as
 * you protect the journals.
 */
export interface PushStore {
  /** Adds or replaces a registration, due at once. Returns false, and adds nothing, if its task has `most` others. */
  add(entry: PushEntry, most: number): MaybePromise<boolean>;
  /** One registration; `undefined` if it does not exist. */
  get(key: PushKey): MaybePromise<PushEntry | undefined>;
  /** The registrations of a task, by their ids. */
  list(taskId: string): MaybePromise<readonly PushEntry[]>;
  /** Deletes a registration, if it exists. The process that delivers it gets false from its next `update`. */
  delete(key: PushKey): MaybePromise<void>;
  /** Claims registrations that are due and have no owner, the longest due first. */
  claim(options: PushClaimOptions): MaybePromise<readonly PushEntry[]>;
  /** Records the outcome of a delivery. Returns false if another owner has it, or it was deleted: the caller stops. */
  update(key: PushKey, owner: string, progress: PushProgress): MaybePromise<boolean>;
}

const pushKey = having({ taskId: text, configId: text });

const cursor = optional(text);

const report = having({ type: text, cursor });

const held = having({ leaseMs: number });

const parked = having({ afterMs: number });

/** Of a report on a delivery, by its `type`. */
const progress: Check = (value) => {
  const found = report(value);
  if (found || !isObject(value)) return found;
  const { type } = value;
  if (type === 'held') return held(value);
  if (type === 'parked') return parked(value);
  return type === 'over' ? undefined : inside('.type', flaw(type, 'held, parked or over'));
};

export const pushStoreArguments: StoreArguments<PushStore> = {
  add: { of: { entry: having({ taskId: text, configId: text, url: text, version: text, cursor }), most: number } },
  get: { of: { key: pushKey } },
  list: { of: { taskId: text } },
  delete: { of: { key: pushKey } },
  claim: { of: { options: having({ owner: text, leaseMs: number, limit: number, taskId: optional(text) }) } },
  update: { of: { key: pushKey, owner: text, progress } },
};
