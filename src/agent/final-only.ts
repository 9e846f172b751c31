import { filter, type MonoTypeOperatorFunction } from 'rxjs';
import type { AgentEvent } from '../core/events.ts';

const answers = /^answer-\d+(\.\d+)?$/;

/**
 * The events of a turn without what the model says on the way: no deltas, no responses. The last event, `status-update` with
 * `final: true`, carries the final text in `status.message`. Leaving it leaves the turn.
 */
export function finalOnly(): MonoTypeOperatorFunction<AgentEvent> {
  return filter((event) => !saysText(event));
}

function saysText(event: AgentEvent): boolean {
  switch (event.kind) {
    case 'artifact-update':
      return answers.test(event.artifact.artifactId);
    case 'internal:llm-response':
    case 'internal:reasoning-delta':
    case 'internal:tool-call-delta':
      return true;
    default:
      return false;
  }
}
