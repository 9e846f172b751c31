import type { Usage } from '../../core/contracts/index.ts';
import { estimateTokens, type TokenCounter } from '../../core/model-call/index.ts';

/** A counter that learns from what the vendor charges. */
export interface CalibratedCounter {
  /** The counts of the counter below, times the factor, rounded up. */
  readonly countTokens: TokenCounter;
  /** Reported tokens for each counted one; 1 before anything was learned. Between 1/4 and 4. */
  readonly factor: number;
  /**
   * Takes in one model call: what the counter *below* made of its whole request (messages and tools), and the usage that
   * the vendor reported. A usage that is itself a guess, or a count of 0, teaches nothing.
   */
  learn(counted: number, usage: Pick<Usage, 'promptTokens' | 'estimated'>): void;
}

/** Each call counts twice as much as the one before it. */
const decay = 0.5;
const largestFactor = 4;

/**
 * Corrects a counter by the usage that the provider reports. The factor is the reported tokens by the counted ones, the
 * latest calls weighing most, so that it follows the language and the model of the conversation. Holds two numbers;
 * counts that were remembered below stay valid, as the factor is applied when they are read.
 */
export function calibrate(counter: TokenCounter = estimateTokens): CalibratedCounter {
  let counted = 0;
  let reported = 0;
  const factor = () => (counted === 0 ? 1 : Math.min(Math.max(reported / counted, 1 / largestFactor), largestFactor));
  return {
    countTokens: (what) => Math.ceil(counter(what) * factor()),
    get factor() {
      return factor();
    },
    learn: (count, usage) => {
      if (usage.estimated === true || count <= 0 || usage.promptTokens <= 0) return;
      counted = counted * decay + count;
      reported = reported * decay + usage.promptTokens;
    },
  };
}
