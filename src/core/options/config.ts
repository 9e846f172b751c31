import {
  type AgentLoopConfig,
  type Clock,
  type Extension,
  guardedLogger,
  invalidConfig,
  type Logger,
  type OnLength,
  type OnLimit,
  retryPlanFlaw,
  settingsFlaw,
  shownValue,
  systemClock,
  type TaskStateStore,
  type ToolProvider,
} from '../contracts/index.ts';
import { type HookLists, hookLists, hookNames } from '../hooks/hook-table.ts';

/** A configuration that was checked, with every default filled in. */
export interface ResolvedConfig extends AgentLoopConfig {
  readonly toolProviders: NonNullable<AgentLoopConfig['toolProviders']>;
  readonly extensions: NonNullable<AgentLoopConfig['extensions']>;
  readonly hooks: HookLists;
  readonly maxIterations: number;
  readonly onLimit: OnLimit;
  readonly onLength: OnLength;
  readonly toolConcurrency: number;
  readonly modelSilenceMs: number;
  readonly toolListTimeoutMs: number;
  readonly toolTimeoutMs: number;
  readonly toolFailureMode: 'continue' | 'fail';
  readonly abortGraceMs: number;
  readonly leaseMs: number;
  readonly storeDeadlineMs: number;
  readonly maxResumes: number;
  readonly maxHandOffs: number;
  readonly subAgentEvents: 'all' | 'records' | 'none';
  readonly enableTracing: boolean;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly generateId: () => string;
}

/** Of a configuration without a logger. */
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };

const defaults = {
  toolProviders: [],
  extensions: [],
  maxIterations: 10,
  onLimit: 'fail' as const,
  onLength: 'fail' as const,
  toolConcurrency: 5,
  modelSilenceMs: 900_000,
  toolListTimeoutMs: 120_000,
  toolTimeoutMs: 30_000,
  toolFailureMode: 'continue' as const,
  abortGraceMs: 5_000,
  leaseMs: 30_000,
  storeDeadlineMs: 30_000,
  maxResumes: 10,
  maxHandOffs: 10,
  subAgentEvents: 'all' as const,
  enableTracing: true,
  logger: silentLogger,
  clock: systemClock,
  generateId: () => crypto.randomUUID(),
};

/** The names of all options. */
export const knownOptions: ReadonlySet<string> = new Set<keyof AgentLoopConfig>([
  'agentId',
  'llmProvider',
  'toolProviders',
  'argumentChecks',
  'artifactStore',
  'extensions',
  'agents',
  'maxHandOffs',
  'taskStateStore',
  'maxIterations',
  'onLimit',
  'onLength',
  'systemPrompt',
  'toolChoice',
  'model',
  'temperature',
  'maxTokens',
  'responseFormat',
  'providerOptions',
  'toolConcurrency',
  'modelSilenceMs',
  'toolListTimeoutMs',
  'toolTimeoutMs',
  'toolFailureMode',
  'abortGraceMs',
  'leaseMs',
  'storeDeadlineMs',
  'maxResumes',
  'retryPlan',
  'shutdown',
  'subAgentEvents',
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
      throw invalidConfig(`${name} is not an option`, `the options are: ${[...knownOptions].join(', ')}`);
  }
  // Not spread: objects made by it have a shape each, and the hot path reads this one everywhere.
  const resolved: ResolvedConfig = Object.assign({}, defaults, { hooks: noHooks }, given);
  checkParts(resolved);
  checkNumbers(resolved);
  checkChoices(resolved);
  checkSeams(resolved);
  if (resolved.extensions.length > 0) addExtensions(resolved);
  return given.logger === undefined ? resolved : Object.assign(resolved, { logger: guardedLogger(resolved.logger) });
}

function checkParts(config: ResolvedConfig): void {
  if (typeof config.agentId !== 'string' || config.agentId === '') {
    throw invalidConfig('agentId must be a non-empty string', 'name the agent, e.g. agentId: "assistant"');
  }
  if (typeof config.llmProvider?.call !== 'function') {
    throw invalidConfig(
      'llmProvider must be an LLMProvider',
      'give an object with a call(params) method, e.g. new LiteLLMProvider({ … })',
    );
  }
  const { stream } = config.llmProvider;
  if (stream !== undefined && typeof stream !== 'function') {
    throw invalidConfig('llmProvider.stream must be a method', 'leave it out for a provider that only has call');
  }
  if (!Array.isArray(config.toolProviders)) {
    throw invalidConfig('toolProviders must be an array', 'write toolProviders: [new LocalToolProvider([…])]');
  }
  for (const [index, provider] of config.toolProviders.entries())
    checkToolProvider(`toolProviders[${index}]`, provider);
  if (config.artifactStore !== undefined) {
    throw invalidConfig(
      'artifactStore is given to the core, which has no tools of its own',
      'use the AgentLoop of "millrace", or toolProviders: [artifactTools(store)]',
    );
  }
  checkExtensions(config.extensions, checkToolProvider);
  if (config.taskStateStore !== undefined) checkStore('taskStateStore', config.taskStateStore);
}

function checkToolProvider(name: string, provider: ToolProvider): void {
  if (typeof provider?.getTools === 'function' && typeof provider.executeTool === 'function') return;
  throw invalidConfig(
    `${name} must have getTools and executeTool`,
    'wrap single tools: new LocalToolProvider([tool({ … })])',
  );
}

const noHooks = hookLists([]);

/** Tools of extensions come after the others. */
function addExtensions(config: ResolvedConfig): void {
  const toolProviders = [...config.toolProviders, ...config.extensions.flatMap((each) => each.toolProviders ?? [])];
  Object.assign(config, { toolProviders, hooks: hookLists(config.extensions) });
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
  if (['save', 'load', 'delete'].every((method) => hasAll(store, [method]))) {
    throw invalidConfig(
      `${name} keeps states (save, load, delete), and turns are kept as journals`,
      `wrap it: ${name}: snapshotStateStore(store)`,
    );
  }
  const lacks = missing.length === storeMethods.length ? '' : `; it lacks ${missing.join(', ')}`;
  const cure = name === 'store' ? 'give the store of the turn' : 'give new InMemoryStateStore(), or leave it out';
  throw invalidConfig(`${name} must be a TaskStateStore${lacks}`, cure);
}

function checkNumbers(config: ResolvedConfig): void {
  wholeNumber('maxIterations', config.maxIterations, 1);
  wholeNumber('toolConcurrency', config.toolConcurrency, 1);
  wholeNumber('maxResumes', config.maxResumes, 1);
  wholeNumber('maxHandOffs', config.maxHandOffs, 0);
  milliseconds('modelSilenceMs', config.modelSilenceMs, 0);
  milliseconds('toolListTimeoutMs', config.toolListTimeoutMs, 0);
  milliseconds('toolTimeoutMs', config.toolTimeoutMs, 0);
  milliseconds('abortGraceMs', config.abortGraceMs, 0);
  milliseconds('leaseMs', config.leaseMs, 100);
  milliseconds('storeDeadlineMs', config.storeDeadlineMs, 0);
  const flaw = settingsFlaw(config);
  if (flaw) throw invalidConfig(...flaw);
}

function checkChoices(config: ResolvedConfig): void {
  oneOf('onLimit', config.onLimit, ['fail', 'summarize', 'stop']);
  oneOf('onLength', config.onLength, ['fail', 'complete']);
  oneOf('toolFailureMode', config.toolFailureMode, ['continue', 'fail']);
  oneOf('subAgentEvents', config.subAgentEvents, ['all', 'records', 'none']);
  if (config.spanNames !== undefined) oneOf('spanNames', config.spanNames, ['millrace', 'semconv']);
  if (config.systemPrompt !== undefined && typeof config.systemPrompt !== 'string') {
    throw invalidConfig(
      `systemPrompt must be a string, not ${shownValue(config.systemPrompt)}`,
      'leave it out for none',
    );
  }
}

/** What tests and services put in place of the system's. */
function checkSeams(config: ResolvedConfig): void {
  for (const name of ['enableTracing', 'captureContent'] as const) {
    const flag = config[name];
    if (flag !== undefined && typeof flag !== 'boolean') {
      throw invalidConfig(`${name} must be true or false, not ${shownValue(flag)}`, leaveOut(name));
    }
  }
  for (const name of ['redact', 'generateId', 'agents', 'argumentChecks'] as const) {
    const given = config[name];
    if (given === undefined || (given === null && name === 'argumentChecks') || typeof given === 'function') continue;
    throw invalidConfig(`${name} must be a function, not ${shownValue(given)}`, 'or leave it out');
  }
  if (config.shutdown !== undefined && !hasAll(config.shutdown, ['aborted', 'addEventListener'])) {
    throw invalidConfig(`shutdown must be an AbortSignal, not ${shownValue(config.shutdown)}`, 'or leave it out');
  }
  const planFlaw = config.retryPlan === undefined ? undefined : retryPlanFlaw(config.retryPlan);
  if (planFlaw) throw invalidConfig(`retryPlan ${planFlaw}`, 'or leave it out');
  methods('logger', config.logger, ['debug', 'info', 'warn', 'error']);
  methods('clock', config.clock, ['now', 'schedule']);
}

function methods(name: 'logger' | 'clock', value: unknown, needed: readonly string[]): void {
  if (hasAll(value, needed) && needed.every((method) => typeof Reflect.get(value, method) === 'function')) return;
  throw invalidConfig(`${name} must have the methods ${needed.join(', ')}`, 'or leave it out');
}

function hasAll(value: unknown, names: readonly string[]): value is object {
  return typeof value === 'object' && value !== null && names.every((name) => name in value);
}

function withoutUndefined(config: AgentLoopConfig): AgentLoopConfig {
  if (typeof config !== 'object' || config === null) {
    throw invalidConfig('the configuration must be an object', 'write new AgentLoop({ agentId, llmProvider })');
  }
  const given = { ...config };
  for (const name of Object.keys(given) as (keyof AgentLoopConfig)[]) if (given[name] === undefined) delete given[name];
  return given;
}

function wholeNumber(name: keyof AgentLoopConfig, value: number, least: number): void {
  if (Number.isSafeInteger(value) && value >= least) return;
  throw invalidConfig(`${name} must be a whole number of at least ${least}, not ${shownValue(value)}`, leaveOut(name));
}

function milliseconds(name: keyof AgentLoopConfig, value: number, least: number): void {
  if (Number.isFinite(value) && value >= least && value <= 2 ** 31 - 1) return;
  throw invalidConfig(
    `${name} must be milliseconds from ${least} to ${2 ** 31 - 1}, not ${shownValue(value)}`,
    leaveOut(name),
  );
}

function oneOf(name: keyof AgentLoopConfig, value: unknown, choices: readonly string[]): void {
  if (choices.some((choice) => choice === value)) return;
  throw invalidConfig(`${name} must be one of ${choices.join(', ')}, not ${shownValue(value)}`, leaveOut(name));
}

function leaveOut(name: keyof AgentLoopConfig): string {
  const standard = new Map<string, unknown>(Object.entries(defaults)).get(name);
  return standard === undefined ? 'or leave it out' : `leave it out for the default of ${String(standard)}`;
}

const hooks: ReadonlySet<string> = new Set(hookNames);

/** Checks the extensions of a configuration. Errors: `INVALID_CONFIG`, naming the extension, what is wrong and the cure. */
function checkExtensions(
  extensions: readonly Extension[],
  checkToolProvider: (name: string, provider: ToolProvider) => void,
): void {
  if (!Array.isArray(extensions)) throw invalidConfig('extensions must be an array', 'write extensions: [{ name, … }]');
  const names = new Set<string>();
  for (const [index, extension] of extensions.entries()) {
    const at = `extensions[${index}]`;
    // A function has a name too, and no hook.
    if (typeof extension === 'function')
      throw invalidConfig(`${at} must be an extension, not a function`, 'call what makes it, e.g. limits({ … })');
    checkName(at, extension?.name);
    if (names.has(extension.name)) {
      throw invalidConfig(
        `two extensions are called "${extension.name}"`,
        'their records and errors go by the name: rename one',
      );
    }
    names.add(extension.name);
    for (const [member, value] of Object.entries(extension)) checkMember(at, member, value);
    for (const [place, provider] of (extension.toolProviders ?? []).entries()) {
      checkToolProvider(`${at}.toolProviders[${place}]`, provider);
    }
  }
}

function checkName(at: string, name: unknown): void {
  if (typeof name !== 'string' || name === '') throw invalidConfig(`${at} must have a name`, 'it stands in errors');
  if (/^[\w.-]+$/.test(name) && name !== 'steer') return;
  const cure = 'use letters, digits, "-", "_" and ".", and not "steer"';
  throw invalidConfig(`${at} cannot be called ${shownValue(name)}`, cure);
}

function checkMember(at: string, member: string, value: unknown): void {
  if (value === undefined || member === 'name') return;
  switch (member) {
    case 'onError':
      if (value === 'fail' || value === 'continue') return;
      throw invalidConfig(`${at}.onError must be "fail" or "continue", not ${shownValue(value)}`, 'or leave it out');
    case 'timeoutMs':
      if (typeof value === 'number' && value >= 0 && value <= 2 ** 31 - 1) return;
      throw invalidConfig(`${at}.timeoutMs must be milliseconds from 0, not ${shownValue(value)}`, 'or leave it out');
    case 'toolProviders':
      if (Array.isArray(value)) return;
      throw invalidConfig(`${at}.toolProviders must be an array`, 'or leave it out');
    case 'limitUsage':
    case 'partials':
      if (typeof value === 'function') return;
      throw invalidConfig(`${at}.${member} must be a function, not ${shownValue(value)}`, 'or leave it out');
    default:
      if (hooks.has(member) && typeof value === 'function') return;
      throw invalidConfig(`${at}.${member} is no hook`, `the hooks are functions: ${hookNames.join(', ')}`);
  }
}
