import type { ErrorCode } from '../../core/contracts/index.ts';

/** What an error may say of the server it comes from. Holds the secrets in a closure, so that no error can show them. */
export interface ModelServer {
  /** Origin and path of the base address, or whatever else names the server. */
  readonly address: string;
  readonly model: string;
  /** What to do about a failure, where that differs from what holds for any server of the OpenAI wire. */
  readonly cures: Cures;
  /** The server's own words, fit to be shown: without secrets, on one line, shortened, in quotes. */
  quote(text: string): string;
  /** `text` without secrets. */
  redact(text: string): string;
}

export type Cures = Readonly<Partial<Record<ErrorCode, string>>>;

export interface ModelServerOptions {
  readonly address: string;
  readonly model: string;
  readonly cures?: Cures;
  /** The key and the values of headers. */
  readonly secrets: readonly string[];
}

/** Shorter ones are no secrets, and hiding them would garble every text. */
const shortestSecret = 4;
const longestQuote = 300;

export function modelServer({ address, model, cures = {}, secrets }: ModelServerOptions): ModelServer {
  const hidden = spellingsOf(secrets);
  const redact = (text: string): string =>
    hidden.reduce((shown, secret) => shown.replaceAll(secret, '[redacted]'), text);
  return {
    address,
    model,
    cures,
    redact,
    quote(text) {
      const line = redact(text).replace(/\s+/g, ' ').trim();
      return `"${line.length > longestQuote ? `${line.slice(0, longestQuote)}…` : line}"`;
    },
  };
}

/** Each secret as it is, in JSON and in an address; the words of `Bearer …` also alone. Longest first. */
function spellingsOf(secrets: readonly string[]): readonly string[] {
  const spellings = secrets
    .flatMap((secret) => [secret, ...secret.split(/\s+/)])
    .filter((secret) => secret.length >= shortestSecret && secret !== 'Bearer' && secret !== 'Basic')
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]);
  return [...new Set(spellings)].sort((a, b) => b.length - a.length);
}

/** How every message names the server. */
export function nameOfServer({ address, model }: ModelServer): string {
  return /^https?:/.test(address) ? `The model server at ${address} (model ${model})` : `Model ${model} of ${address}`;
}
