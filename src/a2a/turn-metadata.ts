import { turnExtension } from './extensions.ts';

export interface TurnMetadata {
  readonly cursor?: string | undefined;
  readonly reason?: string | undefined;
  readonly code?: string | undefined;
}

/** Words of programs: names, never sentences, which may say what is nobody's business. */
const name = /^[a-z0-9_-]{1,64}$/;

/** What goes along with a task or an update; `undefined` for nothing. */
export function turnMetadata({ cursor, reason, code }: TurnMetadata): { [key: string]: unknown } | undefined {
  const told = {
    ...(cursor !== undefined && { cursor }),
    ...(reason !== undefined && name.test(reason) && { reason }),
    ...(code !== undefined && { code }),
  };
  return Object.keys(told).length === 0 ? undefined : { [turnExtension]: told };
}
