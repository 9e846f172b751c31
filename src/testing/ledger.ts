import { AgentLoopError } from '../core/contracts/index.ts';

/** How many of each kind: `{ Timeout: 1, TCPSocketWrap: 2 }`. The kinds are Node's names of them. */
export type ResourceCounts = Readonly<Record<string, number>>;

/** Options of `settle`: how long to wait for what is still open. */
export interface SettleOptions {
  /** Milliseconds until what is still open counts as left over. Default 1,000. */
  readonly withinMs?: number | undefined;
}

/** What has been opened since {@link openResources} was called. */
export interface ResourceLedger {
  /** The resources that are open now and were not open then. */
  left(): ResourceCounts;
  /**
   * Waits until nothing is left, one round of the event loop after the other, and resolves with what is left in the end:
   * `{}`, or what did not close in time.
   */
  settle(options?: SettleOptions): Promise<ResourceCounts>;
  /** As `settle`, but rejects with a sentence that names what is left. */
  assertNone(options?: SettleOptions): Promise<void>;
}

/** Kinds that come and go with a round of the event loop, or that waiting itself makes. */
const passing: ReadonlySet<string> = new Set(['Immediate', 'TickObject', 'PROMISE']);

/**
 * Takes stock of what keeps this process alive: timers, sockets, servers, pipes, child processes. Take it at the start of
 * a test and ask what is left at its end. What was unref'ed does not count.
 */
export function openResources(): ResourceLedger {
  const before = count();
  const left = (): ResourceCounts => difference(count(), before);
  const settle = async ({ withinMs = 1_000 }: SettleOptions = {}): Promise<ResourceCounts> => {
    const deadline = performance.now() + withinMs;
    let open = left();
    while (Object.keys(open).length > 0 && performance.now() < deadline) {
      await new Promise((resolve) => setImmediate(resolve));
      open = left();
    }
    return open;
  };
  const assertNone = async (options?: SettleOptions): Promise<void> => {
    const open = Object.entries(await settle(options));
    if (open.length === 0) return;
    const list = open.map(([kind, number]) => `${number} ${kind}`).join(', ');
    throw new AgentLoopError('INTERNAL', `Still open: ${list}; close what the test opened, or find what leaks.`);
  };
  return { left, settle, assertNone };
}

function count(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) {
    if (!passing.has(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}

function difference(now: ReadonlyMap<string, number>, before: ReadonlyMap<string, number>): ResourceCounts {
  const more: Record<string, number> = {};
  for (const [kind, number] of now) {
    const extra = number - (before.get(kind) ?? 0);
    if (extra > 0) more[kind] = extra;
  }
  return more;
}
