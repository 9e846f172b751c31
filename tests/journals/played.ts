import { foldRecords, type JournalRecord, toPersisted } from 'millrace';
import { fakeClock } from 'millrace/testing';
import type { TurnResult } from 'millrace/types';
import { RecordingStore, recordsAfter, type Step } from './recorded-steps.ts';
import { begun, type KnownTurn, type Process, resumedBy } from './turns.ts';

/** A recorded turn, as a file of fixtures has it. */
export interface RecordedTurn {
  readonly steps: readonly Step[];
  /** What the fold said of the task after each step that wrote records. */
  readonly folds: readonly Fold[];
  readonly end: End;
}

type Fold = ReturnType<typeof foldOf>;
type End = ReturnType<typeof endOf>;

/** What a fold says in a few members. */
function foldOf(records: readonly JournalRecord[]) {
  const { status, iteration, messages, pendingToolCalls, agentId, usage } = toPersisted(foldRecords(records));
  const open = pendingToolCalls.map(({ id }) => id);
  const roles = messages.map(({ role }) => role).join(' ');
  return { status, agentId, iteration, messages: roles, open, tokens: usage.totalTokens };
}

/** How a turn ended, as its caller learns it. */
export function endOf({ status, text, value, reason, iterations, toolCalls, usage, messages }: TurnResult) {
  return { status, text, value, reason, iterations, toolCalls, usage, messages };
}

/** Starts or resumes the turn, and answers what it asks, each time in a process of its own, until it has ended. */
export async function played(known: KnownTurn, made: () => Process, how: 'start' | 'resume'): Promise<TurnResult> {
  if (how === 'start') await known.begin?.(made());
  const runner = known.runner(made());
  const isStarted = how === 'resume' || known.begin !== undefined;
  let result = await (await (isStarted ? resumedBy(runner) : begun(runner))).result();
  while (result.questions.length > 0) {
    const answers = Object.fromEntries(result.questions.map(({ id }) => [id, known.answers?.[id]]));
    result = await (await resumedBy(known.runner(made()), answers)).result();
  }
  return result;
}

/** Runs the turn to its end, on a clock of its own, which passes while model calls fail. */
export async function recorded(known: KnownTurn): Promise<RecordedTurn> {
  const clock = fakeClock({ startAt: Date.UTC(2026, 0, 1) });
  const store = new RecordingStore({ clock });
  const made = () => ({ store, clock, ran: () => {}, failures: known.failures ?? 0 });
  let isOver = false;
  const end = played(known, made, 'start').finally(() => {
    isOver = true;
  });
  end.catch(() => {});
  while (!isOver) {
    for (let round = 0; round < 20; round++) await new Promise((resolve) => setImmediate(resolve));
    if (known.failures) clock.advance(500);
  }
  return { steps: store.steps, folds: foldsOf(store.steps), end: endOf(await end) };
}

/** What the fold says of the task after each step that writes records. */
export function foldsOf(steps: readonly Step[]): readonly Fold[] {
  return steps.flatMap((step, index) => {
    if (step.do !== 'create' && step.do !== 'append') return [];
    const task = step.do === 'create' ? step.record.taskId : step.taskId;
    return [foldOf(recordsAfter(steps.slice(0, index + 1)).get(task) ?? [])];
  });
}
