import { describe, expect, it } from '@jest/globals';
import { type Extension, InMemoryStateStore, limits, type ToolContext, type Usage } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import { question } from '../dead-turn.ts';
import { plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';

const bench = turnBench();
const three: Usage = { promptTokens: 2, completionTokens: 1, totalTokens: 3 };
const answer: Usage = { promptTokens: 10, completionTokens: 10, totalTokens: 20 };

const done: LLMStep = { text: 'Done.', usage: answer };

/** A turn whose model calls `think` once. */
function thinking(think: (context: ToolContext) => unknown, extensions: readonly Extension[] = [], rest = [done]) {
  const steps = [{ toolCalls: [{ name: 'think' }], usage: answer }, ...rest];
  const taskStateStore = new InMemoryStateStore();
  const config = bench.config(bench.model(steps), {
    toolProviders: [plainTools({ think })],
    extensions,
    taskStateStore,
  });
  const recordsOf = async (type: string) => (await taskStateStore.read('t')).filter((record) => record.type === type);
  return { config, turn: new AgentLoop(config).startTurn(question, { taskId: 't' }), recordsOf };
}

describe('what a tool tells of its own model calls', () => {
  it('is part of the usage of the turn, and stands with the result; what is no usage is passed over', async () => {
    const { turn, recordsOf } = thinking(({ noteUsage }) => {
      noteUsage(three);
      Reflect.apply(noteUsage, undefined, [{ totalTokens: 'many' }]);
      Reflect.apply(noteUsage, undefined, [null]);
      noteUsage(three);
      return 'thought';
    });
    expect((await turn.result()).usage).toEqual({ promptTokens: 24, completionTokens: 22, totalTokens: 46 });
    expect(await recordsOf('tool.result')).toMatchObject([
      { content: 'thought', usage: { promptTokens: 4, completionTokens: 2, totalTokens: 6 } },
    ]);
  });

  it('counts where the tool fails, and where an extension changes its result', async () => {
    const failing = thinking(({ noteUsage }) => {
      noteUsage(three);
      throw new Error('no idea');
    });
    expect((await failing.turn.result()).usage.totalTokens).toBe(43);
    const change: Extension = { name: 'change', afterToolCall: () => ({ result: { content: 'other' } }) };
    const changed = thinking(
      ({ noteUsage }) => {
        noteUsage(three);
        return 'thought';
      },
      [change],
    );
    expect((await changed.turn.result()).usage.totalTokens).toBe(43);
    expect(await changed.recordsOf('tool.result')).toMatchObject([{ content: 'other', usage: three }]);
  });

  it('counts where the tool asks, each attempt once', async () => {
    const { config, turn, recordsOf } = thinking(({ noteUsage, ask }) => {
      noteUsage(three);
      return String(ask({ prompt: 'Which?' }));
    });
    expect((await turn.result()).usage.totalTokens).toBe(23);
    expect(await recordsOf('turn.asked')).toMatchObject([{ usage: three }]);
    const ended = await AgentLoop.resume('t', config, { answers: { '1:0': 'this' } }).result();
    expect(ended.usage.totalTokens).toBe(46);
  });

  it('counts to the limits of the turn', async () => {
    const { turn } = thinking(
      ({ noteUsage }) => {
        noteUsage({ promptTokens: 100, completionTokens: 0, totalTokens: 100 });
        return 'thought';
      },
      [limits({ maxTokens: 110 })],
      [],
    );
    await expect(turn.result()).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_tokens' });
  });
});
