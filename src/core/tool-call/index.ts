// The calls of one response: plan, checks, approval, run, result. Other rooms import from here only.
export { executeTools } from './tool-operators.ts';
export { hasFailed, UnstartedCalls } from './tool-results.ts';
export { collectTools, ToolSet } from './tool-set.ts';
