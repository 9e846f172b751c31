import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { AgentEvent } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { type UIMessageOptions, uiMessageChunks } from 'millrace/ui';
import { lastValueFrom, type Observable, toArray } from 'rxjs';
import { question } from '../core/dead-turn.ts';
import { configOf, type RandomScript, randomQuestions, randomScript } from '../core/random-turns.ts';
import { turnBench } from '../core/turn-bench.ts';
import { type FoldedMessage, foldedOf, type UIPart } from './fold-ui-message.ts';

const bench = turnBench();
let count = 0;

/** Each delta by itself: no reader is slow here. */
function read(events$: Observable<AgentEvent>): Promise<readonly AgentEvent[]> {
  return lastValueFrom(events$.pipe(toArray()));
}

function folded(events: readonly AgentEvent[], options: UIMessageOptions, message?: FoldedMessage): FoldedMessage {
  return foldedOf(events.flatMap(uiMessageChunks(options)), message);
}

/** Runs a turn, answering what it asks, and reads it as a client does: what follows an answer is added to the same message. */
async function live(script: RandomScript, taskId: string, options: UIMessageOptions): Promise<FoldedMessage> {
  const config = configOf(script, bench);
  const turn = new AgentLoop(config).startTurn(question, { taskId, contextId: 'c' });
  let events = await read(turn);
  let message = folded(events, options);
  const answered: string[] = [];
  for (;;) {
    const last = events.at(-1);
    if (last?.kind !== 'status-update' || last.status.state !== 'input-required') return message;
    const asked = last.questions ?? [];
    const answers = Object.fromEntries(
      asked.map(({ id, kind }) => [id, kind === 'approval' ? { approved: true } : 'Yes.']),
    );
    answered.push(...Object.keys(answers));
    message.continue();
    const from = last.cursor;
    events = await read(AgentLoop.resume(taskId, config, { answers, from }));
    message = folded(events, { ...options, from, answered }, message);
  }
}

/** Without what a replay cannot have: the text and the calls of an answer that never came, and who approved. */
function recorded({ parts }: FoldedMessage, events: readonly AgentEvent[]): readonly UIPart[] {
  const answered = new Set(
    events.flatMap((event) => (event.kind === 'internal:llm-response' ? [event.iteration] : [])),
  );
  let iteration = 0;
  return parts.flatMap(({ approvalId: _, ...part }) => {
    if (part.type === 'step-start') iteration++;
    return part.type === 'step-start' || answered.has(iteration) ? [part] : [];
  });
}

const seeds = { numRuns: 100 };
const options = fc.record({
  tools: fc.constantFrom('full' as const, 'names' as const, 'hidden' as const),
  reasoning: fc.boolean(),
  sdk: fc.constantFrom(6 as const, 7 as const),
});

describe('the UI message of a turn', () => {
  for (const [title, scripts] of [
    ['of any kind', randomScript],
    ['that asks', randomQuestions],
  ] as const) {
    it(`V-05 is the same live and observed after the end, for a turn ${title}`, async () => {
      await fc.assert(
        fc.asyncProperty(scripts, options, async (script, given) => {
          const taskId = `t${count++}`;
          const message = await live(script, taskId, given);
          const events = await read(AgentLoop.observe(taskId, { store: bench.store }));
          const again = folded(events, given);
          expect(recorded(message, events)).toEqual(recorded(again, events));
          expect([again.id, again.metadata, again.error]).toEqual([taskId, message.metadata, message.error]);
        }),
        seeds,
      );
    });
  }
});
