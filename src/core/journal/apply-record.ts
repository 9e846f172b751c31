import { AgentLoopError } from '../contracts/errors.ts';
import { poison, startState } from './fold.ts';
import { kindOf } from './record-table.ts';
import type { JournalRecord } from './records.ts';
import { type Draft, LoopState } from './state.ts';

/**
 * The state after one more record: the pure step that a live turn, a resumed one and a replay have in common. Errors:
 * `SCHEMA` for a journal or a record that is newer than this version, `POISON` for one that cannot stand where it stands.
 */
export function applyRecord(state: LoopState | undefined, record: JournalRecord): LoopState {
  if (record.type === 'turn.started') return startState(state, record);
  if (state === undefined) throw poison(record, 'a journal starts with turn.started');
  const after = new LoopState(state);
  foldInto(after, record);
  return after;
}

/** Folds one more record into a state that nobody has seen yet. Errors as `applyRecord`. */
export function foldInto(state: LoopState, record: JournalRecord): void {
  if (record.seq !== state.seq + 1) throw poison(record, `the record before it is ${state.seq}`);
  if (state.outcome && state.isComplete) throw poison(record, 'the turn has ended before it');
  const kind = kindOf(record.type);
  if (!kind) {
    throw new AgentLoopError(
      'SCHEMA',
      `Record ${record.seq} of task "${state.turn.taskId}" has the type "${record.type}", which this version does not know; update millrace.`,
      { taskId: state.turn.taskId },
    );
  }
  const draft: Draft = state;
  draft.seq = record.seq;
  draft.epoch = record.epoch;
  draft.updatedAt = record.at;
  kind.apply(draft, record);
}

/** The state after all records of a journal. Errors as `applyRecord`, and `POISON` for an empty journal. */
export function foldRecords(records: readonly JournalRecord[]): LoopState {
  let state: LoopState | undefined;
  for (const record of records) state = applyRecord(state, record);
  if (state === undefined) throw new AgentLoopError('POISON', 'The journal is empty: it has no turn.started record.');
  return state;
}
