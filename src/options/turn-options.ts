import {
  AgentLoopError,
  type Clock,
  type Content,
  checkContent,
  checkMessages,
  isObject,
  jsonFlaw,
  type Message,
  type StartOptions,
  shownValue,
  type TaskStateStore,
  taskIdPattern,
  turnCallNames,
  turnCallRules,
} from '../core/contracts/index.ts';
import type { TurnSettings } from '../core/journal/index.ts';
import { ParentTurn } from '../core/ownership/index.ts';
import {
  aBoolean,
  aName,
  anAbortSignal,
  anObject,
  anything,
  aString,
  checkStore,
  flawOf,
  hasMethods,
  type OptionRule,
  type OptionRules,
  retryPlanFlaw,
  wholeNumber,
} from './option-rules.ts';

/** The largest priority of a queue. */
const lastPriority = 2 ** 21 - 1;

type OfResumeOnly = 'answers' | 'onBusy' | 'from' | 'shutdown';
type OfSubmitOnly = 'tenant' | 'priority' | 'notBefore';

const rules: OptionRules<Record<keyof StartOptions | OfResumeOnly | OfSubmitOnly, unknown>> = {
  taskId: { fits: isTaskId, must: 'have 1 to 128 characters out of A-Z a-z 0-9 _ . : -' },
  agentId: aName,
  contextId: aName,
  parentContext: { fits: (value) => hasMethods(value, ['getValue']), must: 'be a Context of @opentelemetry/api' },
  authContext: anObject,
  context: anything,
  systemPrompt: aString,
  maxIterations: wholeNumber(1),
  metadata: anObject,
  ...turnCallRules,
  retryPlan: { fits: (value) => retryPlanFlaw(value) === undefined, must: 'be { attempts, delayMs, maxDelayMs, on }' },
  signal: anAbortSignal,
  shutdown: anAbortSignal,
  tenant: aName,
  notBefore: { ...wholeNumber(0), must: 'be milliseconds since 1970' },
  priority: wholeNumber(1, lastPriority),
  detached: aBoolean,
  parent: { fits: ParentTurn.isInstance, must: 'be the one that the context of a call or a hook has' },
  answers: anObject,
  from: {
    fits: (value) => typeof value === 'string' && /^\d+-\d+\.\d+$/.test(value),
    must: 'be the cursor of an event, e.g. "12-1.2"',
  },
  onBusy: { fits: (value) => value === 'fail' || value === 'wait', must: 'be "fail" or "wait"' },
};

const ruleOf: ReadonlyMap<string, OptionRule> = new Map(Object.entries(rules));

const ofResume = [
  'contextId',
  'authContext',
  'context',
  'parentContext',
  'signal',
  'detached',
  'parent',
  'answers',
  'onBusy',
  'from',
  'shutdown',
] as const;
const ofOthers: readonly string[] = [
  'answers',
  'onBusy',
  'from',
  'shutdown',
  'tenant',
  'priority',
  'notBefore',
] satisfies readonly (OfResumeOnly | OfSubmitOnly)[];
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
  ...turnCallNames,
  'tenant',
  'priority',
  'notBefore',
] as const;

/** Checks the options of a start; `undefined` counts as absent. Errors: `INVALID_INPUT`, naming the option and the fix. */
export function checkStartOptions(options: StartOptions): void {
  check(options, ofStart);
}

/** Checks the options of a submitted turn. Errors as `checkStartOptions`. */
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

/** Checks the options of a retry. Errors as `checkStartOptions`. */
export function checkRetryOptions(options: Partial<Pick<StartOptions, (typeof ofRetry)[number]>>): void {
  check(options, ofRetry);
}

function check(options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null)
    throw invalid(`the options of a turn must be an object, not ${shownValue(options)}; or leave them out`);
  for (const [name, value] of Object.entries(options)) {
    const rule = known.includes(name) ? ruleOf.get(name) : undefined;
    if (!rule) throw invalid(`${name} is not an option here; the options are: ${known.join(', ')}`);
    const flaw = flawOf(name, value, rule);
    if (flaw !== undefined) throw invalid(`${flaw}; or leave it out`);
  }
}

function checkKnown(given: object, names: readonly string[], what: (name: string) => string): void {
  const stray = Object.keys(given).find((name) => !names.includes(name));
  if (stray !== undefined) throw invalid(`${what(stray)}: ${names.join(', ')}`);
}

/** Errors: `INVALID_INPUT` for an invalid task id. */
export function checkTaskId(taskId: string): void {
  if (!isTaskId(taskId))
    throw invalid(
      `taskId must ${rules.taskId.must}, not ${shownValue(taskId)}; pass the id that the turn was started with`,
    );
}

function isTaskId(value: unknown): boolean {
  return typeof value === 'string' && taskIdPattern.test(value);
}

/** An edited result of a tool. */
export interface ResultEdit {
  readonly content: Content;
  /** Default true. */
  readonly success?: boolean;
}

/** The edits of a fork. Only kept records can be edited. */
export interface ForkEdits {
  /** Replace the messages that the turn was started with. */
  readonly messages?: readonly Message[];
  /** Appended after the last kept iteration; they continue a turn that would have ended there. */
  readonly append?: readonly Message[];
  /** Replace the model's text, by iteration. */
  readonly answers?: Readonly<Record<number, Content>>;
  /**
   * Replace the model's arguments, by call id: an object, e.g. `{ '1:0': { city: 'Oslo' } }`. Not for a call with a question:
   * its answer was given for the displayed arguments.
   */
  readonly arguments?: Readonly<Record<string, object>>;
  /** Replace the tools' results, by call id. */
  readonly results?: Readonly<Record<string, ResultEdit>>;
  /** Settings of the new turn, merged with those of the old one. */
  readonly settings?: TurnSettings;
}

/** Options of `AgentLoop.fork`. */
export interface ForkOptions {
  /** Where the turn is, and where the fork is made. */
  readonly store: TaskStateStore;
  /** The last kept iteration, with all its results; 0 keeps only the input of the turn. */
  readonly at: number;
  /** The edits in the new turn. Default: none. */
  readonly edits?: ForkEdits | undefined;
  /** The new task's id. Default: a generated one. */
  readonly taskId?: string | undefined;
  /** The new task's context. Default: that of the old one. */
  readonly contextId?: string | undefined;
  /** Replaced by tests. Default: the system’s. */
  readonly clock?: Clock | undefined;
}

const editNames: readonly string[] = [
  'messages',
  'append',
  'answers',
  'arguments',
  'results',
  'settings',
] satisfies readonly (keyof ForkEdits)[];

const optionNames: readonly string[] = [
  'store',
  'at',
  'edits',
  'taskId',
  'contextId',
  'clock',
] satisfies readonly (keyof ForkOptions)[];

const resultNames: readonly string[] = ['content', 'success'] satisfies readonly (keyof ResultEdit)[];

/** Checks the options of a fork. Errors: `INVALID_INPUT` and, for an invalid store, `INVALID_CONFIG`, with the fix. */
export function checkForkOptions(options: ForkOptions): void {
  if (!isObject(options)) throw invalid('AgentLoop.fork needs options: { store, at }');
  checkKnown(options, optionNames, (name) => `${name} is not an option of a fork; the options are`);
  const { store, at, edits, taskId, contextId, clock } = options;
  checkStore('store', store);
  if (!Number.isSafeInteger(at) || at < 0) {
    const what = `at must be the number of the last iteration to keep, not ${shownValue(at)}`;
    throw invalid(`${what}; 0 keeps only what the turn was started with`);
  }
  if (clock !== undefined && typeof clock?.now !== 'function')
    throw invalid(`clock must be a Clock, not ${shownValue(clock)}`);
  if (taskId !== undefined) checkTaskId(taskId);
  if (contextId !== undefined) checkStartOptions({ contextId });
  if (edits !== undefined) checkEdits(edits);
}

function checkEdits(edits: ForkEdits): void {
  const given: unknown = edits;
  if (!isObject(given)) throw invalid(`edits must be an object, not ${shownValue(given)}`);
  checkKnown(edits, editNames, (name) => `edits.${name} is not an edit; the edits are`);
  const { messages, append, answers = {}, arguments: byCall = {}, results = {}, settings = {} } = edits;
  if (messages !== undefined) checkMessages(messages);
  if (append !== undefined) checkMessages(append);
  for (const [name, member] of Object.entries({ answers, arguments: byCall, results, settings })) {
    if (!isObject(member)) throw invalid(`edits.${name} must be an object, not ${shownValue(member)}`);
  }
  for (const [iteration, content] of Object.entries(answers)) checkContent(content, `edits.answers[${iteration}]`);
  for (const [callId, value] of Object.entries(byCall)) {
    if (!isObject(value)) throw invalid(`edits.arguments["${callId}"] must be an object, not ${shownValue(value)}`);
  }
  for (const [callId, edit] of Object.entries(results)) checkResult(callId, edit);
  checkSettings(settings);
  const flaw = jsonFlaw(edits, 'edits');
  if (flaw !== undefined)
    throw invalid(`${flaw}, which a journal cannot hold; pass strings, numbers, arrays or plain objects`);
}

function checkResult(callId: string, edit: unknown): void {
  const at = `results["${callId}"]`;
  if (!isObject(edit) || !('content' in edit)) throw invalid(`edits.${at} must be { content, success? }`);
  checkKnown(edit, resultNames, (name) => `edits.${at}.${name} is no member of a result; those are`);
  checkContent(edit['content'], `edits.${at}.content`);
  if ('success' in edit && typeof edit['success'] !== 'boolean') {
    throw invalid(`edits.${at}.success must be true or false, not ${shownValue(edit['success'])}`);
  }
}

const editedSettings: readonly string[] = ['systemPrompt', 'maxIterations', ...turnCallNames];

function checkSettings(settings: NonNullable<ForkEdits['settings']>): void {
  checkKnown(settings, editedSettings, (name) => `edits.settings.${name} is none; there are`);
  check(settings, editedSettings);
}

function invalid(what: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${what}.`);
}
