import type { FinishReason, Usage } from '../../core/contracts/index.ts';
import type { ApiError } from './chat-request.ts';
import type { GivenState } from './given-state.ts';
import { type ModelAnswer, parsedArguments, piecesOf } from './model-answer.ts';
import type { AnswerForm } from './wire.ts';

const stopReasons: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  tool_calls: 'tool_use',
  length: 'max_tokens',
  content_filter: 'refusal',
  other: 'other',
};

const errorTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

/** Answers in the form of Anthropic's Messages API. */
export function messagesForm(given: GivenState): AnswerForm {
  const signature = (answer: ModelAnswer): string => given.seal(answer.model, answer.reasoning);
  return {
    namesEvents: true,
    end: '',
    refusal: ({ status, message }: ApiError) => ({
      type: 'error',
      error: { type: errorTypes[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error'), message },
      request_id: 'req_strict',
    }),
    failure: (error) => ({ type: 'error', error }),
    whole(answer) {
      const content = [
        ...(answer.hasState ? [{ type: 'thinking', thinking: answer.reasoning, signature: signature(answer) }] : []),
        ...(answer.text === '' ? [] : [{ type: 'text', text: answer.text }]),
        ...answer.calls.map(({ id, name, arguments: text }) => ({
          type: 'tool_use',
          id,
          name,
          input: parsedArguments(text),
        })),
      ];
      return {
        ...head(answer),
        content,
        stop_reason: stopReasons[answer.finishReason],
        usage: wireUsage(answer.usage),
      };
    },
    *content(answer, chunkSize) {
      const usage = { ...wireUsage(answer.usage), output_tokens: 1 };
      yield { type: 'message_start', message: { ...head(answer), content: [], stop_reason: null, usage } };
      let index = 0;
      const delta = (part: object): object => ({ type: 'content_block_delta', index, delta: part });
      if (answer.hasState) {
        const block = { type: 'thinking', thinking: '', signature: '' };
        yield { type: 'content_block_start', index, content_block: block };
        for (const thinking of piecesOf(answer.reasoning, chunkSize)) yield delta({ type: 'thinking_delta', thinking });
        yield delta({ type: 'signature_delta', signature: signature(answer) });
        yield { type: 'content_block_stop', index };
        index += 1;
      }
      if (answer.text !== '') {
        yield { type: 'content_block_start', index, content_block: { type: 'text', text: '' } };
        for (const text of piecesOf(answer.text, chunkSize)) yield delta({ type: 'text_delta', text });
        yield { type: 'content_block_stop', index };
        index += 1;
      }
      for (const { id, name, arguments: text } of answer.calls) {
        yield { type: 'content_block_start', index, content_block: { type: 'tool_use', id, name, input: {} } };
        for (const piece of piecesOf(text, chunkSize)) yield delta({ type: 'input_json_delta', partial_json: piece });
        yield { type: 'content_block_stop', index };
        index += 1;
      }
    },
    *closing(answer) {
      const delta = { stop_reason: stopReasons[answer.finishReason], stop_sequence: null };
      yield { type: 'message_delta', delta, usage: { output_tokens: answer.usage?.completionTokens ?? 0 } };
      yield { type: 'message_stop' };
    },
  };
}

function head({ id, model }: ModelAnswer): object {
  return { id, type: 'message', role: 'assistant', model, stop_sequence: null };
}

/** Input tokens are those that no cache had. */
function wireUsage(usage: Usage | null): object {
  const { promptTokens = 0, completionTokens = 0, cachedTokens = 0, cacheWriteTokens = 0 } = usage ?? {};
  return {
    input_tokens: promptTokens - cachedTokens - cacheWriteTokens,
    cache_read_input_tokens: cachedTokens,
    cache_creation_input_tokens: cacheWriteTokens,
    output_tokens: completionTokens,
  };
}
