import { type LLMProvider, type Logger, type MessageStore, messageOf, type Usage } from '../core/contracts/index.ts';
import { compactConversation, compactionOf, withCompaction } from '../extensions/compact-history.ts';
import type { CompactionOptions } from '../extensions/context/compaction-options.ts';
import type { ResolvedAgent } from './resolve-agent.ts';

interface BetweenTurnsOptions {
  readonly messageStore: MessageStore;
  readonly compaction: CompactionOptions;
  readonly provider: LLMProvider;
  readonly model: string | undefined;
  readonly logger: Logger | undefined;
  readonly onUsage: (usage: Usage) => void;
}

/** For an agent; `undefined` where its contexts are not compacted. */
export function betweenTurnsOf(
  { settings, messageStore, loop }: ResolvedAgent,
  onUsage: BetweenTurnsOptions['onUsage'],
): BetweenTurns | undefined {
  const { contextManagement, logger } = settings;
  if (contextManagement === null || contextManagement?.compaction === null) return undefined;
  const { llmProvider: provider, model } = loop;
  const compaction = contextManagement?.compaction ?? {};
  return new BetweenTurns({ messageStore, compaction, provider, model, logger, onUsage });
}

/** Compacts contexts after the end of their turns, so that only the next turn of the same context waits for it. */
export class BetweenTurns {
  readonly #options: BetweenTurnsOptions;
  readonly #leave = new AbortController();
  readonly #works = new Map<string, Promise<void>>();

  constructor(options: BetweenTurnsOptions) {
    this.#options = options;
  }

  /** Looks whether a context has become too long. What fails is logged: the next turn looks again. */
  start(contextId: string): void {
    if (this.#leave.signal.aborted || this.#works.has(contextId)) return;
    const work = this.#compact(contextId)
      .catch((error: unknown) =>
        this.#options.logger?.warn('compaction failed', { contextId, error: messageOf(error) }),
      )
      .finally(() => this.#works.delete(contextId));
    this.#works.set(contextId, work);
  }

  /** Resolves once nothing is done to a context. */
  async settled(contextId: string): Promise<void> {
    await this.#works.get(contextId);
  }

  /** Leaves what is under way; resolves once it has stopped. */
  async close(): Promise<void> {
    this.#leave.abort(new Error('the agent is closed'));
    await Promise.all(this.#works.values());
  }

  async #compact(contextId: string): Promise<void> {
    const { messageStore, compaction: options, provider, model, onUsage } = this.#options;
    const { messages, metadata, version } = await messageStore.load(contextId);
    const compacted = await compactConversation(messages, options, {
      provider,
      ...(model === undefined ? {} : { model }),
      compaction: compactionOf(metadata),
      signal: this.#leave.signal,
      noteUsage: onUsage,
    });
    if (!compacted) return;
    onUsage(compacted.usage);
    await messageStore.setMetadata(contextId, withCompaction(metadata, compacted.compaction), { version });
  }
}
