import { describe, expect, it } from '@jest/globals';
import {
  type Extension,
  foldRecords,
  type LLMChunk,
  type LLMProvider,
  limits,
  type Message,
  ModelRegistry,
  type Usage,
} from 'millrace';
import { AgentLoop, estimatePromptTokens } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import type { LimitsOptions } from 'millrace/types';
import { merge, NEVER, of } from 'rxjs';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf } from '../../core/dead-turn.ts';
import { obedient, type PlainTool, plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';
import { ofKind, textOfParts, watch } from '../../core/watch-events.ts';

const bench = turnBench();
const usage = { promptTokens: 60, completionTokens: 40, totalTokens: 100 };
const asks = (...names: readonly string[]): LLMStep => ({
  text: 'Let me see.',
  toolCalls: names.map((name) => ({ name })),
  usage,
});
const answers: LLMStep = { text: 'Two.', usage };
const tools = (more: Readonly<Record<string, PlainTool>> = {}) =>
  plainTools({ count: () => 2, look: () => 'there', fail: () => Promise.reject(new Error('no')), ...more });

function limited(steps: readonly LLMStep[], options: LimitsOptions, more: Readonly<Record<string, PlainTool>> = {}) {
  return bench.loop(steps, { toolProviders: [tools(more)], extensions: [limits(options)] });
}

describe('limits', () => {
  it.each<[string, LimitsOptions, readonly LLMStep[]]>([
    ['max_tool_calls', { maxToolCalls: 1 }, [asks('count', 'count')]],
    ['max_tokens', { maxTokens: 200 }, [asks('count'), asks('look')]],
    ['max_context', { maxContextTokens: 25 }, []],
    ['max_failures', { maxConsecutiveFailures: 2 }, [asks('fail', 'fail')]],
    ['repeated_call', { maxRepeatedCalls: 2 }, [asks('count'), asks('count'), asks('count')]],
  ])('S0-30 fail a turn with LIMIT and the reason %s', async (reason, options, steps) => {
    await expect(limited(steps, options).startTurn(question).result()).rejects.toMatchObject({ code: 'LIMIT', reason });
  });

  it('S0-30 let a turn pass that keeps all of them', async () => {
    const all = {
      maxWallTimeMs: 1_000,
      maxToolCalls: 2,
      maxTokens: 301,
      maxContextTokens: 1_000,
      maxConsecutiveFailures: 2,
      maxRepeatedCalls: 1,
    };
    const result = await limited([asks('fail'), asks('count'), answers], all)
      .startTurn(question)
      .result();
    expect(result).toMatchObject({ status: 'completed', text: 'Two.', reason: 'stop', toolCalls: 2 });
  });

  it('count an answer with a guess where the vendor does not tell what it took', async () => {
    const quiet: LLMStep = { text: 'a'.repeat(400), toolCalls: [{ name: 'count' }] };
    const turn = limited([quiet], { maxTokens: 100 }).startTurn(question, { taskId: 'quiet' });
    await expect(turn.result()).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_tokens' });
    expect(foldRecords(bench.store.read('quiet')).usage).toMatchObject({ estimated: true });
  });

  it('complete with what there is where onLimit is "stop"', async () => {
    const result = await limited([asks('count', 'look')], { maxToolCalls: 1, onLimit: 'stop' })
      .startTurn(question)
      .result();
    expect(result).toMatchObject({ status: 'completed', text: 'Let me see.', reason: 'max_tool_calls' });
    expect(result.messages.slice(1)).toMatchObject([
      { role: 'tool', content: '2' },
      { role: 'tool', status: 'error', content: expect.stringContaining('raise maxToolCalls') },
    ]);
  });

  it('see a round of different calls that comes again and again', async () => {
    const round = [asks('count'), asks('look')];
    const loop = limited([...round, ...round, ...round], { maxRepeatedCalls: 2 });
    await expect(loop.startTurn(question).result()).rejects.toMatchObject({ reason: 'repeated_call' });
  });

  it('do not take calls of one tool with other arguments for the same', async () => {
    const steps = [1, 2, 3].map((n) => ({ toolCalls: [{ name: 'count', arguments: { n } }] }));
    const result = await limited([...steps, answers], { maxRepeatedCalls: 1 })
      .startTurn(question)
      .result();
    expect(result.text).toBe('Two.');
  });

  it('take equal arguments in another order for the same', async () => {
    const steps = ['{"a":1,"b":2}', '{"b": 2, "a": 1}'].map((text) => ({
      toolCalls: [{ name: 'count', arguments: text }],
    }));
    const turn = limited(steps, { maxRepeatedCalls: 1 }).startTurn(question);
    await expect(turn.result()).rejects.toMatchObject({ reason: 'repeated_call' });
  });

  it('count each call once where the calls of a batch run one after another', async () => {
    const steps = [asks('count', 'look', 'count'), answers];
    const extensions = [limits({ maxToolCalls: 3 })];
    const loop = bench.loop(steps, { toolProviders: [tools()], extensions, toolConcurrency: 1 });
    const { messages } = await loop.startTurn(question).result();
    expect(messages.slice(1, 4).map(({ content }) => content)).toEqual(['2', 'there', '2']);
  });

  it('do not look at what calls of earlier turns came to', async () => {
    const earlier = ['a', 'b'].flatMap((id): readonly Message[] => [
      {
        role: 'assistant',
        content: null,
        toolCalls: [{ id, type: 'function', function: { name: 'count', arguments: '{}' } }],
      },
      { role: 'tool', toolCallId: id, content: 'Tool error: no', status: 'error' },
    ]);
    const loop = limited([asks('fail'), answers], { maxConsecutiveFailures: 2, maxRepeatedCalls: 1 });
    const result = await loop.startTurn([...earlier, ...question]).result();
    expect(result).toMatchObject({ status: 'completed', text: 'Two.' });
  });

  it('refuse an option that nobody reads, and none at all', () => {
    expect(() => limits({})).toThrow('limits: no limit is given');
    expect(() => limits({ maxTokens: 0 })).toThrow('maxTokens must be a whole number of at least 1, not 0');
    // @ts-expect-error no list of prices
    expect(() => limits({ maxCost: 1, prices: { find: 7 } })).toThrow('prices must be a list of prices');
    expect(() => limits({ maxTokens: 1, prices: new ModelRegistry() })).toThrow('prices are only used with maxCost');
  });
});

describe('the limit on costs', () => {
  const prices = new ModelRegistry([{ name: 'm', prices: { input: 10, output: 50 } }]);
  const costing = (options: LimitsOptions, steps: readonly LLMStep[]) =>
    new AgentLoop(
      bench.config(bench.model(steps, { info: { model: 'm' } }), {
        toolProviders: [tools()],
        extensions: [limits(options)],
      }),
    );

  it('S0-30 counts what calls took by their prices', async () => {
    const loop = costing({ maxCost: 0.0052, prices }, [asks('count'), asks('look')]);
    await expect(loop.startTurn(question).result()).rejects.toMatchObject({
      code: 'LIMIT',
      reason: 'max_cost',
      message: expect.stringContaining('$0.0052 of $0.0052'),
    });
  });

  it.each<[string, string | undefined, string | undefined]>([
    ['the model of the configuration, where the answer names none', undefined, 'm'],
    ['the model that answered', 'm', 'another'],
    ['the model that was asked, where nobody knows the price of the one that answered', 'm-2030-01-01', 'm'],
  ])('goes by %s', async (_, answered, model) => {
    const message = { role: 'assistant' as const, content: 'Two.' };
    const provider: LLMProvider = {
      info: { model: 'of the provider' },
      call: async () => ({ message, finishReason: 'stop', usage, ...(answered && { model: answered }) }),
    };
    const config = bench.config(provider, {
      extensions: [limits({ maxCost: 1, prices })],
      ...(model && { model }),
    });
    await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    expect(bench.store.read('t').find(({ type }) => type === 'x.limits')).toMatchObject({ data: { cost: 0.0026 } });
  });

  it('takes an answer in place of the model’s for what it says it took: nothing, or what the model of the provider costs', async () => {
    const nothing = { promptTokens: 0, completionTokens: 0, totalTokens: 0 };
    const costOf = async (given: Usage, model: string) => {
      const response = { message: { role: 'assistant' as const, content: 'Known.' }, usage: given };
      const known: Extension = { name: 'known', beforeLLMCall: () => ({ response }) };
      const config = bench.config(bench.model([], { info: { model } }), {
        extensions: [known, limits({ maxCost: 1, prices })],
      });
      const taskId = crypto.randomUUID();
      await new AgentLoop(config).startTurn(question, { taskId }).result();
      return bench.store.read(taskId).find(({ type }) => type === 'x.limits');
    };
    expect(await costOf(nothing, 'of unknown price')).toMatchObject({ data: { cost: 0 } });
    expect(await costOf(usage, 'm')).toMatchObject({ data: { cost: 0.0026 } });
  });

  it('counts in a resumed turn what was spent before', async () => {
    deadTurn(bench, [
      firstCall,
      { ...answerOf(['count']), usage },
      { type: 'x.limits', data: { cost: 0.0052 } },
      intentOf(0),
      resultOf(0, '2'),
    ]);
    const config = bench.config(bench.model([]), {
      toolProviders: [tools()],
      extensions: [limits({ maxCost: 0.0052, prices })],
    });
    await expect(AgentLoop.resume('t', config).result()).rejects.toMatchObject({ reason: 'max_cost' });
  });

  it('fails a turn whose costs nobody knows', async () => {
    const loop = costing({ maxCost: 1, prices: new ModelRegistry([]) }, [answers]);
    await expect(loop.startTurn(question).result()).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining('the price of "m" is not known; set prices of limits'),
    });
    const silent = costing({ maxCost: 1, prices }, [{ text: 'Two.' }]).startTurn(question);
    await expect(silent.result()).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining('the usage of a model call is not known; use a provider that reports usage'),
    });
  });
});

describe('the limit on wall time', () => {
  it.each([
    ['nothing for', {}, 0],
    ['an estimate for a limit on tokens of', { maxTokens: 1_000 }, estimatePromptTokens({ messages: question })],
  ])('counts %s a model call that it leaves before the first word', async (_, options, totalTokens) => {
    const extensions = [limits({ maxWallTimeMs: 500, ...options })];
    const turn = bench.loop([{ never: true }], { extensions }).startTurn(question);
    await watch(turn).until('internal:llm-call');
    bench.clock.advance(500);
    await expect(turn.result()).rejects.toMatchObject({ reason: 'max_wall_time', result: { usage: { totalTokens } } });
  });

  it('S0-30 leaves a running model call', async () => {
    const turn = limited([{ text: 'So far', never: true }], { maxWallTimeMs: 500 }).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('artifact-update');
    bench.clock.advance(500);
    await watcher.ended;
    await expect(turn.result()).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_wall_time' });
  });

  it('takes nothing of an attempt that is void', async () => {
    const restarting: LLMProvider = {
      call: () => Promise.reject(new Error('it streams')),
      stream: () =>
        merge(
          NEVER,
          of<LLMChunk[]>(
            { type: 'text', text: 'Wrong' },
            { type: 'attempt', state: 'void' },
            { type: 'text', text: 'So far' },
          ),
        ),
    };
    const extensions = [limits({ maxWallTimeMs: 500, onLimit: 'stop' })];
    const turn = new AgentLoop(bench.config(restarting, { extensions })).startTurn(question);
    await watch(turn).until('artifact-update', (event) => textOfParts(event) === 'So far');
    bench.clock.advance(500);
    expect(await turn.result()).toMatchObject({ text: 'So far', reason: 'max_wall_time' });
  });

  it('takes what was said so far as the answer where onLimit is "stop"', async () => {
    const limits = { maxWallTimeMs: 500, maxTokens: 1_000, onLimit: 'stop' } as const;
    const loop = limited([{ text: 'So far', never: true }], limits);
    const turn = loop.startTurn(question);
    const watcher = watch(turn);
    await watcher.until('artifact-update');
    bench.clock.advance(500);
    expect(await turn.result()).toMatchObject({
      status: 'completed',
      text: 'So far',
      reason: 'max_wall_time',
      usage: { estimated: true, completionTokens: 2 },
    });
  });

  it('aborts running tools, whose results are recorded', async () => {
    const loop = limited([asks('slow', 'count')], { maxWallTimeMs: 500 }, { slow: obedient });
    const turn = loop.startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:tool-complete');
    bench.clock.advance(500);
    await watcher.ended;
    await expect(turn.result()).rejects.toMatchObject({ code: 'LIMIT', reason: 'max_wall_time' });
    expect(ofKind(watcher.events, 'internal:tool-complete')).toMatchObject([
      { callId: '1:1' },
      { callId: '1:0', error: { code: 'TOOL_TIMEOUT' } },
    ]);
  });

  it('counts from the start of the turn in a resumed one', async () => {
    deadTurn(bench, [firstCall, answerOf(['count']), intentOf(0), resultOf(0, '2')]);
    bench.clock.advance(500);
    const config = bench.config(bench.model([]), {
      toolProviders: [tools()],
      extensions: [limits({ maxWallTimeMs: 500 })],
    });
    await expect(AgentLoop.resume('t', config).result()).rejects.toMatchObject({ reason: 'max_wall_time' });
  });

  it('does not count the time that a turn is suspended', async () => {
    const extensions = [limits({ maxWallTimeMs: 500 })];
    const toolProviders = [tools({ pay: { execute: () => 'paid', needsApproval: true } })];
    const asking = bench.loop([asks('pay')], { toolProviders, extensions });
    const { taskId } = await asking.startTurn(question).result();
    bench.clock.advance(86_400_000);
    const config = bench.config(bench.model([answers]), { toolProviders, extensions });
    const result = await AgentLoop.resume(taskId, config, { answers: { '1:0': { approved: true } } }).result();
    expect(result).toMatchObject({ status: 'completed', text: 'Two.' });
  });

  it('stands around what another extension put in place of the provider', async () => {
    const other = bench.model([{ text: 'From another.', never: true }]);
    const extensions = [{ name: 'other', beforeLLMCall: () => ({ provider: other }) }, limits({ maxWallTimeMs: 500 })];
    const turn = bench.loop([], { extensions }).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('artifact-update');
    bench.clock.advance(500);
    await expect(turn.result()).rejects.toMatchObject({ reason: 'max_wall_time' });
    expect(other.unsubscribed).toBe(1);
  });
});
