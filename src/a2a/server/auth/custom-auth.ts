import type { SecurityScheme } from '@a2a-js/sdk';
import type { Authentication } from './authentication.ts';

/** What of an {@link Authentication} may be left out, where a function decides. */
export interface CustomAuthOptions {
  /** Default `custom`. */
  readonly name?: string | undefined;
  /** What the card declares. Default: a bearer token. */
  readonly scheme?: SecurityScheme | undefined;
  /** Default `Bearer`. */
  readonly challenge?: string | undefined;
}

/** Knows callers by a function of yours: a session, a header that a proxy sets, a look into a database. */
export function customAuth(
  authenticate: Authentication['authenticate'],
  options: CustomAuthOptions = {},
): Authentication {
  const value = { description: '', scheme: 'Bearer', bearerFormat: '' };
  const {
    name = 'custom',
    scheme = { scheme: { $case: 'httpAuthSecurityScheme', value } },
    challenge = 'Bearer',
  } = options;
  return { name, scheme, challenge, authenticate };
}
