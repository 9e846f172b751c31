/** Milliseconds of each unit that vendors write. */
const units: readonly (readonly [RegExp, number])[] = [
  [/^(ms|msecs?|milliseconds?)$/i, 1],
  [/^(s|secs?|seconds?)$/i, 1_000],
  [/^(m|mins?|minutes?)$/i, 60_000],
  [/^(h|hrs?|hours?)$/i, 3_600_000],
  [/^(d|days?)$/i, 86_400_000],
];

const span = String.raw`\d+(?:\.\d+)?\s*(?:milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?![a-z])`;
const spans = `${span}(?:(?:\\s|,|and)*${span})*`;
const dateTime = String.raw`\d{4}-\d\d-\d\d(?:T|,? at |\s)\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(?:Z|UTC|GMT|[+-]\d\d:?\d\d)?`;

const wholeDuration = new RegExp(`^\\s*${spans}\\s*$`, 'i');
const eachSpan = /(\d+(?:\.\d+)?)\s*([a-z]+)/gi;

/** `5.289s`, `1m2s`, `200ms`, `6m0s`, `1 minute and 5 seconds` in milliseconds. */
export function durationMs(text: string): number | undefined {
  if (!wholeDuration.test(text)) return undefined;
  let ms = 0;
  for (const [, amount, unit = ''] of text.matchAll(eachSpan)) {
    const [, factor] = units.find(([pattern]) => pattern.test(unit)) ?? [];
    if (factor === undefined) return undefined;
    ms += Number(amount) * factor;
  }
  return Math.ceil(roundedMs(ms));
}

/** Without the error of binary fractions: 5.289 s are 5289 ms, not 5290. */
function roundedMs(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}

const inSpan = new RegExp(
  `(?:again|retry|wait|resets?|available|back|after|access)(?:\\s+\\S+){0,4}?\\s*(?:in|after|for|within|about|wait|:)?\\s+(${spans})`,
  'i',
);
const atTime = new RegExp(
  `(?:again|retry|wait|resets?|available|back|access)(?:\\s+\\S+){0,4}?\\s+(?:at|on|after|until)\\s+(${dateTime})`,
  'i',
);

/** The pause that a sentence asks for: "try again in 5.289s", "retry after 26 seconds", "resets at 2026-01-01 00:00 UTC". */
export function pauseInWords(sentence: string, now: number): number | undefined {
  const text = sentence.slice(0, 4_096);
  const said = inSpan.exec(text)?.[1];
  const pause = said === undefined ? undefined : durationMs(said);
  if (pause !== undefined) return pause;
  const date = atTime.exec(text)?.[1];
  return date === undefined ? undefined : untilDate(date, now);
}

/** A date of ISO 8601 or like it; of Greenwich where it names no zone. */
function untilDate(text: string, now: number): number | undefined {
  const plain = text.trim().replace(/,? at |\s+(?=\d)/, 'T');
  const zoned = /(UTC|GMT)$/i.test(plain) ? plain.replace(/\s*(UTC|GMT)$/i, 'Z') : plain;
  const at = Date.parse(/(Z|[+-]\d\d:?\d\d)$/i.test(zoned) ? zoned : `${zoned}Z`);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

/** Seconds since 1970 and milliseconds since 1970 are larger than any pause. */
const leastEpochSeconds = 1_000_000_000;
const leastEpochMs = 1_000_000_000_000;

/** A number of seconds, a point in time as a number, a duration or a date. */
export function pauseOfValue(value: unknown, now: number, unitMs = 1_000): number | undefined {
  if (typeof value === 'string') {
    const text = value.trim();
    if (/^\d+(\.\d+)?$/.test(text)) return pauseOfValue(Number(text), now, unitMs);
    return durationMs(text) ?? (/^\d{4}-\d\d-\d\dT/.test(text) ? untilDate(text, now) : undefined);
  }
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) return undefined;
  if (value >= leastEpochMs) return Math.max(0, value - now);
  if (value >= leastEpochSeconds && unitMs === 1_000) return Math.max(0, value * 1_000 - now);
  return Math.ceil(roundedMs(value * unitMs));
}

const inMs = ['retry-after-ms', 'x-ms-retry-after-ms', 'llm_provider-retry-after-ms'];
const inSeconds = ['retry-after', 'llm_provider-retry-after', 'x-retry-after'];

/**
 * RFC 9110, section 10.2.3: seconds or a date. `retry-after-ms` is what Azure and OpenAI send beside it; LiteLLM passes the
 * vendor's header on under another name.
 */
export function pauseOfHeaders(headers: Headers, now: number): number | undefined {
  for (const name of inMs) {
    const value = headers.get(name) ?? '';
    if (/^\d+(\.\d+)?$/.test(value)) return Math.ceil(Number(value));
  }
  const value = inSeconds.map((name) => headers.get(name)).find((given) => given !== null) ?? null;
  if (value === null) return undefined;
  if (/^\d+(\.\d+)?$/.test(value)) return pauseOfValue(value, now);
  // A date begins with its day and is of Greenwich: `Date.parse` alone takes `-1` and `5, 5` for days of 2001, and the old
  // form without a zone for local time.
  const date = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value)
    ? Date.parse(`${value.replace(/ GMT$/, '')} GMT`)
    : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/**
 * When a limit is fresh again, by the headers of OpenAI and Groq (`x-ratelimit-reset-tokens: 7.66s`), Anthropic
 * (`anthropic-ratelimit-tokens-reset: 2026-…`), OpenRouter (`x-ratelimit-reset`, milliseconds since 1970) and the IETF's draft
 * (`ratelimit-reset`, seconds). The limits with nothing left count, else all but those of a day; the longest is the pause.
 */
export function pauseOfResets(headers: Headers, now: number): number | undefined {
  const resets: { readonly pause: number; readonly left: string | null; readonly isFar: boolean }[] = [];
  headers.forEach((value, name) => {
    if (!/ratelimit/.test(name) || !/reset/.test(name)) return;
    const pause = pauseOfValue(value, now);
    const left = headers.get(name.replace('reset', 'remaining'));
    if (pause !== undefined) resets.push({ pause, left, isFar: /day/.test(name) });
  });
  const spent = resets.filter(({ left }) => left !== null && Number(left) === 0);
  const counted = spent.length > 0 ? spent : resets.filter(({ isFar }) => !isFar);
  return counted.length === 0 ? undefined : Math.max(...counted.map(({ pause }) => pause));
}
