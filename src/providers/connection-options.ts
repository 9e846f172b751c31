import type { LLMCapabilities } from '../core/contracts/index.ts';
import { wrongOption } from '../options/option-rules.ts';
import { isJsonObject } from './openai-wire/wire-errors.ts';

/** The key of a model's server. Errors: `INVALID_CONFIG` for what no header can hold; never shows it. */
export function checkedKey(owner: string, key: unknown): string {
  if (typeof key === 'string' && /^[\x21-\x7e]+$/.test(key)) return key;
  throw wrongOption(
    owner,
    'apiKey must be a key without spaces, line ends and letters beyond ASCII; leave it out where none is needed',
  );
}

/** The address of a model's server, up to its path. Errors: `INVALID_CONFIG`; never shows a password. */
export function checkedBaseUrl(owner: string, value: unknown): URL {
  const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw wrongOption(owner, 'baseUrl must be an http or https address such as http://localhost:4000/v1');
  }
  if (url.username !== '' || url.password !== '')
    throw wrongOption(owner, 'baseUrl must not hold a password: give it as apiKey or in headers');
  if (url.search !== '' || url.hash !== '') throw wrongOption(owner, 'baseUrl must end with its path, without ? and #');
  return url;
}

/** Where a model's server is, for spans. */
export function serverOf({ hostname, port, protocol }: URL): {
  readonly serverAddress: string;
  readonly serverPort: number;
} {
  const serverPort = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
  return { serverAddress: hostname.replace(/^\[|\]$/g, ''), serverPort };
}

/** The headers of each request to a model's server. Errors: `INVALID_CONFIG`, naming the header; never shows its value. */
export function checkedHeaders(owner: string, headers: unknown): Record<string, string> {
  if (!isJsonObject(headers)) throw wrongOption(owner, 'headers must be an object of texts');
  const checked: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string' || !isHeader(name, value)) {
      throw wrongOption(
        owner,
        `headers[${JSON.stringify(name)}] must be a valid HTTP header, its value one line of text`,
      );
    }
    checked[name] = value;
  }
  return checked;
}

/** Whether fetch takes it. The error of `Headers` itself would show the value, which may be a secret. */
function isHeader(name: string, value: string): boolean {
  try {
    new Headers([[name, value]]);
    return true;
  } catch {
    return false;
  }
}

const capabilityNames: Readonly<Record<keyof LLMCapabilities, true>> = {
  streaming: true,
  tools: true,
  toolChoice: true,
  responseFormat: true,
};

/** What a capability must be, in the user's words. */
export const capabilityWords = `one of ${Object.keys(capabilityNames).join(', ')}, and true or false`;

/** The first member of capabilities that is none, or neither true nor false. */
export function wrongCapability(capabilities: object): string | undefined {
  return Object.entries(capabilities).find(
    ([name, value]) => !Object.hasOwn(capabilityNames, name) || (value !== undefined && typeof value !== 'boolean'),
  )?.[0];
}
