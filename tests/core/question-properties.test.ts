import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Question, Turn } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { question } from './dead-turn.ts';
import { configOf, type RandomScript, randomQuestions } from './random-turns.ts';
import { turnBench } from './turn-bench.ts';
import { ofRecords, watch } from './watch-events.ts';

const bench = turnBench();
let count = 0;

/** What is answered depends on the call alone, so that it is the same however it gets there. */
function answerTo({ callId, kind, prompt }: Question): unknown {
  if (kind === 'approval')
    return Number(callId.at(-1)) % 2 === 0 ? { approved: true } : { approved: false, reason: 'no' };
  return `${prompt} ${callId}`;
}

const answersTo = (questions: readonly Question[]) =>
  Object.fromEntries(questions.map((each) => [each.id, answerTo(each)]));

function start(script: RandomScript) {
  const taskId = `t${count++}`;
  const config = configOf(script, bench);
  return { taskId, config, turn: new AgentLoop(config).startTurn(question, { taskId, contextId: 'c' }) };
}

/** Answers each question from within the handler that is told of it. */
async function answeredAtOnce(script: RandomScript) {
  const { taskId, turn } = start(script);
  const live = watch(turn, (event) => {
    if (event.kind !== 'status-update' || event.final) return;
    for (const each of event.questions ?? []) turn.answer(each.id, answerTo(each));
  });
  return { taskId, live, outcome: await outcomeOf(turn) };
}

/** Lets the turn suspend, answers some of its questions in one way or another, and goes on in what might be another process. */
async function answeredLater(script: RandomScript, ways: readonly number[]) {
  const { taskId, config, turn } = start(script);
  let now = turn;
  for (let round = 0; ; round++) {
    const outcome = await outcomeOf(now);
    await now.settled;
    if (outcome.status !== 'input-required') return { taskId, outcome, rounds: round };
    const way = ways[round % ways.length] ?? 0;
    const some = way % 2 === 0 ? outcome.questions : outcome.questions.slice(0, 1);
    const answers = answersTo(some);
    if (way > 1) await AgentLoop.answer(taskId, { store: bench.store, answers, clock: bench.clock });
    now = AgentLoop.resume(taskId, { ...config, taskStateStore: bench.store }, way > 1 ? {} : { answers });
  }
}

async function outcomeOf(turn: Turn) {
  const [settled] = await Promise.allSettled([turn.result()]);
  const told = settled?.status === 'fulfilled' ? settled.value : settled?.reason.result;
  const { text, allText, messages, toolCalls, status, reason, questions } = told;
  return { text, allText, messages, toolCalls, status, reason, questions: questions as readonly Question[] };
}

it('a turn that asks comes to the same end, whenever and however it is answered', async () => {
  let suspended = 0;
  const ways = fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 4 });
  const property = fc.asyncProperty(randomQuestions, ways, async (script, how) => {
    const once = await answeredAtOnce(script);
    const later = await answeredLater(script, how);
    expect(later.outcome).toEqual(once.outcome);
    suspended += later.rounds;
    const types = bench.store.read(once.taskId).map(({ type }) => type);
    expect(types).not.toContain('turn.suspended');
    const observed = watch(AgentLoop.observe(once.taskId, { store: bench.store }));
    expect(ofRecords(observed.events)).toEqual(ofRecords(once.live.events));
    const results = bench.store
      .read(later.taskId)
      .flatMap((each) => (each.type === 'tool.result' ? [each.callId] : []));
    expect(new Set(results).size).toBe(results.length);
    expect(bench.store.list({ limit: 1 })).toMatchObject([{ held: false }]);
  });
  await fc.assert(property, { numRuns: 60 });
  expect(suspended).toBeGreaterThan(10);
});

it('a question that is shown again after its answer, while the turn ends, may be answered again', async () => {
  const none = { text: [] };
  const toolCalls = ['fails', 'guarded', 'instant', 'guarded'].map((name, of) => ({
    name,
    arguments: '{}',
    id: `${of}`,
  }));
  const script = { steps: [{ toolCalls }, none], toolConcurrency: 2, synchronous: true, store: 'macrotask' as const };
  const { live, outcome } = await answeredAtOnce(script);
  expect(outcome.status).toBe('completed');
  const shown = live.events.flatMap((event) => (event.kind === 'status-update' ? (event.questions ?? []) : []));
  expect(shown.map(({ id }) => id)).toEqual(['1:1', '1:1', '1:3', '1:3']);
});
