import { describe, expect, it } from '@jest/globals';
import type { AgentLoopConfig } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { ScriptedLLMStep } from 'millrace/testing';
import type { TurnRecord } from 'millrace/types';
import { answerOf, callOf, deadTurn, firstCall, intentOf, question, resultOf } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { outlineOf, watch } from './watch-events.ts';

const bench = turnBench();

/** Two tools that say what they were called with. */
function pairOfTools() {
  const runs: string[] = [];
  const tool = (name: string) => () => {
    runs.push(name);
    return `new ${name}`;
  };
  return { runs, toolProviders: [plainTools({ left: tool('left'), right: tool('right') })] };
}

/** Goes on with a turn whose process died behind `records`, and gives how that went. */
async function resumeBehind(
  records: readonly TurnRecord[],
  steps: readonly ScriptedLLMStep[],
  options: Partial<AgentLoopConfig> = {},
) {
  deadTurn(bench, records);
  const { runs, toolProviders } = pairOfTools();
  const model = bench.model(steps);
  const turn = AgentLoop.resume('t', bench.config(model, { toolProviders, ...options }));
  const watcher = watch(turn);
  const result = await turn.result();
  const newLines = outlineOf(
    watcher.events.filter(({ cursor }) => cursor === undefined || seqOf(cursor) > records.length + 1),
  );
  return { runs, model, result, newLines, requests: model.calls.map(({ messages }) => messages) };
}

function seqOf(cursor: string): number {
  return Number.parseInt(cursor, 10);
}

const resumed = ['resumed', 'status working'];
const secondCall = ['iteration-start 2', 'llm-call 2.1'];
const answered = (iteration: number) => [
  `answer-${iteration} is: "Two."`,
  `answer-${iteration} appends, last: ""`,
  `llm-response ${iteration} stop`,
  `checkpoint after-llm ${iteration}`,
  `checkpoint end ${iteration}`,
  `iteration-complete ${iteration}`,
  'status completed final (stop)',
];
const batchOver = ['checkpoint before-iteration 1', 'iteration-complete 1'];

describe('a turn whose process died', () => {
  it('before the model was called, starts with that', async () => {
    const { requests, newLines } = await resumeBehind([], [{ text: 'Two.' }]);
    expect(requests).toEqual([question]);
    expect(newLines).toEqual([...resumed, 'iteration-start 1', 'llm-call 1.1', ...answered(1)]);
  });

  it('in the model call, calls again as the next attempt, and tells readers to drop the text of the old one', async () => {
    const { requests, newLines } = await resumeBehind([firstCall], [{ text: 'Two.' }]);
    expect(requests).toEqual([question]);
    expect(newLines).toEqual([...resumed, 'llm-attempt-discarded 1.1', 'llm-call 1.2', ...answered(1)]);
  });

  it('S1-79 S1-76 behind the answer, before any call had an intent: the calls run, the model is not asked again', async () => {
    const { runs, requests, newLines } = await resumeBehind(
      [firstCall, answerOf(['left', 'right'])],
      [{ text: 'Two.' }],
    );
    expect(runs).toEqual(['left', 'right']);
    expect(requests).toHaveLength(1);
    expect(newLines).toEqual([
      ...resumed,
      'tool-start 1:0 left',
      'tool-start 1:1 right',
      'tool-complete 1:0 ok',
      'tool-complete 1:1 ok',
      ...batchOver,
      ...secondCall,
      ...answered(2),
    ]);
  });

  it('behind some results: only the missing calls run, and the model reads all in call order', async () => {
    const { runs, requests, newLines } = await resumeBehind(
      [firstCall, answerOf(['left', 'right']), intentOf(1), resultOf(1, 'old right')],
      [{ text: 'Two.' }],
    );
    expect(runs).toEqual(['left']);
    expect(newLines).toEqual([
      ...resumed,
      'tool-start 1:0 left',
      'tool-complete 1:0 ok',
      ...batchOver,
      ...secondCall,
      ...answered(2),
    ]);
    expect(requests[0]).toEqual([
      ...question,
      { role: 'assistant', content: null, toolCalls: [callOf('left', 0), callOf('right', 1)] },
      { role: 'tool', toolCallId: 'id-0', content: 'new left' },
      { role: 'tool', toolCallId: 'id-1', content: 'old right' },
    ]);
  });

  it('S1-76 behind all results: no call runs again, the next iteration begins', async () => {
    const { runs, newLines } = await resumeBehind(
      [firstCall, answerOf(['left']), intentOf(0), resultOf(0, 'old left')],
      [{ text: 'Two.' }],
    );
    expect(runs).toEqual([]);
    expect(newLines).toEqual([...resumed, ...secondCall, ...answered(2)]);
  });

  it('behind an answer without calls, ends with that answer', async () => {
    const { result, newLines } = await resumeBehind([firstCall, answerOf('Two.')], []);
    expect(result).toMatchObject({ status: 'completed', text: 'Two.', iterations: 1 });
    expect(newLines).toEqual([...resumed, ...answered(1).slice(4)]);
  });

  it('in the closing summary, asks for it again, still without tools', async () => {
    const { result, model, newLines } = await resumeBehind(
      [
        firstCall,
        answerOf(['left']),
        intentOf(0),
        resultOf(0, 'old left'),
        { type: 'llm.start', iteration: 2, attempt: 1, summary: true },
      ],
      [{ text: 'Two.' }],
      { maxIterations: 1, onLimit: 'summarize' },
    );
    expect(model.calls[0]?.tools).toBeUndefined();
    expect(result).toMatchObject({ status: 'completed', text: 'Two.', reason: 'unfinished' });
    expect(newLines.slice(0, 4)).toEqual([...resumed, 'llm-attempt-discarded 2.1', 'llm-call 2.2']);
  });

  it('twice, goes on from the records of both', async () => {
    const { runs, result } = await resumeBehind(
      [firstCall, answerOf(['left', 'right']), intentOf(0), resultOf(0, 'old left'), { type: 'turn.resumed' }],
      [{ text: 'Two.' }],
    );
    expect(runs).toEqual(['right']);
    expect(result).toMatchObject({ status: 'completed', toolCalls: 2 });
  });
});
