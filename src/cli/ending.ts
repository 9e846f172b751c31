import type { AgentEvent, StatusUpdateEvent, SubAgentEvent } from '../core/contracts/index.ts';
import { count, duration } from './format.ts';
import type { Terminal } from './terminal.ts';

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
        | 'internal:request-fitted'
        | 'internal:llm-warning'
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
  const { unread = [] } = tally.final ?? {};
  if (unread.length > 0) parts.push(`${count(unread.length, 'message')} for the next turn`);
  if (tally.tokens > 0) parts.push(count(tally.tokens, 'token'));
  if (startedAt !== undefined && endedAt !== undefined) parts.push(duration(endedAt - startedAt));
  return parts.join(` ${dot} `);
}

/**
 * Sums a turn up in a line on stderr, with its id where it can be looked at later; one that failed before anything happened needs
 * none.
 */
export function showTally(tally: Tally, { stderr, errorStyle, shared }: Terminal, taskId?: string): void {
  const isGood = tally.final?.status.state === 'completed';
  if (!isGood && tally.toolCalls === 0 && tally.tokens === 0) return;
  const gap = shared ? '\n' : '';
  const { dot } = errorStyle.glyphs;
  const task = taskId === undefined ? '' : ` ${dot} task ${taskId}`;
  void stderr.write(`${gap}${errorStyle.dim(`  ${tallyLine(tally, dot)}${task}`)}\n`);
}

/** What the process says and answers at the end. */
export interface Ending {
  readonly exitCode: number;
  /** Absent where nothing has to be said. */
  readonly sentence?: string;
  /** The turn can be resumed. */
  readonly suspended?: true;
}

interface EndingCircumstances {
  /** Of the signal that interrupted the turn. */
  readonly interrupted?: number | undefined;
  /** stdout was closed. */
  readonly readerLeft: boolean;
}

/** The turn waits for somebody, and can be resumed. */
const suspended = 3;

/** As a shell reports a process that SIGPIPE ended. */
const brokenPipe = 141;

/** How a command ends after its turn ended with that status. */
export function endingOf(final: StatusUpdateEvent | undefined, circumstances: EndingCircumstances): Ending {
  const { interrupted, readerLeft } = circumstances;
  switch (final?.status.state) {
    case 'completed':
      return { exitCode: readerLeft ? brokenPipe : 0 };
    case 'canceled':
      if (interrupted !== undefined) return { exitCode: interrupted, sentence: 'cancelled' };
      if (readerLeft) return { exitCode: brokenPipe };
      return { exitCode: 1, sentence: `cancelled: ${final.reason ?? 'no reason was given'}` };
    case 'failed':
      return { exitCode: interrupted ?? 1, sentence: failure(final) };
    case 'input-required':
    case 'auth-required':
      return { exitCode: suspended, sentence: suspension(final), suspended: true };
    default:
      return { exitCode: 1, sentence: 'the turn ended without saying how' };
  }
}

function failure(final: StatusUpdateEvent): string {
  return final.error === undefined ? `failed: ${final.reason ?? 'unknown'}` : sentenceOf(final.error);
}

/** An error in one sentence, with its code. */
export function sentenceOf(error: { readonly code: string; readonly message: string }): string {
  return `${error.message.trim().replace(/\.$/, '')} (${error.code})`;
}

function suspension({ questions = [], reason }: StatusUpdateEvent): string {
  if (questions.length === 0) return `the turn is suspended: ${reason ?? 'it was paused'}`;
  return questions.length === 1 ? 'the turn waits for an answer' : `the turn waits for ${questions.length} answers`;
}
