/** The server answered that it will not; `code` is the protocol's. */
export class RefusedError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** There was no answer of the server, or not all of it: worth another try. */
export class UnreachableError extends Error {}

export const unsupportedOperation = -32004;
