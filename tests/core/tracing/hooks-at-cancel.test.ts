import { expect, it } from '@jest/globals';
import type { Extension } from 'millrace';
import { gate } from 'millrace/testing';
import { question } from '../tools/run-turn.ts';
import { answers, asks, fruit, tracingBench } from './tracing-bench.ts';

const { bench } = tracingBench();

it.each([
  ['beforeTurn', 0, 'agent.execute'],
  ['shouldPause', 0, 'agent.execute'],
  ['prepareIteration', 0, 'agent.execute'],
  ['beforeLLMCall', 0, 'iteration[1]'],
  ['afterLLMCall', 1, 'iteration[1]'],
  ['beforeToolCall', 1, 'iteration[1]'],
  ['approveToolCall', 1, 'iteration[1]'],
  ['afterToolCall', 1, 'tool[count]'],
  ['afterIteration', 1, 'agent.execute'],
  ['beforeFinish', 2, 'agent.execute'],
] as const)(
  'the span of %s ends first where the turn is cancelled after %d model calls, while it is asked',
  async (hook, calls, parent) => {
    const asked = gate();
    let signal: AbortSignal | undefined;
    const wait = (...given: readonly { readonly signal: AbortSignal }[]) => {
      signal = given.at(-1)?.signal;
      void asked.pass();
      return new Promise<never>(() => {});
    };
    const extensions: readonly Extension[] = [{ name: 'slow', [hook]: wait }];
    const loop = bench.loop([asks('count'), answers].slice(0, calls), { toolProviders: [fruit], extensions });
    const turn = loop.startTurn(question);
    turn.subscribe();
    await asked.reached;
    turn.cancel('enough');
    await turn.settled;
    const spans = bench.spans.inOrderOfEnd();
    const names = spans.map(({ name }) => name);
    const asking = spans.find(({ name }) => name === `hook[slow.${hook}]`);
    const owner = spans.find((span) => span.spanContext().spanId === asking?.parentSpanContext?.spanId);
    expect(owner?.name).toBe(parent);
    expect(names.indexOf(`hook[slow.${hook}]`)).toBeLessThan(names.indexOf(parent));
    expect(signal?.aborted).toBe(true);
    expect(bench.clock.pending).toBe(0);
  },
);
