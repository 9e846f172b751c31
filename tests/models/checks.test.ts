import { describe, expect, it } from '@jest/globals';
import { satisfies } from './checks.ts';
import { valuesAt } from './json-path.ts';
import type { Check } from './model-case.ts';

const call = (id: string, name = 'look') => ({ role: 'assistant', tool_calls: [{ id, function: { name } }] });
const result = (id: string) => ({ role: 'tool', tool_call_id: id });
const user = { role: 'user', content: 'hi' };
const closed = (properties: object, more: object = {}) => ({
  type: 'object',
  properties,
  additionalProperties: false,
  ...more,
});

/** Each check, a body that it accepts, and one that it refuses. */
const table: readonly (readonly [Check, unknown, unknown])[] = [
  [{ some: 'tools[]' }, { tools: [1] }, { tools: [] }],
  [{ never: 'messages[role!=user].image' }, { messages: [{ role: 'user', image: 1 }] }, { messages: [{ image: 1 }] }],
  [{ if: { some: 'tools[]' }, then: { some: 'choice' } }, { tools: [] }, { tools: [1] }],
  [{ every: 'a[]', matches: '^x' }, { a: ['xy'] }, { a: ['xy', 'y'] }],
  [{ every: 'a', matches: '^none$', atLeast: 1 }, { a: 'none' }, {}],
  [{ every: 'a[]', maxLength: 2 }, { a: ['xy'] }, { a: ['xyz'] }],
  [{ every: 'a[]', includes: '"b":1' }, { a: [{ b: 1 }] }, { a: [] }],
  [{ every: 'a[]', has: 'b' }, { a: [{ b: 1 }] }, { a: [{ b: 1 }, {}] }],
  [{ every: 'a[]', hasNone: ['b', 'c'] }, { a: [{ d: 1 }] }, { a: [{ c: 1 }] }],
  [{ every: 'a[]', hasText: 'b' }, { a: [{ b: '' }] }, { a: [{ b: null }] }],
  [{ every: 'a[]', notEmpty: ['b', 'c'] }, { a: [{ b: '', c: [1] }] }, { a: [{ b: '', c: [] }] }],
  [{ every: 'a[]', notBlank: 'b' }, { a: [{ b: ' x' }] }, { a: [{ b: [{ type: 'text', text: ' ' }] }] }],
  [{ every: 'a', isJson: true }, { a: '{}' }, { a: '{' }],
  [{ distinct: 'a[]' }, { a: ['x', 'y'] }, { a: ['x', 'x'] }],
  [
    { everyObjectIn: 'a', where: { type: 'array' }, has: 'items' },
    { a: { b: { type: 'array', items: {} } } },
    { a: [{ b: { type: 'array' } }] },
  ],
  [
    { everyObjectIn: 'a', where: { hasArray: 'anyOf' }, hasNone: ['type'] },
    { a: { b: { anyOf: [] }, type: 'x' } },
    { a: { b: { anyOf: [], type: 'x' } } },
  ],
  [
    { everyObjectIn: 'a', where: { hasArray: 'enum' }, enumLacks: '' },
    { a: { enum: ['x'] } },
    { a: { b: { enum: [''] } } },
  ],
  [{ strictSchema: 's' }, { s: closed({ a: closed({}) }) }, { s: closed({ a: { type: 'object', properties: {} } }) }],
  [{ strictSchema: ['t', 's'] }, { s: closed({}) }, { u: closed({}) }],
  [
    { strictSchema: 's', allRequired: true },
    { s: closed({ a: {} }, { required: ['a'] }) },
    { s: closed({ a: { anyOf: [closed({ b: {} })] } }, { required: ['a'] }) },
  ],
  [{ noNeighbours: ['tool', 'user'] }, { messages: [user, result('a')] }, { messages: [result('a'), user] }],
  [{ neverAfterFirst: 'system' }, { messages: [{ role: 'system' }] }, { messages: [user, { role: 'system' }] }],
  [
    { resultsFollowCalls: true },
    { messages: [call('a'), result('a')] },
    { input: [{ type: 'function_call_output', call_id: 'a' }] },
  ],
  [
    { callsHaveResults: true },
    {
      messages: [
        { content: [{ type: 'tool_use', id: 'a' }] },
        { content: [{ type: 'tool_result', tool_use_id: 'a' }] },
      ],
    },
    { input: [{ type: 'function_call', call_id: 'a' }] },
  ],
  [{ wellFormed: true }, { a: '🔥 \\ud83d' }, { a: '\ud83d' }],
  [{ lacks: 'xyz' }, { a: 'xy' }, { a: 'xyz' }],
  [{ maxBody: 10 }, { a: 1 }, { a: '0123456789' }],
];

function seen(body: unknown, path = '/v1/responses') {
  return { path, body, raw: JSON.stringify(body) };
}

describe('satisfies', () => {
  it.each(table)('%j', (check, accepted, refused) => {
    expect(satisfies(check, seen(accepted))).toBe(true);
    expect(satisfies(check, seen(refused))).toBe(false);
  });

  it('asks requests to a path alone, and none with a text that is excepted', () => {
    const check = { never: 'a' };
    expect(satisfies({ ...check, onPath: '/chat' }, seen({ a: 1 }))).toBe(true);
    expect(satisfies({ ...check, onPath: '/responses' }, seen({ a: 1 }))).toBe(false);
    expect(satisfies({ ...check, except: 'summary' }, seen({ a: 'summary' }))).toBe(true);
  });

  it('refuses a check that it does not know', () => {
    expect(() => satisfies({ every: 'a' }, seen({ a: 1 }))).toThrow('unknown check');
  });
});

describe('valuesAt', () => {
  const value = { a: [{ k: 'x', n: [1, 2] }, { k: 'y' }, 'text'], b: { c: 3 } };

  it.each([
    ['b.c', [3]],
    ['a[].k', ['x', 'y']],
    ['a[1].k', ['y']],
    ['a[k=x].n[]', [1, 2]],
    ['a[k!=x].k', ['y']],
    ['a[n].k', ['x']],
    ['a[k=y][n]', []],
    ['a[k=x][n].k', ['x']],
    ['b[c]', []],
    ['none.at.all', []],
  ])('%s', (path, values) => {
    expect(valuesAt(value, path)).toEqual(values);
  });
});
