import { describe, expect, it } from '@jest/globals';
import { answerEnd, finishMeaning } from 'millrace/internals';

const words: Readonly<Record<string, readonly string[]>> = {
  stop: [
    'stop',
    'STOP',
    'end_turn',
    'stop_sequence',
    'eos',
    'eos_token',
    'COMPLETE',
    'completed',
    'FINISH_REASON_STOP',
    'FinishReason.STOP',
    'endTurn',
  ],
  length: [
    'length',
    'MAX_TOKENS',
    'max_output_tokens',
    'model_length',
    'max_length',
    'maxTokens',
    'token_budget_exceeded',
    'cut_off',
    'incomplete',
  ],
  tool_calls: ['tool_calls', 'tool_use', 'TOOL_CALL', 'function_call', 'tool-calls', 'toolUse'],
  content_filter: [
    'content_filter',
    'refusal',
    'SAFETY',
    'RECITATION',
    'PROHIBITED_CONTENT',
    'BLOCKLIST',
    'SPII',
    'IMAGE_SAFETY',
    'guardrail_intervened',
    'sensitive',
    'ERROR_TOXIC',
    'LANGUAGE',
    'blocked_by_policy',
    'moderation_stop',
  ],
  failed: [
    'error',
    'error_finish',
    'abort',
    'network_error',
    'insufficient_system_resource',
    'USER_CANCEL',
    'internal_error',
    'upstream_timeout',
    'engine_crashed',
    'rate_limited',
  ],
  unusable: [
    'MALFORMED_FUNCTION_CALL',
    'UNEXPECTED_TOOL_CALL',
    'TOO_MANY_TOOL_CALLS',
    'malformed_model_output',
    'malformed_tool_use',
    'invalid_tool_call',
    'function_call_filter: MALFORMED_FUNCTION_CALL',
    'stop: malformed_response',
  ],
  overflow: ['model_context_window_exceeded', 'ERROR_LIMIT', 'context_full'],
  other: ['OTHER', 'FINISH_REASON_UNSPECIFIED', 'unknown'],
};

describe('finish words', () => {
  it.each(Object.entries(words).flatMap(([meaning, all]) => all.map((word) => [word, meaning] as const)))(
    '%s is %s',
    (word, meaning) => {
      expect(finishMeaning(word)).toBe(meaning);
      expect(finishMeaning(word.toUpperCase())).toBe(meaning);
    },
  );

  it.each(['', 'sunset', 'eom_id'])('M-06 %j is not known', (word) => {
    expect(finishMeaning(word)).toBeUndefined();
  });

  const calls = { hasCalls: true, hasText: false };
  const text = { hasCalls: false, hasText: true };
  const nothing = { hasCalls: false, hasText: false };

  it.each([
    ['sunset', calls, { reason: 'tool_calls' }],
    ['sunset', text, { reason: 'other' }],
    ['sunset', nothing, { flaw: 'unusable' }],
    ['other', text, { reason: 'other' }],
    ['stop', calls, { reason: 'stop' }],
    ['stop', nothing, { reason: 'stop' }],
    ['tool_calls', text, { flaw: 'announced' }],
    ['tool_calls', nothing, { flaw: 'announced' }],
    ['error_finish', text, { flaw: 'failed' }],
    ['error', calls, { flaw: 'failed' }],
    ['MALFORMED_FUNCTION_CALL', calls, { flaw: 'unusable' }],
    ['model_context_window_exceeded', text, { reason: 'length' }],
    ['model_context_window_exceeded', nothing, { flaw: 'overflow' }],
    ['token_cap_exceeded', text, { reason: 'length' }],
    ['policy_stop', text, { reason: 'content_filter' }],
    [undefined, calls, { reason: 'tool_calls' }],
    [undefined, text, { reason: 'stop' }],
  ] as const)('M-06 %s with %j is %j', (word, content, end) => {
    expect(answerEnd(word, content)).toEqual(end);
  });
});
