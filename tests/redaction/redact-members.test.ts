import { describe, expect, it } from '@jest/globals';
import { isSecretName, redactMembers, withoutSecrets } from 'millrace/internals';

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

  it.each(['apiKey', 'x-api-key', 'access_token', 'Authorization', 'dbPassword', 'privateKey', 'credentials'])(
    'knows %s as the name of a secret',
    (name) => expect(isSecretName(name)).toBe(true),
  );

  it.each(['maxTokens', 'tokens', 'keyboard', 'secretary', 'monkey'])('does not take %s for one', (name) =>
    expect(isSecretName(name)).toBe(false),
  );
});
