import type { AgentEvent } from '../contracts/events.ts';
import { Projection, type ProjectionOptions } from './projection.ts';
import { kindOf } from './record-table.ts';
import type { JournalRecord } from './records.ts';
import type { LoopState } from './state.ts';

/**
 * The events of one record, in order: a pure projection, the same for a live turn, a resumed one and a replay. Only the
 * artifact of `llm.done` depends on what was streamed: after deltas what is missing of the text,
 * mostly nothing; where there were none, or they are not its beginning, the whole text.
 */
export function eventsOf(
  before: LoopState | undefined,
  record: JournalRecord,
  options: ProjectionOptions,
): readonly AgentEvent[] {
  const { to = new Projection() } = options;
  if (record.type === 'turn.started') {
    to.begin(record, record.agentId, { record, options });
    return to.started(record);
  }
  const kind = before && kindOf(record.type);
  if (!kind) return [];
  to.begin(before.turn, before.agentId, { record, options });
  return kind.events(to, before, record);
}
