import { addUsage } from '../core/add-usage.ts';
import { type LoopState, noUsage } from '../core/state.ts';
import type { Usage } from '../providers/interfaces.ts';

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

  /** What was taken between turns. */
  addUsage(usage: Usage): void {
    this.summary = { ...this.summary, usage: addUsage(this.summary.usage, usage) };
  }

  add({ iteration, toolCalls, usage }: Pick<LoopState, 'iteration' | 'toolCalls' | 'usage'>): void {
    const { summary } = this;
    this.summary = {
      turns: summary.turns + 1,
      iterations: summary.iterations + iteration,
      toolCalls: summary.toolCalls + toolCalls,
      usage: addUsage(summary.usage, usage),
    };
  }
}
