import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { AgentEvent } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { type AgUiEvent, agUiEvents, type StreamOptions } from 'millrace/ui';
import { lastValueFrom, type Observable, toArray } from 'rxjs';
import { question } from '../core/dead-turn.ts';
import { configOf, randomQuestions, randomScript } from '../core/random-turns.ts';
import { turnBench } from '../core/turn-bench.ts';

const bench = turnBench();
let count = 0;

const read = (events$: Observable<AgentEvent>) => lastValueFrom(events$.pipe(toArray()));

const kinds: readonly (readonly [RegExp, 'messageId' | 'toolCallId' | 'stepName' | 'subagentRunId'])[] = [
  [/^TEXT_MESSAGE_/, 'messageId'],
  [/^REASONING_(?!MESSAGE)/, 'messageId'],
  [/^REASONING_MESSAGE_/, 'messageId'],
  [/^TOOL_CALL_(?!RESULT)/, 'toolCallId'],
  [/^STEP_/, 'stepName'],
  [/^SUBAGENT_/, 'subagentRunId'],
];

/** What a client that verifies the order of events would refuse. */
function faultsIn(events: readonly AgUiEvent[]): readonly string[] {
  const faults: string[] = [];
  const open = new Set<string>();
  const begun = new Set<string>();
  if (events[0]?.type !== 'RUN_STARTED') faults.push('no start');
  for (const [at, event] of events.entries()) {
    const isLast = at === events.length - 1;
    if ((event.type === 'RUN_FINISHED' || event.type === 'RUN_ERROR') !== isLast) faults.push(`${event.type} at ${at}`);
    const [pattern, member] = kinds.find(([each]) => each.test(event.type)) ?? [];
    if (!pattern || !member) continue;
    const key = `${pattern} ${Reflect.get(event, member)}`;
    if (/_(START|STARTED)$/.test(event.type)) {
      if (begun.has(key)) faults.push(`${key} again`);
      begun.add(key);
      open.add(key);
    } else if (/_(END|FINISHED|ERROR)$/.test(event.type)) {
      if (!open.delete(key)) faults.push(`${key} ends without a start`);
    } else if (!open.has(key)) faults.push(`${event.type} of ${key}, which is not open`);
  }
  return [...faults, ...[...open].map((key) => `${key} has no end`)];
}

const given = fc.record({
  tools: fc.constantFrom('full' as const, 'names' as const, 'hidden' as const),
  reasoning: fc.boolean(),
});

describe('the order of the events of AG-UI', () => {
  for (const [title, scripts] of [
    ['of any kind', randomScript],
    ['that asks', randomQuestions],
  ] as const) {
    it(`has an end for each start, live, replayed, and after an answer, for a turn ${title}`, async () => {
      await fc.assert(
        fc.asyncProperty(scripts, given, async (script, options) => {
          const taskId = `t${count++}`;
          const config = configOf(script, bench);
          const events = await read(new AgentLoop(config).startTurn(question, { taskId, contextId: 'c' }));
          const encode = (all: readonly AgentEvent[], more: StreamOptions = {}) =>
            all.flatMap(agUiEvents({ ...options, ...more, threadId: 'th', runId: 'r' }));
          expect(faultsIn(encode(events))).toEqual([]);
          expect(faultsIn(encode(await read(AgentLoop.observe(taskId, { store: bench.store }))))).toEqual([]);
          const last = events.at(-1);
          if (last?.kind !== 'status-update' || last.status.state !== 'input-required') return;
          const asked = last.questions ?? [];
          const answers = Object.fromEntries(
            asked.map(({ id, kind }) => [id, kind === 'approval' ? { approved: true } : 'Yes.']),
          );
          const from = last.cursor;
          const next = await read(AgentLoop.resume(taskId, config, { answers, from }));
          expect(faultsIn(encode(next, { from, answered: Object.keys(answers) }))).toEqual([]);
        }),
        { numRuns: 100 },
      );
    });
  }
});
