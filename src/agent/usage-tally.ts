import { addUsage, noUsage, type Usage } from '../core/contracts/index.ts';
import type { LoopState } from '../core/journal/index.ts';

/** What turns took, added up. */
export interface UsageSummary {
  /** Turns that ended, however they did. */
  readonly turns: number;
  /** Model calls. */
  readonly iterations: number;
  readonly toolCalls: number;
  readonly usage: Usage;
}

export class UsageTally {
  summary: UsageSummary = { turns: 0, iterations: 0, toolCalls: 0, usage: noUsage };

  /** The usage of model calls that are part of no turn of the agent. */
  addUsage(usage: Usage): void {
    this.summary = { ...this.summary, usage: addUsage(this.summary.usage, usage) };
  }

  /** A turn that ended, with its own usage, or that of its tree. */
  add({ iteration, toolCalls }: Pick<LoopState, 'iteration' | 'toolCalls'>, used: Usage): void {
    const { summary } = this;
    this.summary = {
      turns: summary.turns + 1,
      iterations: summary.iterations + iteration,
      toolCalls: summary.toolCalls + toolCalls,
      usage: addUsage(summary.usage, used),
    };
  }
}
