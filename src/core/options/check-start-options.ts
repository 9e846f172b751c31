import type { StartOptions } from '../contracts/config.ts';
import { AgentLoopError } from '../contracts/errors.ts';
import { retryPlanFlaw } from '../contracts/retry-plan.ts';
import { shownValue } from '../contracts/shown-value.ts';
import { taskIdPattern } from '../contracts/store.ts';

type Rule = readonly [fits: (value: unknown) => boolean, what: string];

/** The last place that a queue knows. */
const lastPriority = 2 ** 21 - 1;

const anyName: Rule = [(value) => typeof value === 'string' && value !== '', 'must be a non-empty string'];
const anyObject: Rule = [
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  'must be an object',
];

type OfResumeOnly = 'answers' | 'onBusy' | 'from' | 'shutdown';
type OfSubmitOnly = 'tenant' | 'priority';

const rules: { readonly [Name in keyof StartOptions | OfResumeOnly | OfSubmitOnly]-?: Rule } = {
  taskId: [isTaskId, 'must have 1 to 128 characters out of A-Z a-z 0-9 _ . : -'],
  agentId: anyName,
  contextId: anyName,
  parentContext: [(value) => hasMethod(value, 'getValue'), 'must be a Context of @opentelemetry/api'],
  authContext: anyObject,
  context: [() => true, ''],
  systemPrompt: [(value) => typeof value === 'string', 'must be a string'],
  maxIterations: [(value) => Number.isSafeInteger(value) && Number(value) >= 1, 'must be a whole number of at least 1'],
  metadata: anyObject,
  retryPlan: [(value) => retryPlanFlaw(value) === undefined, 'must be { attempts, delayMs, maxDelayMs, on }'],
  signal: [(value) => hasMethod(value, 'addEventListener'), 'must be an AbortSignal'],
  shutdown: [(value) => hasMethod(value, 'addEventListener'), 'must be an AbortSignal'],
  tenant: anyName,
  priority: [
    (value) => Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= lastPriority,
    `must be a whole number from 1 to ${lastPriority}`,
  ],
  detached: [(value) => typeof value === 'boolean', 'must be true or false'],
  answers: anyObject,
  from: [
    (value) => typeof value === 'string' && /^\d+-\d+\.\d+$/.test(value),
    'must be the cursor of an event, e.g. "12-1.2"',
  ],
  onBusy: [(value) => value === 'fail' || value === 'wait', 'must be "fail" or "wait"'],
};

const ofResume = [
  'contextId',
  'authContext',
  'context',
  'parentContext',
  'signal',
  'detached',
  'answers',
  'onBusy',
  'from',
  'shutdown',
] as const;
const ofOthers: readonly string[] = ['answers', 'onBusy', 'from', 'shutdown', 'tenant', 'priority'] satisfies readonly (
  | OfResumeOnly
  | OfSubmitOnly
)[];
const ofStart = Object.keys(rules).filter((name) => !ofOthers.includes(name));
const ofSubmit = [
  'taskId',
  'agentId',
  'contextId',
  'parentContext',
  'systemPrompt',
  'maxIterations',
  'metadata',
  'retryPlan',
  'tenant',
  'priority',
] as const;

/** Checks what is given for one turn; `undefined` counts as left out. Errors: `INVALID_INPUT`, naming the option and the cure. */
export function checkStartOptions(options: StartOptions): void {
  check(options, ofStart);
}

/** Checks what is given for a turn that is submitted. Errors as `checkStartOptions`. */
export function checkSubmitOptions(
  options: Partial<Pick<StartOptions, Exclude<(typeof ofSubmit)[number], OfSubmitOnly>>>,
): void {
  check(options, ofSubmit);
}

/** Checks the options of a resumed turn. Errors as `checkStartOptions`. */
export function checkResumeOptions(
  options: Partial<Pick<StartOptions, Exclude<(typeof ofResume)[number], OfResumeOnly>>>,
): void {
  check(options, ofResume);
}

const ofRetry = ['taskId', 'contextId', 'authContext', 'context', 'parentContext', 'signal', 'detached'] as const;

/** Checks what is given for the retry of a turn. Errors as `checkStartOptions`. */
export function checkRetryOptions(options: Partial<Pick<StartOptions, (typeof ofRetry)[number]>>): void {
  check(options, ofRetry);
}

function check(options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw invalid(`the options of a turn must be an object, not ${shownValue(options)}`, 'or leave them out');
  }
  const ruleOf = new Map<string, Rule>(Object.entries(rules));
  for (const [name, value] of Object.entries(options)) {
    const rule = known.includes(name) ? ruleOf.get(name) : undefined;
    if (!rule) throw invalid(`${name} is not an option here`, `the options are: ${known.join(', ')}`);
    const [fits, what] = rule;
    if (value !== undefined && !fits(value)) {
      throw invalid(`${name} ${what}, not ${shownValue(value)}`, 'or leave it out');
    }
  }
}

/** Errors: `INVALID_INPUT` for what cannot be the id of a task. */
export function checkTaskId(taskId: string): void {
  if (!isTaskId(taskId))
    throw invalid(`taskId ${rules.taskId[1]}, not ${shownValue(taskId)}`, 'give the id that the turn was started with');
}

function isTaskId(value: unknown): boolean {
  return typeof value === 'string' && taskIdPattern.test(value);
}

function hasMethod(value: unknown, name: string): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === 'function';
}

function invalid(what: string, cure: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${what}; ${cure}.`);
}
