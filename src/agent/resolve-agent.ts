import {
  type AgentLoopConfig,
  type AgentSetup,
  type CallSettings,
  copySettings,
  type Extension,
  invalidConfig,
  isObject,
  type LLMProvider,
  type MessageStore,
  shownValue,
  type TaskStateStore,
  type ToolProvider,
  taskIdPattern,
} from '../core/contracts/index.ts';
import type { TurnIdentity } from '../core/journal/index.ts';
import { contextManagement as manageContext } from '../extensions/context-management.ts';
import { StructuredOutput } from '../extensions/structured-output/structured-output.ts';
import { guardedLogger } from '../guarded-logger.ts';
import { knownOptions } from '../options/config.ts';
import {
  aBoolean,
  aName,
  anArray,
  anObject,
  checkNames,
  checkOption,
  checkOptions,
  checkStore,
  hasMethods,
  milliseconds,
  type OptionRule,
  oneOf,
} from '../options/option-rules.ts';
import { policyNames } from '../providers/policies/policy-order.ts';
import { retry } from '../providers/policies/retry.ts';
import { InMemoryMessageStore } from '../stores/messages/table-message-store.ts';
import { withArtifactTools } from '../tools/artifact-tools.ts';
import { LocalToolProvider } from '../tools/local-tools.ts';
import { withArgumentChecks } from '../tools/schema-checks.ts';
import type { Tool } from '../tools/tool.ts';
import type {
  AgentChanges,
  AgentOptions,
  AgentSettings,
  BusyPolicy,
  Dependencies,
  PromptFunction,
} from './agent-options.ts';

/** The validated options of an agent, with all defaults. */
export interface ResolvedAgent {
  readonly id: string;
  readonly name: string;
  readonly contextId: string;
  readonly settings: AgentSettings;
  readonly messageStore: MessageStore;
  readonly busy: BusyPolicy;
  readonly queueTimeoutMs: number;
  /** For its loops, without its tools and conversation. */
  readonly loop: AgentLoopConfig;
  /** The tools of a turn, with the turn's overrides of dependencies. */
  readonly toolsWith: (overrides: Dependencies) => readonly ToolProvider[];
  /** Whether overrides affect the tools. */
  readonly toolsDepend: boolean;
}

/** Validates the options of an agent that its loop does not validate. Errors: `INVALID_CONFIG`, naming the option and the fix. */
export function resolveAgent<D extends Dependencies>(options: AgentOptions<D>): ResolvedAgent {
  checkAgentNames(options);
  checkAgentOptions(options);
  const settings = copyOf(options);
  const generateId = settings.generateId ?? (() => crypto.randomUUID());
  const id = settings.id ?? settings.name ?? generateId();
  const { busy = 'reject', queueTimeoutMs = 3_600_000, messageStore = messagesOf(settings.taskStateStore) } = settings;
  return {
    id,
    name: settings.name ?? id,
    contextId: settings.contextId ?? generateId(),
    settings,
    messageStore,
    busy,
    queueTimeoutMs,
    loop: loopConfigOf(settings, id),
    ...toolsOf(options, id),
  };
}

type OwnOption =
  | Exclude<keyof AgentSettings | 'tools' | 'dependencies', keyof AgentLoopConfig>
  | 'model'
  | 'systemPrompt';

const ownOptions: Readonly<Record<OwnOption, true>> = {
  id: true,
  name: true,
  description: true,
  provider: true,
  providers: true,
  model: true,
  retry: true,
  systemPrompt: true,
  tools: true,
  dependencies: true,
  metadata: true,
  messageStore: true,
  contextId: true,
  busy: true,
  queueTimeoutMs: true,
  contextManagement: true,
  output: true,
  outputSchema: true,
  enableUsageTracking: true,
};

const loopOnly: readonly string[] = ['agentId', 'llmProvider', 'agents', 'maxHandOffs'];

function checkAgentNames(options: object): void {
  const ofLoops = [...knownOptions].filter((name) => !loopOnly.includes(name));
  checkNames(options, [...new Set([...Object.keys(ownOptions), ...ofLoops])], 'an agent');
}

/** A copy: later changes of the caller's options have no effect. */
function copyOf<D extends Dependencies>(options: AgentOptions<D>): AgentSettings {
  const { metadata, toolProviders, extensions, tools, dependencies, ...rest } = { dependencies: undefined, ...options };
  return Object.freeze({
    ...rest,
    ...(rest.logger && { logger: guardedLogger(rest.logger) }),
    ...(metadata && { metadata: { ...metadata } }),
    ...(toolProviders && { toolProviders: [...toolProviders] }),
    ...(extensions && { extensions: [...extensions] }),
  });
}

function toolsOf<D extends Dependencies>(
  options: AgentOptions<D>,
  id: string,
): Pick<ResolvedAgent, 'toolsWith' | 'toolsDepend'> {
  const local = (tools: readonly Tool[]) =>
    tools.length === 0 ? [] : [new LocalToolProvider(tools, { name: `tools of ${id}` })];
  const { toolProviders: others = [] } = withArtifactTools(options);
  if ('dependencies' in options) {
    const { tools, dependencies } = options;
    if (typeof tools !== 'function')
      throw invalidConfig('dependencies need tools that are a function of them', 'or leave them out');
    const dependent = (overrides: Dependencies) => checkTools(tools({ ...dependencies, ...overrides }));
    return { toolsDepend: true, toolsWith: (overrides) => [...local(dependent(overrides)), ...others] };
  }
  const fixed = [...local(checkTools(options.tools ?? [])), ...others];
  return { toolsDepend: false, toolsWith: () => fixed };
}

function loopConfigOf(settings: AgentSettings, agentId: string): AgentLoopConfig {
  const { id, name, description, provider, providers, metadata, messageStore, artifactStore, contextId, ...most } =
    settings;
  const { busy, queueTimeoutMs, enableUsageTracking, contextManagement, output, outputSchema, ...others } = most;
  const { toolProviders, ...rest } = others;
  const { model, retry: _, systemPrompt, extensions, ...config } = rest;
  return {
    ...modelSettings(model),
    ...withArgumentChecks(config),
    ...(typeof systemPrompt === 'string' && { systemPrompt }),
    agentId,
    llmProvider: retrying(providerOf(settings), settings),
    extensions: extensionsOf(settings),
  };
}

function extensionsOf({
  systemPrompt,
  extensions = [],
  contextManagement,
  output,
  outputSchema,
}: AgentSettings): readonly Extension[] {
  return [
    ...(typeof systemPrompt === 'function' ? [promptFunction(systemPrompt)] : []),
    ...extensions,
    ...outputOf(output, outputSchema),
    ...(contextManagement === null ? [] : manageContext(contextManagement)),
  ];
}

function outputOf(output: AgentSettings['output'], schema: AgentSettings['outputSchema']): readonly Extension[] {
  if (output === undefined) return schema === undefined ? [] : [StructuredOutput.of({ schema }, 'outputSchema')];
  if (schema !== undefined) throw invalidConfig('an agent has output or outputSchema', 'write output: { schema }');
  if ('forceFinish' in output)
    throw invalidConfig('output has no forceFinish', 'for turns without a value use the extension structuredOutput');
  return [StructuredOutput.of(output, 'output')];
}

/** A member's part of a team's turn: its loop options without those of the turn, and its tools. */
export function setupOf({ loop, name, settings, toolsWith }: ResolvedAgent, dependencies: Dependencies): AgentSetup {
  const { llmProvider, extensions, maxIterations, onLimit, onLength, systemPrompt } = loop;
  const { modelSilenceMs, toolListTimeoutMs, toolConcurrency, toolTimeoutMs, toolFailureMode } = loop;
  const limits = { maxIterations, onLimit, onLength };
  const times = { modelSilenceMs, toolListTimeoutMs, toolTimeoutMs };
  const given = { extensions, ...limits, ...times, systemPrompt, toolConcurrency, toolFailureMode };
  const ofCalls: CallSettings = {};
  copySettings(ofCalls, loop);
  const { metadata } = settings;
  const optional: Partial<AgentSetup> = Object.fromEntries(
    Object.entries({ ...given, ...ofCalls, metadata }).filter(([, value]) => value !== undefined),
  );
  return { ...optional, name, llmProvider, toolProviders: toolsWith(dependencies) };
}

/** Adds retries, unless the provider has a `retry` policy already. Errors: `INVALID_CONFIG` if the option `retry` is set as well. */
function retrying(provider: LLMProvider, { retry: given, clock }: AgentSettings): LLMProvider {
  if (given === null || (given === undefined && policyNames(provider).includes('retry'))) return provider;
  return retry({ clock, ...given, maxRetries: given?.maxRetries ?? 4 })(provider);
}

function modelSettings(model: AgentSettings['model']): CallSettings {
  if (model === undefined) return {};
  if (typeof model === 'string') return { model };
  const { name, ...settings } = model;
  return { ...settings, model: name };
}

function providerOf({ provider, providers = {} }: AgentSettings): LLMProvider {
  if (typeof provider === 'object' && provider !== null && typeof provider.call === 'function') return provider;
  if (typeof provider !== 'string')
    throw invalidConfig(
      `provider must be an LLMProvider or the name of one of providers, not ${shownValue(provider)}`,
      'give an object with a call(params) method, e.g. new LiteLLMProvider({ … })',
    );
  const found = Object.hasOwn(providers, provider) ? providers[provider] : undefined;
  if (found) return found;
  const known = Object.keys(providers);
  const cure =
    known.length > 0
      ? `the names in providers are: ${known.join(', ')}`
      : 'a name stands for a member of providers, and there are none; give an object, e.g. new LiteLLMProvider({ … }) of millrace/litellm or await createProvider("anthropic:…") of millrace/ai-sdk';
  throw invalidConfig(`provider ${shownValue(provider)} is not known`, cure);
}

/** Prepends the function's prompt to the instructions of each model call, unless the turn has its own system prompt, which is for its first agent. */
function promptFunction(prompt: PromptFunction): Extension {
  const asked = new WeakMap<TurnIdentity, Promise<string>>();
  return {
    name: 'system-prompt',
    async prepareIteration({ systemPrompt }, context) {
      const { turn, changes, agentChanges } = context.state;
      const given = agentChanges <= 1 && turn.settings.systemPrompt !== undefined;
      if (given || changes.settings.systemPrompt !== undefined) return undefined;
      const answer = asked.get(turn) ?? Promise.resolve(prompt(context));
      asked.set(turn, answer);
      const own = await answer;
      if (typeof own !== 'string') throw new TypeError('systemPrompt must return a string');
      return { view: { systemPrompt: systemPrompt === undefined ? own : `${own}\n\n${systemPrompt}` } };
    },
  };
}

/** The options of an agent with changes; changed tools replace tools with dependencies. */
export function changedOptions<D extends Dependencies>(
  options: AgentOptions<D>,
  { tools, ...settings }: AgentChanges,
): AgentOptions<D> {
  const before = withoutOutput(options, settings);
  return tools ? { ...withoutDependencies(before), ...settings, tools } : { ...before, ...settings };
}

/** A changed output, by either of its options, replaces the previous one completely. */
function withoutOutput<D extends Dependencies>(options: AgentOptions<D>, changes: AgentChanges): AgentOptions<D> {
  if (changes.output === undefined && changes.outputSchema === undefined) return options;
  const { output, outputSchema, ...rest } = options;
  return rest;
}

function withoutDependencies<D extends Dependencies>(options: AgentOptions<D>): AgentSettings {
  const { tools, dependencies, ...settings } = { dependencies: undefined, ...options };
  return settings;
}

const aText: OptionRule = { ...aName, must: 'be a non-empty text' };
const objectOrNull: OptionRule = {
  fits: (value) => value === null || isObject(value),
  must: 'be an object of options, or null',
};

/** Those that no loop checks, or that are read before it does. */
const rules: Readonly<Partial<Record<keyof AgentSettings | 'dependencies', OptionRule>>> = {
  id: aText,
  name: aText,
  contextId: {
    fits: (value) => typeof value === 'string' && taskIdPattern.test(value),
    must: 'be 1 to 128 of the characters A-Z a-z 0-9 _ . : -',
  },
  description: aText,
  metadata: anObject,
  providers: anObject,
  dependencies: anObject,
  model: {
    fits: (value) => aName.fits(value) || (isObject(value) && aName.fits(value['name'])),
    must: 'be a name or an object with a name',
    cure: 'write model: "small-model", or model: { name: "small-model", temperature: 0 }',
  },
  retry: { ...objectOrNull, cure: 'write retry: null for none' },
  systemPrompt: {
    fits: (value) => typeof value === 'string' || typeof value === 'function',
    must: 'be a string or a function',
    cure: 'leave it out for none',
  },
  busy: { ...oneOf('reject', 'queue', 'steer'), cure: 'leave it out for the default of reject' },
  queueTimeoutMs: { ...milliseconds(0), cure: 'write queueTimeoutMs: 0 for no limit' },
  toolProviders: { ...anArray, cure: 'write toolProviders: [new LocalToolProvider([…])]' },
  contextManagement: { ...objectOrNull, cure: 'write contextManagement: null for none' },
  output: { ...anObject, must: 'be an object of options', cure: 'write output: { schema }' },
  extensions: { ...anArray, cure: 'write extensions: [limits({ … })]' },
  enableUsageTracking: aBoolean,
};

/** Errors: `INVALID_CONFIG`, naming the first invalid option and the fix. */
function checkAgentOptions(options: AgentSettings): void {
  checkOptions(options, rules);
  if (options.messageStore !== undefined) checkMessageStore('messageStore', options.messageStore);
}

const toolCure = 'write tools: [tool({ name, description, parameters, execute })]';
const aTool: OptionRule = {
  fits: (value) => isObject(value) && isObject(value['definition']),
  must: 'be what tool({ … }) makes',
  cure: toolCure,
};

/** Returns the tools. Errors: `INVALID_CONFIG` if they are invalid. */
function checkTools(tools: readonly Tool[]): readonly Tool[] {
  if (typeof tools === 'function')
    throw invalidConfig(
      'tools that are a function need dependencies',
      'give dependencies: { … }, or an array of tools',
    );
  checkOption('tools', tools, { ...anArray, must: 'be an array of tools', cure: toolCure });
  const stray = tools.findIndex((each) => !aTool.fits(each));
  if (stray >= 0) checkOption(`tools[${stray}]`, tools[stray], aTool);
  return tools;
}

/** Stores created because neither `messageStore` nor `taskStateStore` was passed. */
const ofProcess = new WeakSet<MessageStore>();

/** Whether a `taskStateStore` that the agent gets later replaces this store of conversations. */
export function givesWay(messageStore: MessageStore): boolean {
  return ofProcess.has(messageStore);
}

/**
 * The default `messageStore`: that of the journals' store, so that conversations and journals are equally
 * durable. Errors: `INVALID_CONFIG` if that store has none.
 */
export function messagesOf(taskStateStore: TaskStateStore | undefined): MessageStore {
  if (!taskStateStore) {
    const messages = new InMemoryMessageStore();
    ofProcess.add(messages);
    return messages;
  }
  checkStore('taskStateStore', taskStateStore);
  if (taskStateStore.messages) {
    checkMessageStore('taskStateStore.messages', taskStateStore.messages);
    return taskStateStore.messages;
  }
  throw invalidConfig(
    'taskStateStore keeps turns and no conversations, so the agent would forget them with this process',
    'give messageStore too: new LmdbMessageStore({ path }), new RedisMessageStore({ redis }), one of your own, or new InMemoryMessageStore() to forget them',
  );
}

const methods: readonly (keyof MessageStore)[] = ['begin', 'append', 'load', 'list', 'setMetadata'];

/** Errors: `INVALID_CONFIG`, naming the missing method: stores written for 0.1 have no `list`, and their messages no ids. */
function checkMessageStore(name: string, store: unknown): void {
  const missing = methods.filter((method) => !hasMethods(store, [method]));
  if (missing.length === 0) return;
  const what = isObject(store) ? `it lacks ${missing.join(', ')}` : `it is ${shownValue(store)}`;
  const cure =
    missing.length === 1 && missing[0] === 'list'
      ? 'add list(contextId, query), which gives stored messages with id and createdAt; messageStoreContract examines it'
      : 'give new InMemoryMessageStore(), or leave it out';
  throw invalidConfig(`${name} must be a MessageStore; ${what}`, cure);
}
