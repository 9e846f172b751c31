import { describe, expect, it } from '@jest/globals';
import { type AgentEvent, agentTools, type ObserveOptions } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type ScriptedLLMStep } from 'millrace/testing';
import { agentBench } from '../agent/agent-bench.ts';
import { eventually } from '../eventually.ts';
import { plainTools } from './plain-tools.ts';
import { outlineOf, textsOf, watch } from './watch-events.ts';

const on = agentBench();
const ask = (name: string): ScriptedLLMStep => ({ toolCalls: [{ name, arguments: { message: 'Go on.' } }] });

function observe(options: Partial<ObserveOptions> = {}) {
  const { store, clock } = on.bench;
  return watch(AgentLoop.observe('t', { store, clock, descendants: true, ...options }));
}

/** ada → bo → cy; the last piece of cy's text waits for `rest`. */
function tree() {
  const rest = gate();
  const cy = on.agent([{ text: ['De', rest.pass(), 'ep.'] }], { id: 'cy' });
  const bo = on.agent([ask('cy'), { text: 'Cy says deep.' }], { id: 'bo', toolProviders: [agentTools([cy])] });
  const ada = on.agent([ask('bo'), { text: 'So.' }], { toolProviders: [agentTools([bo])] });
  const turn = ada.startTurn('Ask.', { taskId: 't', contextId: 'c' });
  const live = watch(turn);
  const atCy = () =>
    live.until('internal:sub-agent', ({ path, event }) => path.length === 2 && event.kind === 'artifact-update');
  return { rest, turn, live, atCy };
}

/** What the records of each turn became, turn by turn, in order. */
const byTurn = (events: readonly AgentEvent[]) => {
  const turns: Record<string, string[]> = {};
  for (const event of events) {
    const own = event.kind === 'internal:sub-agent' ? event.event : event;
    if (own.cursor === undefined || own.kind === 'artifact-update') continue;
    const path = event.kind === 'internal:sub-agent' ? event.path.map(({ taskId }) => taskId).join('/') : '';
    turns[path] = [...(turns[path] ?? []), ...outlineOf([own])];
  }
  return turns;
};

const below = (events: readonly AgentEvent[]) =>
  events.flatMap((event) => (event.kind === 'internal:sub-agent' && event.path.length === 2 ? [event.event] : []));

describe('AgentLoop.observe with descendants', () => {
  it('shows the events of child turns as the live process does, at any depth, in flat wrappers', async () => {
    const { rest, turn, live, atCy } = tree();
    const observer = observe();
    await atCy();
    await eventually(() => {
      on.bench.clock.advance(10);
      return below(observer.events).length > 0;
    });
    rest.open();
    await turn.settled;
    await observer.ended;
    expect(observer.end).toBe('complete');
    expect(byTurn(observer.events)).toEqual(byTurn(live.events));
    expect(textsOf(below(observer.events))).toEqual({ 'answer-1': 'Deep.' });
    expect(below(observer.events).some(({ kind, cursor }) => kind === 'artifact-update' && cursor === undefined)).toBe(
      true,
    );
    const wrappers = observer.of('internal:sub-agent');
    expect(wrappers.find(({ path }) => path.length === 2)).toMatchObject({
      taskId: 't',
      agentId: 'cy',
      path: [
        { agentId: 'bo', taskId: 't:1:0', callId: '1:0' },
        { agentId: 'cy', taskId: 't:1:0:1:0', callId: '1:0' },
      ],
    });
  });

  it('replays child turns that have ended in front of the results of their calls', async () => {
    const { rest, turn, live } = tree();
    rest.open();
    await turn.settled;
    const observer = observe();
    expect(observer.end).toBe('complete');
    expect(byTurn(observer.events)).toEqual(byTurn(live.events));
    const lines = outlineOf(observer.events);
    const at = (line: string) => lines.indexOf(line);
    expect(at('tool-start 1:0 bo')).toBeGreaterThan(-1);
    expect(at('sub-agent bo/cy: task submitted')).toBeGreaterThan(at('sub-agent bo: tool-start 1:0 cy'));
    expect(at('sub-agent bo: tool-complete 1:0 ok')).toBeGreaterThan(
      at('sub-agent bo/cy: status completed final (stop)'),
    );
    expect(at('tool-complete 1:0 ok')).toBeGreaterThan(at('sub-agent bo: status completed final (stop)'));
    expect(observer.of('status-update').filter(({ final }) => final)).toHaveLength(1);
    expect(observer.events.at(-1)).toMatchObject({ kind: 'status-update', final: true });
  });

  it('after a cursor replays the child turns that were open there from their beginning, and no closed ones', async () => {
    const { rest, turn } = tree();
    rest.open();
    await turn.settled;
    const { events } = observe();
    const own = events.filter(({ kind }) => kind !== 'internal:sub-agent');
    const cursorAt = (kind: AgentEvent['kind']) => own.find((event) => event.kind === kind)?.cursor ?? '';
    const open = observe({ from: cursorAt('internal:tool-start') });
    expect(open.of('internal:sub-agent')).toEqual(events.filter(({ kind }) => kind === 'internal:sub-agent'));
    const closed = observe({ from: cursorAt('internal:tool-complete') });
    expect(closed.of('internal:sub-agent')).toEqual([]);
    expect(closed.end).toBe('complete');
  });

  it('shows the rest of a child turn whose stream is slower than that of its parent, before the result of the call', async () => {
    const { rest, turn, live, atCy } = tree();
    const { store } = on.bench;
    const follow = store.follow.bind(store);
    const silent = new Set(['t:1:0', 't:1:0:1:0']);
    store.follow = (taskId, options) => follow(taskId, silent.has(taskId) ? { from: 1_000 } : options);
    const observer = observe();
    await atCy();
    rest.open();
    await turn.settled;
    await observer.ended;
    expect(byTurn(observer.events)).toEqual(byTurn(live.events));
    const lines = outlineOf(observer.events);
    expect(lines.indexOf('tool-complete 1:0 ok')).toBeGreaterThan(
      lines.indexOf('sub-agent bo: status completed final (stop)'),
    );
  });

  it('completes where the turn suspends, after the question of the child turn', async () => {
    const pay = plainTools({ pay: { needsApproval: true, execute: () => 'paid' } });
    const bo = on.agent([{ toolCalls: [{ name: 'pay' }] }], { id: 'bo', toolProviders: [pay] });
    const ada = on.agent([ask('bo')], { toolProviders: [agentTools([bo])] });
    const turn = ada.startTurn('Pay.', { taskId: 't' });
    const live = watch(turn);
    const early = observe();
    await live.ended;
    await early.ended;
    const late = observe();
    for (const observer of [early, late]) {
      const lines = outlineOf(observer.events);
      expect(lines.some((line) => line.startsWith('sub-agent bo: status input-required final'))).toBe(true);
      expect(observer.events.at(-1)).toMatchObject({ kind: 'status-update', final: true });
    }
    await ada.cancel('t');
  });

  it('leaves no reader and no timer when it is left, at any moment', async () => {
    const { rest, turn, atCy } = tree();
    const first = observe();
    first.leave();
    const waiting = observe();
    await atCy();
    const inChild = observe();
    expect(below(inChild.events).length).toBeGreaterThan(0);
    waiting.leave();
    inChild.leave();
    // The bench finds readers of the store and timers that are left.
    rest.open();
    await turn.settled;
    expect(textsOf(below(inChild.events))).toEqual({ 'answer-1': 'De' });
  });

  it('shows no child turns without descendants', async () => {
    const { rest, turn } = tree();
    rest.open();
    await turn.settled;
    expect(observe({ descendants: false }).of('internal:sub-agent')).toEqual([]);
  });
});
