import { invalidConfig, shownValue, taskIdPattern } from '../core/contracts/index.ts';
import type { Tool } from '../tools/tool.ts';
import type { AgentSettings } from './agent-options.ts';
import { checkMessageStore } from './messages-of.ts';

/** What a value has to be, in words, and what to do about one that is not. */
interface Kind {
  readonly fits: (value: unknown) => boolean;
  readonly words: string;
  readonly cure: string;
}

const busyPolicies: readonly unknown[] = ['reject', 'queue', 'steer'];
const cure = 'or leave it out';
const text: Kind = { fits: isText, words: 'a non-empty text', cure };
const record: Kind = { fits: isRecord, words: 'an object', cure };

/** Those that no loop checks, or that are read before it does. */
const kinds: Readonly<Partial<Record<keyof AgentSettings | 'dependencies', Kind>>> = {
  id: text,
  name: text,
  contextId: {
    fits: (value) => typeof value === 'string' && taskIdPattern.test(value),
    words: '1 to 128 of the characters A-Z a-z 0-9 _ . : -',
    cure,
  },
  description: text,
  metadata: record,
  providers: record,
  dependencies: record,
  model: {
    fits: (value) => isText(value) || (isRecord(value) && isText(value['name'])),
    words: 'a name or an object with a name',
    cure: 'write model: "small-model", or model: { name: "small-model", temperature: 0 }',
  },
  retry: {
    fits: (value) => value === null || isRecord(value),
    words: 'an object of options, or null',
    cure: 'write retry: null for none',
  },
  systemPrompt: {
    fits: (value) => typeof value === 'string' || typeof value === 'function',
    words: 'a string or a function',
    cure: 'leave it out for none',
  },
  busy: {
    fits: (value) => busyPolicies.includes(value),
    words: 'one of reject, queue, steer',
    cure: 'leave it out for the default of reject',
  },
  queueTimeoutMs: {
    fits: (value) => typeof value === 'number' && value >= 0 && value <= 2 ** 31 - 1,
    words: `milliseconds from 0 to ${2 ** 31 - 1}`,
    cure: 'write queueTimeoutMs: 0 for no limit',
  },
  toolProviders: { fits: Array.isArray, words: 'an array', cure: 'write toolProviders: [new LocalToolProvider([…])]' },
  contextManagement: {
    fits: (value) => value === null || isRecord(value),
    words: 'an object of options, or null',
    cure: 'write contextManagement: null for none',
  },
  output: { fits: isRecord, words: 'an object of options', cure: 'write output: { schema }' },
  extensions: { fits: Array.isArray, words: 'an array', cure: 'write extensions: [limits({ … })]' },
  enableUsageTracking: { fits: (value) => typeof value === 'boolean', words: 'true or false', cure },
};

/** Errors: `INVALID_CONFIG`. */
export function assertObject(what: string, value: unknown, objectCure: string): void {
  if (!isRecord(value)) throw invalidConfig(`${what} must be an object, not ${shownValue(value)}`, objectCure);
}

/** Errors: `INVALID_CONFIG`, naming the first option that is wrong, and the cure. */
export function checkAgentOptions(options: AgentSettings): void {
  for (const [option, kind] of Object.entries(kinds)) {
    const value: unknown = Reflect.get(options, option);
    if (value !== undefined && !kind.fits(value)) throw wrong(option, value, kind);
  }
  if (options.messageStore !== undefined) checkMessageStore('messageStore', options.messageStore);
}

const toolCure = 'write tools: [tool({ name, description, parameters, execute })]';
const aTool: Kind = {
  fits: (value) => isRecord(value) && isRecord(value['definition']),
  words: 'what tool({ … }) makes',
  cure: toolCure,
};

/** The tools as they are. Errors: `INVALID_CONFIG` where they are none. */
export function checkTools(tools: readonly Tool[]): readonly Tool[] {
  if (typeof tools === 'function')
    throw invalidConfig(
      'tools that are a function need dependencies',
      'give dependencies: { … }, or an array of tools',
    );
  if (!Array.isArray(tools)) throw invalidConfig(`tools must be an array of tools, not ${shownValue(tools)}`, toolCure);
  const stray = tools.findIndex((each) => !aTool.fits(each));
  if (stray >= 0) throw wrong(`tools[${stray}]`, tools[stray], aTool);
  return tools;
}

function wrong(option: string, value: unknown, { words, cure }: Kind): Error {
  return invalidConfig(`${option} must be ${words}, not ${shownValue(value)}`, cure);
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
