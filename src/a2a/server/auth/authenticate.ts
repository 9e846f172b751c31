import type { Logger } from '../../../core/config.ts';
import { nameOf } from '../../../core/errors.ts';
import type { AuthenticatedUser, Authentication, AuthRequest } from './authentication.ts';

/** The user of the first way that knows the caller; `undefined` where none does. Never rejects. */
export async function authenticate(
  ways: readonly Authentication[],
  request: AuthRequest,
  logger: Logger,
): Promise<AuthenticatedUser | undefined> {
  for (const way of ways) {
    try {
      const user = await way.authenticate(request);
      if (user !== undefined && typeof user.id === 'string' && user.id !== '') return user;
    } catch (thrown) {
      // What an issuer or a function of the user says may repeat the credentials.
      logger.warn('authentication failed', { scheme: way.name, error: nameOf(thrown) });
    }
  }
  return undefined;
}

/** The `WWW-Authenticate` of a 401. */
export function challengesOf(ways: readonly Authentication[]): string {
  return ways.map(({ challenge }) => challenge).join(', ');
}
