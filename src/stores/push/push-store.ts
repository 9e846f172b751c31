import { isObject, type MaybePromise } from '../../core/contracts/index.ts';
import { type Check, flaw, having, inside, number, optional, type StoreArguments, text } from '../check-arguments.ts';

/** Names a registration. */
export interface PushKey {
  readonly taskId: string;
  /** The id of the registration. */
  readonly configId: string;
}

/** A registration for notifications of a task: its target, and the last delivered position. */
export interface PushEntry extends PushKey {
  readonly url: string;
  /** What the receiver knows its notifications by; a secret. */
  readonly token?: string;
  /** What the receiver asks for; a secret. */
  readonly authentication?: { readonly scheme: string; readonly credentials: string };
  /** The version of the protocol that it was registered over. */
  readonly version: string;
  /** What the receiver has had. Absent: nothing. */
  readonly cursor?: string;
  /** When it was registered, in milliseconds since 1970. Absent where an older version did. */
  readonly registeredAt?: number;
}

/** Options of `claim`: who delivers, for how long, and how many registrations. */
export interface PushClaimOptions {
  /** Who delivers from now on. */
  readonly owner: string;
  /** The length of its lease without a renewal. Milliseconds. */
  readonly leaseMs: number;
  /** The most that are given. */
  readonly limit: number;
  /** Only those of this task, also where it is not their time yet. */
  readonly taskId?: string | undefined;
}

/** What has come of a delivery. */
export type PushProgress =
  /** Delivery continues; renews the lease. */
  | { readonly type: 'held'; readonly leaseMs: number; readonly cursor?: string }
  /** Nobody holds it any more; it is looked at again after this time, or when it is claimed by its task. */
  | { readonly type: 'parked'; readonly afterMs: number; readonly cursor?: string }
  /** There is nothing to deliver any more. */
  | { readonly type: 'over'; readonly cursor?: string };

/**
 * Registrations for push notifications, shared by all processes that may deliver them: who claims one is the only one to deliver it, until
 * its lease runs out.
 *
 * Errors: `UNAVAILABLE`. What is over can still be read, until the store forgets it. The store holds secrets of receivers: protect it as
 * you protect the journals.
 */
export interface PushStore {
  /** Adds or replaces a registration, due at once. False, and nothing is added, where its task has `most` others. */
  add(entry: PushEntry, most: number): MaybePromise<boolean>;
  /** One registration; `undefined` where it is not there. */
  get(key: PushKey): MaybePromise<PushEntry | undefined>;
  /** Those of a task, by their ids. */
  list(taskId: string): MaybePromise<readonly PushEntry[]>;
  /** The process that delivers it gets the error at its next `update`. Does nothing if there is none. */
  delete(key: PushKey): MaybePromise<void>;
  /** Takes registrations that are due, and that nobody holds, the longest due first. */
  claim(options: PushClaimOptions): MaybePromise<readonly PushEntry[]>;
  /** Records what came of a delivery. False where somebody else holds it, or it was deleted: the caller stops. */
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
