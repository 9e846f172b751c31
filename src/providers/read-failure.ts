import type { ErrorCode } from '../core/contracts/index.ts';
import { pauseInWords, pauseOfHeaders, pauseOfResets } from './failure-pause.ts';
import { FailureReport, type Sentence } from './failure-sentences.ts';
import {
  codeOfKind,
  type FailureKind,
  farLimit,
  hopelessLimit,
  isGeneral,
  kindOfNames,
  kindOfWords,
  saysKind,
} from './failure-words.ts';
import { isErrorMember, memberName } from './find-failure.ts';
import { codeOfStatus, isTransient, retryableCodes } from './http-status.ts';
import { isJsonObject, type JsonObject } from './json-object.ts';
import { type OverflowSizes, sizesIn } from './overflow-sizes.ts';

export { headersOf } from './failure-sentences.ts';
export { failureIn } from './find-failure.ts';

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
  readonly details?: OverflowSizes;
}

/** The `reason` of an error for what the model wrote and nobody can use. Another try may help, many tries do not. */
export const unusableAnswer = 'unusable_answer';

/** How often a request is made again because of an answer that cannot be used. */
export const mostUnusableRetries = 2;

interface FailureSource {
  /** What the server sent: a JSON value, plain text or an HTML page. */
  readonly body: unknown;
  /** The HTTP status, where it is not one of success. */
  readonly status?: number | undefined;
  readonly headers?: Headers | undefined;
  /** Milliseconds since 1970, for pauses that end at a date. */
  readonly now: number;
}

/** Reads what failed from all that the server says, by its meaning. Total: gives a failure for every source. */
export function readFailure({ body, status: httpStatus, headers, now }: FailureSource): Failure {
  const said = new FailureReport(now);
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

const everyKind: readonly FailureKind[] = ['rate_limit', 'auth', 'not_found', 'timeout', 'server', 'bad_request'];

/** The kinds that a name may say better than the status: gateways answer 400 or 500 for any upstream failure. */
function betterKinds(status: number): readonly FailureKind[] {
  if (status === 400 || status === 403 || status === 422) return ['rate_limit', 'timeout', 'server'];
  if (status === 500) return ['auth', 'not_found', 'rate_limit', 'bad_request'];
  if (status > 500) return ['auth'];
  return codeOfStatus(status) === 'PROVIDER_FAILED' ? everyKind : [];
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
  const nested = Object.entries(body).find(([name, value]) => isErrorMember(memberName(name)) && isJsonObject(value));
  return JSON.stringify(nested?.[1] ?? body);
}
