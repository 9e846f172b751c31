import { context as activeContext } from '@opentelemetry/api';
import type { LLMCallParams, LLMProvider, LLMResponse } from '../../core/contracts/index.ts';
import { usageWithoutAnswer } from '../../core/model-call/index.ts';
import { startAttempt } from '../../observability/spans/attempt-span.ts';

/**
 * A model call of an extension's own, not streamed: below the span of its hook it has an `llm.call` span, as every other has. The span ends
 * with the answer, and at once where the call is aborted. Resolves and rejects as the provider does.
 */
export async function tracedCall(provider: LLMProvider, params: LLMCallParams): Promise<LLMResponse> {
  const attempt = provider.tracesAttempts === true ? undefined : startAttempt(params, provider.info);
  if (!attempt) return provider.call(params);
  const { traceContext } = attempt;
  const leave = (): void => attempt.cancel(usageWithoutAnswer(params, 0));
  params.signal?.addEventListener('abort', leave);
  try {
    const response = await activeContext.with(traceContext, () => provider.call({ ...params, traceContext }));
    attempt.done(response);
    return response;
  } catch (error) {
    attempt.fail(error, usageWithoutAnswer(params, 0, error));
    throw error;
  } finally {
    params.signal?.removeEventListener('abort', leave);
  }
}
