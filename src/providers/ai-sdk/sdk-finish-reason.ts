import type { LanguageModelV3FinishReason } from '@ai-sdk/provider';
import type { AgentLoopError, FinishReason } from '../../core/contracts/index.ts';
import { finishReasonOf, isFailure } from '../openai-wire/finish-reason.ts';
import type { ModelServer } from '../openai-wire/model-server.ts';
import { wireError } from '../openai-wire/wire-errors.ts';

export interface AnswerEnd {
  readonly reason: LanguageModelV3FinishReason | undefined;
  readonly hasCalls: boolean;
  /** Whether a whole answer came at once that has something in it: then no reason is needed. */
  readonly isWhole: boolean;
}

/**
 * Why the model stopped. Throws a coded error where it did not: no reason at all is an answer that was cut off, `error` one that failed,
 * and `pause_turn` an answer whose tools at the vendor are not done.
 */
export function sdkFinishReason(server: ModelServer, { reason, hasCalls, isWhole }: AnswerEnd): FinishReason {
  const raw = reason?.raw;
  if (raw === 'pause_turn') {
    const what = 'paused in the middle of its answer for a tool of its own, which cannot be waited for: ask for less';
    throw wireError(server, 'PROVIDER_FAILED', what);
  }
  switch (reason?.unified) {
    case 'stop':
      return 'stop';
    case 'length':
      return 'length';
    case 'tool-calls':
      return 'tool_calls';
    case 'content-filter':
      return 'content_filter';
    case 'error':
      throw failedAnswer(server, raw);
    default:
      if (raw === undefined && !isWhole) throw cutOff(server);
      if (raw !== undefined && isFailure(raw)) throw failedAnswer(server, raw);
      return finishReasonOf(raw, hasCalls);
  }
}

/** A stream that ended before the model did. */
export function cutOff(server: ModelServer): AgentLoopError {
  return wireError(server, 'PROVIDER_STREAM_CLOSED', 'ended its stream without a finish reason: try again');
}

function failedAnswer(server: ModelServer, raw: string | undefined): AgentLoopError {
  const why = raw === undefined ? '' : ` (${server.quote(raw)})`;
  return wireError(server, 'PROVIDER_SERVER', `says that its answer failed${why}: try again, or use another model`);
}
