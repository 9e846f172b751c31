// One request to a model: its messages, the call, the response. Exports for code outside of core, and some of the rooms inside.

export { type CallSignal, catchLLMError, mapLLMResponseToState, tapLLMResponse } from './answer.ts';
export { callModel, requestLLM } from './call-model.ts';
export { CallParams } from './call-params.ts';
export { RepeatedCalls } from './repeated-calls.ts';
export { type PreparedCall, prepareLLMCall } from './request.ts';
export { cutShort, responseFlaw } from './response.ts';
export {
  estimatePromptTokens,
  estimateTokens,
  quartersOf,
  ReportedUsage,
  type TokenCounter,
  tokenCounter,
} from './usage.ts';
export { viewOf } from './view.ts';
