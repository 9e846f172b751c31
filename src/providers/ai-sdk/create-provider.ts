import type { Observable } from 'rxjs';
import {
  type BodyLimits,
  boundedResponse,
  defaultBodyLimits,
  type LimitError,
  nestedTooDeep,
} from '../../body-limits.ts';
import {
  AgentLoopError,
  type LLMCallParams,
  type LLMCapabilities,
  type LLMChunk,
  type LLMProvider,
  type LLMProviderInfo,
  shownValue,
} from '../../core/contracts/index.ts';
import { checkOption, wholeNumber, wrongOption } from '../../options/option-rules.ts';
import { checkedBaseUrl, checkedHeaders, checkedKey } from '../connection-options.ts';
import type { LiteLLMProviderOptions } from '../litellm-options.ts';
import type { Fetch } from '../openai-wire/openai-client.ts';
import { isJsonObject, modelServer } from '../openai-wire/wire-errors.ts';
import type { AISDKProviderOptions } from './ai-sdk-options.ts';
import { AISDKProvider } from './ai-sdk-provider.ts';
import { chatProvider, type VendorConnection } from './chat-provider.ts';
import { mendingFetch } from './mending-fetch.ts';
import { sdkCures } from './sdk-errors.ts';
import type { VendorData } from './sdk-model.ts';
import { isVendorData, mergedData } from './vendor-parts.ts';
import {
  addressSources,
  type ChatVendor,
  hasCredentials,
  keySources,
  loadVendor,
  type SdkVendor,
  type Vendor,
  type VendorName,
  vendorNames,
  vendorOf,
} from './vendors.ts';

/**
 * Options of `createProvider`: key and address of the vendor, and those of the provider that speaks its wire: `AISDKProvider`, or
 * `LiteLLMProvider` for a server of chat completions. An option that this provider does not have is refused.
 */
export interface CreateProviderOptions
  extends Omit<AISDKProviderOptions, 'model' | 'modelFor' | 'address' | 'secrets'>,
    Omit<LiteLLMProviderOptions, 'model' | 'baseUrl'> {
  /** Default: from the vendor's environment variable. */
  readonly apiKey?: string | undefined;
  /** In place of the vendor's own address; without it, `openai-compatible` cannot be asked. */
  readonly baseUrl?: string | undefined;
  /** Sent with each request. Their values are treated as secrets. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Replaces the global `fetch`, e.g. to go through a proxy. Must honour `signal`. */
  readonly fetch?: Fetch | undefined;
  /** The most that an answer may be, decompressed, in bytes. Default 32 MiB. */
  readonly maxBodyBytes?: number | undefined;
  /** The most that one event of a stream may be, in bytes. Default 4 MiB. */
  readonly maxEventBytes?: number | undefined;
}

/** What `createProvider` makes: a provider that streams and says what it is. */
export interface VendorProvider extends LLMProvider {
  readonly capabilities: LLMCapabilities;
  readonly info: LLMProviderInfo;
  stream(params: LLMCallParams): Observable<LLMChunk>;
}

/**
 * The provider of a model that is named with its vendor, one of `vendorNames`: `anthropic:claude-…`, `openai:gpt-…`, or
 * `openai-compatible:…` with a `baseUrl`. A vendor with a wire of its own is asked through its package of the AI SDK, an optional peer of this one; a server
 * of chat completions is asked by a `LiteLLMProvider`, which needs the package `openai`. `openai:` is OpenAI's Responses API, with `store: false`; `openai-chat:` is its older chat completions.
 *
 * The key comes from `apiKey`, else from the vendor's variable, such as `ANTHROPIC_API_KEY`. Bedrock also takes
 * `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_REGION`, Vertex the credentials of the machine with `GOOGLE_VERTEX_PROJECT` and `GOOGLE_VERTEX_LOCATION`, and Azure its address from
 * `AZURE_OPENAI_ENDPOINT` or `AZURE_RESOURCE_NAME`. Calls may name another model of the same vendor. Rejects with `INVALID_CONFIG` for a vendor that is not known, a missing key, or a wrong option,
 * and with `MISSING_PACKAGE`, naming what to install.
 */
export async function createProvider(model: string, options: CreateProviderOptions = {}): Promise<VendorProvider> {
  checkObject(options);
  const { apiKey, baseUrl, headers = {}, fetch, ...rest } = options;
  const { vendor: name, model: modelName } = namedModel(model);
  const vendor = vendorOf(name);
  const key = keyOf(name, vendor, apiKey);
  const { address, query } = addressOf(name, vendor, baseUrl ?? addressFor(vendor, apiKey));
  if (fetch !== undefined && typeof fetch !== 'function') throw invalid('fetch must be a function');
  const { maxBodyBytes, maxEventBytes } = rest;
  for (const [option, value] of Object.entries({ maxBodyBytes, maxEventBytes }))
    checkOption(`${owner}: ${option}`, value, wholeNumber(1));
  const connection: VendorConnection = {
    name,
    model: modelName,
    address,
    key,
    headers: checkedHeaders(owner, headers),
    fetch: query === '' ? fetch : withQuery(fetch, query),
    nameOf: (other) => otherModel(name, other),
  };
  return vendor.wire === 'sdk' ? sdkProvider(vendor, connection, rest) : chatProvider(vendor, connection, rest);
}

type ProviderOptions = Omit<CreateProviderOptions, 'apiKey' | 'baseUrl' | 'headers' | 'fetch'>;

async function sdkProvider(
  vendor: SdkVendor,
  { name, model, address, key, headers, fetch, nameOf }: VendorConnection,
  { maxBodyBytes, maxEventBytes, ...rest }: ProviderOptions,
): Promise<AISDKProvider> {
  const limits = {
    maxBodyBytes: maxBodyBytes ?? defaultBodyLimits.maxBodyBytes,
    maxEventBytes: maxEventBytes ?? defaultBodyLimits.maxEventBytes,
  };
  const secrets = [...(key === undefined ? [] : [key]), ...Object.values(headers)];
  const bounded = boundedFetch(fetch, limits, `${name}:${model}`);
  const modelsOf = await loadVendor(vendor);
  const make = (of: string) => {
    const server = modelServer({ address, model: of, cures: sdkCures, secrets });
    return modelsOf({
      ...(key === undefined ? {} : { apiKey: key }),
      baseURL: address,
      headers: { ...headers },
      fetch: mendingFetch(bounded, { provider: vendor.provider, server, clock: rest.clock }),
    })(of);
  };
  const { providerOptions } = rest;
  const ofUser =
    typeof providerOptions === 'function' ? providerOptions : (): VendorData | undefined => providerOptions;
  return new AISDKProvider({
    ...rest,
    ...(vendor.providerOptions === undefined || !isOptions(providerOptions)
      ? {}
      : { providerOptions: (of: string) => mergedData(vendor.providerOptions?.(of), ofUser(of)) }),
    capabilities: { ...vendor.capabilities, ...rest.capabilities },
    model: make(model),
    modelFor: (other) => make(nameOf(other)),
    address,
    secrets,
  });
}

const owner = 'createProvider';

function checkObject(options: unknown): void {
  if (!isJsonObject(options)) throw invalid('its options must be an object');
}

/** A model with its vendor, as `vendor:model` says it. Errors: `INVALID_CONFIG`. */
function namedModel(text: string): { readonly vendor: VendorName; readonly model: string } {
  const [vendor, ...rest] = typeof text === 'string' ? text.split(':') : [];
  const model = rest.join(':');
  const known = vendorNames.find((name) => name === vendor);
  if (known === undefined || model === '') {
    const vendorsOfAll = `the vendors are ${vendorNames.join(', ')}`;
    const others =
      'for another, use "openai-compatible:NAME" with its baseUrl, or AISDKProvider with a model of its AI SDK package';
    throw invalid(`the model must be named as vendor:model, not ${shownValue(text)}; ${vendorsOfAll}; ${others}`);
  }
  return { vendor: known, model };
}

/** A call's model: with or without the name of the vendor before it. */
function otherModel(vendor: VendorName, text: string): string {
  const prefix = vendorNames.find((name) => text.startsWith(`${name}:`));
  if (prefix === undefined) return text;
  if (prefix === vendor) return text.slice(prefix.length + 1);
  throw invalid(`a provider of ${vendor} was asked for ${text}; make one for that vendor, and see the policy fallback`);
}

function keyOf(name: VendorName, vendor: Vendor, apiKey: unknown): string | undefined {
  const { keyVariables } = vendor;
  const key = apiKey ?? keyVariables.map((variable) => process.env[variable]?.trim()).find((value) => value);
  if (key === undefined) {
    if (keyVariables.length === 0 || hasCredentials(vendor, process.env)) return undefined;
    throw invalid(`${name} needs a key; give apiKey, or set ${keySources(vendor)}`);
  }
  return checkedKey(owner, key);
}

/** A key that is given counts like the variable that holds one. */
function addressFor({ baseUrl, keyVariables: [variable] }: Vendor, apiKey: unknown): string | undefined {
  return baseUrl(
    variable === undefined || typeof apiKey !== 'string' ? process.env : { ...process.env, [variable]: apiKey },
  );
}

interface VendorAddress {
  readonly address: string;
  /** Added to that of each request; empty: none. */
  readonly query: string;
}

function addressOf(name: VendorName, vendor: Vendor, baseUrl: unknown): VendorAddress {
  if (baseUrl === undefined) {
    const set = vendor.addressVariables === undefined ? '' : `; give it, or set ${addressSources(vendor)}`;
    throw invalid(`${name} needs a baseUrl, such as http://localhost:8000/v1${set}`);
  }
  const [path, query] = vendor.wire === 'chat' ? splitQuery(vendor, baseUrl) : [baseUrl, ''];
  return { address: checkedBaseUrl(owner, path).href.replace(/\/$/, ''), query };
}

/** The version of the API goes into the query, where the server wants one. */
function splitQuery({ apiVersionVariables }: ChatVendor, baseUrl: unknown): readonly [path: unknown, query: string] {
  if (apiVersionVariables === undefined || typeof baseUrl !== 'string') return [baseUrl, ''];
  const [path, query] = baseUrl.split('?', 2);
  if (query !== undefined) return [path, query];
  const version = apiVersionVariables.map((variable) => process.env[variable]?.trim()).find((value) => value);
  return [baseUrl, version === undefined ? '' : `api-version=${encodeURIComponent(version)}`];
}

function withQuery(fetch: Fetch | undefined, query: string): Fetch {
  return (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    for (const [name, value] of new URLSearchParams(query)) url.searchParams.set(name, value);
    return (fetch ?? globalThis.fetch)(url, init);
  };
}

/** Counts bytes. Following a redirect would turn the POST into a GET, and could carry the key to another host. */
function boundedFetch(fetch: Fetch | undefined, limits: BodyLimits, model: string): Fetch {
  const fail: LimitError = (what, limit) => {
    if (limit === 'size') return new AgentLoopError('PROVIDER_TOO_LARGE', `Model ${model} ${what}.`);
    return new AgentLoopError('PROVIDER_PROTOCOL', `Model ${model} ${what}.`, { reason: nestedTooDeep });
  };
  return async (url, init) => {
    const response = await (fetch ?? globalThis.fetch)(url, { ...init, redirect: 'manual' });
    return boundedResponse(response, limits, fail);
  };
}

/** What is none is left to the options of `AISDKProvider`, which say what is wrong. */
function isOptions(value: unknown): boolean {
  return value === undefined || typeof value === 'function' || isVendorData(value);
}

function invalid(what: string): AgentLoopError {
  return wrongOption(owner, what);
}
