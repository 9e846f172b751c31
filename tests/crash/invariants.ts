import { foldRecords, type JournalRecord, type LoopState, textOf } from 'millrace';
import { isTerminal, messageOf } from 'millrace/internals';
import { checkExecutions } from './executions.ts';
import { finalText, isRepeated, type Plan, since } from './workload/plan.ts';
import type { Deed } from './workload/world.ts';

/** All that is left of a task once it has ended: its journal, and what the world noted of it. */
export interface Remains {
  readonly taskId: string;
  readonly plan: Plan;
  readonly records: readonly JournalRecord[];
  readonly deeds: readonly Deed[];
  /** Processes that were paused: what they do when they wake up is not in the order of time. */
  readonly paused: ReadonlySet<number>;
  /** The turn was cancelled: it did not come to the end of its plan. */
  readonly isCut?: boolean;
  /** Its answer is the results of its calls, a paragraph each. */
  readonly isJoined?: boolean;
  /** Its answer, where the turn does not make it itself. */
  readonly answer?: string | undefined;
}

/** What of the promises of durability a task broke, a sentence each. */
export function violationsOf(remains: Remains): readonly string[] {
  const { taskId, records } = remains;
  const broken: string[] = [];
  const say = (invariant: string, detail: string) => broken.push(`${taskId}: ${invariant}: ${detail}`);
  let state: LoopState;
  try {
    state = foldRecords(records);
  } catch (error) {
    say('the journal folds', messageOf(error));
    return broken;
  }
  checkOrder(records, say);
  checkModelCalls(remains, say);
  checkEnd(remains, state, say);
  checkShown(remains, say);
  checkStopped(remains, say);
  checkExecutions(remains, say);
  return broken;
}

export type Say = (invariant: string, detail: string) => void;

function checkOrder(records: readonly JournalRecord[], say: Say): void {
  let epoch = 0;
  for (const [index, record] of records.entries()) {
    if (record.seq !== index + 1) say('the journal is gapless', `record ${record.seq} stands at ${index + 1}`);
    if (record.epoch < epoch) say('epochs never go back', `record ${record.seq} has ${record.epoch} after ${epoch}`);
    epoch = record.epoch;
  }
}

function checkModelCalls({ records, deeds, plan, paused, isCut = false }: Remains, say: Say): void {
  const doneAt = new Map<number, number>();
  const attempts = new Map<number, number>();
  for (const record of records) {
    if (record.type === 'llm.start') {
      const before = attempts.get(record.iteration) ?? 0;
      if (record.attempt !== before + 1)
        say('attempts count on', `llm.start ${record.iteration} has ${record.attempt}`);
      attempts.set(record.iteration, record.attempt);
    } else if (record.type === 'llm.done') {
      if (doneAt.has(record.iteration)) say('one llm.done an iteration', `two of iteration ${record.iteration}`);
      if (record.attempt !== attempts.get(record.iteration))
        say('an answer belongs to the last attempt', `iteration ${record.iteration}`);
      doneAt.set(record.iteration, record.at);
      const planned = plan[record.iteration - 1] ?? [];
      const distinct = planned.flatMap((_, at) => (isRepeated(planned, at) ? [] : [`${record.iteration}:${at}`]));
      if (record.calls.map(({ callId }) => callId).join() !== distinct.join())
        say('the model said what is recorded', `iteration ${record.iteration}`);
    }
  }
  if (!isCut && doneAt.size !== plan.length + 1)
    say('every iteration is there', `${doneAt.size} of ${plan.length + 1}`);
  for (const deed of deeds) {
    if (deed.type !== 'model' || paused.has(deed.pid)) continue;
    const done = doneAt.get(deed.iteration);
    if (done !== undefined && deed.at > done)
      say('no model call after its answer was recorded', `iteration ${deed.iteration}`);
  }
}

function checkEnd({ records, answer, isCut = false, isJoined = false }: Remains, state: LoopState, say: Say): void {
  const ends = records.filter(isTerminal);
  if (ends.length !== 1) say('one terminal record', `there are ${ends.length}`);
  const last = records.at(-1);
  if (last === undefined || !isTerminal(last)) say('the terminal record is the last', `it is ${last?.type}`);
  if (isCut) return;
  const text = answer ?? (isJoined ? joinedText(state.messages) : finalText(state.messages));
  if (last?.type !== 'turn.done' || last.text !== text)
    say('the turn ends as its script says', JSON.stringify(last).slice(0, 300));
  const told = since(state.messages).filter(({ role }) => role === 'tool');
  const recorded = records.filter(({ type }) => type === 'tool.result');
  if (told.length !== recorded.length) say('every result reaches the model', `${told.length} of ${recorded.length}`);
  for (const message of told) if (textOf(message.content) === '') say('no result is empty', JSON.stringify(message));
}

function joinedText(messages: LoopState['messages']): string {
  return since(messages)
    .flatMap(({ role, content }) => (role === 'tool' ? [textOf(content)] : []))
    .join('\n\n');
}

function checkShown({ records, deeds }: Remains, say: Say): void {
  const known = new Set(records.map(({ seq, epoch }) => `${seq}-${epoch}`));
  for (const deed of deeds) {
    if (deed.type === 'shown' && !known.has(deed.record)) say('what was shown is recorded', `record ${deed.record}`);
  }
}

function checkStopped({ deeds }: Remains, say: Say): void {
  for (const deed of deeds) {
    if (deed.type === 'unstopped')
      say('who has lost or ended a turn has stopped its work', `${deed.work} in ${deed.pid}`);
  }
}
