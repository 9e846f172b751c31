import { describe, expect, it } from '@jest/globals';
import { httpUrl, wholeNumber } from 'millrace/internals';

describe('wholeNumber', () => {
  it('reads whole numbers within its limits', () => {
    expect([wholeNumber(1)('10'), wholeNumber(0, 65_535)('65535'), wholeNumber(0)('0')]).toEqual([10, 65_535, 0]);
  });

  it.each(['0', '-1', '1.5', '1e3', '0x10', '', ' 5', 'ten', '99999999999999999999'])('refuses %p', (text) => {
    expect(() => wholeNumber(1)(text)).toThrow('It must be a whole number from 1.');
  });

  it('names both limits', () => {
    expect(() => wholeNumber(0, 65_535)('65536')).toThrow('It must be a whole number from 0 to 65535.');
  });
});

it('httpUrl takes http and https addresses only', () => {
  expect(httpUrl('http://example.com')('http://localhost:4000/v1')).toBe('http://localhost:4000/v1');
  for (const bad of ['localhost:4000', 'file:///etc/passwd', 'http://', '']) {
    expect(() => httpUrl('http://example.com')(bad)).toThrow(
      'It must be an http or https address, like http://example.com.',
    );
  }
});
