import type { LLMProvider } from '../core/contracts/index.ts';
import { shownUrl } from '../observability/otel-environment.ts';
import {
  addressSources,
  hasCredentials,
  keySources,
  type VendorName,
  vendorNames,
  vendorOf,
} from '../providers/ai-sdk/vendors.ts';
import { invalidConfig, isHttpUrl } from './arguments.ts';
import type { Environment } from './terminal.ts';

/** What the command line says about the model. */
export interface ModelFlags {
  readonly baseUrl?: string;
  readonly model?: string;
  /** Names the environment variable that holds the key. */
  readonly apiKeyEnv?: string;
}

/** A model of a vendor, asked in the vendor's own wire. */
interface VendorSettings {
  readonly kind: 'vendor';
  /** `vendor:model`. */
  readonly model: string;
  /** Absent: the vendor's package has credentials of its own. */
  readonly apiKey?: string;
  readonly baseUrl: string;
  readonly warnings: readonly string[];
}

/** Which model answers: one of a vendor, one at an address, or the built-in demo model. */
export type ModelSettings =
  | VendorSettings
  | {
      readonly kind: 'server';
      readonly baseUrl: string;
      readonly model: string;
      readonly apiKey?: string;
      /** Whole sentences for the user. */
      readonly warnings: readonly string[];
    }
  | { readonly kind: 'demo'; readonly warnings: readonly string[] };

const openAiBaseUrl = 'https://api.openai.com/v1';
const standInWarning =
  'no model is set (--base-url or OPENAI_BASE_URL): the built-in demo model answers; it is a small program, not a language model';

/**
 * Decides from the command line, then from `OPENAI_BASE_URL`, `LITELLM_BASE_URL`, `OPENAI_MODEL`, `LITELLM_MODEL` and
 * `OPENAI_API_KEY`. A model name and a key without an address mean api.openai.com; nothing at all means the stand-in. A model that is
 * named with its vendor (`anthropic:…`, `google:…`, `bedrock:…`) is asked of that vendor, with the key that the vendor's own variable holds.
 * @throws AgentLoopError `INVALID_CONFIG` where the settings do not fit together.
 */
export function modelSettings(flags: ModelFlags, env: Environment): ModelSettings {
  const model = flags.model?.trim() ?? firstSet(env, 'OPENAI_MODEL', 'LITELLM_MODEL');
  if (model === '') throw invalidConfig('--model is empty; name a model, or leave it out for the built-in demo model');
  const vendor = vendorPrefixes.find((prefix) => model?.startsWith(`${prefix}:`));
  if (vendor !== undefined && model !== undefined) return vendorSettings({ vendor, model }, flags, env);
  const apiKey = keyOf(flags, env);
  const baseUrl = baseUrlOf(flags, env);
  if (model === undefined) {
    if (baseUrl === undefined) return standIn(flags, apiKey);
    throw invalidConfig(`${shownUrl(baseUrl)} needs the name of a model: add --model NAME or set OPENAI_MODEL`);
  }
  if (baseUrl === undefined && apiKey === undefined) {
    throw invalidConfig(
      `model ${model} needs an address: add --base-url URL or set OPENAI_BASE_URL; for api.openai.com, set OPENAI_API_KEY${ofVendors(model)}`,
    );
  }
  const address = baseUrl ?? openAiBaseUrl;
  return {
    kind: 'server',
    baseUrl: address,
    model,
    ...(apiKey === undefined ? {} : { apiKey }),
    warnings: apiKey !== undefined && isExposed(address) ? [exposedWarning(address)] : [],
  };
}

/** What a name with a colon may have been meant for. */
function ofVendors(model: string): string {
  return model.includes(':') ? `; without an address there are ${vendorModels}` : '';
}

/** A server of the OpenAI wire needs no prefix: it is named by its address. */
type VendorPrefix = Exclude<VendorName, 'openai-compatible'>;

const vendorPrefixes: readonly VendorPrefix[] = vendorNames.filter((name) => name !== 'openai-compatible');

/** `anthropic:NAME, google:NAME, …` */
export const vendorModels = vendorPrefixes.map((prefix) => `${prefix}:NAME`).join(', ');

function vendorSettings(
  { vendor, model }: { readonly vendor: VendorPrefix; readonly model: string },
  flags: ModelFlags,
  env: Environment,
): VendorSettings {
  if (model === `${vendor}:`) throw invalidConfig(`--model ${vendor}: needs the name of a model after the colon`);
  const known = vendorOf(vendor);
  const apiKey = keyOf(flags, env, known.keyVariables);
  if (apiKey === undefined && known.keyVariables.length > 0 && !hasCredentials(known, env)) {
    throw invalidConfig(
      `model ${model} needs a key: set ${keySources(known)}, or name another variable with --api-key-env`,
    );
  }
  const ofEnvironment = vendor === 'openai' || vendor === 'openai-chat' ? baseUrlIn(env, 'OPENAI_BASE_URL') : undefined;
  const baseUrl = flags.baseUrl ?? ofEnvironment ?? known.baseUrl(env);
  if (baseUrl === undefined) {
    throw invalidConfig(`model ${model} needs an address: set ${addressSources(known)}, or add --base-url URL`);
  }
  return {
    kind: 'vendor',
    model,
    ...(apiKey === undefined ? {} : { apiKey }),
    baseUrl,
    warnings: isExposed(baseUrl) ? [exposedWarning(baseUrl)] : [],
  };
}

function standIn(flags: ModelFlags, apiKey: string | undefined): ModelSettings {
  if (flags.apiKeyEnv !== undefined)
    throw invalidConfig('--api-key-env needs --model NAME, and --base-url URL unless it is for api.openai.com');
  if (apiKey === undefined) return { kind: 'demo', warnings: [standInWarning] };
  return {
    kind: 'demo',
    warnings: [`${standInWarning}. OPENAI_API_KEY is set: add --model NAME to ask api.openai.com`],
  };
}

function keyOf(
  flags: ModelFlags,
  env: Environment,
  variables: readonly string[] = ['OPENAI_API_KEY'],
): string | undefined {
  if (flags.apiKeyEnv === undefined) return firstSet(env, ...variables);
  if (!/^[A-Za-z_]\w*$/.test(flags.apiKeyEnv)) {
    throw invalidConfig('--api-key-env takes the name of an environment variable, never the key itself');
  }
  const key = firstSet(env, flags.apiKeyEnv);
  if (key === undefined) throw invalidConfig(`the environment variable ${flags.apiKeyEnv} of --api-key-env is not set`);
  return key;
}

function baseUrlOf(flags: ModelFlags, env: Environment): string | undefined {
  return flags.baseUrl ?? baseUrlIn(env, 'OPENAI_BASE_URL', 'LITELLM_BASE_URL');
}

function baseUrlIn(env: Environment, ...names: readonly string[]): string | undefined {
  const name = names.find((candidate) => firstSet(env, candidate) !== undefined);
  if (name === undefined) return undefined;
  const value = firstSet(env, name);
  if (value === undefined || !isHttpUrl(value))
    throw invalidConfig(`${name} is not an http or https address, like http://localhost:4000/v1`);
  return value;
}

function firstSet(env: Environment, ...names: readonly string[]): string | undefined {
  return names.map((name) => env[name]?.trim()).find((value) => value !== undefined && value !== '');
}

/** Plain http to another machine: whoever is in between reads the key. */
function isExposed(baseUrl: string): boolean {
  const { protocol, hostname } = new URL(baseUrl);
  const loopback = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
  return protocol === 'http:' && !loopback;
}

function exposedWarning(baseUrl: string): string {
  return `the API key goes to ${new URL(baseUrl).host} over plain http, where others may read it; use https`;
}

/** A provider that is ready to be asked. */
interface ModelConnection {
  readonly provider: LLMProvider;
  /** For a person: the model's name and where it is. */
  readonly label: string;
  readonly baseUrl: string;
  close(): Promise<void>;
}

/**
 * Reaches the model of the settings; the stand-in is started in this process, on a free port of the loopback, and
 * waits `delayMs` before each chunk of its answer, so that it can be watched. Rejects with `MISSING_PACKAGE`
 * where the package of a vendor is not installed.
 */
export async function connectModel(settings: ModelSettings, delayMs: number): Promise<ModelConnection> {
  if (settings.kind === 'demo') return connectStandIn(delayMs);
  if (settings.kind === 'vendor') return connectVendor(settings);
  const { baseUrl, model, apiKey } = settings;
  const LiteLLMProvider = await litellmProvider();
  const provider = new LiteLLMProvider({ baseUrl, model, ...(apiKey !== undefined && { apiKey }) });
  return { provider, label: `${model} at ${new URL(baseUrl).host}`, baseUrl, close: async () => {} };
}

async function connectVendor({ model, apiKey, baseUrl }: VendorSettings): Promise<ModelConnection> {
  const { createProvider } = await import('../providers/ai-sdk/index.ts');
  await litellmProvider();
  const provider = await createProvider(model, { apiKey, baseUrl });
  return { provider, label: model, baseUrl, close: async () => {} };
}

async function connectStandIn(delayMs: number): Promise<ModelConnection> {
  const { startModelServer } = await import('../testing/model-server.ts');
  const LiteLLMProvider = await litellmProvider();
  const server = await startModelServer({ delayMs });
  return {
    provider: new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'demo' }),
    label: 'stand-in model',
    baseUrl: server.baseUrl,
    close: () => server.close(),
  };
}

/** With the copy of `openai` that the build puts beside the command, so that a project needs none. */
async function litellmProvider() {
  const { LiteLLMProvider } = await import('../providers/litellm-provider.ts');
  const { useOpenAI } = await import('../providers/openai-wire/openai-client.ts');
  useOpenAI(() => import('openai'));
  return LiteLLMProvider;
}
