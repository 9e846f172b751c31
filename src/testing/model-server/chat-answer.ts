import type { Usage } from '../../core/contracts/index.ts';
import type { ApiError } from './chat-request.ts';
import { created, type ModelAnswer, piecesOf } from './model-answer.ts';
import type { AnswerForm } from './wire.ts';

/** Where a chat-completions server keeps what other servers keep elsewhere. */
export interface ChatHabits {
  /** The member of the reasoning in plain text; `parts`: a part of the content; `none`: it is not shown. */
  readonly reasoning: 'reasoning_content' | 'reasoning' | 'parts' | 'none';
  /** The seal of a call, for servers that give one: Gemini's thought signature. */
  readonly sealOf?: (answer: ModelAnswer, index: number) => string | undefined;
  readonly refusal?: (error: ApiError) => object;
}

/** Answers in the form of OpenAI's chat completions. */
export function chatForm({ reasoning, sealOf, refusal = (error) => error.body() }: ChatHabits): AnswerForm {
  const callOf = (answer: ModelAnswer, index: number, text: string): object => {
    const { id, name } = answer.calls[index] ?? {};
    const seal = sealOf?.(answer, index);
    return {
      id,
      type: 'function',
      function: { name, arguments: text },
      ...(seal !== undefined && { extra_content: { google: { thought_signature: seal } } }),
    };
  };
  return {
    namesEvents: false,
    end: 'data: [DONE]\n\n',
    refusal,
    failure: (error) => ({ error }),
    whole(answer) {
      const content = answer.text === '' ? null : answer.text;
      const message = {
        role: 'assistant',
        content,
        ...(answer.reasoning !== '' && reasoningIn(answer.reasoning, answer.text)),
        ...(answer.calls.length > 0 && {
          tool_calls: answer.calls.map((call, index) => callOf(answer, index, call.arguments)),
        }),
      };
      return {
        ...head(answer, 'chat.completion'),
        choices: [{ index: 0, message, logprobs: null, finish_reason: answer.finishReason }],
        ...(answer.usage && { usage: wireUsage(answer.usage) }),
      };
    },
    *content(answer, chunkSize) {
      let first = true;
      for (const delta of deltasOf(answer, chunkSize)) {
        yield chunk(answer, first ? { role: 'assistant', ...delta } : delta);
        first = false;
      }
    },
    *closing(answer) {
      yield chunk(answer, {}, answer.finishReason);
      if (answer.usage !== null)
        yield { ...head(answer, 'chat.completion.chunk'), choices: [], usage: wireUsage(answer.usage) };
    },
  };

  function reasoningIn(text: string, answered = ''): object {
    if (reasoning === 'none') return {};
    if (reasoning !== 'parts') return { [reasoning]: text };
    const thinking = { type: 'thinking', thinking: [{ type: 'text', text }] };
    return { content: answered === '' ? [thinking] : [thinking, { type: 'text', text: answered }] };
  }

  function* deltasOf(answer: ModelAnswer, chunkSize: number | undefined): Generator<object> {
    if (reasoning !== 'none') for (const piece of piecesOf(answer.reasoning, chunkSize)) yield reasoningIn(piece);
    for (const piece of piecesOf(answer.text, chunkSize)) yield { content: piece };
    for (const [index, call] of answer.calls.entries()) {
      yield { tool_calls: [{ index, ...callOf(answer, index, '') }] };
      for (const piece of piecesOf(call.arguments, chunkSize))
        yield { tool_calls: [{ index, function: { arguments: piece } }] };
    }
  }
}

function chunk(answer: ModelAnswer, delta: object, finishReason: string | null = null): object {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finishReason }];
  return { ...head(answer, 'chat.completion.chunk'), choices };
}

function head(answer: ModelAnswer, object: string): object {
  return { id: answer.id, object, created, model: answer.model };
}

function wireUsage(usage: Usage): object {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    ...(usage.cachedTokens !== undefined && { prompt_tokens_details: { cached_tokens: usage.cachedTokens } }),
    ...(usage.reasoningTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    }),
  };
}
