import type { AgentLoopError, FinishReason, Usage } from '../../core/contracts/index.ts';
import { type AnswerContent, answerEnd, finishMeaning } from '../finish-words.ts';
import { unusableAnswer } from '../read-failure.ts';
import { type ModelServer, wireError } from './wire-errors.ts';

/** The error of a word that says, whatever came before it, that the answer failed: `undefined` for any other word. */
export function failedFinish(server: ModelServer, word: string): AgentLoopError | undefined {
  const meaning = finishMeaning(word);
  return meaning === 'failed' || meaning === 'unusable' ? flawOf(server, meaning, word) : undefined;
}

/** Why the model stopped. Throws a coded error where its word, or what came with it, says that the answer failed. */
export function finishReasonOf(server: ModelServer, word: string | undefined, content: AnswerContent): FinishReason {
  const end = answerEnd(word, content);
  if ('reason' in end) return end.reason;
  throw flawOf(server, end.flaw, word ?? '');
}

function flawOf(
  server: ModelServer,
  flaw: 'failed' | 'unusable' | 'overflow' | 'announced',
  word: string,
): AgentLoopError {
  const quoted = server.quote(word);
  switch (flaw) {
    case 'failed':
      return wireError(
        server,
        'PROVIDER_SERVER',
        `says that its answer failed (${quoted}): try again, or use another model`,
      );
    case 'overflow': {
      const cure = 'shorten the history, or use a model with a larger context window';
      return wireError(
        server,
        'CONTEXT_OVERFLOW',
        `gave no answer because its context window is full (${quoted}): ${cure}`,
      );
    }
    case 'unusable':
      return unusable(server, `gave no answer that can be used (${quoted}): try again, or use another model`);
    case 'announced':
      return unusable(server, `announced tool calls (${quoted}) and gave none: try again, or use another model`);
  }
}

function unusable(server: ModelServer, what: string): AgentLoopError {
  return wireError(server, 'PROVIDER_SERVER', what, { retryable: true, reason: unusableAnswer });
}

/** An empty answer costs a few tokens that end it. */
const mostTokensOfNothing = 16;

interface EndedAnswer extends AnswerContent {
  readonly hasReasoning: boolean;
  readonly finishReason: FinishReason;
  readonly usage: Usage | undefined;
  /** Unknown members of the message. */
  readonly unread: ReadonlySet<string>;
}

/** Throws a coded error where the answer seems empty, but something came that cannot be read. */
export function checkContent(server: ModelServer, answer: EndedAnswer): void {
  const { hasCalls, hasText, hasReasoning, finishReason, usage, unread } = answer;
  if (hasCalls || hasText || hasReasoning || finishReason === 'content_filter' || finishReason === 'length') return;
  if (unread.size > 0) {
    const names = server.quote([...unread].join(', '));
    throw wireError(
      server,
      'PROVIDER_PROTOCOL',
      `gave an answer with nothing but members that are not read, ${names}: use another model`,
    );
  }
  const tokens = (usage?.completionTokens ?? 0) - (usage?.reasoningTokens ?? 0);
  if (tokens <= mostTokensOfNothing) return;
  throw unusable(
    server,
    `counted ${tokens} tokens of an answer in which nothing can be read: try again, or use another model`,
  );
}
