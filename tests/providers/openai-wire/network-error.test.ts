import { describe, expect, it } from '@jest/globals';
import { AgentLoopError } from 'millrace';
import { modelServer, networkError } from 'millrace/internals';

const server = modelServer({ address: 'http://x.test/v1', model: 'm', secrets: ['sk-secret'] });

/** As Node's fetch throws it, and the openai package wraps it. */
function thrown(code: string, message = 'it failed'): Error {
  const root = Object.assign(new Error(message), { code });
  return new Error('Connection error.', { cause: new TypeError('fetch failed', { cause: root }) });
}

describe('networkError', () => {
  it.each([
    ['ECONNREFUSED', 'PROVIDER_UNREACHABLE', true],
    ['ENOTFOUND', 'PROVIDER_UNREACHABLE', true],
    ['EAI_AGAIN', 'PROVIDER_UNREACHABLE', true],
    ['EHOSTUNREACH', 'PROVIDER_UNREACHABLE', true],
    ['ETIMEDOUT', 'PROVIDER_UNREACHABLE', true],
    ['UND_ERR_CONNECT_TIMEOUT', 'PROVIDER_UNREACHABLE', true],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'PROVIDER_UNREACHABLE', false],
    ['CERT_HAS_EXPIRED', 'PROVIDER_UNREACHABLE', false],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'PROVIDER_UNREACHABLE', false],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'PROVIDER_UNREACHABLE', false],
    ['ECONNRESET', 'PROVIDER_STREAM_CLOSED', true],
    ['UND_ERR_SOCKET', 'PROVIDER_STREAM_CLOSED', true],
    ['UND_ERR_HEADERS_TIMEOUT', 'PROVIDER_TIMEOUT', true],
    ['UND_ERR_BODY_TIMEOUT', 'PROVIDER_TIMEOUT', true],
    ['HPE_INVALID_CONSTANT', 'PROVIDER_PROTOCOL', false],
    ['Z_DATA_ERROR', 'PROVIDER_PROTOCOL', false],
    ['E_NEVER_SEEN', 'PROVIDER_FAILED', false],
  ])('%s is %s, retryable %s, with the code in its cause', (code, expected, retryable) => {
    const error = networkError(server, thrown(code));
    expect(error).toMatchObject({ code: expected, retryable });
    expect(error.message).toMatch(/^The model server at http:\/\/x\.test\/v1 \(model m\) .*: .*\.$/);
    expect(error.cause).toMatchObject({ message: 'it failed', code });
  });

  it('keeps an error that is coded already', () => {
    const coded = new AgentLoopError('PROVIDER_TIMEOUT', 'Late.');
    expect(networkError(server, coded)).toBe(coded);
  });

  it('takes anything that was thrown, and a chain of causes without an end', () => {
    for (const value of [undefined, null, 'a text', { message: 7 }]) {
      expect(networkError(server, value).code).toBe('PROVIDER_FAILED');
    }
    const endless = new Error('again');
    endless.cause = endless;
    expect(networkError(server, endless).message).toContain('"again"');
  });

  it('hides the key in the message and the cause', () => {
    const error = networkError(server, thrown('E_NEVER_SEEN', 'no sk-secret here'));
    expect(error.message).toContain('"no [redacted] here"');
    expect(error.cause).toMatchObject({ message: 'no [redacted] here' });
  });
});
