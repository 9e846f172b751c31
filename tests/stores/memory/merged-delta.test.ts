import { expect, it } from '@jest/globals';
import { mergedDelta } from 'millrace/internals';
import type { Delta } from 'millrace/types';

type LlmDelta = Extract<Delta, { type: 'llm' }>;

const call = { type: 'llm', epoch: 5, iteration: 2, attempt: 3 } as const;
const said = (text: string, of: Partial<LlmDelta> = {}): LlmDelta => ({
  ...call,
  chunk: { type: 'text', text },
  ...of,
});
const thought = (text: string): LlmDelta => said('', { chunk: { type: 'reasoning', text } });

it('merges text with the text, and reasoning with the reasoning, that it continues', () => {
  expect(mergedDelta(said('He'), said('llo'))).toEqual(said('Hello'));
  expect(mergedDelta(thought('He'), thought('llo'))).toEqual(thought('Hello'));
});

it.each<readonly [string, Delta, Delta]>([
  ['text of another owner', said('He'), said('llo', { epoch: 6 })],
  ['text of another iteration', said('He'), said('llo', { iteration: 3 })],
  ['text of another attempt', said('He'), said('llo', { attempt: 4 })],
  ['reasoning after text', said('He'), thought('llo')],
  ['text after reasoning', thought('He'), said('llo')],
  ['the beginning of an attempt', said('He'), said('', { chunk: { type: 'attempt', state: 'begin' } })],
  ['arguments of a call', said('', { chunk: { type: 'tool-call', index: 0, arguments: '{' } }), said('llo')],
])('does not merge %s', (_, one, next) => {
  expect(mergedDelta(one, next)).toBeUndefined();
});
