// Checks of what callers give. Other rooms import from here only.
export { checkStore, knownOptions, type ResolvedConfig, resolveConfig, silentLogger } from './config.ts';
export {
  aBoolean,
  aFunction,
  aName,
  anArray,
  anObject,
  checkNames,
  checkOption,
  checkOptions,
  hasMethods,
  integerFrom,
  milliseconds,
  type OptionRule,
  oneOf,
  wholeNumber,
} from './option-rules.ts';
export {
  type Answers,
  answerFlaw,
  checkForkOptions,
  checkResumeOptions,
  checkRetryOptions,
  checkStartOptions,
  checkSubmitOptions,
  checkTaskId,
  type ForkEdits,
  type ForkOptions,
  isReconciled,
  type ResultEdit,
  recordsOfAnswers,
} from './turn-options.ts';
