import { AgentLoopError, type Clock, type Logger, nameOf } from '../../../core/contracts/index.ts';
import { inTime } from '../../../core/options/index.ts';
import type { AuthenticatedUser, Authentication, AuthRequest } from './authentication.ts';

export interface AuthenticateOptions {
  readonly logger: Logger;
  readonly clock: Clock;
  /** How long each way may take. Milliseconds. */
  readonly timeoutMs: number;
}

/** The user of the first way that knows the caller; `undefined` where none does. Never rejects. */
export async function authenticate(
  ways: readonly Authentication[],
  request: AuthRequest,
  { logger, clock, timeoutMs: ms }: AuthenticateOptions,
): Promise<AuthenticatedUser | undefined> {
  for (const way of ways) {
    try {
      const late = () => new AgentLoopError('UNAVAILABLE', `no answer within ${ms} ms (authTimeoutMs)`);
      const user = await inTime(() => way.authenticate(request), { ms, clock, late });
      if (user !== undefined && typeof user.id === 'string' && user.id !== '') return user;
    } catch (thrown) {
      // What an issuer or a function of the user says may repeat the credentials.
      const why = AgentLoopError.isInstance(thrown)
        ? { code: thrown.code, authTimeoutMs: ms }
        : { error: nameOf(thrown) };
      logger.warn('authentication failed', { scheme: way.name, ...why });
    }
  }
  return undefined;
}

/** The `WWW-Authenticate` of a 401. */
export function challengesOf(ways: readonly Authentication[]): string {
  return ways.map(({ challenge }) => challenge).join(', ');
}
