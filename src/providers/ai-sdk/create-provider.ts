import { AgentLoopError, shownValue } from '../../core/contracts/index.ts';
import { type BodyLimits, boundedResponse, defaultBodyLimits } from '../../core/model-call/index.ts';
import { checkOption, wholeNumber, wrongOption } from '../../core/options/index.ts';
import { checkedBaseUrl, checkedHeaders, checkedKey } from '../connection-options.ts';
import type { Fetch } from '../openai-wire/openai-client.ts';
import { isJsonObject } from '../openai-wire/wire-errors.ts';
import type { AISDKProviderOptions } from './ai-sdk-options.ts';
import { AISDKProvider } from './ai-sdk-provider.ts';
import {
  hasCredentials,
  keySources,
  loadVendor,
  type Vendor,
  type VendorName,
  vendorNames,
  vendors,
} from './vendors.ts';

/** Options of `createProvider`: key and address of the vendor, and those of `AISDKProvider`. */
export interface CreateProviderOptions
  extends Omit<AISDKProviderOptions, 'model' | 'modelFor' | 'address' | 'secrets'> {
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

/**
 * The provider of a model that is named with its vendor, one of `vendorNames`: `anthropic:claude-…`, `openai:gpt-…`, or
 * `openai-compatible:…` with a `baseUrl`. Loads the vendor's package of the AI SDK, an optional peer of this one.
 *
 * The key comes from `apiKey`, else from the variable that the vendor's package reads, such as `ANTHROPIC_API_KEY`. Bedrock also takes
 * `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_REGION`, Vertex the credentials of the machine with `GOOGLE_VERTEX_PROJECT` and `GOOGLE_VERTEX_LOCATION`. Calls may name another model of the same vendor. Rejects with `INVALID_CONFIG` for a vendor that is not known, a missing key, or a wrong option,
 * and with `MISSING_PACKAGE`, naming what to install.
 */
export async function createProvider(model: string, options: CreateProviderOptions = {}): Promise<AISDKProvider> {
  checkObject(options);
  const { apiKey, baseUrl, headers = {}, fetch, maxBodyBytes, maxEventBytes, ...rest } = options;
  const { vendor: name, model: modelName } = namedModel(model);
  const vendor = vendors[name];
  const key = keyOf(name, vendor, apiKey);
  const address = checkedAddress(name, baseUrl ?? addressOf(vendor, apiKey));
  const checked = checkedHeaders(owner, headers);
  if (fetch !== undefined && typeof fetch !== 'function') throw invalid('fetch must be a function');
  for (const [option, value] of Object.entries({ maxBodyBytes, maxEventBytes }))
    checkOption(`${owner}: ${option}`, value, wholeNumber(1));
  const limits = {
    maxBodyBytes: maxBodyBytes ?? defaultBodyLimits.maxBodyBytes,
    maxEventBytes: maxEventBytes ?? defaultBodyLimits.maxEventBytes,
  };
  const make = (await loadVendor(name))({
    ...(key === undefined ? {} : { apiKey: key }),
    baseURL: address,
    headers: checked,
    fetch: boundedFetch(fetch, limits, model),
  });
  return new AISDKProvider({
    sendReasoning: vendor.sendReasoning,
    ...rest,
    capabilities: { ...vendor.capabilities, ...rest.capabilities },
    model: make(modelName),
    modelFor: (other) => make(otherModel(name, other)),
    address,
    secrets: [...(key === undefined ? [] : [key]), ...Object.values(checked)],
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
function addressOf({ baseUrl, keyVariables: [variable] }: Vendor, apiKey: unknown): string | undefined {
  return baseUrl(
    variable === undefined || typeof apiKey !== 'string' ? process.env : { ...process.env, [variable]: apiKey },
  );
}

function checkedAddress(name: VendorName, address: unknown): string {
  if (address === undefined) {
    const { addressVariables } = vendors[name];
    const set = addressVariables === undefined ? '' : `; give it, or set ${addressVariables.join(' and ')}`;
    throw invalid(`${name} needs a baseUrl, such as http://localhost:8000/v1${set}`);
  }
  return checkedBaseUrl(owner, address).href.replace(/\/$/, '');
}

/** Counts bytes. Following a redirect would turn the POST into a GET, and could carry the key to another host. */
function boundedFetch(fetch: Fetch | undefined, limits: BodyLimits, model: string): Fetch {
  const fail = (what: string) => new AgentLoopError('PROVIDER_TOO_LARGE', `Model ${model} ${what}.`);
  return async (url, init) => {
    const response = await (fetch ?? globalThis.fetch)(url, { ...init, redirect: 'manual' });
    return boundedResponse(response, limits, fail);
  };
}

function invalid(what: string): AgentLoopError {
  return wrongOption(owner, what);
}
