import { createHash } from 'node:crypto';
import type { HookContext } from '../../core/contracts/index.ts';
import { stableJson } from '../../core/options/index.ts';

/** The extension's state of a turn; it is journaled, so that it survives a crash. */
export interface OutputMemory {
  /** Whose output it is: where the agent changes, the next one has retries of its own. */
  readonly agentId: string;
  /** How often the model was asked again. */
  readonly retries: number;
  /** Whether it has to give the output now. */
  readonly forced: boolean;
  /** The fingerprint of the output that was accepted: what others make of it is checked anew. */
  readonly accepted?: string;
}

export function memoryOf({ data, agentId }: Pick<HookContext, 'data' | 'agentId'>): OutputMemory {
  const known: Readonly<Record<string, unknown>> = typeof data === 'object' && data !== null ? { ...data } : {};
  const isOwn = known['agentId'] === undefined || known['agentId'] === agentId;
  const { retries, forced, accepted } = isOwn ? known : {};
  return {
    agentId,
    retries: typeof retries === 'number' ? retries : 0,
    forced: forced === true,
    ...(typeof accepted === 'string' ? { accepted } : {}),
  };
}

export function fingerprint(value: unknown): string {
  return createHash('sha256').update(stableJson(value)).digest('hex');
}
