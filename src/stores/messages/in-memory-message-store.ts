import { AgentLoopError, type Clock, systemClock } from '../../core/contracts/index.ts';
import { checkArguments, messageStoreArguments } from '../check-arguments.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { MemoryTable } from '../table/table.ts';
import { type ContextLimit, TableMessageStore } from './table-message-store.ts';

export interface InMemoryMessageStoreOptions {
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
  /** How many contexts are kept; beyond it, the one written to longest ago that has no open turn is deleted. Default: all. */
  readonly maxContexts?: number | undefined;
}

const optionNames: OptionNames<InMemoryMessageStoreOptions> = { clock: true, maxContexts: true };

/**
 * Keeps contexts in the memory of this process: for tests, development, and agents that need not outlive it.
 *
 * Every method answers at once, without a promise, and throws instead of rejecting. Messages are kept as JSON: `load` gives new objects.
 * Several agents of one process may use one instance.
 *
 * Memory: every context stays until `delete`, or until `maxContexts` others were written to after it.
 */
export class InMemoryMessageStore extends TableMessageStore<'now', 'now'> {
  static {
    checkArguments(InMemoryMessageStore.prototype, messageStoreArguments);
  }

  /** Errors: `INVALID_CONFIG`, naming the option. */
  constructor(options: InMemoryMessageStoreOptions = {}) {
    assertKnownOptions('InMemoryMessageStore', options, optionNames);
    const { clock = systemClock, maxContexts = Number.POSITIVE_INFINITY } = options;
    if (!(maxContexts >= 1)) {
      const message = `maxContexts is ${maxContexts}; give a number from 1, or leave it out to keep all.`;
      throw new AgentLoopError('INVALID_CONFIG', message);
    }
    const limit = maxContexts === Number.POSITIVE_INFINITY ? undefined : keepingNewest(maxContexts);
    super(new MemoryTable(), { clock, limit });
  }
}

function keepingNewest(most: number): ContextLimit {
  /** By id, the one written to longest ago first: whether it has an open turn. */
  const known = new Map<string, boolean>();
  return {
    written(head) {
      known.delete(head.contextId);
      known.set(head.contextId, head.open > 0);
      const old: string[] = [];
      for (const [contextId, isOpen] of known) {
        if (known.size - old.length <= most || contextId === head.contextId) break;
        if (!isOpen) old.push(contextId);
      }
      return old;
    },
    deleted: (contextId) => known.delete(contextId),
  };
}
