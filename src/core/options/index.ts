// Checks of what callers give. Other rooms import from here only.
export { checkStore, knownOptions, resolveConfig } from './config.ts';
export {
  type Answers,
  answerFlaw,
  type ForkEdits,
  type ForkOptions,
  type ResultEdit,
  recordsOfAnswers,
} from './turn-options.ts';
