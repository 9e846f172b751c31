import type { LLMCallParams } from '../../core/contracts/index.ts';
import { wrongOption } from '../../options/option-rules.ts';
import type { LiteLLMProviderOptions } from '../litellm-options.ts';
import { LiteLLMProvider } from '../litellm-provider.ts';
import type { Fetch } from '../openai-wire/openai-client.ts';
import { isJsonObject, type JsonObject } from '../openai-wire/wire-errors.ts';
import type { VendorData } from './sdk-model.ts';
import { type ChatVendor, optionNames, type VendorName } from './vendors.ts';

/** A vendor, its model and how to reach it. */
export interface VendorConnection {
  readonly name: VendorName;
  readonly model: string;
  /** The base address, without a slash at its end. */
  readonly address: string;
  readonly key: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: Fetch | undefined;
  /** The vendor's name of a model that a call names, with or without the vendor. */
  readonly nameOf: (model: string) => string;
}

type ChatOptions = Omit<LiteLLMProviderOptions, 'baseUrl' | 'model' | 'apiKey' | 'headers' | 'fetch'> & {
  readonly providerOptions?: VendorData | ((model: string) => VendorData | undefined) | undefined;
  readonly onWarning?: ((sentence: string) => void) | undefined;
  readonly sendReasoning?: boolean | undefined;
};

/**
 * A `LiteLLMProvider` for a server of chat completions. Calls may name their model with the vendor, and give options in the form of the AI SDK:
 * the members under the vendor's own name and under `openaiCompatible` are members of the request body.
 */
export async function chatProvider(
  { options, keyHeader, telemetryName }: ChatVendor,
  { name, model, address, key, headers, fetch, nameOf }: VendorConnection,
  { providerOptions, onWarning: _, sendReasoning, ...rest }: ChatOptions,
): Promise<LiteLLMProvider> {
  const ofModel = typeof providerOptions === 'function' ? providerOptions : () => providerOptions;
  if (!isOptional(ofModel(model))) {
    throw wrongOption('createProvider', `providerOptions must be an object, e.g. { ${JSON.stringify(name)}: { … } }`);
  }
  const provider = new VendorChat(
    {
      providerName: telemetryName,
      ...options,
      ...(sendReasoning === undefined ? {} : { reasoningField: sendReasoning ? 'reasoning_content' : undefined }),
      ...rest,
      capabilities: { ...options?.capabilities, ...rest.capabilities },
      baseUrl: address,
      model,
      ...(key === undefined || keyHeader !== undefined ? {} : { apiKey: key }),
      headers: key === undefined || keyHeader === undefined ? headers : { ...headers, [keyHeader]: key },
      fetch,
    },
    (params) => ({
      ...params,
      model: params.model && nameOf(params.model),
      providerOptions: {
        ...bodyMembers(name, ofModel(params.model ? nameOf(params.model) : model)),
        ...bodyMembers(name, params.providerOptions),
      },
    }),
  );
  await provider.prepare();
  return provider;
}

class VendorChat extends LiteLLMProvider {
  readonly #adapted: (params: LLMCallParams) => LLMCallParams;

  constructor(options: LiteLLMProviderOptions, adapted: (params: LLMCallParams) => LLMCallParams) {
    super(options);
    this.#adapted = adapted;
  }

  override async call(params: LLMCallParams) {
    return super.call(this.#adapted(params));
  }

  override stream(params: LLMCallParams) {
    return super.stream(this.#adapted(params));
  }
}

function isOptional(options: unknown): boolean {
  return options === undefined || isJsonObject(options);
}

/** Members that packages of the AI SDK spell in their own way. */
const bodyNames: Readonly<Record<string, string>> = {
  reasoningEffort: 'reasoning_effort',
  reasoningFormat: 'reasoning_format',
  parallelToolCalls: 'parallel_tool_calls',
  serviceTier: 'service_tier',
  textVerbosity: 'verbosity',
};

/** The options as members of the request body. */
function bodyMembers(vendor: VendorName, options: JsonObject | undefined): JsonObject {
  const members = Object.entries(options ?? {}).flatMap(([name, value]) => {
    if (!optionNames.has(name) || !isJsonObject(value)) return [[name, value] as const];
    return name === vendor || name === 'openaiCompatible' ? Object.entries(value) : [];
  });
  return Object.fromEntries(members.map(([name, value]) => [bodyNames[name] ?? name, value]));
}
