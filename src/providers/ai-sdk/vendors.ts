import { type LLMCapabilities, missingPackage } from '../../core/contracts/index.ts';
import type { LiteLLMProviderOptions } from '../litellm-options.ts';
import type { Fetch } from '../openai-wire/openai-client.ts';
import type { ProfileName } from '../profiles.ts';
import type { AISDKModel } from './model-interface.ts';
import type { VendorData } from './sdk-model.ts';

/** The vendors that {@link createProvider} knows by name. */
export const vendorNames = [
  'anthropic',
  'google',
  'openai',
  'openai-chat',
  'azure',
  'bedrock',
  'vertex',
  'groq',
  'mistral',
  'xai',
  'deepseek',
  'openrouter',
  'together',
  'fireworks',
  'moonshot',
  'zai',
  'minimax',
  'ollama',
  'lmstudio',
  'vllm',
  'openai-compatible',
] as const;

/** A vendor that `createProvider` knows by name. */
export type VendorName = (typeof vendorNames)[number];

/** What a package needs to reach its vendor. */
export interface VendorAccess {
  readonly apiKey?: string;
  readonly baseURL: string;
  readonly headers: Record<string, string>;
  readonly fetch: Fetch;
}

/** Environment variables. */
type Variables = Readonly<Record<string, string | undefined>>;

/** What is known of the models of a vendor, whoever makes them. */
export interface VendorModels {
  /** OpenTelemetry's `gen_ai.provider.name`. */
  readonly telemetryName: string;
  /** The rules of its requests. */
  readonly profile: ProfileName;
  /** Set where the vendor takes tools for strict ones unless told otherwise, which would require every optional argument. */
  readonly strictTools?: false;
}

interface VendorServer {
  /** OpenTelemetry's `gen_ai.provider.name`. */
  readonly telemetryName: string;
  /** The environment variables that hold its key, the first that is set counts; none: it needs no key. */
  readonly keyVariables: readonly string[];
  /** Without a key, the package itself finds credentials where all of these variables are set. */
  readonly credentialVariables?: readonly string[];
  /** Its own address; `undefined`: it has to be given. */
  readonly baseUrl: (variables: Variables) => string | undefined;
  /** The environment variables that lead to an address. */
  readonly addressVariables?: readonly string[];
}

/** A vendor with a wire of its own, which its package of the AI SDK speaks. */
export interface SdkVendor extends VendorServer, VendorModels {
  readonly wire: 'sdk';
  /** What its package calls the provider of a model, up to a dot: `anthropic` of `anthropic.messages`. */
  readonly provider: string;
  /** The npm package that speaks the vendor's wire, and its major versions whose models have the interface v3 or v4; the first is the one to install. */
  readonly package: { readonly name: string; readonly majors: readonly number[] };
  readonly capabilities: LLMCapabilities;
  /** For each call of a model; those of the user win over them. */
  readonly providerOptions?: (model: string) => VendorData;
  /** Loads the package; gives what makes its models. */
  readonly load: () => Promise<(access: VendorAccess) => (model: string) => AISDKModel>;
}

/** A server of chat completions, which `LiteLLMProvider` speaks. */
export interface ChatVendor extends VendorServer {
  readonly wire: 'chat';
  /** The header that holds the key, where it is not a bearer token. */
  readonly keyHeader?: string;
  /** Where the version of the API is, for a server that wants it in the query. The query of a `baseUrl` wins. */
  readonly apiVersionVariables?: readonly string[];
  /** How its server differs from the defaults of `LiteLLMProvider`. */
  readonly options?: Pick<LiteLLMProviderOptions, 'capabilities' | 'maxTokensField' | 'profile'>;
}

export type Vendor = SdkVendor | ChatVendor;

/** Bundlers refuse the import of a package that is not installed, unless it stands in a `try`; Turbopack does not count `catch` of the promise. */
function rethrow(cause: unknown): never {
  throw cause;
}

/** A server of chat completions with a key and an address of its own. */
function chatServer(
  profile: ProfileName,
  keyVariables: readonly string[],
  address: string,
  telemetryName: string = profile,
): ChatVendor {
  return { wire: 'chat', telemetryName, keyVariables, baseUrl: () => address, options: { profile } };
}

export const vendors: Readonly<Record<VendorName, Vendor>> = {
  anthropic: {
    wire: 'sdk',
    provider: 'anthropic',
    telemetryName: 'anthropic',
    profile: 'anthropic',
    package: { name: '@ai-sdk/anthropic', majors: [3, 4] },
    keyVariables: ['ANTHROPIC_API_KEY'],
    baseUrl: () => 'https://api.anthropic.com/v1',
    capabilities: {},
    load: async () => {
      try {
        return (await import('@ai-sdk/anthropic')).createAnthropic;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  google: {
    wire: 'sdk',
    provider: 'google',
    telemetryName: 'gcp.gemini',
    profile: 'google',
    package: { name: '@ai-sdk/google', majors: [3, 4] },
    keyVariables: ['GOOGLE_GENERATIVE_AI_API_KEY', 'GEMINI_API_KEY'],
    baseUrl: () => 'https://generativelanguage.googleapis.com/v1beta',
    capabilities: {},
    load: async () => {
      try {
        return (await import('@ai-sdk/google')).createGoogleGenerativeAI;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  openai: {
    wire: 'sdk',
    provider: 'openai',
    telemetryName: 'openai',
    profile: 'openai-responses',
    strictTools: false,
    package: { name: '@ai-sdk/openai', majors: [3, 4] },
    keyVariables: ['OPENAI_API_KEY'],
    baseUrl: () => 'https://api.openai.com/v1',
    capabilities: { responseFormat: true },
    providerOptions: responsesOptions,
    load: async () => {
      try {
        const { createOpenAI } = await import('@ai-sdk/openai');
        return (access) => createOpenAI(access).responses;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  'openai-chat': {
    ...chatServer('openai-chat', ['OPENAI_API_KEY'], 'https://api.openai.com/v1', 'openai'),
    options: {
      profile: 'openai-chat',
      capabilities: { responseFormat: true },
      maxTokensField: 'max_completion_tokens',
    },
  },
  azure: {
    wire: 'chat',
    telemetryName: 'azure.ai.openai',
    keyVariables: ['AZURE_API_KEY', 'AZURE_OPENAI_API_KEY'],
    keyHeader: 'api-key',
    baseUrl: azureAddress,
    addressVariables: ['AZURE_OPENAI_ENDPOINT', 'AZURE_RESOURCE_NAME'],
    apiVersionVariables: ['AZURE_API_VERSION', 'OPENAI_API_VERSION'],
    options: { profile: 'azure', capabilities: { responseFormat: true }, maxTokensField: 'max_completion_tokens' },
  },
  bedrock: {
    wire: 'sdk',
    provider: 'amazon-bedrock',
    telemetryName: 'aws.bedrock',
    profile: 'bedrock',
    package: { name: '@ai-sdk/amazon-bedrock', majors: [4, 5] },
    keyVariables: ['AWS_BEARER_TOKEN_BEDROCK'],
    credentialVariables: ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_REGION'],
    baseUrl: ({ AWS_REGION: region }) => (region ? `https://bedrock-runtime.${region}.amazonaws.com` : undefined),
    addressVariables: ['AWS_REGION'],
    capabilities: {},
    load: async () => {
      try {
        return (await import('@ai-sdk/amazon-bedrock')).createAmazonBedrock;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  vertex: {
    wire: 'sdk',
    provider: 'google.vertex',
    telemetryName: 'gcp.vertex_ai',
    profile: 'vertex',
    package: { name: '@ai-sdk/google-vertex', majors: [4, 5] },
    keyVariables: ['GOOGLE_VERTEX_API_KEY'],
    credentialVariables: ['GOOGLE_VERTEX_PROJECT', 'GOOGLE_VERTEX_LOCATION'],
    baseUrl: vertexAddress,
    capabilities: {},
    load: async () => {
      try {
        return (await import('@ai-sdk/google-vertex')).createVertex;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  groq: chatServer('groq', ['GROQ_API_KEY'], 'https://api.groq.com/openai/v1'),
  mistral: {
    wire: 'sdk',
    provider: 'mistral',
    telemetryName: 'mistral_ai',
    profile: 'mistral',
    package: { name: '@ai-sdk/mistral', majors: [3, 4] },
    keyVariables: ['MISTRAL_API_KEY'],
    baseUrl: () => 'https://api.mistral.ai/v1',
    capabilities: {},
    load: async () => {
      try {
        return (await import('@ai-sdk/mistral')).createMistral;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  xai: {
    wire: 'sdk',
    provider: 'xai',
    telemetryName: 'x_ai',
    profile: 'xai',
    package: { name: '@ai-sdk/xai', majors: [3, 4, 5] },
    keyVariables: ['XAI_API_KEY'],
    baseUrl: () => 'https://api.x.ai/v1',
    capabilities: {},
    load: async () => {
      try {
        return (await import('@ai-sdk/xai')).createXai;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  deepseek: chatServer('deepseek', ['DEEPSEEK_API_KEY'], 'https://api.deepseek.com'),
  openrouter: chatServer('openrouter', ['OPENROUTER_API_KEY'], 'https://openrouter.ai/api/v1'),
  together: chatServer(
    'together',
    ['TOGETHER_API_KEY', 'TOGETHER_AI_API_KEY'],
    'https://api.together.xyz/v1',
    'together_ai',
  ),
  fireworks: chatServer('fireworks', ['FIREWORKS_API_KEY'], 'https://api.fireworks.ai/inference/v1', 'fireworks_ai'),
  moonshot: chatServer('moonshot', ['MOONSHOT_API_KEY'], 'https://api.moonshot.ai/v1', 'moonshot_ai'),
  zai: chatServer('zai', ['ZAI_API_KEY', 'ZHIPU_API_KEY'], 'https://api.z.ai/api/paas/v4', 'z_ai'),
  minimax: chatServer('minimax', ['MINIMAX_API_KEY'], 'https://api.minimax.io/v1'),
  ollama: chatServer('ollama', [], 'http://localhost:11434/v1'),
  lmstudio: chatServer('lmstudio', [], 'http://localhost:1234/v1'),
  vllm: chatServer('vllm', [], 'http://localhost:8000/v1'),
  'openai-compatible': {
    wire: 'chat',
    telemetryName: 'openai-compatible',
    keyVariables: [],
    baseUrl: () => undefined,
  },
};

/** By name, of which the compiler knows no more than that it is a vendor. */
export function vendorOf(name: VendorName): Vendor {
  return vendors[name];
}

/**
 * Nothing is stored at OpenAI: its package then asks for the encrypted reasoning and sends it back. The package knows the models that reason by
 * the beginning of their name, so `forceReasoning` is set where a gateway or a fine-tuning has a prefix. What kinds of files there are, OpenAI
 * decides.
 */
function responsesOptions(model: string): VendorData {
  const reasons = /[/:](?:o\d|gpt-(?:[5-9]|[1-9]\d)(?!-chat))/.test(model);
  return { openai: { store: false, passThroughUnsupportedFiles: true, ...(reasons ? { forceReasoning: true } : {}) } };
}

/** The v1 API of a resource, whose deployments are models. */
function azureAddress({ AZURE_OPENAI_ENDPOINT: endpoint, AZURE_RESOURCE_NAME: name }: Variables): string | undefined {
  if (endpoint?.trim()) return `${endpoint.trim().replace(/\/+$/, '')}/openai/v1`;
  return name?.trim() ? `https://${name.trim()}.openai.azure.com/openai/v1` : undefined;
}

/** By what a model calls its provider; one that is not known keeps the name that it has there. */
export function modelsOf(provider: string): VendorModels {
  const isOf = (vendor: Vendor): vendor is SdkVendor =>
    vendor.wire === 'sdk' && `${provider}.`.startsWith(`${vendor.provider}.`);
  // `google.vertex` before `google`.
  const [known] = Object.values<Vendor>(vendors)
    .filter(isOf)
    .sort((a, b) => b.provider.length - a.provider.length);
  return known ?? { telemetryName: provider.split('.', 1)[0] ?? provider, profile: 'unknown' };
}

/** As the package has it: a key leads to the address without a project. */
function vertexAddress({ GOOGLE_VERTEX_API_KEY: key, ...variables }: Variables): string {
  const { GOOGLE_VERTEX_PROJECT: project, GOOGLE_VERTEX_LOCATION: location } = variables;
  if (key || !project || !location) return 'https://aiplatform.googleapis.com/v1/publishers/google';
  return `https://${vertexHost(location)}/v1beta1/projects/${project}/locations/${location}/publishers/google`;
}

function vertexHost(location: string): string {
  if (location === 'global') return 'aiplatform.googleapis.com';
  return location === 'eu' || location === 'us'
    ? `aiplatform.${location}.rep.googleapis.com`
    : `${location}-aiplatform.googleapis.com`;
}

/** Whether the package finds credentials of its own, so that no key is needed. */
export function hasCredentials({ credentialVariables = [] }: Vendor, variables: Variables): boolean {
  return credentialVariables.length > 0 && credentialVariables.every((name) => variables[name]?.trim());
}

/** What has to be set for a key, as a sentence names it. */
export function keySources({ keyVariables, credentialVariables }: Vendor): string {
  const keys = keyVariables.join(' or ');
  return credentialVariables === undefined ? keys : `${keys}, or ${credentialVariables.join(' and ')}`;
}

/** What has to be set for an address, as a sentence names it: any of the variables leads to a server of chat completions, all of them to another. */
export function addressSources({ wire, addressVariables = [] }: Vendor): string {
  return addressVariables.join(wire === 'chat' ? ' or ' : ' and ');
}

/** What makes the vendor's models. Rejects with `MISSING_PACKAGE` where its package is not installed. */
export async function loadVendor({
  load,
  package: { name, majors },
}: SdkVendor): Promise<(access: VendorAccess) => (model: string) => AISDKModel> {
  try {
    return await load();
  } catch (cause) {
    throw missingPackage(name, cause, `${name}@${majors[0]}`);
  }
}

/** Names under which the AI SDK has options of a vendor; those of another vendor are not for this one. */
export const optionNames: ReadonlySet<string> = new Set([
  ...vendorNames,
  'openaiCompatible',
  'amazonBedrock',
  'googleVertex',
]);

/** A summary of the conversation that a vendor wrote for itself, and needs back, is not part of the answer: by the name of its options, the type of such a block. */
export const ownTexts: Readonly<Record<string, string>> = { anthropic: 'compaction' };

/** Of what a vendor says for itself: summaries of the conversation, and a change of model, which both vendors read from the history. */
export function isKeptKind(kind: string): boolean {
  return kind.endsWith('.compaction') || kind === 'anthropic.fallback';
}
