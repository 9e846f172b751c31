// The tool calls of one response: plan, checks, approval, run, result. Exports for code outside of `core`.
export { executeTools } from './tool-operators.ts';
export { hasFailed } from './tool-results.ts';
export { collectTools, ToolSet } from './tool-set.ts';
