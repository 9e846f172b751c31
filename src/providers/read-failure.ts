import type { ErrorCode } from '../core/contracts/index.ts';
import { pauseInWords, pauseOfHeaders, pauseOfResets, pauseOfValue } from './failure-pause.ts';
import {
  codeOfKind,
  type FailureKind,
  farLimit,
  hopelessLimit,
  isGeneral,
  isSuccess,
  kindOfNames,
  kindOfWords,
  plainName,
  saysKind,
  soundsFailed,
} from './failure-words.ts';
import { codeOfStatus, isTransient, retryableCodes } from './http-status.ts';
import { isJsonObject, type JsonObject, jsonIn } from './json-object.ts';

/** A failure as the server tells it. Its words are not yet fit to be shown: they may hold secrets. */
export interface Failure {
  readonly code: ErrorCode;
  /** `undefined` where the status alone says what it is. */
  readonly kind: FailureKind | undefined;
  /** The HTTP status, or the one that the body names. */
  readonly status?: number;
  /** The most specific words of the server, then its general ones; '' where it says nothing. */
  readonly words: string;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** `unusableAnswer` where the model's own output was refused. */
  readonly reason?: string;
  /** The pause that the server asks for. */
  readonly retryAfterMs?: number;
  /** Of an overflow: the tokens that fit, and those of the request. */
  readonly details?: { readonly limit?: number; readonly used?: number };
}

/** The `reason` of an error for what the model wrote and nobody can use. Another try may help, many tries do not. */
export const unusableAnswer = 'unusable_answer';

/** How often a request is made again because of an answer that cannot be used. */
export const mostUnusableRetries = 2;

// Members by their names in lower case, without separators.
const messageMembers: ReadonlySet<string> = new Set(
  'message msg errormessage errormsg errmsg statusmsg statusmessage detail details description errordescription title reason'.split(
    ' ',
  ),
);
/** They say more than the message beside them. */
const closerMembers = /^(details?|(error)?description)$/;
const nameMembers: ReadonlySet<string> = new Set(
  'code type status statuscode errorcode errcode errortype httpcode httpstatus httpstatuscode exceptionname reason quotaid ret retcode name'.split(
    ' ',
  ),
);
/** What is nested in an error: gateways wrap the errors of the vendors behind them. */
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

/** Members of answers: whatever stands in them was written by the model or its tools, and is no failure of the answer. */
const contentMembers: ReadonlySet<string> = new Set(
  [
    'choices delta message content contentblock part item output outputs tools toolcalls functioncall toolchoice candidates',
    'usage usagemetadata promptfeedback contentfilterresults contentfilterresult promptfilterresults logprobs annotations citations',
    'searchresults executedtools providerspecificfields reasoning reasoningdetails thinking input inputs instructions',
    'metadata text audio images image warnings warning parameters arguments messages',
  ].flatMap((names) => names.split(' ')),
);

/** `base_resp`, `BaseResp` and `baseResp` are one name. */
function memberName(name: string): string {
  return name.replace(/[^A-Za-z0-9]/g, '').toLowerCase();
}

/** Members that hold errors: `error`, `errors`, `provider_error`, `internalServerException`, `fault`. */
const errorMember = /(error|errors|exception|fault|failure)$/;
/** `is_error`, `hasError`, and the counts of errors, say nothing themselves. */
const noErrorMember = /^(is|has|on|show|ignore)|lasterror$/;

/** How deep errors are nested at most. */
const deepest = 6;

/**
 * The object in which `value`, a JSON value that a server sent with a good status, says a failure; `undefined` where it says none. Any
 * member counts, of the value itself and of what wraps it, but not the content of an answer; one that says success, or nothing, is none.
 */
export function failureIn(value: unknown): JsonObject | undefined {
  return search(value, 0);
}

function search(value: unknown, depth: number): JsonObject | undefined {
  if (Array.isArray(value)) return depth === 0 ? firstOf(value, (member) => search(member, 1)) : undefined;
  if (!isJsonObject(value) || depth > 3) return undefined;
  if (saysFailure(value, depth)) return value;
  return firstOf(Object.entries(value), ([name, member]) => {
    const plain = memberName(name);
    if (plain === 'choices' && Array.isArray(member)) return firstOf(member, failedChoice);
    return contentMembers.has(plain) || !isJsonObject(member) ? undefined : search(member, depth + 1);
  });
}

function firstOf<T, R>(values: readonly T[], find: (value: T) => R | undefined): R | undefined {
  for (const value of values) {
    const found = find(value);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** OpenRouter puts an error into the choice; others into its message. */
function failedChoice(choice: unknown): JsonObject | undefined {
  if (!isJsonObject(choice)) return undefined;
  return [choice, choice['delta'], choice['message']].filter(isJsonObject).find(hasError);
}

function saysFailure(object: JsonObject, depth: number): boolean {
  if (hasError(object)) return true;
  const { type, object: kind, success, ok } = object;
  if (type === 'error' || kind === 'error') return true;
  if (typeof type === 'string' && /\.(failed|error)$/.test(type) && depth === 0) return true;
  if ((success === false || ok === false) && sentencesOf(object).length > 0) return true;
  return statusFails(object, depth);
}

function hasError(object: JsonObject): boolean {
  return Object.entries(object).some(([name, value]) => {
    const plain = memberName(name);
    if (!errorMember.test(plain) || noErrorMember.test(plain)) return false;
    if (typeof value === 'boolean' || typeof value === 'number')
      return value !== false && value !== 0 && plain === 'error';
    return saysSomething(value);
  });
}

/** Whether an error's value is one: not empty, not a word of success, not an object whose code is one of success. */
function saysSomething(value: unknown, depth = 0): boolean {
  if (value === null || value === undefined || value === false || value === 0) return false;
  if (typeof value === 'string') return !isSuccess(value);
  if (typeof value !== 'object') return true;
  if (depth > deepest) return false;
  if (Array.isArray(value)) return value.some((member) => saysSomething(member, depth + 1));
  const object = isJsonObject(value) ? value : {};
  const success = codesOf(object).some((code) => code !== '' && isSuccess(String(code)));
  if (success && !sentencesOf(object).some(soundsFailed)) return false;
  return Object.values(object).some((member) => saysSomething(member, depth + 1));
}

/** A code beside a message, without a member for errors: OpenRouter, MiniMax's `base_resp`, AWS, FastAPI. */
function statusFails(object: JsonObject, depth: number): boolean {
  const isAnswer = Array.isArray(object['choices']) && object['choices'].length > 0;
  const sentences = sentencesOf(object);
  if (typeof object['__type'] === 'string') return true;
  const codes = codesOf(object).filter((code) => !isSuccess(String(code)));
  const status = codes.map(Number).find((code) => Number.isInteger(code));
  if (status !== undefined && sentences.length > 0) return !isAnswer || (status >= 400 && status < 600);
  if (isAnswer || depth > 1) return false;
  if (codes.length > 0 && sentences.some((sentence) => soundsFailed(sentence))) return true;
  if (depth > 0) return false;
  const { detail, message } = object;
  if (saysSomething(detail) && typeof detail !== 'number') return true;
  return typeof message === 'string' && object['type'] === undefined && soundsFailed(message);
}

function codesOf(object: JsonObject): readonly (string | number)[] {
  const codes = /^(status)?code$|^(error|err)code$|^http(code|status|statuscode)$|^ret(code)?$|^status$/;
  return Object.entries(object).flatMap(([name, value]) =>
    codes.test(memberName(name)) && (typeof value === 'string' || typeof value === 'number') ? [value] : [],
  );
}

function sentencesOf(object: JsonObject): readonly string[] {
  return Object.entries(object).flatMap(([name, value]) =>
    messageMembers.has(memberName(name)) && typeof value === 'string' && !isSuccess(value) ? [value] : [],
  );
}

interface FailureSource {
  /** What the server sent: a JSON value, a text, a page of HTML. */
  readonly body: unknown;
  /** The HTTP status, where it is not one of success. */
  readonly status?: number | undefined;
  readonly headers?: Headers | undefined;
  /** Milliseconds since 1970, for pauses that end at a date. */
  readonly now: number;
}

/** Reads what failed from all that the server says, by its meaning. Total: gives a failure for every source. */
export function readFailure({ body, status: httpStatus, headers, now }: FailureSource): Failure {
  const said = new Said(now);
  said.listen(body, 0);
  const status = httpStatus ?? said.status;
  const names = said.names;
  const text = said.sentences.map(({ sentence }) => sentence).join('\n');
  const pause =
    (headers && pauseOfHeaders(headers, now)) ??
    said.pause ??
    pauseInWords(text, now) ??
    (headers && status === 429 ? pauseOfResets(headers, now) : undefined);
  const kind = kindOf({ status, names, text, pause });
  const code = codeOf(kind, status);
  const words = wordsOf(said.sentences) || (isJsonObject(body) ? shownObject(body) : '');
  const details = kind === 'overflow' ? sizesIn(text, said.sizes) : undefined;
  const hinted = headers?.get('x-should-retry');
  const isLimit = code === 'PROVIDER_RATE_LIMIT';
  const limit = `${text}\n${names.join('\n')}`;
  const lasts =
    isLimit && (hopelessLimit.test(text) || isTooLarge(text) || (pauseIsUnsaid(pause, names) && farLimit.test(limit)));
  const passes = kind === 'unusable' || (status === undefined ? retryableCodes.has(code) : isTransient(code, status));
  return {
    code,
    kind,
    ...(status === undefined ? {} : { status }),
    words,
    retryable:
      kind !== 'overflow' && kind !== 'exhausted' && !lasts && hinted !== 'false' && (passes || hinted === 'true'),
    ...(kind === 'unusable' ? { reason: unusableAnswer } : {}),
    ...(pause === undefined ? {} : { retryAfterMs: pause }),
    ...(details === undefined ? {} : { details }),
  };
}

/** Google gives the pause of a minute also for the limits of a day. */
function pauseIsUnsaid(pause: number | undefined, names: readonly string[]): boolean {
  return pause === undefined || names.some((name) => /per_day/.test(name));
}

interface Evidence {
  readonly status: number | undefined;
  readonly names: readonly string[];
  readonly text: string;
  readonly pause: number | undefined;
}

/** The kinds that count whatever the status is, in this order; then the status, unless the names know better. */
function kindOf({ status, names, text, pause }: Evidence): FailureKind | undefined {
  if (isOverflow(status, names, text)) return 'overflow';
  if (isExhausted(status, names, text, pause)) return 'exhausted';
  if (status !== 429 && status !== 401 && saysKind('unusable', names, text)) return 'unusable';
  const named = kindOfNames(names);
  if (status === undefined) return named ?? kindOfWords(text) ?? 'server';
  if (status === 400 && (named === 'auth' || saysKind('auth', [], text))) return 'auth';
  if (named !== undefined && betterKinds(status).includes(named)) return named;
  return undefined;
}

/** The kinds that a name may say better than the status: gateways answer 400 or 500 to whatever happened behind them. */
function betterKinds(status: number): readonly FailureKind[] {
  if (status === 400 || status === 403 || status === 422) return ['rate_limit', 'timeout', 'server'];
  if (status === 500) return ['auth', 'not_found', 'rate_limit', 'bad_request'];
  return status > 500 ? ['auth'] : [];
}

function isOverflow(status: number | undefined, names: readonly string[], text: string): boolean {
  if (status === 413) return true;
  if (status === 401 || status === 402 || status === 404) return false;
  if (saysKind('overflow', names, '')) return true;
  if (status === 429 || kindOfNames(names) === 'rate_limit') return false;
  return saysKind('overflow', [], text);
}

function isExhausted(
  status: number | undefined,
  names: readonly string[],
  text: string,
  pause: number | undefined,
): boolean {
  if (status === 402) return true;
  if (saysKind('exhausted', names, text)) return true;
  // Google says this of a limit per minute too.
  if (!/exceeded your current quota/i.test(text)) return false;
  return pause === undefined && !names.includes('resource_exhausted');
}

function codeOf(kind: FailureKind | undefined, status: number | undefined): ErrorCode {
  if (kind === 'exhausted' && status === 429) return 'PROVIDER_RATE_LIMIT';
  if (kind !== undefined) return codeOfKind[kind];
  return codeOfStatus(status ?? 500);
}

/** "Limit 6000, Requested 7000": more than fits, however long one waits. */
function isTooLarge(text: string): boolean {
  const [, limit, requested] = /limit:?\s+(\d+),.{0,40}requested:?\s+(\d+)/i.exec(text) ?? [];
  return limit !== undefined && Number(requested) > Number(limit);
}

interface Sentence {
  readonly sentence: string;
  readonly depth: number;
}

/** Collects sentences, names, a status, a pause and sizes from an error, the outermost first. */
class Said {
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
    const begin = trimmed.search(/[{[]/);
    const nested = begin === -1 ? undefined : objectIn(trimmed.slice(begin));
    if (nested === undefined) {
      this.sentences.push({ sentence: trimmed, depth });
      return;
    }
    const before = trimmed.slice(0, begin).replace(/[\s:\-–]+$/, '');
    if (before !== '') this.sentences.push({ sentence: before, depth });
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
      const isError = errorMember.test(name) && !noErrorMember.test(name) && typeof value !== 'number';
      if (name.endsWith('exception')) this.names.push(plainName(given));
      if (isError && name === 'finishreason') continue;
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

/** An error as JSON, or as Python prints it, at the beginning of a text. */
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

/** The innermost sentence that says something specific, and the outermost one beside it. */
function wordsOf(sentences: readonly Sentence[]): string {
  const specific = sentences.filter(({ sentence }) => !isGeneral(sentence));
  const [outer] = specific.length > 0 ? specific : sentences;
  if (outer === undefined) return '';
  const deepestOf = Math.max(...specific.map(({ depth }) => depth), 0);
  const inner = specific.find(({ depth }) => depth === deepestOf) ?? outer;
  if (outer.sentence.includes(inner.sentence)) return outer.sentence;
  return inner.sentence.includes(outer.sentence) ? inner.sentence : `${inner.sentence} (${outer.sentence})`;
}

/** What says nothing that is known is shown as it is. */
function shownObject(body: JsonObject): string {
  const nested = Object.entries(body).find(
    ([name, value]) => errorMember.test(memberName(name)) && isJsonObject(value),
  );
  return JSON.stringify(nested?.[1] ?? body);
}

const aNumber = String.raw`(?<![\w.-])\d[\d,]*(?![\w-]|\.\d)`;
const limitBefore = new RegExp(
  `(?:max(?:imum)?|limit|allowed|up to|at most|only|window|size|length|n_ctx|less than|cannot exceed|>|<=)[^\\d\\n]{0,40}?(${aNumber})`,
  'i',
);

/** The sizes in the words about an overflow: what was sent is more than what fits. */
function sizesIn(text: string, known: ReadonlyMap<'limit' | 'used', number>): Failure['details'] {
  const numbers = [...text.slice(0, 4_096).matchAll(new RegExp(aNumber, 'g'))]
    .map(([digits]) => Number(digits.replaceAll(',', '')))
    .filter((number) => number >= 256);
  const sum = new RegExp(`(${aNumber}) \\+ (${aNumber}) > (${aNumber})`).exec(text)?.slice(1).map(Number);
  const [one, other] = numbers;
  const isPair = new Set(numbers).size === 2 && one !== undefined && other !== undefined;
  const stated = limitBefore.exec(text)?.[1]?.replaceAll(',', '');
  const limit =
    known.get('limit') ??
    sum?.[2] ??
    (isPair ? Math.min(...numbers) : stated === undefined ? undefined : Number(stated));
  const used =
    known.get('used') ??
    (sum ? (sum[0] ?? 0) + (sum[1] ?? 0) : numbers.find((number) => limit !== undefined && number > limit));
  if (limit === undefined && used === undefined) return undefined;
  return { ...(limit === undefined ? {} : { limit }), ...(used === undefined ? {} : { used }) };
}
