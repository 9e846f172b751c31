import { createHash } from 'node:crypto';
import { stableJson } from '../../core/check-answers.ts';

/** What the extension knows of a turn, also behind a crash: it stands in the journal. */
export interface OutputMemory {
  /** How often the model was asked again. */
  readonly retries: number;
  /** Whether it has to give the output now. */
  readonly forced: boolean;
  /** The fingerprint of the output that was accepted: what others make of it is checked anew. */
  readonly accepted?: string;
}

export function memoryOf(data: unknown): OutputMemory {
  const { retries, forced, accepted }: Readonly<Record<string, unknown>> =
    typeof data === 'object' && data !== null ? { ...data } : {};
  return {
    retries: typeof retries === 'number' ? retries : 0,
    forced: forced === true,
    ...(typeof accepted === 'string' ? { accepted } : {}),
  };
}

export function fingerprint(value: unknown): string {
  return createHash('sha256').update(stableJson(value)).digest('hex');
}
