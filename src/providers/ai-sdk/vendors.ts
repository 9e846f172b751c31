import { type LLMCapabilities, missingPackage } from '../../core/contracts/index.ts';
import type { Fetch } from '../openai-wire/openai-client.ts';
import { isJsonObject } from '../openai-wire/wire-errors.ts';
import type { AISDKModel } from './model-interface.ts';

/** The vendors that {@link createProvider} knows by name. */
export const vendorNames = [
  'anthropic',
  'google',
  'openai',
  'bedrock',
  'vertex',
  'groq',
  'mistral',
  'xai',
  'deepseek',
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
  /** Where pictures and files of tool results go: its results hold them, or a message after them does. */
  readonly toolMedia: 'result' | 'message';
}

export interface Vendor extends VendorModels {
  /** What its package calls the provider of a model, up to a dot: `anthropic` of `anthropic.messages`. */
  readonly provider: string;
  /** The npm package that speaks the vendor's wire, and its major versions whose models have the interface v3 or v4; the first is the one to install. */
  readonly package: { readonly name: string; readonly majors: readonly number[] };
  /** The environment variables that hold its key, the first that is set counts; none: it needs no key. */
  readonly keyVariables: readonly string[];
  /** Without a key, the package itself finds credentials where all of these variables are set. */
  readonly credentialVariables?: readonly string[];
  /** Its own address; `undefined`: it has to be given. */
  readonly baseUrl: (variables: Variables) => string | undefined;
  /** The environment variables that lead to an address. */
  readonly addressVariables?: readonly string[];
  readonly capabilities: LLMCapabilities;
  /** Whether reasoning goes back to it. */
  readonly sendReasoning: boolean;
  /** Loads the package; gives what makes its models. */
  readonly load: () => Promise<(access: VendorAccess) => (model: string) => AISDKModel>;
}

/** Bundlers refuse the import of a package that is not installed, unless it stands in a `try`; Turbopack does not count `catch` of the promise. */
function rethrow(cause: unknown): never {
  throw cause;
}

async function openAICompatible() {
  try {
    return (await import('@ai-sdk/openai-compatible')).createOpenAICompatible;
  } catch (cause) {
    return rethrow(cause);
  }
}

export const vendors: Readonly<Record<VendorName, Vendor>> = {
  anthropic: {
    provider: 'anthropic',
    telemetryName: 'anthropic',
    toolMedia: 'result',
    package: { name: '@ai-sdk/anthropic', majors: [3, 4] },
    keyVariables: ['ANTHROPIC_API_KEY'],
    baseUrl: () => 'https://api.anthropic.com/v1',
    capabilities: {},
    sendReasoning: true,
    load: async () => {
      try {
        return (await import('@ai-sdk/anthropic')).createAnthropic;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  google: {
    provider: 'google',
    telemetryName: 'gcp.gemini',
    toolMedia: 'result',
    package: { name: '@ai-sdk/google', majors: [3, 4] },
    keyVariables: ['GOOGLE_GENERATIVE_AI_API_KEY', 'GEMINI_API_KEY'],
    baseUrl: () => 'https://generativelanguage.googleapis.com/v1beta',
    capabilities: {},
    sendReasoning: true,
    load: async () => {
      try {
        return (await import('@ai-sdk/google')).createGoogleGenerativeAI;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  openai: {
    provider: 'openai',
    telemetryName: 'openai',
    toolMedia: 'message',
    package: { name: '@ai-sdk/openai-compatible', majors: [2, 3] },
    keyVariables: ['OPENAI_API_KEY'],
    baseUrl: () => 'https://api.openai.com/v1',
    capabilities: { responseFormat: true },
    sendReasoning: false,
    load: async () => {
      const createOpenAICompatible = await openAICompatible();
      const own = {
        name: 'openai',
        includeUsage: true,
        supportsStructuredOutputs: true,
        transformRequestBody: asOpenAIWants,
      };
      return (access) => createOpenAICompatible({ ...own, ...access });
    },
  },
  bedrock: {
    provider: 'amazon-bedrock',
    telemetryName: 'aws.bedrock',
    toolMedia: 'message',
    package: { name: '@ai-sdk/amazon-bedrock', majors: [4, 5] },
    keyVariables: ['AWS_BEARER_TOKEN_BEDROCK'],
    credentialVariables: ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_REGION'],
    baseUrl: ({ AWS_REGION: region }) => (region ? `https://bedrock-runtime.${region}.amazonaws.com` : undefined),
    addressVariables: ['AWS_REGION'],
    capabilities: {},
    sendReasoning: true,
    load: async () => {
      try {
        return (await import('@ai-sdk/amazon-bedrock')).createAmazonBedrock;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  vertex: {
    provider: 'google.vertex',
    telemetryName: 'gcp.vertex_ai',
    toolMedia: 'result',
    package: { name: '@ai-sdk/google-vertex', majors: [4, 5] },
    keyVariables: ['GOOGLE_VERTEX_API_KEY'],
    credentialVariables: ['GOOGLE_VERTEX_PROJECT', 'GOOGLE_VERTEX_LOCATION'],
    baseUrl: vertexAddress,
    capabilities: {},
    sendReasoning: true,
    load: async () => {
      try {
        return (await import('@ai-sdk/google-vertex')).createVertex;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  groq: {
    provider: 'groq',
    telemetryName: 'groq',
    toolMedia: 'message',
    package: { name: '@ai-sdk/groq', majors: [3, 4] },
    keyVariables: ['GROQ_API_KEY'],
    baseUrl: () => 'https://api.groq.com/openai/v1',
    capabilities: {},
    sendReasoning: true,
    load: async () => {
      try {
        return (await import('@ai-sdk/groq')).createGroq;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  mistral: {
    provider: 'mistral',
    telemetryName: 'mistral_ai',
    toolMedia: 'message',
    package: { name: '@ai-sdk/mistral', majors: [3, 4] },
    keyVariables: ['MISTRAL_API_KEY'],
    baseUrl: () => 'https://api.mistral.ai/v1',
    capabilities: {},
    sendReasoning: true,
    load: async () => {
      try {
        return (await import('@ai-sdk/mistral')).createMistral;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  xai: {
    provider: 'xai',
    telemetryName: 'x_ai',
    toolMedia: 'message',
    package: { name: '@ai-sdk/xai', majors: [3, 4, 5] },
    keyVariables: ['XAI_API_KEY'],
    baseUrl: () => 'https://api.x.ai/v1',
    capabilities: {},
    sendReasoning: true,
    load: async () => {
      try {
        return (await import('@ai-sdk/xai')).createXai;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  deepseek: {
    provider: 'deepseek',
    telemetryName: 'deepseek',
    toolMedia: 'message',
    package: { name: '@ai-sdk/deepseek', majors: [2, 3] },
    keyVariables: ['DEEPSEEK_API_KEY'],
    baseUrl: () => 'https://api.deepseek.com',
    capabilities: {},
    sendReasoning: true,
    load: async () => {
      try {
        return (await import('@ai-sdk/deepseek')).createDeepSeek;
      } catch (cause) {
        return rethrow(cause);
      }
    },
  },
  'openai-compatible': {
    provider: 'openai-compatible',
    telemetryName: 'openai-compatible',
    toolMedia: 'message',
    package: { name: '@ai-sdk/openai-compatible', majors: [2, 3] },
    keyVariables: [],
    baseUrl: () => undefined,
    capabilities: {},
    sendReasoning: false,
    load: async () => {
      const createOpenAICompatible = await openAICompatible();
      const own = { name: 'openai-compatible', includeUsage: true, supportsStructuredOutputs: true };
      return (access) => createOpenAICompatible({ ...own, ...access });
    },
  },
};

/** By what a model calls its provider; one that is not known keeps the name that it has there. */
export function modelsOf(provider: string): VendorModels {
  const isOf = (vendor: Vendor) => `${provider}.`.startsWith(`${vendor.provider}.`);
  // `google.vertex` before `google`.
  const [known] = Object.values(vendors)
    .filter(isOf)
    .sort((a, b) => b.provider.length - a.provider.length);
  return known ?? { telemetryName: provider.split('.', 1)[0] ?? provider, toolMedia: 'message' };
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

/** What makes the vendor's models. Rejects with `MISSING_PACKAGE` where its package is not installed. */
export async function loadVendor(name: VendorName): Promise<(access: VendorAccess) => (model: string) => AISDKModel> {
  const { load, package: needed } = vendors[name];
  try {
    return await load();
  } catch (cause) {
    throw missingPackage(needed.name, cause, `${needed.name}@${needed.majors[0]}`);
  }
}

/** OpenAI itself has instructions of the developer, and counts reasoning among the tokens to be limited. */
function asOpenAIWants(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { max_tokens: maxTokens, messages, ...rest } = body;
  return {
    ...rest,
    messages: Array.isArray(messages) ? messages.map(withDeveloper) : messages,
    ...(maxTokens === undefined ? {} : { max_completion_tokens: maxTokens }),
  };
}

function withDeveloper(message: unknown): unknown {
  return isJsonObject(message) && message['role'] === 'system' ? { ...message, role: 'developer' } : message;
}
