import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import type { LLMChunk, LLMProvider, LLMResponse, ToolCall } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { concat, map, of, range, Subject } from 'rxjs';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { StackDepths } from './stack-depth.ts';
import { turnBench } from './turn-bench.ts';
import { textOfParts } from './watch-events.ts';

const bench = turnBench();

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

function heapInMb(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed / 1_048_576;
}

const call: ToolCall = { id: 'x', type: 'function', function: { name: 'count', arguments: '{}' } };

/** Asks for a tool in all but the last of `times` calls. Keeps nothing of what it was asked. */
function patientModel(times: number, how: 'at once' | 'later'): LLMProvider & { readonly calls: number } {
  let calls = 0;
  const next = (): LLMResponse => {
    const last = ++calls % times === 0;
    return last
      ? { message: { role: 'assistant', content: 'Done.' } }
      : { message: { role: 'assistant', content: null }, toolCalls: [call] };
  };
  return {
    get calls() {
      return calls;
    },
    call: () => Promise.resolve(next()),
    ...(how === 'at once' && { stream: () => of<LLMChunk>({ type: 'done', response: next() }) }),
  };
}

describe('a long turn', () => {
  it.each([
    ['answer at once', 20_000, 'at once'],
    ['answer later', 5_000, 'later'],
  ] as const)('K-04 of thousands of iterations runs on a flat stack where all %s', async (_, times, how) => {
    const llmProvider = patientModel(times, how);
    const depths = new StackDepths();
    const answer = () => {
      depths.look();
      return how === 'later' ? Promise.resolve(2) : 2;
    };
    const toolProviders = [plainTools({ count: answer })];
    const options = { store: false, maxIterations: times, enableTracing: false, toolProviders };
    const result = await new AgentLoop(bench.config(llmProvider, options)).startTurn(question).result();
    expect(result).toMatchObject({ status: 'completed', text: 'Done.', iterations: times, toolCalls: times - 1 });
    expect(llmProvider.calls).toBe(times);
    expect(depths.spread).toBeLessThan(50);
  });

  it('lets the event loop run meanwhile, also where all answer at once', async () => {
    const llmProvider = patientModel(1_000, 'at once');
    const toolProviders = [plainTools({ count: () => 2 })];
    const config = bench.config(llmProvider, { store: false, maxIterations: 1_000, toolProviders });
    const result = new AgentLoop(config).startTurn(question).result();
    let rounds = 0;
    let over = false;
    void result.then(() => {
      over = true;
    });
    while (!over) {
      rounds++;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(rounds).toBeGreaterThanOrEqual(9);
  });
});

describe('what a turn holds', () => {
  it('S0-61 is given back when it is over: the heap is flat over 10,000 turns', async () => {
    const llmProvider = patientModel(2, 'at once');
    const toolProviders = [plainTools({ count: () => 2 })];
    const loop = new AgentLoop(bench.config(llmProvider, { store: false, enableTracing: false, toolProviders }));
    const run = async (turns: number) => {
      for (let turn = 0; turn < turns; turn++) await loop.startTurn(question).result();
    };
    await run(1_000);
    const before = heapInMb();
    await run(10_000);
    expect(heapInMb() - before).toBeLessThan(2);
  });

  it('grows with the text and not with the deltas: 50,000 of them, and a late reader gets one event', async () => {
    const deltas = 50_000;
    const end = new Subject<LLMChunk>();
    const pieces$ = range(0, deltas).pipe(map((): LLMChunk => ({ type: 'text', text: 'ten chars.' })));
    const llmProvider: LLMProvider = {
      call: () => Promise.reject(new Error('not used')),
      stream: () => concat(pieces$, end),
    };
    const turn = new AgentLoop(bench.config(llmProvider, { store: false })).startTurn(question);
    const before = heapInMb();
    const counts = { first: 0, late: 0 };
    turn.subscribe(() => counts.first++);
    expect(counts.first).toBeGreaterThan(deltas);
    expect(heapInMb() - before).toBeLessThan(6);
    let text = '';
    turn.subscribe((event) => {
      if (event.kind !== 'artifact-update') return;
      counts.late++;
      text += textOfParts(event);
    });
    expect([counts.late, text.length]).toEqual([1, deltas * 10]);
    end.next({ type: 'done', response: { message: { role: 'assistant', content: text } } });
    await turn.settled;
  });
});
