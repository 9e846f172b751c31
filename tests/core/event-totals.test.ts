import { describe, expect, it } from '@jest/globals';
import { type AgentEvent, type AgentLoopConfig, agentTools, type Extension, LocalToolProvider, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import { agentBench } from '../agent/agent-bench.ts';
import { answerOf, deadTurn, firstCall, intentOf, question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { ofKind, ofRecords, watch } from './watch-events.ts';

const on = agentBench();
const { bench } = on;
const usage = { promptTokens: 10, completionTokens: 5, totalTokens: 15 };
const asks: LLMStep = { text: 'Let me count.', toolCalls: [{ name: 'count' }], usage };
const two: LLMStep = { text: 'Two.', usage };

/** A model whose calls take so long, on the bench's clock. */
const taking = (ms: number, step: LLMStep) => () => {
  bench.clock.advance(ms);
  return step;
};

const counting = () => plainTools({ count: () => bench.clock.advance(40) });

async function observed() {
  const watcher = watch(AgentLoop.observe('t', { store: bench.store, clock: bench.clock }));
  await watcher.ended;
  return watcher.events;
}

const last = (events: readonly AgentEvent[]) => ofKind(events, 'status-update').at(-1);

describe('events', () => {
  it('U-05 say how long model calls, iterations and the turn took, and what it used, live and from the journal', async () => {
    const model = bench.model([taking(100, asks), taking(30, two)]);
    const turn = new AgentLoop(bench.config(model, { toolProviders: [counting()] })).startTurn(question, {
      taskId: 't',
    });
    const live = watch(turn);
    expect(await turn.result()).toMatchObject({ durationMs: 170, usage: { totalTokens: 30 } });
    await live.ended;
    // The clock of whoever looks later is of no matter.
    bench.clock.advance(60_000);
    const later = await observed();
    for (const events of [live.events, later]) {
      expect(ofKind(events, 'internal:llm-response')).toMatchObject([{ durationMs: 100 }, { durationMs: 30 }]);
      expect(ofKind(events, 'internal:iteration-complete')).toMatchObject([
        {
          iteration: 1,
          durationMs: 140,
          response: { message: { content: 'Let me count.', toolCalls: [{}] }, finishReason: 'tool_calls', usage },
        },
        { iteration: 2, durationMs: 30, response: { message: { content: 'Two.' }, finishReason: 'stop', usage } },
      ]);
      expect(last(events)).toMatchObject({ final: true, durationMs: 170, usage: { totalTokens: 30 } });
      const open = ofKind(events, 'status-update').filter(({ final }) => !final);
      expect(open.every((event) => !('usage' in event) && !('durationMs' in event))).toBe(true);
    }
    expect(ofRecords(later)).toEqual(ofRecords(live.events));
  });

  it('U-05 of a turn that fails or is cancelled have what it took until then', async () => {
    const failing = bench.model([taking(100, asks), taking(30, { error: new Error('no line') })]);
    const turn = new AgentLoop(bench.config(failing, { toolProviders: [counting()] })).startTurn(question);
    const watcher = watch(turn);
    const error = await turn.result().catch((thrown) => thrown);
    expect(error).toMatchObject({ code: 'PROVIDER_FAILED', result: { durationMs: 170, usage: { totalTokens: 15 } } });
    await watcher.ended;
    expect(last(watcher.events)).toMatchObject({ final: true, durationMs: 170, usage: error.result.usage });

    const waiting = bench.loop([{ text: 'So f', never: true }]).startTurn(question, { taskId: 't' });
    const reader = watch(waiting);
    await reader.until('artifact-update');
    bench.clock.advance(70);
    await waiting.cancel('enough');
    const { usage: used, durationMs } = last(reader.events) ?? {};
    expect(durationMs).toBe(70);
    expect(used?.totalTokens).toBe(0);
    expect(last(await observed())).toMatchObject({ usage: used, durationMs });
  });

  it('U-05 leave out the time in which a turn was suspended, also where another process resumes it', async () => {
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      parameters: { type: 'object' },
      needsApproval: true,
      execute: () => void bench.clock.advance(40),
    });
    const toolProviders = [new LocalToolProvider([pay])];
    const first = bench.model([taking(100, { toolCalls: [{ name: 'pay' }], usage })]);
    const turn = new AgentLoop(bench.config(first, { toolProviders })).startTurn(question, { taskId: 't' });
    const before = watch(turn);
    expect(await turn.result()).toMatchObject({ status: 'input-required', durationMs: 100 });
    await before.ended;
    expect(last(before.events)).toMatchObject({ final: true, durationMs: 100, usage: { totalTokens: 15 } });
    bench.clock.advance(3_600_000);
    const second = bench.model([taking(30, two)]);
    const answers = { '1:0': { approved: true } };
    const resumed = AgentLoop.resume('t', bench.config(second, { toolProviders }), { answers });
    const after = watch(resumed);
    expect(await resumed.result()).toMatchObject({ status: 'completed', durationMs: 170 });
    await after.ended;
    for (const events of [after.events, await observed()]) {
      expect(ofKind(events, 'internal:iteration-complete')).toMatchObject([{ durationMs: 140 }, { durationMs: 30 }]);
      expect(last(events)).toMatchObject({ final: true, durationMs: 170, usage: { totalTokens: 30 } });
    }
  });

  it('U-05 of a turn whose process died count from its recorded times', async () => {
    deadTurn(bench, [firstCall]);
    bench.clock.advance(500);
    const model = bench.model([taking(100, two)]);
    const turn = AgentLoop.resume('t', bench.config(model));
    const watcher = watch(turn);
    expect(await turn.result()).toMatchObject({ durationMs: 600 });
    await watcher.ended;
    expect(ofKind(watcher.events, 'internal:llm-response')).toMatchObject([{ durationMs: 100 }]);
    expect(ofKind(watcher.events, 'internal:iteration-complete')).toMatchObject([{ durationMs: 600 }]);
  });

  it('U-05 of a journal without options, as an older version wrote it, have the tools', async () => {
    deadTurn(bench, [firstCall, answerOf(['count']), intentOf(0), { type: 'turn.canceled', reason: 'enough' }]);
    expect(ofKind(await observed(), 'internal:llm-call')).toMatchObject([{ options: { tools: [] } }]);
  });

  it('U-05 of child turns have the same, in the turn that calls', async () => {
    const bo = on.agent([two], { id: 'bo' });
    const ada = on.agent([{ toolCalls: [{ name: 'bo', arguments: { message: 'Count.' } }], usage }, two], {
      toolProviders: [agentTools([bo])],
    });
    const turn = ada.startTurn('Ask Bo.');
    const watcher = watch(turn);
    await turn.result();
    const events = watcher.of('internal:sub-agent').map(({ event }) => event);
    expect(ofKind(events, 'internal:iteration-complete')).toMatchObject([
      { response: { message: { content: 'Two.' } } },
    ]);
    expect(ofKind(events, 'status-update').at(-1)).toMatchObject({ final: true, usage: { totalTokens: 15 } });
    expect(last(watcher.events)).toMatchObject({ final: true, usage: { totalTokens: 45 } });
  });
});

describe('the options of internal:llm-call', () => {
  const started = () => bench.store.read('t').filter((record) => record.type === 'llm.start');

  async function ran(steps: readonly LLMStep[], config: Partial<AgentLoopConfig>) {
    const model = bench.model(steps, { info: { model: 'own' } });
    const turn = new AgentLoop(bench.config(model, { toolProviders: [counting()], ...config })).startTurn(question, {
      taskId: 't',
    });
    const watcher = watch(turn);
    await turn.result();
    await watcher.ended;
    expect(ofRecords(await observed())).toEqual(ofRecords(watcher.events));
    return watcher.of('internal:llm-call').map(({ options }) => options);
  }

  it('U-05 are the model, the settings and the names of the tools, without what may be secret', async () => {
    const schema = { type: 'object', properties: { n: { type: 'integer' } } };
    const options = await ran([asks, two], {
      model: 'small',
      temperature: 0.2,
      maxTokens: 100,
      toolChoice: 'auto',
      responseFormat: { type: 'json_schema', name: 'answer', schema },
      providerOptions: { apiKey: 'sk-secret' },
    });
    const all = { model: 'small', temperature: 0.2, maxTokens: 100, toolChoice: 'auto', responseFormat: 'answer' };
    expect(options).toEqual([
      { ...all, tools: ['count'] },
      { ...all, tools: ['count'] },
    ]);
    expect(JSON.stringify(bench.store.read('t'))).not.toContain('sk-secret');
    // Recorded where they change, and nowhere else.
    expect(started().map((record) => 'options' in record)).toEqual([true, false]);
  });

  it('U-05 name the model of the provider where none is asked for', async () => {
    expect(await ran([two], {})).toEqual([{ model: 'own', tools: ['count'] }]);
  });

  it('U-05 follow what hooks change, call by call', async () => {
    const changing: Extension = {
      name: 'changing',
      prepareIteration: (_, { iteration }) =>
        iteration === 1 ? { view: { tools: [], settings: { model: 'large' } } } : undefined,
      afterIteration: ({ iteration }) => (iteration === 2 ? { settings: { temperature: 1 } } : undefined),
    };
    const again: LLMStep = { toolCalls: [{ name: 'count' }] };
    expect(await ran([asks, again, two], { extensions: [changing], model: 'small' })).toEqual([
      { model: 'small', tools: ['count'] },
      { model: 'large', tools: [] },
      { model: 'small', temperature: 1, tools: ['count'] },
    ]);
  });

  it('U-05 of the closing summary have no tools', async () => {
    const summary: LLMStep = { text: 'In short.' };
    const options = await ran([asks, summary], { maxIterations: 1, onLimit: 'summarize' });
    expect(options).toEqual([
      { model: 'own', tools: ['count'] },
      { model: 'own', tools: [] },
    ]);
  });
});
