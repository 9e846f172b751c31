import { describe, expect, it } from '@jest/globals';
import { defaultOtlpEndpoint, otlpTracesUrl, shownUrl } from 'millrace/internals';

const base = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const exact = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';

describe('the address of traces', () => {
  it.each([
    ['the default', undefined, {}, `${defaultOtlpEndpoint}/v1/traces`],
    ['a base', 'http://collector:4318', {}, 'http://collector:4318/v1/traces'],
    ['a base with a path', 'https://host/otlp/', {}, 'https://host/otlp/v1/traces'],
    ['a whole address', 'https://host/otlp/v1/traces', {}, 'https://host/otlp/v1/traces'],
    ['a base with a query', 'https://host/?key=1', {}, 'https://host/v1/traces?key=1'],
    ["the environment's base", undefined, { [base]: 'http://env:1' }, 'http://env:1/v1/traces'],
    ["the environment's exact one", undefined, { [base]: 'http://env:1', [exact]: 'http://env:2/x' }, 'http://env:2/x'],
    ['an option before the environment', 'http://option:3', { [exact]: 'http://env:2/x' }, 'http://option:3/v1/traces'],
    ['empty variables as none', undefined, { [base]: ' ', [exact]: '' }, `${defaultOtlpEndpoint}/v1/traces`],
  ])('is %s', (_what, endpoint, env, expected) => {
    expect(otlpTracesUrl(endpoint, env)).toBe(expected);
  });

  it.each([
    ['endpoint', 'user:secret', {}],
    [base, undefined, { [base]: 'collector.internal' }],
    [exact, undefined, { [exact]: 'grpc://user:secret@host' }],
  ])('that cannot be used is refused by the name of %s, without the value', (name, endpoint, env) => {
    const read = () => otlpTracesUrl(endpoint, env);
    expect(read).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    expect(read).toThrow(new RegExp(`^${name} is not`));
    expect(read).not.toThrow(/secret|internal/);
  });

  it('is shown without credentials', () => {
    expect(shownUrl('https://user:secret@host:4318/v1/traces?key=secret')).toBe('https://host:4318/v1/traces');
  });
});
