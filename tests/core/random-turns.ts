import fc from 'fast-check';
import type { AgentLoopConfig } from 'millrace';
import { asyncStore, type LLMStep, type LLMStepCall, type ScriptedLLM, scriptedLLM } from 'millrace/testing';
import { type PlainTool, plainTools } from './plain-tools.ts';
import type { TurnBench } from './turn-bench.ts';

const toolNames = ['instant', 'soon', 'later', 'fails', 'alone', 'nonsense'] as const;

/** What a model does in one turn, and how quickly all else answers. */
export interface RandomScript {
  readonly steps: readonly LLMStep[];
  readonly toolConcurrency: number;
  /** Whether the model answers within `subscribe`. */
  readonly synchronous: boolean;
  readonly store: 'at once' | 'microtask' | 'macrotask';
}

const pieces = fc.array(fc.constantFrom('One', ' two', ' three.', ''), { maxLength: 3 });

function callOf(names: readonly string[]): fc.Arbitrary<LLMStepCall> {
  return fc.record({
    name: fc.constantFrom(...names),
    arguments: fc.constantFrom('{}', '{"of":"apples"}', '{"of":'),
    id: fc.constantFrom('a', 'b', 'c', ''),
  });
}

function askingFor(names: readonly string[]): fc.Arbitrary<LLMStep> {
  return fc
    .record({
      text: pieces,
      toolCalls: fc.array(callOf(names), { minLength: 1, maxLength: 4 }),
      reasoning: fc.constantFrom('Hm.', ''),
    })
    .map(({ reasoning, ...step }) => (reasoning === '' ? step : { ...step, reasoning }));
}

const ending: fc.Arbitrary<LLMStep> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ text: pieces }) },
  { weight: 1, arbitrary: fc.record({ text: pieces, error: fc.constant(new Error('cable cut')) }) },
  {
    weight: 1,
    arbitrary: fc.record({ text: pieces, finishReason: fc.constantFrom('length' as const, 'tool_calls' as const) }),
  },
);

function scriptWith(names: readonly string[]): fc.Arbitrary<RandomScript> {
  return fc.record({
    steps: fc.tuple(fc.array(askingFor(names), { maxLength: 3 }), ending).map(([asks, end]) => [...asks, end]),
    toolConcurrency: fc.integer({ min: 1, max: 4 }),
    synchronous: fc.boolean(),
    store: fc.constantFrom('at once', 'microtask', 'macrotask'),
  });
}

/** Turns of up to four iterations, with any mixture of tools, ending in any way. */
export const randomScript = scriptWith(toolNames);

/** The same, with tools that ask, ask twice, or need approval among them. */
export const randomQuestions = scriptWith([...toolNames, 'asks', 'asks twice', 'guarded', 'guarded', 'asks']);

const execute: Readonly<Record<string, PlainTool>> = {
  instant: () => 'instant',
  soon: async () => 'soon',
  later: () => new Promise((resolve) => setImmediate(() => resolve('later'))),
  fails: () => {
    throw new RangeError('no');
  },
  alone: { sequential: true, execute: async () => 'alone' },
  asks: async ({ ask }) => `was told ${JSON.stringify(ask({ prompt: 'What?' }))}`,
  'asks twice': ({ ask }) => `was told ${ask({ prompt: 'What?' })} and ${ask({ prompt: 'And?' })}`,
  guarded: { needsApproval: true, execute: () => 'guarded' },
};

/** As `execute`, and each may run again after a crash. */
const repeatable = Object.fromEntries(
  Object.entries(execute).map(([name, tool]): [string, PlainTool] => [
    name,
    { ...(typeof tool === 'function' ? { execute: tool } : tool), idempotent: true, onInDoubt: 'retry' },
  ]),
);

/** A model that plays the step that a request has come to: by its number of answers, whatever process asks. */
function modelOf({ steps, synchronous }: RandomScript): ScriptedLLM {
  const calls = Array.from({ length: steps.length * 2 }, () => stepOf);
  function stepOf({ messages }: { readonly messages: readonly { readonly role: string }[] }): LLMStep {
    return (
      steps[messages.filter(({ role }) => role === 'assistant').length] ?? { error: new Error('beyond the script') }
    );
  }
  return scriptedLLM(calls, { synchronous });
}

export function configOf(script: RandomScript, bench: TurnBench): AgentLoopConfig {
  const { toolConcurrency, store } = script;
  const taskStateStore = store === 'at once' ? bench.store : asyncStore(bench.store, { task: store });
  return bench.config(modelOf(script), {
    toolConcurrency,
    taskStateStore,
    toolProviders: [plainTools(repeatable)],
    enableTracing: false,
  });
}
