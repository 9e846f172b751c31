import { afterEach, expect } from '@jest/globals';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';
import type { AgentLoopConfig, StartOptions, ToolProvider } from 'millrace';
import type { FakeClock, LLMStep, ScriptedLLMStep } from 'millrace/testing';
import { endingOf, outlivingTheirParents } from '../operators/recorded-spans.ts';
import { plainTools } from '../plain-tools.ts';
import { runTurn } from '../tools/run-turn.ts';
import { type TurnBench, turnBench } from '../turn-bench.ts';

export const usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };

/** An answer that asks for a call of each tool. */
export function asks(...names: readonly string[]): LLMStep {
  return { toolCalls: names.map((name) => ({ name })), usage };
}

export const answers: LLMStep = { text: 'Two.', usage };

export const fruit = plainTools({
  count: () => 2,
  weigh: () => 3,
  broken: () => {
    throw new RangeError('no apples');
  },
});

interface Scene extends StartOptions {
  readonly steps: readonly ScriptedLLMStep[];
  readonly tools?: ToolProvider;
  readonly config?: Partial<AgentLoopConfig>;
  /** Passes while the turn runs. */
  readonly clock?: FakeClock;
}

/** Gives each test of a file a bench for turns whose spans it looks at: all of them end, and none outlives its parent. */
export function tracingBench() {
  const bench: TurnBench = turnBench();
  afterEach(() => {
    expect(outlivingTheirParents(bench.spans.inOrderOfEnd())).toEqual([]);
    expect(bench.spans.ended).toBe(bench.spans.started);
  });
  return {
    bench,
    traced({ steps, tools = fruit, config, ...options }: Scene) {
      return runTurn(bench.loop(steps, { toolProviders: [tools], ...config }), options);
    },
    /** The one span with that name. */
    named(name: string): ReadableSpan {
      const [span, ...others] = bench.spans.spans().filter((each) => each.name === name);
      if (span === undefined || others.length > 0)
        throw new Error(`There are ${others.length + (span ? 1 : 0)} spans ${name}.`);
      return span;
    },
    /** How each span ended, by name. */
    endings(): Readonly<Record<string, ReturnType<typeof endingOf>>> {
      return Object.fromEntries(bench.spans.spans().map((span) => [span.name, endingOf(span)]));
    },
  };
}
