import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isSecretName, redactMembers, withoutSecrets } from 'millrace/internals';

const secretNames = [
  ...['apiKey', 'x-api-key', 'access_token', 'Authorization', 'dbPassword', 'privateKey', 'credentials'],
  ...['apiKeys', 'db-passwords', 'pwd', 'cookies', 'set-cookie', 'secretAccessKey', 'refreshTokens', 'sharedSecrets'],
];
const shout = (text: string) => text.toUpperCase();

describe('redactMembers', () => {
  it('leaves what names something, gives every other text to the redaction, and searches what is the user’s own', () => {
    const record = {
      type: 'llm.done',
      toolCalls: [{ id: 'c1', function: { name: 'find', arguments: '{"type":"x","apiKey":"k"}' } }],
      author: { name: 'ada' },
      metadata: { type: 'note', password: 'p' },
      text: 'said',
    };
    expect(redactMembers(record, shout)).toEqual({
      type: 'llm.done',
      toolCalls: [{ id: 'c1', function: { name: 'find', arguments: '{"type":"X","apiKey":"[redacted]"}' } }],
      author: { name: 'ADA' },
      metadata: { type: 'NOTE', password: '[redacted]' },
      text: 'SAID',
    });
  });
});

describe('withoutSecrets', () => {
  it('marks texts under the names of secrets, but not where there is nothing to hide', () => {
    const value = { token: '', apiKey: 'k', count: 3, list: [{ secret: 's' }, null] };
    const clean = { token: '', apiKey: '[redacted]', count: 3, list: [{ secret: '[redacted]' }, null] };
    expect(withoutSecrets(value, (text) => text)).toEqual(clean);
  });

  it('marks values that are no strings, in arrays and objects, too', () => {
    const value = {
      headers: {
        'x-api-key': ['k1', 'k2'],
        'set-cookie': ['sid=s; HttpOnly'],
        cookies: { sid: 's', seen: true },
        authorization: { value: 'a', of: null },
      },
      apiKeys: ['k'],
      password: 123_456_789,
      pwd: 'p',
      'db-passwords': { main: [{ hash: 'h' }] },
      text: '{"tokens":7,"access_tokens":["t"]}',
    };
    const mark = '[redacted]';
    expect(withoutSecrets(value, (text) => text)).toEqual({
      headers: {
        'x-api-key': [mark, mark],
        'set-cookie': [mark],
        cookies: { sid: mark, seen: true },
        authorization: { value: mark, of: null },
      },
      apiKeys: [mark],
      password: mark,
      pwd: mark,
      'db-passwords': { main: [{ hash: mark }] },
      text: '{"tokens":7,"access_tokens":["[redacted]"]}',
    });
  });

  it('keeps what a JSON Schema says of a secret, without its values', () => {
    const schema = (values: object, items: object) => ({
      type: 'object',
      properties: {
        password: { type: 'string', title: 'Your password', minLength: 8, ...values },
        apiKeys: { type: 'array', items: { type: 'string', ...items } },
        name: { type: 'string', default: 'ada' },
      },
    });
    const clean = withoutSecrets(schema({ default: 'p' }, { enum: ['k'] }), (text) => text);
    expect(clean).toEqual(schema({ default: '[redacted]' }, { enum: ['[redacted]'] }));
  });

  it('lets no string and no number under the name of a secret through', () => {
    const secret = 'hunter2';
    const names = fc.constantFrom(...secretNames);
    const leaf = fc.constantFrom(secret, `a ${secret}`, 7_777_777);
    const { held } = fc.letrec<{ held: unknown }>((tie) => ({
      held: fc.oneof(
        { depthSize: 'small' },
        leaf,
        fc.array(tie('held'), { maxLength: 3 }),
        fc.dictionary(fc.oneof(fc.string(), names), tie('held'), { maxKeys: 3 }),
      ),
    }));
    const around = fc.constantFrom(
      (value: object): unknown => value,
      (value: object) => [{ data: value }],
      (value: object) => ({ text: JSON.stringify(value) }),
    );
    fc.assert(
      fc.property(names, held, around, (name, value, wrap) => {
        const clean = JSON.stringify(withoutSecrets(wrap({ [name]: value, maxTokens: 5 }), (text) => text));
        expect(clean).not.toMatch(/hunter2|7777777/);
        expect(clean).toMatch(/maxTokens\W+5/);
      }),
    );
  });

  it.each(secretNames)('knows %s as the name of a secret', (name) => expect(isSecretName(name)).toBe(true));

  it.each([
    ...['maxTokens', 'tokens', 'inputTokens', 'total_tokens', 'prompt-tokens', 'costPerToken', 'price_per_token'],
    ...['keyboard', 'secretary', 'monkey', 'keys', 'cpwd'],
  ])('does not take %s for one', (name) => expect(isSecretName(name)).toBe(false));
});
