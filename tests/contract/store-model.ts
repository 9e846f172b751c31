import type { ErrorCode } from 'millrace';

export type Who = 'a' | 'b';

/** What one of two owners, or somebody else, does to one task. */
export type Operation =
  | { readonly do: 'create' }
  | { readonly do: 'acquire'; readonly who: Who; readonly under: number | undefined }
  | { readonly do: 'append'; readonly who: Who; readonly count: number; readonly gap: number; readonly end: boolean }
  | { readonly do: 'resend'; readonly who: Who }
  | { readonly do: 'renew'; readonly who: Who }
  | { readonly do: 'release'; readonly who: Who }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'post'; readonly id: string }
  | { readonly do: 'follow'; readonly from: number }
  | { readonly do: 'delete' };

export const modelLeaseMs = 1_000;

/** The lease as an owner remembers it: which take-over it was, and where it has got to. */
export interface Hand {
  readonly grant: number;
  next: number;
  /** First seq and number of the last batch that was sent. */
  sent: { readonly first: number; readonly count: number; readonly end: boolean } | undefined;
}

export interface ModelFollower {
  readonly from: number;
  readonly seqs: number[];
  state: 'open' | 'completed' | 'NOT_FOUND';
}

/** What a `TaskStateStore` promises, said as simply as possible. Only compares; knows no records but by their seq. */
export class StoreModel {
  exists = false;
  /** The grant that wrote each record; 0 for the first. */
  journal: number[] = [];
  ended = false;
  holder: Who | undefined;
  grant = 0;
  grants = 0;
  expiresAt = 0;
  now = 0;
  /** The epoch of the parent's lease that the task was taken under last. */
  under: number | undefined;
  commands: string[] = [];
  readonly hands: Record<Who, Hand | undefined> = { a: undefined, b: undefined };
  readonly followers: ModelFollower[] = [];

  create(): 'created' | 'exists' {
    if (this.exists) return 'exists';
    Object.assign(this, {
      exists: true,
      journal: [0],
      ended: false,
      holder: undefined,
      under: undefined,
      commands: [],
    });
    return 'created';
  }

  acquire(who: Who, under: number | undefined): ErrorCode | 'ok' {
    if (!this.exists) return 'NOT_FOUND';
    if (this.ended) return 'TERMINAL';
    const newer = under === undefined || this.under === undefined ? 0 : under - this.under;
    if (newer < 0) return 'FENCED';
    if (newer === 0 && this.isHeld()) return 'BUSY';
    this.under = under ?? this.under;
    this.grant = ++this.grants;
    this.holder = who;
    this.expiresAt = this.now + modelLeaseMs;
    this.hands[who] = { grant: this.grant, next: this.journal.length + 1, sent: undefined };
    return 'ok';
  }

  append(who: Who, hand: Hand, batch: NonNullable<Hand['sent']>): ErrorCode | 'ok' {
    if (!this.exists) return 'NOT_FOUND';
    if (!this.owns(who, hand)) return 'FENCED';
    if (batch.first <= this.journal.length) return 'ok';
    if (this.ended) return 'TERMINAL';
    if (batch.first !== this.journal.length + 1) return 'REWOUND';
    for (let index = 0; index < batch.count; index++) this.journal.push(hand.grant);
    this.ended = batch.end;
    this.expiresAt = this.now + modelLeaseMs;
    this.show(batch.first);
    return 'ok';
  }

  renew(who: Who, hand: Hand): ErrorCode | 'ok' {
    if (!this.exists) return 'NOT_FOUND';
    if (!this.owns(who, hand)) return 'FENCED';
    this.expiresAt = this.now + modelLeaseMs;
    return 'ok';
  }

  release(who: Who, hand: Hand): void {
    if (this.exists && this.owns(who, hand)) this.holder = undefined;
  }

  post(id: string): ErrorCode | 'ok' {
    if (!this.exists) return 'NOT_FOUND';
    if (this.ended) return 'TERMINAL';
    if (!this.commands.includes(id)) this.commands.push(id);
    return 'ok';
  }

  follow(from: number): void {
    const follower: ModelFollower = { from, seqs: [], state: this.exists ? 'open' : 'NOT_FOUND' };
    this.followers.push(follower);
    if (this.exists) this.show(1, [follower]);
  }

  delete(): void {
    this.exists = false;
    this.holder = undefined;
    for (const follower of this.followers) if (follower.state === 'open') follower.state = 'NOT_FOUND';
  }

  isHeld(): boolean {
    return this.holder !== undefined && this.now < this.expiresAt;
  }

  owns(who: Who, hand: Hand): boolean {
    return this.holder === who && this.grant === hand.grant;
  }

  show(first: number, followers: readonly ModelFollower[] = this.followers): void {
    for (const follower of followers) {
      if (follower.state !== 'open') continue;
      for (let seq = Math.max(first, follower.from); seq <= this.journal.length; seq++) follower.seqs.push(seq);
      if (this.ended) follower.state = 'completed';
    }
  }
}
