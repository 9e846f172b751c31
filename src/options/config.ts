import {
  type AgentLoopConfig,
  callSettingRules,
  type Extension,
  invalidConfig,
  maxAgentIdLength,
  shownValue,
  silentLogger,
  systemClock,
  type ToolProvider,
} from '../core/contracts/index.ts';
import { hookLists, hookNames } from '../core/hooks/index.ts';
import type { Outside, ResolvedConfig } from '../core/options/index.ts';
import { guardedLogger } from '../guarded-logger.ts';
import { restoreRuns } from '../observability/restore-runs.ts';
import { childrenAdvanced } from '../tasks/lost-end.ts';
import { retryTask } from '../tasks/retry-task.ts';
import { answerTask, cancelChildren, cancelTask } from '../tasks/task-commands.ts';
import {
  aBoolean,
  aFunction,
  anAbortSignal,
  anything,
  aString,
  checkOption,
  checkStore,
  hasMethods,
  milliseconds,
  type OptionRule,
  type OptionRules,
  oneOf,
  retryPlanFlaw,
  wholeNumber,
} from './option-rules.ts';

const idBytes = 16;
/** Random bytes for the next ids. */
const pool = Buffer.allocUnsafeSlow(256 * idBytes);
const idText = Buffer.allocUnsafeSlow(36);
const hexDigits = Buffer.from('0123456789abcdef', 'latin1');
const dash = 0x2d;
let poolAt = pool.length;

/** A random UUID (version 4) as a flat string. `crypto.randomUUID` returns a rope of twenty pieces, which a turn would hold until it is read. */
function randomId(): string {
  if (poolAt === pool.length) {
    crypto.getRandomValues(pool);
    poolAt = 0;
  }
  pool[poolAt + 6] = (pool.readUInt8(poolAt + 6) & 0x0f) | 0x40;
  pool[poolAt + 8] = (pool.readUInt8(poolAt + 8) & 0x3f) | 0x80;
  let to = 0;
  for (const byte of pool.subarray(poolAt, poolAt + idBytes)) {
    if (to === 8 || to === 13 || to === 18 || to === 23) idText[to++] = dash;
    idText[to++] = hexDigits[byte >> 4] as number;
    idText[to++] = hexDigits[byte & 15] as number;
  }
  poolAt += idBytes;
  return idText.toString('latin1');
}

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
  generateId: randomId,
};

/** The limits of a configuration that need not be valid as a whole. */
export function limitsOf(
  config: Pick<AgentLoopConfig, 'maxIterations' | 'onLimit'>,
): Pick<ResolvedConfig, 'maxIterations' | 'onLimit'> {
  const { maxIterations = defaults.maxIterations, onLimit = defaults.onLimit } = config;
  return { maxIterations, onLimit };
}

/** The rule of each option. Those with `anything` are checked in `resolveConfig`. */
const rules: OptionRules<AgentLoopConfig> = {
  agentId: anything,
  llmProvider: anything,
  toolProviders: anything,
  argumentChecks: { ...aFunction, fits: (value) => value === null || aFunction.fits(value) },
  artifactStore: anything,
  extensions: anything,
  agents: aFunction,
  maxHandOffs: wholeNumber(0),
  taskStateStore: anything,
  maxIterations: wholeNumber(1),
  onLimit: oneOf('fail', 'summarize', 'stop'),
  onLength: oneOf('fail', 'complete'),
  systemPrompt: { ...aString, cure: 'leave it out for none' },
  ...callSettingRules,
  toolConcurrency: wholeNumber(1),
  modelSilenceMs: milliseconds(0),
  toolListTimeoutMs: milliseconds(0),
  toolTimeoutMs: milliseconds(0),
  toolFailureMode: oneOf('continue', 'fail'),
  abortGraceMs: milliseconds(0),
  leaseMs: milliseconds(100),
  storeDeadlineMs: milliseconds(0),
  maxResumes: wholeNumber(1),
  retryPlan: anything,
  shutdown: anAbortSignal,
  subAgentEvents: oneOf('all', 'records', 'none'),
  enableTracing: aBoolean,
  captureContent: aBoolean,
  redact: aFunction,
  spanNames: oneOf('millrace', 'semconv'),
  logger: anything,
  clock: anything,
  generateId: aFunction,
};

/** The names of all options. */
export const knownOptions: ReadonlySet<string> = new Set(Object.keys(rules));

/** Each rule with its fix; a rule without its own names the default. */
const rulesWithCures: readonly (readonly [name: string, rule: OptionRule])[] = Object.entries(rules).map(
  ([name, rule]) => [name, { ...rule, cure: rule.cure ?? defaultOf(name) }],
);

/** Validates a configuration and adds the defaults. Errors: `INVALID_CONFIG`, naming the option and the fix. */
export function resolveConfig(config: AgentLoopConfig): ResolvedConfig {
  const given = withoutUndefined(config);
  for (const name of Object.keys(given)) {
    if (!knownOptions.has(name))
      throw invalidConfig(`${name} is not an option`, `the options are: ${[...knownOptions].join(', ')}`);
  }
  // Not spread: objects made by it have a shape each, and the whole hot path reads this one.
  const resolved: ResolvedConfig = Object.assign(
    {},
    defaults,
    { hooks: noHooks, outside, resolve: resolveConfig },
    given,
  );
  checkParts(resolved);
  // Absent options need no check: defaults are valid.
  for (const [name, rule] of rulesWithCures)
    if (Object.hasOwn(given, name)) checkOption(name, Reflect.get(given, name), rule);
  checkRest(resolved);
  if (resolved.extensions.length > 0) addExtensions(resolved);
  return given.logger === undefined ? resolved : Object.assign(resolved, { logger: guardedLogger(resolved.logger) });
}

function checkParts(config: ResolvedConfig): void {
  if (typeof config.agentId !== 'string' || config.agentId === '') {
    throw invalidConfig('agentId must be a non-empty string', 'name the agent, e.g. agentId: "assistant"');
  }
  if (config.agentId.length > maxAgentIdLength) {
    throw invalidConfig(`agentId has more than ${maxAgentIdLength} characters`, 'give the agent a shorter name');
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

const outside: Outside = {
  cancel: cancelTask,
  cancelChildren,
  answer: answerTask,
  completeRetry: retryTask,
  childrenAdvanced,
  restoreRuns,
};

/** Tools of extensions follow the others. */
function addExtensions(config: ResolvedConfig): void {
  const toolProviders = [...config.toolProviders, ...config.extensions.flatMap((each) => each.toolProviders ?? [])];
  Object.assign(config, { toolProviders, hooks: hookLists(config.extensions) });
}

function checkRest(config: ResolvedConfig): void {
  const planFlaw = config.retryPlan === undefined ? undefined : retryPlanFlaw(config.retryPlan);
  if (planFlaw) throw invalidConfig(`retryPlan ${planFlaw}`, 'or leave it out');
  checkMethods('logger', config.logger, ['debug', 'info', 'warn', 'error']);
  checkMethods('clock', config.clock, ['now', 'schedule']);
}

function checkMethods(name: 'logger' | 'clock', value: unknown, needed: readonly string[]): void {
  if (!hasMethods(value, needed))
    throw invalidConfig(`${name} must have the methods ${needed.join(', ')}`, 'or leave it out');
}

function withoutUndefined(config: AgentLoopConfig): AgentLoopConfig {
  if (typeof config !== 'object' || config === null) {
    throw invalidConfig('the configuration must be an object', 'write new AgentLoop({ agentId, llmProvider })');
  }
  const given = { ...config };
  for (const name of Object.keys(given) as (keyof AgentLoopConfig)[]) if (given[name] === undefined) delete given[name];
  return given;
}

/** The fix for an option whose default is a string, number or boolean. */
function defaultOf(name: string): string | undefined {
  const standard = new Map<string, unknown>(Object.entries(defaults)).get(name);
  return ['string', 'number', 'boolean'].includes(typeof standard)
    ? `leave it out for the default of ${String(standard)}`
    : undefined;
}

const hooks: ReadonlySet<string> = new Set(hookNames);

/** Checks the extensions of a configuration. Errors: `INVALID_CONFIG`, naming the extension, what is wrong and the fix. */
function checkExtensions(
  extensions: readonly Extension[],
  checkToolProvider: (name: string, provider: ToolProvider) => void,
): void {
  if (!Array.isArray(extensions)) throw invalidConfig('extensions must be an array', 'write extensions: [{ name, … }]');
  const names = new Set<string>();
  for (const [index, extension] of extensions.entries()) {
    const at = `extensions[${index}]`;
    // A function has a name but no hook.
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
  if (typeof name !== 'string' || name === '') throw invalidConfig(`${at} must have a name`, 'errors contain it');
  if (/^[\w.-]+$/.test(name) && name !== 'steer') return;
  const cure = 'use letters, digits, "-", "_" and ".", and not "steer"';
  throw invalidConfig(`${at} cannot be called ${shownValue(name)}`, cure);
}

/** Rules of an extension's members other than its name and its hooks. */
const memberRules: Readonly<Partial<Record<keyof Extension, OptionRule>>> = {
  onError: { fits: (value) => value === 'fail' || value === 'continue', must: 'be "fail" or "continue"' },
  timeoutMs: { ...milliseconds(0), must: 'be milliseconds from 0' },
  limitUsage: aFunction,
  isDue: aFunction,
  partials: aFunction,
};

function checkMember(at: string, member: string, value: unknown): void {
  if (value === undefined || member === 'name') return;
  const rule = new Map(Object.entries(memberRules)).get(member);
  if (rule) return checkOption(`${at}.${member}`, value, rule);
  if (member === 'toolProviders') {
    if (!Array.isArray(value)) throw invalidConfig(`${at}.toolProviders must be an array`, 'or leave it out');
  } else if (!hooks.has(member) || typeof value !== 'function') {
    throw invalidConfig(`${at}.${member} is not a hook`, `the hooks are functions: ${hookNames.join(', ')}`);
  }
}
