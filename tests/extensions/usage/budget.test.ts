import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, type Budget, budget, estimateTokens, type LLMProvider, limits, ModelRegistry } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import type { BudgetExtensionOptions } from 'millrace/types';
import { concat, defer, of, throwError } from 'rxjs';
import { question } from '../../core/dead-turn.ts';
import { plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';
import { watch } from '../../core/watch-events.ts';

const bench = turnBench();
const usage = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };
const asks: LLMStep = { text: 'Let me see.', toolCalls: [{ name: 'count' }], usage };
const answers: LLMStep = { text: 'Two.', usage };

function drawing(on: Budget, steps: readonly LLMStep[], options: BudgetExtensionOptions = {}) {
  const model = bench.model(steps, { info: { model: 'm' } });
  const toolProviders = [plainTools({ count: () => 2 })];
  return new AgentLoop(bench.config(model, { toolProviders, extensions: [on.extension(options)], maxTokens: 50 }));
}

describe('budget', () => {
  it('is shared by loops, and refuses the call that does not fit before it is made', async () => {
    const shared = budget({ maxTokens: 250 });
    await drawing(shared, [answers]).startTurn(question).result();
    const late = drawing(shared, [asks]).startTurn(question);
    await expect(late.result()).rejects.toMatchObject({
      code: 'LIMIT',
      reason: 'max_tokens',
      message: expect.stringContaining('50 tokens left'),
    });
    expect(shared.used).toEqual({ promptTokens: 120, completionTokens: 80, totalTokens: 200 });
    expect(shared.left.tokens).toBe(50);
  });

  it('is drawn on by calls of a provider outside of any turn', async () => {
    const shared = budget({ maxTokens: 250, answerTokens: 50 });
    const provider = shared.provider(bench.model([answers, answers]));
    const messages = question;
    await provider.call({ messages });
    await provider.call({ messages });
    await expect(provider.call({ messages })).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_tokens' });
    expect(shared.used).toEqual({ promptTokens: 120, completionTokens: 80, totalTokens: 200 });
  });

  it('completes with what there is where onLimit is "stop"', async () => {
    const result = await drawing(budget({ maxTokens: 150 }), [asks], { onLimit: 'stop' })
      .startTurn(question)
      .result();
    expect(result).toMatchObject({ status: 'completed', text: 'Let me see.', reason: 'max_tokens' });
  });

  it('sets aside what a running call may take', async () => {
    const shared = budget({ maxTokens: 120 });
    const running = drawing(shared, [{ never: true }]).startTurn(question);
    const watcher = watch(running);
    await watcher.until('internal:llm-call');
    await Promise.resolve();
    const { tokens } = shared.left;
    expect(tokens).toBeLessThan(70);
    await expect(drawing(shared, []).startTurn(question).result()).rejects.toMatchObject({ code: 'LIMIT' });
    await running.cancel('enough');
    await watcher.ended;
    // The prompt of the call that was left counts, the answer that it did not give does not.
    expect(shared.left.tokens).toBe(tokens + 50);
    expect(shared.used).toMatchObject({ estimated: true, completionTokens: 0 });
  });

  it('counts what calls that fail have said, and nothing for those that were refused', async () => {
    const shared = budget({ maxTokens: 1_000 });
    const failing = drawing(shared, [{ text: 'Half an ans', error: new Error('broke off') }]);
    await expect(failing.startTurn(question).result()).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
    expect(shared.used).toMatchObject({ completionTokens: 3, estimated: true });
    const before = shared.used.totalTokens;
    const refused = new AgentLoopError('PROVIDER_AUTH', 'The key is wrong.');
    await expect(
      drawing(shared, [{ error: refused }])
        .startTurn(question)
        .result(),
    ).rejects.toThrow();
    expect(shared.used.totalTokens).toBe(before);
  });

  it.each(['budget', 'limits'])(
    'counts what was streamed after a report of the prompt alone, with %s',
    async (which) => {
      const said = 'a'.repeat(400);
      const llmProvider: LLMProvider = {
        call: () => Promise.reject(new Error('The model streams.')),
        stream: ({ noteUsage }) =>
          concat(
            of({ type: 'text' as const, text: said }),
            defer(() => {
              noteUsage?.({ promptTokens: 60, completionTokens: 1, totalTokens: 61 });
              return throwError(() => new Error('broke off'));
            }),
          ),
      };
      const shared = budget({ maxTokens: 10_000 });
      const extensions = which === 'budget' ? [shared.extension()] : [limits({ maxTokens: 10_000 })];
      const turn = new AgentLoop(bench.config(llmProvider, { extensions })).startTurn(question);
      await expect(turn.result()).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
      const used = which === 'budget' ? shared.used : turn.state?.usage;
      expect(used).toMatchObject({ promptTokens: 60, completionTokens: 100, totalTokens: 160, estimated: true });
    },
  );

  it('counts prompt and answer where a provider that does not stream tells nothing', async () => {
    const content = 'a'.repeat(400);
    const llmProvider = { call: async () => ({ message: { role: 'assistant' as const, content } }) };
    const shared = budget({ maxTokens: 10_000 });
    await new AgentLoop(bench.config(llmProvider, { extensions: [shared.extension()] })).startTurn(question).result();
    const answer = estimateTokens({ role: 'assistant', content });
    expect(shared.used).toMatchObject({ completionTokens: answer, estimated: true });
    expect(answer).toBeGreaterThanOrEqual(100);
  });

  it('holds costs', async () => {
    const prices = new ModelRegistry([{ name: 'm', prices: { input: 10, output: 50 } }]);
    const shared = budget({ maxCost: 0.005, prices });
    await expect(drawing(shared, [asks]).startTurn(question).result()).rejects.toMatchObject({ reason: 'max_cost' });
    expect(shared.used.cost).toBe(0.0026);
  });

  it('needs to know what models cost', async () => {
    expect(() => budget({ maxCost: 1 })).toThrow('maxCost needs prices');
    const unknown = budget({ maxCost: 1, prices: new ModelRegistry([]) });
    await expect(drawing(unknown, []).startTurn(question).result()).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });
});
