import { isHttp } from './check-mcp-options.ts';
import type { McpHeaders, McpServerOptions } from './mcp-options.ts';

/** Shorter ones are words that stand in any text. */
const minLength = 8;
/** Credentials that change are asked for anew with each request. */
const maxWords = 200;

/** The credentials of one server, so that no text that comes back from it carries them on. */
export class SecretWords {
  readonly #words = new Set<string>();

  constructor(options: McpServerOptions) {
    if (!isHttp(options)) {
      for (const value of Object.values(options.env ?? {})) this.#add(value);
      return;
    }
    for (const value of new URL(options.url).searchParams.values()) this.#add(value);
    if (typeof options.headers === 'object') this.addHeaders(options.headers);
  }

  /** A header's value, and what stands behind its scheme. */
  addHeaders(headers: McpHeaders): void {
    for (const value of Object.values(headers)) {
      this.#add(value);
      this.#add(value.slice(value.indexOf(' ') + 1));
    }
  }

  redact(text: string): string {
    let shown = text;
    for (const word of this.#words) shown = shown.replaceAll(word, '[redacted]');
    return shown;
  }

  #add(word: string): void {
    if (word.length < minLength || this.#words.has(word)) return;
    const [oldest] = this.#words;
    if (this.#words.size >= maxWords && oldest !== undefined) this.#words.delete(oldest);
    this.#words.add(word);
  }
}
