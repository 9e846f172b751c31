import { expect, it } from '@jest/globals';
import { parseAnswers } from 'millrace/internals';

it('reads any JSON behind the call, also one that holds =', () => {
  expect(parseAnswers(['1:0={"approved":true}', '2:11="a=b"', '1:1=null'])).toEqual({
    '1:0': { approved: true },
    '2:11': 'a=b',
    '1:1': null,
  });
  expect(parseAnswers([])).toEqual({});
});

it.each(['', '=1', '1:0', 'a:b=1', '1:0={', '1:0='])('refuses %j', (text) => {
  expect(() => parseAnswers([text])).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
});
