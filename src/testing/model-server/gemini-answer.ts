import type { FinishReason, Usage } from '../../core/contracts/index.ts';
import type { GivenState } from './given-state.ts';
import { type ModelAnswer, parsedArguments, piecesOf } from './model-answer.ts';
import type { AnswerForm } from './wire.ts';

const finishReasons: Readonly<Record<FinishReason, string>> = {
  stop: 'STOP',
  tool_calls: 'STOP',
  length: 'MAX_TOKENS',
  content_filter: 'SAFETY',
  other: 'OTHER',
};

const statusNames: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
};

/** Answers in the form of Gemini's API. The first call of an answer has its thought signature. */
export function geminiForm(given: GivenState): AnswerForm {
  const callParts = (answer: ModelAnswer): readonly object[] =>
    answer.calls.map(({ name, arguments: text }, index) => ({
      functionCall: { name, args: parsedArguments(text) },
      ...(index === 0 &&
        answer.hasState && {
          thoughtSignature: given.seal(answer.model, name, JSON.stringify(parsedArguments(text))),
        }),
    }));
  return {
    namesEvents: false,
    end: '',
    refusal: ({ status, message }) => ({
      error: {
        code: status,
        message,
        status: statusNames[status] ?? (status < 500 ? 'FAILED_PRECONDITION' : 'INTERNAL'),
      },
    }),
    failure: (error) => ({ error }),
    whole: (answer) =>
      response(answer, {
        parts: [
          ...(answer.reasoning === '' ? [] : [{ text: answer.reasoning, thought: true }]),
          ...(answer.text === '' ? [] : [{ text: answer.text }]),
          ...callParts(answer),
        ],
        isLast: true,
      }),
    *content(answer, chunkSize) {
      for (const text of piecesOf(answer.reasoning, chunkSize))
        yield response(answer, { parts: [{ text, thought: true }] });
      for (const text of piecesOf(answer.text, chunkSize)) yield response(answer, { parts: [{ text }] });
      for (const part of callParts(answer)) yield response(answer, { parts: [part] });
    },
    *closing(answer) {
      yield response(answer, { parts: [{ text: '' }], isLast: true });
    },
  };
}

function response(
  answer: ModelAnswer,
  { parts, isLast = false }: { readonly parts: readonly object[]; readonly isLast?: boolean },
): object {
  const finishReason = isLast ? { finishReason: finishReasons[answer.finishReason] } : {};
  return {
    candidates: [{ content: { role: 'model', parts }, index: 0, ...finishReason }],
    ...(isLast && answer.usage && { usageMetadata: wireUsage(answer.usage) }),
    modelVersion: answer.model,
    responseId: answer.id,
  };
}

/** Thoughts are counted beside the candidates. */
function wireUsage({ promptTokens, completionTokens, totalTokens, cachedTokens, reasoningTokens }: Usage): object {
  return {
    promptTokenCount: promptTokens,
    candidatesTokenCount: completionTokens - (reasoningTokens ?? 0),
    ...(reasoningTokens !== undefined && { thoughtsTokenCount: reasoningTokens }),
    ...(cachedTokens !== undefined && { cachedContentTokenCount: cachedTokens }),
    totalTokenCount: totalTokens,
  };
}
