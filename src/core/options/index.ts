// Checks of what callers give. Other rooms import from here only.
export { type Answers, answerFlaw, asJson, recordsOfAnswers, stableJson } from './check-answers.ts';
export type { ForkEdits, ForkOptions, ResultEdit } from './fork-options.ts';
export { inTime } from './in-time.ts';
export type { Partially } from './partially.ts';
export { checkStore, knownOptions, resolveConfig } from './resolve-config.ts';
