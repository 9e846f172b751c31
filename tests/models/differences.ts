import { isDeepStrictEqual } from 'node:util';
import type { SeenRequest } from './checks.ts';
import { valuesAt } from './json-path.ts';
import type { Expectation, ExpectedError, ExpectedSent, ExpectedTurn, RanTool } from './model-case.ts';

/** The outcome of a promise. */
export interface Outcome {
  readonly value?: unknown;
  readonly error?: CodedError | undefined;
}

export interface CodedError {
  readonly code?: string;
  readonly message: string;
  readonly retryable?: boolean;
  readonly retryAfterMs?: number;
}

export interface PlayedTurn extends Outcome {
  readonly reasoning: string;
}

/** The outcome of a case. */
export interface Played {
  readonly threw?: CodedError | undefined;
  readonly turns?: readonly PlayedTurn[];
  readonly response?: Outcome;
  readonly ran: readonly RanTool[];
  readonly command?: { readonly exitCode: number | null; readonly output: string };
  readonly tokens?: number;
  readonly seen: readonly SeenRequest[];
  readonly seen2: readonly SeenRequest[];
}

/** The differences from what is expected, a sentence each; none if the outcome is right. */
export function differences(expected: Expectation, played: Played): readonly string[] {
  if (expected.anyOf !== undefined) {
    const each = expected.anyOf.map((one) => differences(one, played));
    return each.some(({ length }) => length === 0) ? [] : [`none of: ${each.map((one) => one.join(', ')).join(' | ')}`];
  }
  if (expected.threw !== undefined) return errorDifferences('building it', expected.threw, played.threw);
  if (played.threw !== undefined) return [`threw ${shown(played.threw)}`];
  return [
    ...(expected.turns ?? []).flatMap((turn, index) => turnDifferences(turn, index, played)),
    ...responseDifferences(expected, played),
    ...differing('requests', expected.requests, played.seen.length),
    ...differing('ran', expected.ran && sorted(expected.ran), sorted(played.ran)),
    ...(expected.sent ?? []).flatMap((sent) => sentDifferences(sent, played.seen)),
    ...(expected.sent2 ?? []).flatMap((sent) => sentDifferences(sent, played.seen2)),
    ...commandDifferences(expected, played),
    ...lacking(expected.tokensBelow, (most) => (played.tokens ?? Infinity) < most, `tokens are ${played.tokens}`),
    ...lacking(
      expected.reachedPath,
      (path) => played.seen.some((request) => request.path.includes(path)),
      `paths are ${played.seen.map(({ path }) => path)}`,
    ),
  ];
}

function turnDifferences(expected: ExpectedTurn, index: number, played: Played): readonly string[] {
  const name = `turn ${index + 1}`;
  const turn = played.turns?.[index];
  if (expected.error !== undefined) return errorDifferences(name, expected.error, turn?.error);
  const ended = turn?.error ? `failed with ${shown(turn.error)}` : `completed with ${shown(turn?.value)}`;
  const textOf = () => valuesAt(turn?.value, 'text')[0];
  return [
    ...lacking(expected.text, (text) => textOf() === text, `${name} ${ended}`),
    ...lacking(
      expected.textMatches,
      (pattern) => turn?.error === undefined && new RegExp(pattern).test(String(textOf())),
      `${name} ${ended}`,
    ),
    ...lacking(
      'value' in expected ? [expected.value] : undefined,
      (value) => isDeepStrictEqual(plain(valuesAt(turn?.value, 'value')), value),
      `${name} ${ended}`,
    ),
    ...Object.entries(expected.usage ?? {}).flatMap(([count, number]) =>
      differing(`${name}: ${count}`, number, valuesAt(turn?.value, `usage.${count}`)[0]),
    ),
    ...lacking(expected.includes, (part) => shown(turn?.value).includes(part), `${name} ${ended}`),
    ...lacking(
      expected.reasoningIncludes,
      (part) => turn?.reasoning.includes(part) === true,
      `${name} has the reasoning ${shown(turn?.reasoning)}`,
    ),
  ];
}

function responseDifferences({ response }: Expectation, played: Played): readonly string[] {
  if (response?.error !== undefined) return errorDifferences('call', response.error, played.response?.error);
  return differing('content', response?.content, valuesAt(played.response?.value, 'message.content')[0]);
}

function errorDifferences(name: string, expected: ExpectedError, error: CodedError | undefined): readonly string[] {
  if (error === undefined) return [`${name} did not fail`];
  const { code = '', message } = error;
  const got = `${name} failed with ${shown(error)}`;
  return [
    ...lacking(expected.code, (codes) => codes.includes(code), got),
    ...lacking(expected.codeNot, (codes) => !codes.includes(code), got),
    ...lacking(expected.retryable, (retryable) => error.retryable === retryable, got),
    ...lacking(expected.retryAfterMs, (ms) => error.retryAfterMs === ms, got),
    ...lacking(expected.messageIncludes, (part) => message.includes(part), got),
    ...lacking(expected.messageLacks, (part) => !message.includes(part), got),
  ].slice(0, 1);
}

function sentDifferences(expected: ExpectedSent, seen: readonly SeenRequest[]): readonly string[] {
  const values = valuesAt(seen[expected.request - 1]?.body, expected.path);
  const got = `request ${expected.request} has ${shown(values)} at ${expected.path}`;
  const asText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
  return [
    ...lacking(expected.count, (count) => values.length === count, got),
    ...lacking(expected.includes, (part) => values.some((value) => asText(value).includes(part)), got),
    ...lacking(
      expected.sameAs,
      (other) => values.length > 0 && isDeepStrictEqual(values, valuesAt(seen[other - 1]?.body, expected.path)),
      got,
    ),
    ...lacking(expected.equals, (all) => isDeepStrictEqual(values, all), got),
  ];
}

function commandDifferences({ exitCode, outputIncludes }: Expectation, { command }: Played): readonly string[] {
  return [
    ...lacking(exitCode, ({ not }) => command?.exitCode !== not, `exit code is ${command?.exitCode}`),
    ...lacking(outputIncludes, (part) => command?.output.includes(part) === true, `output is ${command?.output}`),
  ];
}

/** `got`, and what was expected, unless nothing was or it fits. */
function lacking<T>(expected: T | undefined, fits: (expected: T) => boolean, got: string): readonly string[] {
  return expected === undefined || fits(expected) ? [] : [`${got}; expected ${shown(expected)}`];
}

function differing(name: string, expected: unknown, got: unknown): readonly string[] {
  return lacking(expected, (value) => isDeepStrictEqual(got, value), `${name}: ${shown(got)}`);
}

function sorted(ran: readonly RanTool[]): readonly string[] {
  return ran.map((one) => JSON.stringify(one)).sort();
}

/** As JSON has it: an absent member and one that is undefined are the same. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? 'nothing';
}
