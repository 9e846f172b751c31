import type { AgentEvent, StatusUpdateEvent, SubAgentEvent } from '../core/contracts/index.ts';
import { duration } from './duration.ts';

/** What a turn amounted to, from its events. */
export interface Tally {
  readonly iterations: number;
  readonly toolCalls: number;
  /** Of the turn and its descendants, as far as they were shown. */
  readonly tokens: number;
  /** The last record of each descendant that was counted, by its task id. */
  readonly counted?: Readonly<Record<string, number>>;
  /** Milliseconds since 1970: of the start, or where the turn was resumed, of the last time. */
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** Of the turn. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** The event that closed the stream. */
  readonly final?: StatusUpdateEvent;
}

export const emptyTally: Tally = { iterations: 0, toolCalls: 0, tokens: 0 };

export function addToTally(tally: Tally, event: AgentEvent): Tally {
  switch (event.kind) {
    case 'task': {
      const { metadata } = event;
      return { ...tally, startedAt: Date.parse(event.timestamp), ...(metadata && { metadata }) };
    }
    case 'internal:resumed':
      return { ...tally, startedAt: Date.parse(event.timestamp) };
    case 'internal:iteration-start':
      return { ...tally, iterations: tally.iterations + 1 };
    case 'internal:llm-response':
      return { ...tally, tokens: tally.tokens + (event.usage?.totalTokens ?? 0) };
    case 'internal:sub-agent':
      return withDescendant(tally, event);
    case 'internal:tool-complete':
      return { ...tally, toolCalls: tally.toolCalls + 1 };
    case 'status-update':
      return event.final ? { ...tally, endedAt: Date.parse(event.timestamp), final: event } : tally;
    default:
      event.kind satisfies
        | 'artifact-update'
        | 'internal:iteration-complete'
        | 'internal:llm-call'
        | 'internal:llm-attempt-discarded'
        | 'internal:reasoning-delta'
        | 'internal:tool-call-delta'
        | 'internal:tool-start'
        | 'internal:tool-progress'
        | 'internal:checkpoint'
        | 'internal:paused'
        | 'internal:extension-error'
        | `internal:x.${string}`;
      return tally;
  }
}

/** A child turn that is opened again is shown from its beginning: what was counted of it is not counted again. */
function withDescendant(tally: Tally, { event }: SubAgentEvent): Tally {
  if (event.kind !== 'internal:llm-response') return tally;
  const { taskId, cursor = '' } = event;
  const seq = Number.parseInt(cursor, 10);
  if (!(seq > (tally.counted?.[taskId] ?? 0))) return tally;
  const tokens = tally.tokens + (event.usage?.totalTokens ?? 0);
  return { ...tally, tokens, counted: { ...tally.counted, [taskId]: seq } };
}

/** `2 iterations · 3 tool calls · 812 tokens · 1.2 s` */
export function tallyLine(tally: Tally, dot: string): string {
  const { startedAt, endedAt } = tally;
  const parts = [count(tally.iterations, 'iteration'), count(tally.toolCalls, 'tool call')];
  if (tally.tokens > 0) parts.push(count(tally.tokens, 'token'));
  if (startedAt !== undefined && endedAt !== undefined) parts.push(duration(endedAt - startedAt));
  return parts.join(` ${dot} `);
}

/** `1 token`, `2 tokens`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en-US')} ${noun}${number === 1 ? '' : 's'}`;
}
