import { filter, type MonoTypeOperatorFunction, map } from 'rxjs';
import type { AgentEvent } from '../core/contracts/index.ts';

const answers = /^answer-\d+(\.\d+)?$/;

/**
 * The events of a turn, and of its sub-agents, without what the model says on the way: no deltas, no responses. The last event, `status-update` with
 * `final: true`, carries the final text in `status.message`. Leaving it leaves the turn.
 */
export function finalOnly(): MonoTypeOperatorFunction<AgentEvent> {
  return (events$) =>
    events$.pipe(
      filter((event) => !saysText(event)),
      map((event) => (event.kind === 'internal:sub-agent' ? { ...event, event: silent(event.event) } : silent(event))),
    );
}

/** The same event without the text of a response that it has besides. */
function silent<E extends AgentEvent>(event: E): E {
  if (event.kind !== 'internal:iteration-complete') return event;
  const { message } = event.response;
  const calls = message.role === 'assistant' && message.toolCalls ? { toolCalls: message.toolCalls } : {};
  return { ...event, response: { ...event.response, message: { role: 'assistant', content: null, ...calls } } };
}

function saysText(event: AgentEvent): boolean {
  switch (event.kind) {
    case 'artifact-update':
      return answers.test(event.artifact.artifactId);
    case 'internal:llm-response':
    case 'internal:reasoning-delta':
    case 'internal:tool-call-delta':
      return true;
    case 'internal:sub-agent':
      return saysText(event.event);
    default:
      event.kind satisfies
        | 'task'
        | 'status-update'
        | 'internal:iteration-start'
        | 'internal:iteration-complete'
        | 'internal:llm-call'
        | 'internal:llm-attempt-discarded'
        | 'internal:tool-start'
        | 'internal:tool-progress'
        | 'internal:tool-complete'
        | 'internal:checkpoint'
        | 'internal:paused'
        | 'internal:resumed'
        | 'internal:extension-error'
        | `internal:x.${string}`;
      return false;
  }
}
