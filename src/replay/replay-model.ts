import {
  AgentLoopError,
  type LLMCallParams,
  type LLMProvider,
  type LLMResponse,
  type Message,
  noUsage,
  type Usage,
} from '../core/contracts/index.ts';
import { isTerminal, type JournalRecord, type LlmDone } from '../core/journal/index.ts';
import { viewOf } from '../core/model-call/index.ts';
import { type Conductor, theModel } from './conductor.ts';
import { difference } from './deviation.ts';
import { extensionCodes } from './extension-codes.ts';
import type { Score } from './score.ts';

export interface ReplayModelOptions {
  readonly conductor: Conductor;
  readonly score: Score;
  readonly records: readonly JournalRecord[];
  /** Of the configuration; a prompt that the turn was given itself is in its recording. */
  readonly systemPrompt: string | undefined;
  /** Whether requests are views that extensions made. */
  readonly hasViews: boolean;
}

/** A model that answers what was recorded, when it is due. What it is asked is compared with what the recording implies. */
export function replayModel(options: ReplayModelOptions): LLMProvider {
  const alike: Alike = new WeakMap();
  return {
    capabilities: { streaming: false },
    call: (params) =>
      new Promise((resolve, reject) => {
        checkRequest(options, params, alike);
        params.noteUsage?.(usageWithoutAnswer(options.score));
        options.conductor.await(theModel, {
          give: (record) => (record.type === 'llm.done' ? resolve(responseOf(record)) : reject(failureOf(record))),
          improvise: () => improvise(options, resolve, reject),
        });
      }),
  };
}

/** Messages of requests, and the implied ones that they were found to be the same as: a history is compared once, not at each call. */
type Alike = WeakMap<Message, Message>;

function checkRequest(
  { score, conductor, systemPrompt, hasViews }: ReplayModelOptions,
  params: LLMCallParams,
  alike: Alike,
): void {
  const { state } = score;
  if (!state || hasViews || score.isFree || conductor.isDead) return;
  const prompt = state.changes.settings.systemPrompt ?? state.turn.settings.systemPrompt ?? systemPrompt;
  const implied = viewOf(state.history, { systemPrompt: prompt, summary: state.summary });
  const found = firstDifference(implied, params.messages, alike);
  if (!found) return;
  const { path, expected, got } = found;
  try {
    score.note({ seq: state.seq, what: `the request of iteration ${state.iteration}: ${path}`, expected, got });
  } catch (error) {
    conductor.fail(error);
  }
}

function firstDifference(implied: readonly Message[], asked: readonly Message[], alike: Alike) {
  for (let index = 0; index < Math.max(implied.length, asked.length); index++) {
    const [due, made] = [implied[index], asked[index]];
    if (due && made && alike.get(made) === due) continue;
    const found = difference(due, made, `messages.${index}`);
    if (found) return found;
    if (due && made) alike.set(made, due);
  }
  return undefined;
}

/** What a call took that is recorded with the turn's end; nothing of one that is answered. */
function usageWithoutAnswer(score: Score): Usage {
  for (const record of score.isFree ? [] : score.rest()) {
    if (record.type === 'llm.done') break;
    if (isTerminal(record) || record.type === 'turn.suspended') return record.usage ?? noUsage;
  }
  return noUsage;
}

function responseOf({ message, calls, finishReason, usage, model }: LlmDone): LLMResponse {
  return {
    message,
    toolCalls: calls.map(({ call }) => call),
    finishReason,
    ...(usage ? { usage } : {}),
    ...(model === undefined ? {} : { model }),
  };
}

/** The error that a call failed with, as far as the end of the turn tells it. */
function failureOf(record: JournalRecord): AgentLoopError {
  if (record.type === 'turn.failed') {
    const { code, message, reason, details } = record;
    const retryable = reason === 'retries';
    return new AgentLoopError(code, message, { ...(extensionCodes.has(code) && { reason }), details, retryable });
  }
  if (record.type === 'turn.suspended' && record.hold?.error && record.hold.until !== undefined) {
    const { error, until } = record.hold;
    const { code, message, details } = error;
    return new AgentLoopError(code, message, { details, retryable: true, retryAfterMs: until - record.at });
  }
  return new AgentLoopError('PROVIDER_FAILED', 'The recorded call failed.');
}

/** Off the recording: what the model answered in this iteration then. */
function improvise(
  { score, records }: ReplayModelOptions,
  resolve: (response: LLMResponse) => void,
  reject: (error: unknown) => void,
): void {
  const iteration = score.state?.iteration ?? 0;
  const answer = records.findLast((record) => record.type === 'llm.done' && record.iteration === iteration);
  if (answer?.type === 'llm.done') return resolve(responseOf(answer));
  reject(new AgentLoopError('DEVIATION', `The recording has no answer of the model in iteration ${iteration}.`));
}
