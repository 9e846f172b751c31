import type { StoredSignIn } from './stored-sign-in.ts';

/** A server wants the user to sign in, or to grant more, before it does anything. */
export class SignInNeeded extends Error {
  readonly signIn: StoredSignIn;

  constructor(signIn: StoredSignIn) {
    super('the user has to sign in');
    this.signIn = signIn;
  }
}
