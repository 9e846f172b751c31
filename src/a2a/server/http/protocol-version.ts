import type { NextFunction, Request, Response } from 'express';

const header = 'a2a-version';

/**
 * Puts the version that a request asks for where the protocol's handlers look for it, in the form that they know: the header decides,
 * then the query; a patch number is left out, since it changes nothing on the wire (`1.0.1` is `1.0`). Without either it stays absent, which means 0.3.
 */
export function protocolVersion(request: Request, _response: Response, next: NextFunction): void {
  const version = normalVersion(request.header(header) ?? versionOfQuery(request));
  if (version === undefined) delete request.headers[header];
  else request.headers[header] = version;
  next();
}

/** `undefined` for an absent or empty one; what is no version stays as it is, to be refused. */
export function normalVersion(text: string | undefined): string | undefined {
  const trimmed = text?.trim();
  if (trimmed === undefined || trimmed === '') return undefined;
  return /^(\d+\.\d+)\.\d+$/.exec(trimmed)?.[1] ?? trimmed;
}

/** Whether a version, as `protocolVersion` leaves it, is one before 1.0. */
export function isLegacy(version: string | undefined): boolean {
  return version === undefined || /^0\./.test(version);
}

function versionOfQuery({ query }: Request): string | undefined {
  const [, value] = Object.entries(query).find(([name]) => name.toLowerCase() === header) ?? [];
  return typeof value === 'string' ? value : undefined;
}
