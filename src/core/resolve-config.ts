import type { TaskStateStore } from '../stores/interfaces.ts';
import { type Clock, systemClock } from './clock.ts';
import type { AgentLoopConfig, Logger, OnLimit } from './config.ts';
import { AgentLoopError } from './errors.ts';
import type { Extension } from './extension.ts';
import { guardedLogger } from './guarded-logger.ts';
import { shownValue } from './shown-value.ts';

/** A configuration that was checked, with every default filled in. */
export interface ResolvedConfig extends AgentLoopConfig {
  readonly toolProviders: NonNullable<AgentLoopConfig['toolProviders']>;
  readonly extensions: NonNullable<AgentLoopConfig['extensions']>;
  readonly maxIterations: number;
  readonly onLimit: OnLimit;
  readonly toolConcurrency: number;
  readonly toolTimeoutMs: number;
  readonly toolFailureMode: 'continue' | 'fail';
  readonly abortGraceMs: number;
  readonly leaseMs: number;
  readonly storeDeadlineMs: number;
  readonly maxResumes: number;
  readonly enableTracing: boolean;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly generateId: () => string;
}

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

const defaults = {
  toolProviders: [],
  extensions: [],
  maxIterations: 10,
  onLimit: 'fail' as const,
  toolConcurrency: 5,
  toolTimeoutMs: 30_000,
  toolFailureMode: 'continue' as const,
  abortGraceMs: 5_000,
  leaseMs: 30_000,
  storeDeadlineMs: 30_000,
  maxResumes: 10,
  enableTracing: true,
  logger: silent,
  clock: systemClock,
  generateId: () => crypto.randomUUID(),
};

const knownOptions: ReadonlySet<string> = new Set<keyof AgentLoopConfig>([
  'agentId',
  'llmProvider',
  'toolProviders',
  'extensions',
  'taskStateStore',
  'maxIterations',
  'onLimit',
  'systemPrompt',
  'toolChoice',
  'temperature',
  'maxTokens',
  'toolConcurrency',
  'toolTimeoutMs',
  'toolFailureMode',
  'abortGraceMs',
  'leaseMs',
  'storeDeadlineMs',
  'maxResumes',
  'shutdown',
  'enableTracing',
  'captureContent',
  'redact',
  'spanNames',
  'logger',
  'clock',
  'generateId',
]);

/** Checks a configuration and fills in the defaults. Errors: `INVALID_CONFIG`, naming the option and the cure. */
export function resolveConfig(config: AgentLoopConfig): ResolvedConfig {
  const given = withoutUndefined(config);
  for (const name of Object.keys(given)) {
    if (!knownOptions.has(name))
      throw invalid(`${name} is not an option`, `the options are: ${[...knownOptions].join(', ')}`);
  }
  // Not spread: objects made by it have a shape each, and the hot path reads this one everywhere.
  const resolved: ResolvedConfig = Object.assign({}, defaults, given);
  checkParts(resolved);
  checkNumbers(resolved);
  checkChoices(resolved);
  checkSeams(resolved);
  return given.logger === undefined ? resolved : Object.assign(resolved, { logger: guardedLogger(resolved.logger) });
}

function checkParts(config: ResolvedConfig): void {
  if (typeof config.agentId !== 'string' || config.agentId === '') {
    throw invalid('agentId must be a non-empty string', 'name the agent, e.g. agentId: "assistant"');
  }
  if (typeof config.llmProvider?.call !== 'function') {
    throw invalid(
      'llmProvider must be an LLMProvider',
      'give an object with a call(params) method, e.g. new LiteLLMProvider({ … })',
    );
  }
  const { stream } = config.llmProvider;
  if (stream !== undefined && typeof stream !== 'function') {
    throw invalid('llmProvider.stream must be a method', 'leave it out for a provider that only has call');
  }
  if (!Array.isArray(config.toolProviders)) {
    throw invalid('toolProviders must be an array', 'write toolProviders: [new LocalToolProvider([…])]');
  }
  for (const [index, provider] of config.toolProviders.entries()) {
    if (typeof provider?.getTools !== 'function' || typeof provider.executeTool !== 'function') {
      throw invalid(
        `toolProviders[${index}] must have getTools and executeTool`,
        'wrap single tools: new LocalToolProvider([tool({ … })])',
      );
    }
  }
  checkExtensions(config.extensions);
  if (config.taskStateStore !== undefined) checkStore('taskStateStore', config.taskStateStore);
}

const hooks: ReadonlySet<string> = new Set<keyof Extension>(['approveToolCall']);

function checkExtensions(extensions: ResolvedConfig['extensions']): void {
  if (!Array.isArray(extensions)) throw invalid('extensions must be an array', 'write extensions: [{ name, … }]');
  for (const [index, extension] of extensions.entries()) {
    if (typeof extension?.name !== 'string' || extension.name === '') {
      throw invalid(`extensions[${index}] must have a name`, 'it stands in errors');
    }
    for (const [hook, value] of Object.entries(extension)) {
      if (hook === 'name' || value === undefined || (hooks.has(hook) && typeof value === 'function')) continue;
      const known = `the hooks are functions: ${[...hooks].join(', ')}`;
      throw invalid(`extensions[${index}].${hook} is no hook`, known);
    }
  }
}

const storeMethods: readonly (keyof TaskStateStore)[] = [
  'create',
  'acquire',
  'append',
  'renew',
  'release',
  'commands',
  'post',
  'read',
  'follow',
  'publish',
];

/** Checks that something is a store. Errors: `INVALID_CONFIG`, naming the option and what is missing. */
export function checkStore(name: string, store: unknown): asserts store is TaskStateStore {
  const missing = storeMethods.filter(
    (method) => !hasAll(store, [method]) || typeof Reflect.get(store, method) !== 'function',
  );
  if (missing.length === 0) return;
  const lacks = missing.length === storeMethods.length ? '' : `; it lacks ${missing.join(', ')}`;
  throw invalid(`${name} must be a TaskStateStore${lacks}`, 'give new InMemoryStateStore(), or leave it out');
}

function checkNumbers(config: ResolvedConfig): void {
  wholeNumber('maxIterations', config.maxIterations, 1);
  wholeNumber('toolConcurrency', config.toolConcurrency, 1);
  wholeNumber('maxResumes', config.maxResumes, 1);
  milliseconds('toolTimeoutMs', config.toolTimeoutMs, 0);
  milliseconds('abortGraceMs', config.abortGraceMs, 0);
  milliseconds('leaseMs', config.leaseMs, 100);
  milliseconds('storeDeadlineMs', config.storeDeadlineMs, 0);
  if (config.maxTokens !== undefined) wholeNumber('maxTokens', config.maxTokens, 1);
  if (config.temperature !== undefined && !(Number.isFinite(config.temperature) && config.temperature >= 0)) {
    throw invalid(
      `temperature must be a number of at least 0, not ${shownValue(config.temperature)}`,
      'most models take 0 to 2',
    );
  }
}

function checkChoices(config: ResolvedConfig): void {
  oneOf('onLimit', config.onLimit, ['fail', 'summarize', 'stop']);
  oneOf('toolFailureMode', config.toolFailureMode, ['continue', 'fail']);
  if (config.spanNames !== undefined) oneOf('spanNames', config.spanNames, ['millrace', 'semconv']);
  checkToolChoice(config.toolChoice);
  if (config.systemPrompt !== undefined && typeof config.systemPrompt !== 'string') {
    throw invalid(`systemPrompt must be a string, not ${shownValue(config.systemPrompt)}`, 'leave it out for none');
  }
}

function checkToolChoice(choice: unknown): void {
  if (choice === undefined || choice === 'auto' || choice === 'none' || choice === 'required') return;
  if (hasAll(choice, ['name']) && typeof Reflect.get(choice, 'name') === 'string') return;
  throw invalid(
    `toolChoice must be "auto", "none", "required" or { name }, not ${shownValue(choice)}`,
    'leave it out to let the model decide',
  );
}

/** What tests and services put in place of the system's. */
function checkSeams(config: ResolvedConfig): void {
  for (const name of ['enableTracing', 'captureContent'] as const) {
    const flag = config[name];
    if (flag !== undefined && typeof flag !== 'boolean') {
      throw invalid(`${name} must be true or false, not ${shownValue(flag)}`, leaveOut(name));
    }
  }
  for (const name of ['redact', 'generateId'] as const) {
    const given = config[name];
    if (given !== undefined && typeof given !== 'function') {
      throw invalid(`${name} must be a function, not ${shownValue(given)}`, 'or leave it out');
    }
  }
  if (config.shutdown !== undefined && !hasAll(config.shutdown, ['aborted', 'addEventListener'])) {
    throw invalid(`shutdown must be an AbortSignal, not ${shownValue(config.shutdown)}`, 'or leave it out');
  }
  methods('logger', config.logger, ['debug', 'info', 'warn', 'error']);
  methods('clock', config.clock, ['now', 'schedule']);
}

function methods(name: 'logger' | 'clock', value: unknown, needed: readonly string[]): void {
  if (hasAll(value, needed) && needed.every((method) => typeof Reflect.get(value, method) === 'function')) return;
  throw invalid(`${name} must have the methods ${needed.join(', ')}`, 'or leave it out');
}

function hasAll(value: unknown, names: readonly string[]): value is object {
  return typeof value === 'object' && value !== null && names.every((name) => name in value);
}

function withoutUndefined(config: AgentLoopConfig): AgentLoopConfig {
  if (typeof config !== 'object' || config === null) {
    throw invalid('the configuration must be an object', 'write new AgentLoop({ agentId, llmProvider })');
  }
  const given = { ...config };
  for (const name of Object.keys(given) as (keyof AgentLoopConfig)[]) if (given[name] === undefined) delete given[name];
  return given;
}

function wholeNumber(name: keyof AgentLoopConfig, value: number, least: number): void {
  if (Number.isSafeInteger(value) && value >= least) return;
  throw invalid(`${name} must be a whole number of at least ${least}, not ${shownValue(value)}`, leaveOut(name));
}

function milliseconds(name: keyof AgentLoopConfig, value: number, least: number): void {
  if (Number.isFinite(value) && value >= least && value <= 2 ** 31 - 1) return;
  throw invalid(
    `${name} must be milliseconds from ${least} to ${2 ** 31 - 1}, not ${shownValue(value)}`,
    leaveOut(name),
  );
}

function oneOf(name: keyof AgentLoopConfig, value: unknown, choices: readonly string[]): void {
  if (choices.some((choice) => choice === value)) return;
  throw invalid(`${name} must be one of ${choices.join(', ')}, not ${shownValue(value)}`, leaveOut(name));
}

function leaveOut(name: keyof AgentLoopConfig): string {
  const standard = new Map<string, unknown>(Object.entries(defaults)).get(name);
  return standard === undefined ? 'or leave it out' : `leave it out for the default of ${String(standard)}`;
}

function invalid(what: string, cure: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `${what}; ${cure}.`);
}
