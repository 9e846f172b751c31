import type { ServerCallContext } from '@a2a-js/sdk/server';
import { cursorHeader } from './extensions.ts';
import { malformed } from './protocol-errors.ts';

type Headers = Readonly<Record<string, unknown>>;

/** The headers of a call, or the metadata of gRPC; names in lower case. */
export function headersOf({ state }: ServerCallContext): Headers {
  const headers: unknown = state.get('headers');
  return isObject(headers) ? headers : {};
}

const connection = 'connection';

/** Says of a call when nobody waits for its answer any more. */
export function keepConnection({ state }: ServerCallContext, closed: AbortSignal): void {
  state.set(connection, closed);
}

/** Aborted once nobody waits for the answer any more; `undefined` where the transport does not say. */
export function connectionOf({ state }: ServerCallContext): AbortSignal | undefined {
  const closed: unknown = state.get(connection);
  return closed instanceof AbortSignal ? closed : undefined;
}

/** The cursor after which a stream resumes, as requested by the client; `undefined` without one. Errors: RequestMalformed. */
export function requestedCursor(context: ServerCallContext): string | undefined {
  const headers = headersOf(context);
  const cursor = headers[cursorHeader] ?? headers['last-event-id'];
  if (cursor === undefined || cursor === '') return undefined;
  if (typeof cursor === 'string' && /^\d{1,15}-\d{1,15}\.\d{1,6}$/.test(cursor)) return cursor;
  throw malformed(`${cursorHeader} must be the cursor of an update, e.g. 12-1.2.`);
}

/** Whether the client requests an extension; if so, the response says that it is active. */
export function activated(context: ServerCallContext, uri: string): boolean {
  const asked = context.requestedExtensions?.includes(uri) ?? false;
  if (asked) context.addActivatedExtension(uri);
  return asked;
}

function isObject(value: unknown): value is Headers {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
