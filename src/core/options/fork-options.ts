import { checkMessages } from '../contracts/check-messages.ts';
import type { Clock } from '../contracts/clock.ts';
import { AgentLoopError, messageOf } from '../contracts/errors.ts';
import { jsonFlaw } from '../contracts/json-flaw.ts';
import type { Content, Message } from '../contracts/messages.ts';
import { shownValue } from '../contracts/shown-value.ts';
import type { TaskStateStore } from '../contracts/store.ts';
import type { TurnSettings } from '../journal/records.ts';
import { checkStartOptions, checkTaskId } from './check-start-options.ts';
import { checkStore } from './resolve-config.ts';

/** What a tool is to have answered. */
export interface ResultEdit {
  readonly content: Content;
  /** Default true. */
  readonly success?: boolean;
}

/** What is different in a fork. Only what is kept can be edited; all else of the kept part stays as it is. */
export interface ForkEdits {
  /** Instead of the messages that the turn was started with. */
  readonly messages?: readonly Message[];
  /** Appended after the last iteration that is kept; a turn that would have ended there continues with them. */
  readonly append?: readonly Message[];
  /** Instead of the model's text, by iteration. */
  readonly answers?: Readonly<Record<number, Content>>;
  /**
   * Instead of the arguments that the model gave, by call id: an object, e.g. `{ '1:0': { city: 'Oslo' } }`. Not of a call that somebody
   * was asked about: the answer was given for the arguments that were shown.
   */
  readonly arguments?: Readonly<Record<string, object>>;
  /** Instead of what the tools gave, by call id. */
  readonly results?: Readonly<Record<string, ResultEdit>>;
  /** Settings of the turn, beside those it was started with. */
  readonly settings?: TurnSettings;
}

export interface ForkOptions {
  readonly store: TaskStateStore;
  /** The last iteration that is kept, with all its results; 0 keeps only what the turn was started with. */
  readonly at: number;
  /** What is different in the new turn. Default: nothing. */
  readonly edits?: ForkEdits | undefined;
  /** Of the new task. Default: a new one. */
  readonly taskId?: string | undefined;
  /** Of the new task. Default: that of the old one. */
  readonly contextId?: string | undefined;
  readonly clock?: Clock | undefined;
}

const editNames: ReadonlySet<string> = new Set<keyof ForkEdits>([
  'messages',
  'append',
  'answers',
  'arguments',
  'results',
  'settings',
]);

const optionNames: ReadonlySet<string> = new Set<keyof ForkOptions>([
  'store',
  'at',
  'edits',
  'taskId',
  'contextId',
  'clock',
]);

const resultNames: ReadonlySet<string> = new Set<keyof ResultEdit>(['content', 'success']);

/** Checks what a fork is asked for. Errors: `INVALID_INPUT` and, for a store that is none, `INVALID_CONFIG`, with the cure. */
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
  if (!isObject(edits)) throw invalid(`edits must be an object, not ${shownValue(edits)}`);
  checkKnown(edits, editNames, (name) => `edits.${name} is not an edit; the edits are`);
  const { messages, append, answers = {}, arguments: given = {}, results = {}, settings = {} } = edits;
  if (messages !== undefined) checkMessages(messages);
  if (append !== undefined) checkMessages(append);
  for (const [name, member] of Object.entries({ answers, arguments: given, results, settings })) {
    if (!isObject(member)) throw invalid(`edits.${name} must be an object, not ${shownValue(member)}`);
  }
  for (const [iteration, content] of Object.entries(answers)) checkContent(`answers[${iteration}]`, content);
  for (const [callId, value] of Object.entries(given)) {
    if (!isObject(value)) throw invalid(`edits.arguments["${callId}"] must be an object, not ${shownValue(value)}`);
  }
  for (const [callId, edit] of Object.entries(results)) checkResult(callId, edit);
  checkSettings(settings);
  const flaw = jsonFlaw(edits, 'edits');
  if (flaw !== undefined)
    throw invalid(`${flaw}, which a journal cannot hold; give text, numbers, lists or plain objects`);
}

function checkKnown(given: object, names: ReadonlySet<string>, what: (name: string) => string): void {
  const stray = Object.keys(given).find((name) => !names.has(name));
  if (stray !== undefined) throw invalid(`${what(stray)}: ${[...names].join(', ')}`);
}

function checkResult(callId: string, edit: unknown): void {
  const at = `results["${callId}"]`;
  if (!isObject(edit) || !('content' in edit)) throw invalid(`edits.${at} must be { content, success? }`);
  checkKnown(edit, resultNames, (name) => `edits.${at}.${name} is no member of a result; those are`);
  checkContent(`${at}.content`, edit.content);
  if ('success' in edit && typeof edit.success !== 'boolean') {
    throw invalid(`edits.${at}.success must be true or false, not ${shownValue(edit.success)}`);
  }
}

function checkContent(at: string, content: unknown): void {
  if (typeof content === 'string') return;
  if (!Array.isArray(content))
    throw invalid(`edits.${at} must be a string or an array of parts, not ${shownValue(content)}`);
  try {
    checkMessages([{ role: 'user', content }]);
  } catch (error) {
    throw new AgentLoopError('INVALID_INPUT', messageOf(error).replace('messages[0].content', `edits.${at}`));
  }
}

function checkSettings(settings: NonNullable<ForkEdits['settings']>): void {
  const { systemPrompt, maxIterations, ...rest } = settings;
  const [stray] = Object.keys(rest);
  if (stray !== undefined) throw invalid(`edits.settings.${stray} is none; there are: systemPrompt, maxIterations`);
  checkStartOptions({
    ...(systemPrompt === undefined ? {} : { systemPrompt }),
    ...(maxIterations === undefined ? {} : { maxIterations }),
  });
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(what: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${what}.`);
}
