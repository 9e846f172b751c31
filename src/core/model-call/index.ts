// One request to a model: the view of the history, the call, the response. Other rooms import from here only.
export {
  BodyCounter,
  type BodyLimits,
  boundedResponse,
  bytesFlaw,
  defaultBodyLimits,
  tooLargeIn,
} from './body-counter.ts';
export { estimateTokens, type TokenCounter, tokenCounter } from './count-tokens.ts';
export {
  estimatedUsage,
  estimatePromptTokens,
  usageOfAnswer,
  usageWithoutAnswer,
  withDiscarded,
} from './estimate-usage.ts';
export { catchLLMError, mapLLMResponseToState, tapLLMResponse } from './llm-operators.ts';
export { ModelSilence } from './model-silence.ts';
export { OpenCall } from './open-call.ts';
export { type PreparedCall, prepareLLMCall } from './prepare-call.ts';
export { cutShort, responseFlaw } from './response.ts';
export { StreamedTokens } from './text-tokens.ts';
export { ToldUsage } from './told-usage.ts';
export { viewOf } from './view.ts';
