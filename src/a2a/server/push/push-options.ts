import type { KeyObject } from 'node:crypto';
import type { JWK } from 'jose';
import type { PushStore } from '../../../stores/push/push-store.ts';

/** What signs notifications, so that receivers can tell that they are yours. */
export interface PushSigning {
  /** A private key, whose public half the server then shows under `/.well-known/jwks.json`, or a secret of at least 32 bytes. */
  readonly key: KeyObject | JWK | Uint8Array;
  /** `ES256`, `EdDSA`, `RS256`, …; `HS256` for a secret. */
  readonly algorithm: string;
  /** Tells keys apart. */
  readonly keyId: string;
}

export interface PushOptions {
  /** Where registrations are kept. One that all processes share, as they share the journal. */
  readonly store: PushStore;
  /** Default: notifications are not signed. */
  readonly signing?: PushSigning | undefined;
  /** Lets targets be on private and loopback addresses. Default false. */
  readonly allowPrivateTargets?: boolean | undefined;
  /** Lets targets be reached over plain http. Default false. */
  readonly allowHttp?: boolean | undefined;
  /** Registrations a task may have. Default 5. */
  readonly mostPerTask?: number | undefined;
  /** Registrations that this process follows at the same time; of more, those that are silent take turns. Default 500. */
  readonly concurrency?: number | undefined;
  /** How often a notification is tried before its registration is given up. Default 10: for about five minutes. */
  readonly attempts?: number | undefined;
  /** How long a receiver may take to answer. Milliseconds; default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** The least time between two notifications of one registration; text that comes meanwhile is sent in one. Milliseconds; default 250. */
  readonly intervalMs?: number | undefined;
}
