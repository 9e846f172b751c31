import { type LLMCapabilities, missingPackage } from '../../core/contracts/index.ts';
import type { Fetch } from '../openai-wire/openai-client.ts';
import { isJsonObject } from '../openai-wire/wire-errors.ts';
import type { AISDKModel } from './model-interface.ts';

/** The vendors that {@link createProvider} knows by name. */
export const vendorNames = ['anthropic', 'google', 'openai', 'openai-compatible'] as const;

export type VendorName = (typeof vendorNames)[number];

/** What a package needs to reach its vendor. */
export interface VendorAccess {
  readonly apiKey?: string;
  readonly baseURL: string;
  readonly headers: Record<string, string>;
  readonly fetch: Fetch;
}

export interface Vendor {
  /** The npm package that speaks the vendor's wire, and its major versions whose models have the interface v3 or v4; the first is the one to install. */
  readonly package: { readonly name: string; readonly majors: readonly number[] };
  /** The environment variables that hold its key, the first that is set counts; none: it needs no key. */
  readonly keyVariables: readonly string[];
  /** `undefined`: it has to be given. */
  readonly baseUrl: string | undefined;
  readonly capabilities: LLMCapabilities;
  /** Whether reasoning goes back to it. */
  readonly sendReasoning: boolean;
  /** Loads the package; gives what makes its models. */
  readonly load: () => Promise<(access: VendorAccess) => (model: string) => AISDKModel>;
}

export const vendors = {
  anthropic: {
    package: { name: '@ai-sdk/anthropic', majors: [3, 4] },
    keyVariables: ['ANTHROPIC_API_KEY'],
    baseUrl: 'https://api.anthropic.com/v1',
    capabilities: {},
    sendReasoning: true,
    load: async () => (await import('@ai-sdk/anthropic')).createAnthropic,
  },
  google: {
    package: { name: '@ai-sdk/google', majors: [3, 4] },
    keyVariables: ['GOOGLE_GENERATIVE_AI_API_KEY', 'GEMINI_API_KEY'],
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
    capabilities: {},
    sendReasoning: true,
    load: async () => (await import('@ai-sdk/google')).createGoogleGenerativeAI,
  },
  openai: {
    package: { name: '@ai-sdk/openai-compatible', majors: [2, 3] },
    keyVariables: ['OPENAI_API_KEY'],
    baseUrl: 'https://api.openai.com/v1',
    capabilities: { responseFormat: true },
    sendReasoning: false,
    load: async () => {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
      const own = {
        name: 'openai',
        includeUsage: true,
        supportsStructuredOutputs: true,
        transformRequestBody: asOpenAIWants,
      };
      return (access) => createOpenAICompatible({ ...own, ...access });
    },
  },
  'openai-compatible': {
    package: { name: '@ai-sdk/openai-compatible', majors: [2, 3] },
    keyVariables: [],
    baseUrl: undefined,
    capabilities: {},
    sendReasoning: false,
    load: async () => {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
      const own = { name: 'openai-compatible', includeUsage: true, supportsStructuredOutputs: true };
      return (access) => createOpenAICompatible({ ...own, ...access });
    },
  },
} as const satisfies Readonly<Record<VendorName, Vendor>>;

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
