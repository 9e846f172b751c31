import { pauseOfHeaders, pauseOfResets, pauseOfValue } from './failure-pause.ts';
import { plainName } from './failure-words.ts';
import { contentMembers, failureIn, isErrorMember, memberName, messageMembers } from './find-failure.ts';
import { isJsonObject, type JsonObject, jsonIn } from './json-object.ts';

/** They say more than the message beside them. */
const closerMembers = /^(details?|(error)?description)$/;
const nameMembers: ReadonlySet<string> = new Set(
  'code type status statuscode errorcode errcode errortype httpcode httpstatus httpstatuscode exceptionname reason quotaid ret retcode name'.split(
    ' ',
  ),
);
/** What is nested in an error: gateways wrap the errors of vendors. */
const innerMembers: ReadonlySet<string> = new Set(
  'metadata raw innererror cause response body data upstream baseresp violations fieldviolations errordetails'.split(
    ' ',
  ),
);
const pauseMembers: Readonly<Record<string, number>> = {
  retryafterms: 1,
  retrydelayms: 1,
  retryafter: 1_000,
  retryafterseconds: 1_000,
  retrydelay: 1_000,
  resetsinseconds: 1_000,
  resetsat: 1_000,
  resetat: 1_000,
  estimatedtime: 1_000,
};

/** How deep errors are nested at most. */
const deepest = 16;

/** What is read of one sentence. */
const longestSentence = 4_096;

export interface Sentence {
  readonly sentence: string;
  readonly depth: number;
}

/** Collects sentences, names, a status, a pause and sizes from an error, the outermost first. */
export class FailureReport {
  readonly sentences: Sentence[] = [];
  readonly names: string[] = [];
  readonly sizes = new Map<'limit' | 'used', number>();
  status: number | undefined;
  pause: number | undefined;
  readonly #now: number;

  constructor(now: number) {
    this.#now = now;
  }

  listen(value: unknown, depth: number): void {
    if (depth > deepest) return;
    if (typeof value === 'string') this.#hear(value, depth);
    else if (Array.isArray(value)) for (const member of value.slice(0, 8)) this.listen(member, depth);
    else if (isJsonObject(value)) this.#look(value, depth);
  }

  #hear(text: string, depth: number): void {
    const trimmed = text.trim();
    if (trimmed === '') return;
    if (trimmed.startsWith('<')) {
      const page = textOfPage(trimmed);
      this.sentences.push({ sentence: page, depth });
      const [, status] = /^\W*([45]\d\d)\b|error.{0,10} ([45]\d\d)\b/i.exec(page) ?? [];
      if (status !== undefined) this.status ??= Number(status);
      return;
    }
    // `messages[3]` is words.
    const begin = trimmed.search(/\{|\[\s*[{["]/);
    const nested = begin === -1 ? undefined : objectIn(trimmed.slice(begin));
    if (nested === undefined) {
      this.sentences.push({ sentence: trimmed.slice(0, longestSentence), depth });
      return;
    }
    const before = trimmed.slice(0, begin).replace(/[\s:\-–]+$/, '');
    if (before !== '') this.sentences.push({ sentence: before.slice(0, longestSentence), depth });
    this.listen(nested, depth + 1);
  }

  #look(object: JsonObject, depth: number): void {
    const members = Object.entries(object).map(([name, value]) => [memberName(name), value, name] as const);
    for (const [name, value] of members) {
      if (nameMembers.has(name)) this.#name(name, value);
      const unitMs = pauseMembers[name];
      if (unitMs !== undefined) this.pause ??= pauseOfValue(value, this.#now, unitMs);
      if (name === 'type' || name === '__type') continue;
      if (messageMembers.has(name)) this.#message(name, value, depth);
      if (typeof value === 'number' && /^(nctx|nctxtrain)$/.test(name)) this.sizes.set('limit', value);
      if (typeof value === 'number' && name === 'nprompttokens') this.sizes.set('used', value);
    }
    if (typeof object['__type'] === 'string') this.names.push(plainName(object['__type']));
    for (const [name, value, given] of members) {
      if (name === 'failedgeneration' && typeof value === 'string') this.names.push('failed_generation');
      if (name === 'headers' && isJsonObject(value)) this.#headers(value);
      const isError = isErrorMember(name) && typeof value !== 'number';
      if (name.endsWith('exception')) this.names.push(plainName(given));
      if (isError || innerMembers.has(name)) this.#inner(name, value, depth + 1);
      else if (isJsonObject(value) && !contentMembers.has(name) && !messageMembers.has(name) && failureIn(value)) {
        this.listen(value, depth + 1);
      }
    }
  }

  #inner(name: string, value: unknown, depth: number): void {
    if (name !== 'baseresp' || !isJsonObject(value)) return this.listen(value, depth);
    const { status_code: code, status_msg: words } = value;
    if (typeof code === 'number' || typeof code === 'string') this.names.push(`base_resp_${code}`);
    this.listen(words, depth);
  }

  #message(name: string, value: unknown, depth: number): void {
    // Google's `reason` is a name, others are sentences.
    if (name === 'reason' && typeof value === 'string' && !/\s/.test(value)) return;
    this.listen(value, closerMembers.test(name) ? depth + 1 : depth);
  }

  #name(name: string, value: unknown): void {
    if (typeof value !== 'string' && typeof value !== 'number') return;
    const code = Number(value);
    if (String(value).trim() === '' || !Number.isInteger(code)) {
      if (typeof value === 'string' && !/\s/.test(value.trim()) && value !== '') this.names.push(plainName(value));
      return;
    }
    if (code >= 400 && code < 600) this.status ??= code;
    else if (name !== 'status') this.names.push(`code_${code}`);
  }

  /** OpenRouter repeats the headers of its limit in the body. */
  #headers(object: JsonObject): void {
    const headers = headersOf(object);
    this.pause ??= pauseOfHeaders(headers, this.#now) ?? pauseOfResets(headers, this.#now);
  }
}

/** Headers from an object of texts. Names and values that no header can have are left out. */
export function headersOf(object: unknown): Headers {
  if (object instanceof Headers) return object;
  const headers = new Headers();
  if (!isJsonObject(object)) return headers;
  for (const [name, value] of Object.entries(object)) {
    if (!/^[\w-]+$/.test(name) || (typeof value !== 'string' && typeof value !== 'number')) continue;
    if (/^[\x20-\x7e]*$/.test(String(value))) headers.set(name, String(value));
  }
  return headers;
}

/** An error as JSON, or as Python prints it, at the start of a string. */
function objectIn(text: string): unknown {
  const json = text.slice(0, Math.max(text.lastIndexOf('}'), text.lastIndexOf(']')) + 1);
  const value = jsonIn(json);
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0 ? value : undefined;
  const said = /["'](?:message|msg|detail)["']:\s*(?:"([^"]*)"|'([^']*)')/.exec(text.slice(0, 4_096));
  return said === null ? undefined : { message: said[1] ?? said[2] };
}

/** Of the beginning of a page: what looks for the end of a tag takes the square of the time that it takes to read the page. */
function textOfPage(page: string): string {
  const html = page.slice(0, 4_096);
  const title = /<title[^>]*>([^<]*)</i.exec(html)?.[1]?.trim();
  return title === undefined || title === '' ? html.replace(/<[^>]*>/g, ' ') : title;
}
